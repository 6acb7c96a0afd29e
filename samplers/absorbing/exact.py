r"""Exact samplers: one token per look at the network, no error but the denoiser's.

From all-masked they draw from q0 itself, at any horizon, because the reverse chain started in the law of masks ends
in the data law: $X_0\,|\,\{X_T = M^d\} \sim q_0$.
"""

from __future__ import annotations

import math

from .._arguments import whole_number
from .leaping import Start, start_stages
from .process import AbsorbingProcess
from .sampler import Sampler
from .stages import RevealCount, RevealEvents, RevealFraction, Stage

__all__ = ["FirstHitting", "NextReaction", "Uniformization"]


class FirstHitting(Sampler):
    r"""First-hitting sampler: tokens are revealed in uniformly random order, a fixed number per call.

    The hitting time is $\mu \leftarrow \mu U^{1/n}$ with n tokens masked. Exact at one token per call (Gillespie's
    algorithm has the same law); with s tokens its path divergence is bound B5.

    Args:
        process: the forward process.
        tokens_per_call: s >= 1; need not divide the length (the last call then reveals fewer).

    Source: Zheng et al. 2024, arXiv 2409.02908.
    """

    def __init__(self, process: AbsorbingProcess, tokens_per_call: int = 1) -> None:
        super().__init__(process)
        self.tokens_per_call = whole_number("tokens_per_call", tokens_per_call, 1)

    def stages(self) -> list[Stage]:
        stage = RevealCount(self.tokens_per_call, _masked(self.process))
        return [stage] * math.ceil(self.process.length / self.tokens_per_call)


class Uniformization(Sampler):
    r"""Uniformization with the analytic hazard: thin a dominating Poisson process of one unit-rate clock per token.

    In the clock $-\log\mu$ every masked token is revealed at rate 1, whatever the context, so one interval with one
    clock per free token dominates; a point is accepted when its token is still masked, which needs no network.
    Candidates number $d\log(\mu_T/\mu_\delta)$ in the mean, network calls at most d (bound B10): from masks
    $d(1 - \mu_\delta/\mu_T)$ in the mean, from the surrogate $d(\alpha_\delta - \alpha_T)$.

    Args:
        process: the forward process.
        early_stop: time $\delta$ at which the chain stops; 0 (default) reveals everything and draws from q0.
        fill: with early stopping, reveal what is left in one more call. The law is then no longer q0 (`exact_law`
            computes it).
        start: initial law, see `start_stages`.

    Sources: Liang et al. 2025, arXiv 2506.02318, Theorems 3 and 5; Chen & Ying 2024, arXiv 2402.08095.
    """

    def __init__(
        self, process: AbsorbingProcess, early_stop: float = 0.0, fill: bool = True, start: Start = "mask"
    ) -> None:
        super().__init__(process)
        if not 0.0 <= early_stop < process.schedule.horizon:
            raise ValueError(f"early_stop={early_stop} must lie in [0, horizon={process.schedule.horizon})")
        self.early_stop, self.fill = early_stop, fill
        self._start_stages = start_stages(process, start)

    def stages(self) -> list[Stage]:
        masked = _masked(self.process)
        if self.early_stop == 0.0:
            return [*self._start_stages, RevealEvents(1.0, masked, dominating=True)]
        window = float(self.process.reveal_probability(self.process.schedule.horizon, self.early_stop))
        fill = [RevealFraction(1.0, self.early_stop)] if self.fill else []
        return [*self._start_stages, RevealEvents(window, masked, dominating=True), *fill]


class NextReaction(Sampler):
    """Next-reaction method: each token has its own reveal time; they are processed in order, none is rejected.

    Args:
        process: the forward process.

    Source: Gibson & Bruck 2000, J. Phys. Chem. A 104.
    """

    def stages(self) -> list[Stage]:
        return [RevealEvents(1.0, _masked(self.process))]


def _masked(process: AbsorbingProcess) -> float:
    """Mask probability at the horizon."""
    return float(process.schedule.mask_probability(process.schedule.horizon))
