"""Leaping samplers: one look at the network per step of a grid, many tokens revealed from it.

With an exact denoiser they all are one object: a random partition of the tokens into reveal bins, the tokens of one
bin drawn independently. They differ in the probability u_k that step k reveals a masked token.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal, cast, get_args

import torch
from torch import Tensor

from .grids import Grid, UniformGrid
from .process import AbsorbingProcess
from .sampler import Sampler
from .stages import RevealEvents, RevealFraction, Stage, TokenLaw

__all__ = ["Euler", "MultiEvent", "Start", "TauLeaping", "Tweedie", "start_stages"]

Start = Literal["mask", "surrogate", "exact"]
MultiEvent = Literal["first-jump", "reject", "same-token", "ordinal"]


def start_stages(process: AbsorbingProcess, start: Start) -> list[Stage]:
    r"""Stages that turn an all-masked state into a draw of the initial law.

    - ``"mask"``: stay there. The output of an exact sampler is then exact at any horizon.
    - ``"surrogate"``: $\bigotimes_i [(1-\alpha_T)\delta_M + \frac{\alpha_T}{K}\sum_a\delta_a]$, the paper's
      initial law, which makes path divergences finite (Liang et al. 2025, Theorem 1).
    - ``"exact"``: $q_T$ itself, through the denoiser.
    """
    if start not in get_args(Start):
        raise ValueError(f"start={start!r} must be one of {', '.join(map(repr, get_args(Start)))}")
    survival = float(process.schedule.alpha(process.schedule.horizon))
    if start == "mask" or survival <= 0.0:
        return []
    if start == "surrogate":
        return [RevealFraction(survival, process.schedule.horizon, uniform=True)]
    return [RevealEvents(survival, masked=1.0)]


class _GridSampler(Sampler):
    """A sampler that takes one stage per step of a time grid.

    Args:
        process: the forward process.
        steps: N equal steps in time; or
        grid: a time grid.
        fill: reveal in the last stage all that is left: the last step of a grid that ends at time 0 does so, and a
            grid that stops early gets one more stage. Without it masks may be left in the output.
        start: initial law, see `start_stages`.

    Raises:
        ValueError: neither or both of steps and grid, steps < 1, an unknown start, a grid that does not decrease.
        TypeError: steps that are no whole number, a grid that is none.
    """

    def __init__(
        self,
        process: AbsorbingProcess,
        *,
        steps: int | None = None,
        grid: Grid | None = None,
        fill: bool = True,
        start: Start = "mask",
    ) -> None:
        super().__init__(process)
        if (steps is None) == (grid is None):
            raise ValueError(f"steps={steps}, grid={grid}: give exactly one of steps and grid")
        grid = UniformGrid(cast(int, steps)) if grid is None else grid
        if not isinstance(grid, Grid):
            raise TypeError(f"grid is a {type(grid).__name__}; give a Grid, such as UniformGrid(steps)")
        self.grid, self.fill, self.start = grid, fill, start
        self.times = _checked(grid.times(process.schedule), process.schedule.horizon)
        self._start_stages = start_stages(process, start)

    def stages(self) -> list[Stage]:
        times = self.times
        if self.fill and float(times[-1]) == 0.0:
            times = times[:-1]  # the last step is the fill
        steps = self._steps(times[:-1], times[1:])
        fill = [RevealFraction(1.0, float(times[-1]))] if self.fill else []
        return [*self._start_stages, *steps, *fill]

    def reveal_fractions(self) -> Tensor:
        r"""Probability that a free token is revealed by the end of each stage, $p_0 = 0 < \dots$, (N + 1,).

        Raises:
            ValueError: a sampler whose reveals depend on the predictions, or that does not start from masks.
        """
        stages = self.stages()
        if self._start_stages or not all(isinstance(stage, RevealFraction) for stage in stages):
            raise ValueError(f"{type(self).__name__} has no reveal fractions: reveals depend on more than the grid")
        stay = [1.0, *(1.0 - float(s.probability) for s in stages if isinstance(s, RevealFraction))]
        return 1.0 - torch.tensor(stay, dtype=torch.float64).cumprod(0)

    @abstractmethod
    def _steps(self, t: Tensor, s: Tensor) -> Sequence[Stage]:
        """The stages of the steps from times t (N,) down to s (N,)."""


class Euler(_GridSampler):
    r"""Euler's method: reveal with probability $\min(1, h\,r(t))$, r the hazard at the start of the step.

    Under the log-linear schedule on equal steps its law is Tweedie's. Probabilities cut to 1 are counted as clips.
    """

    def _steps(self, t: Tensor, s: Tensor) -> Sequence[Stage]:
        asked = ((t - s) * self.process.schedule.hazard(t)).tolist()
        return [
            RevealFraction(min(1.0, u), time, clipped=u > 1.0 + 1e-12)
            for u, time in zip(asked, t.tolist(), strict=True)
        ]


class Tweedie(_GridSampler):
    r"""Tweedie tau-leaping: the exact reveal probability $u = 1 - \mu_s/\mu_t$ of each step.

    Also known as analytic sampling (SEDD) and ancestral sampling (MDLM, D3PM). Only the independence of the tokens
    revealed in one step is an error; bound B4 gives its size exactly.

    Sources: Lou et al. 2024, arXiv 2310.16834; Sahoo et al. 2024, arXiv 2406.07524.
    """

    def _steps(self, t: Tensor, s: Tensor) -> Sequence[Stage]:
        return _reveals(self.process.reveal_probability(t, s), t)


class TauLeaping(_GridSampler):
    r"""Tau-leaping: rates are frozen at the start of a step, and each (token, value) has a Poisson number of events.

    Args:
        process, steps, grid, fill, start: as in every leaping sampler.
        multi_event: what happens to a token with several events, $\lambda = h\,r(t)$ their mean number:

            - ``"first-jump"`` (default): the first counts; revealed with probability $1 - e^{-\lambda}$.
            - ``"reject"``: none counts; revealed with probability $\lambda e^{-\lambda}$.
            - ``"same-token"``: they count if they agree; value a has probability
              $e^{-\lambda}(e^{\lambda c_a} - 1)$, biased towards likely tokens.
            - ``"ordinal"``: jumps add up, clamped to the range of ids (Campbell et al. 2022): made for ordinal data,
              wrong for nominal tokens. Needs the mask as the last id.

    Sources: Liang et al. 2025, arXiv 2506.02318; Campbell et al. 2022, arXiv 2205.14987.
    """

    def __init__(
        self,
        process: AbsorbingProcess,
        *,
        steps: int | None = None,
        grid: Grid | None = None,
        fill: bool = True,
        start: Start = "mask",
        multi_event: MultiEvent = "first-jump",
    ) -> None:
        super().__init__(process, steps=steps, grid=grid, fill=fill, start=start)
        if multi_event not in get_args(MultiEvent):
            raise ValueError(f"multi_event={multi_event!r} must be one of {', '.join(map(repr, get_args(MultiEvent)))}")
        if multi_event == "ordinal" and process.mask_id != process.vocab_size:
            raise ValueError(f"multi_event='ordinal' needs the mask as the last id, got mask_id={process.mask_id}")
        self.multi_event = multi_event

    def _steps(self, t: Tensor, s: Tensor) -> Sequence[Stage]:
        events = (t - s) * self.process.schedule.hazard(t)
        if self.multi_event == "first-jump":
            return _reveals(-torch.expm1(-events), t)
        if self.multi_event == "reject":
            return _reveals(events * torch.exp(-events), t)
        law = same_token_law if self.multi_event == "same-token" else ordinal_law
        return [TokenLaw(law(mean), time) for mean, time in zip(events.tolist(), t.tolist(), strict=True)]


def _checked(times: Tensor, horizon: float) -> Tensor:
    """Times of a grid, or ValueError unless they decrease from the horizon to 0 or above."""
    falls = times.dim() == 1 and len(times) > 1 and bool((times.diff() < 0).all())
    if not falls or float(times[0]) != horizon or float(times[-1]) < 0:
        raise ValueError(
            f"the grid's times {times.tolist()[:8]} must decrease from the horizon {horizon} to 0 or above"
        )
    return times


def _reveals(probabilities: Tensor, times: Tensor) -> list[Stage]:
    return [RevealFraction(u, t) for u, t in zip(probabilities.tolist(), times.tolist(), strict=True)]


def same_token_law(events: float) -> Callable[[Tensor], Tensor]:
    r"""Log-probabilities (N, K) -> probabilities $e^{-\lambda}(e^{\lambda c_a} - 1)$ that all events agree on a."""
    return lambda log_probs: math.exp(-events) * torch.expm1(events * log_probs.exp())


def ordinal_law(events: float) -> Callable[[Tensor], Tensor]:
    r"""Log-probabilities (N, K) -> law of the id $\max(0, K + \sum_a N_a(a - K))$, less that of staying at K.

    The descent $\sum_a N_a(K - a)$ is compound Poisson; its law follows from Panjer's recursion
    $P_n = \frac{\lambda}{n}\sum_{j=1}^n j\,c_{K-j} P_{n-j}$ (Panjer 1981).
    """

    def law(log_probs: Tensor) -> Tensor:
        size = log_probs.shape[1]
        weighted = events * log_probs.exp().flip(1) * torch.arange(1, size + 1, device=log_probs.device)
        descent = torch.zeros_like(log_probs)  # P_0 .. P_{K-1}
        descent[:, 0] = math.exp(-events)
        for n in range(1, size):
            descent[:, n] = (weighted[:, :n] * descent[:, :n].flip(1)).sum(1) / n
        jump = descent.roll(-1, 1).flip(1)  # id a = K - n: columns K-1 .. 1
        jump[:, 0] = (1.0 - descent.sum(1)).clamp(min=0.0)
        return jump

    return law
