"""Stages: what a sampler does between two looks at the network.

A sampler is a list of stages. The engine (`reveal.py`) samples them, `law.py` propagates the exact law through them;
both read the same list, so what is tested is what samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

__all__ = ["RevealCount", "RevealEvents", "RevealFraction", "Stage", "TokenLaw"]


@dataclass(frozen=True)
class RevealFraction:
    """Reveal each masked token independently with a probability; all from the context before the stage.

    Args:
        probability: of revealing a token; a number, or one per row (B,).
        time: time given to the network; a number, or one per row (B,).
        uniform: draw the tokens uniformly, without the network (surrogate initial law).
        clipped: whether the method asked for a probability above 1.
    """

    probability: float | Tensor
    time: float | Tensor
    uniform: bool = False
    clipped: bool = False


@dataclass(frozen=True)
class RevealCount:
    r"""Reveal a number of random masked tokens at once (all that are left if they are fewer).

    Args:
        count: how many.
        masked: mask probability $\mu$ when no clock has rung; gives the network its time.
    """

    count: int
    masked: float


@dataclass(frozen=True)
class RevealEvents:
    r"""Reveal each masked token with a probability, one after another in random order, each from the newest context.

    Args:
        probability: that a token's reveal falls into the window of this stage.
        masked: mask probability $\mu$ at the start of the window; gives the network its time at each event.
        dominating: the events are thinned from a dominating Poisson process of unit-rate clocks, one per free token,
            in the clock $-\log\mu$; its points are counted as candidates.
    """

    probability: float
    masked: float
    dominating: bool = False


@dataclass(frozen=True)
class TokenLaw:
    """Draw each masked token from a law that depends on its prediction, "stay masked" included.

    Args:
        law: log-probabilities (N, K) -> probabilities (N, K) of becoming each token; the rest is "stay".
        time: time given to the network.
    """

    law: Callable[[Tensor], Tensor]
    time: float


Stage = RevealFraction | RevealCount | RevealEvents | TokenLaw
