r"""Time grids: where a leaping sampler stops to ask the network.

A grid gives, for a schedule, the decreasing times $t_0 = $ horizon $> t_1 > \dots > t_N$ of the reverse process.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from .._arguments import whole_number
from .information import Profile
from .schedules import Schedule

__all__ = ["CosineGrid", "EqualError", "Grid", "KappaGrid", "UniformGrid"]


class Grid(ABC):
    """Times at which a sampler acts."""

    @abstractmethod
    def times(self, schedule: Schedule) -> Tensor:
        """Times (N + 1,), float64, decreasing from the schedule's horizon."""


def _times_at_reveal_fractions(fractions: Tensor, schedule: Schedule) -> Tensor:
    r"""Times at which an all-mask start has revealed the given fractions: $\mu_t = (1 - p)\mu_T$."""
    times = schedule.time_at((1.0 - fractions) * schedule.mask_probability(schedule.horizon))
    times[0] = schedule.horizon
    return times


@dataclass(frozen=True)
class UniformGrid(Grid):
    """Equal steps in time, from the horizon to 0."""

    steps: int

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, 1)

    def times(self, schedule: Schedule) -> Tensor:
        steps = torch.arange(self.steps, -1, -1, dtype=torch.float64)
        return steps / self.steps * schedule.horizon


@dataclass(frozen=True)
class KappaGrid(Grid):
    r"""The theorem's grid: steps $c\min(1, \sigma)$ in the clock $\sigma$, stopped early at $\sigma = \delta$.

    In the clock of rate 1 (`Constant`) $\sigma$ is the remaining time t itself: constant steps while t > 1, then a
    geometric decay, so about (T - 1)/c + log(1/delta)/(-log(1 - c)) steps.

    Args:
        c: step fraction, 0 < c < 1.
        early_stop: delta > 0, where the grid ends.

    Raises:
        ValueError: from `times`, when the schedule ends in masks alone (infinite sigma) or before `early_stop`.

    Source: Liang et al. 2025, arXiv 2506.02318, Theorem 2.
    """

    c: float
    early_stop: float

    def __post_init__(self) -> None:
        if not 0.0 < self.c < 1.0:
            raise ValueError(f"c={self.c} must lie in (0, 1)")
        if not 0.0 < self.early_stop < math.inf:
            raise ValueError(f"early_stop={self.early_stop} must be positive and finite")

    def times(self, schedule: Schedule) -> Tensor:
        sigma = float(schedule.sigma(schedule.horizon))
        if math.isinf(sigma):
            raise ValueError(f"KappaGrid needs a finite sigma(horizon), {schedule} has none; use Constant(horizon=T)")
        if not float(schedule.sigma(0.0)) < self.early_stop < sigma:
            raise ValueError(
                f"early_stop={self.early_stop} is not between sigma(0)={float(schedule.sigma(0.0)):g} and "
                f"sigma(horizon)={sigma:g}"
            )
        sigmas = [sigma]
        while sigmas[-1] > self.early_stop:
            sigma = sigmas[-1] - self.c * min(1.0, sigmas[-1])
            sigmas.append(sigma if sigma > self.early_stop * (1 + 1e-9) else self.early_stop)
        times = schedule.time_at_sigma(torch.tensor(sigmas, dtype=torch.float64))
        times[0] = schedule.horizon
        return times


@dataclass(frozen=True)
class CosineGrid(Grid):
    r"""MaskGIT's grid: a fraction $\cos(\pi k/2N)$ of the masks is left after step k, whatever the schedule.

    Source: Chang et al. 2022, arXiv 2202.04200.
    """

    steps: int

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, 1)

    def times(self, schedule: Schedule) -> Tensor:
        angles = torch.arange(self.steps + 1, dtype=torch.float64) * (math.pi / (2 * self.steps))
        fractions = 2.0 * torch.sin(angles / 2) ** 2  # 1 - cos, accurate near 0
        fractions[-1] = 1.0
        return _times_at_reveal_fractions(fractions, schedule)


@dataclass(frozen=True)
class EqualError(Grid):
    r"""The grid of least path error for a law: $\Delta p \propto |g'|^{-1/2}$ in the reveal fraction p.

    Asymptotically KL_path falls to $(\int_0^1\sqrt{|g'|}\,dp)^2/(2N)$, against $\int|g'|/(2N)$ on equal steps.

    Args:
        profile: information profile of the law (exact, or estimated from a network).
        steps: N.

    Source: bound B6; Chen, Cong & Li 2025, arXiv 2511.04647.
    """

    profile: Profile
    steps: int

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, 1)

    def times(self, schedule: Schedule) -> Tensor:
        angle = torch.linspace(0.0, math.pi / 2, 1 << 14, dtype=torch.float64)
        p = torch.sin(angle) ** 2  # dense at both ends, where a law with constraints has its mass
        density = self.profile.slope(p).clamp(min=0.0).sqrt()
        mass = torch.cat([p.new_zeros(1), torch.cumulative_trapezoid(density, p)])
        if float(mass[-1]) <= 1e-9:  # a product law: every grid is exact
            return UniformGrid(self.steps).times(schedule)
        levels = torch.linspace(0.0, 1.0, self.steps + 1, dtype=torch.float64) * mass[-1]
        right = torch.searchsorted(mass, levels).clamp(1, len(p) - 1)
        weight = (levels - mass[right - 1]) / (mass[right] - mass[right - 1]).clamp(min=1e-300)
        fractions = torch.lerp(p[right - 1], p[right], weight.clamp(0.0, 1.0))
        fractions[0], fractions[-1] = 0.0, 1.0
        return _times_at_reveal_fractions(fractions, schedule)
