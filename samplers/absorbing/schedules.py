r"""Noise schedules: how fast a token is absorbed by the mask.

A schedule gives, per token, the survival probability $\alpha_t = e^{-\sigma(t)}$, the mask probability
$\mu_t = 1 - \alpha_t$, the forward rate $\beta(t) = \sigma'(t)$ and the reverse hazard
$r(t) = \beta\alpha/\mu = -\frac{d}{dt}\log\mu_t$, the rate at which a masked token is revealed, the same for
every context (Ou et al. 2024, arXiv 2406.03736). Time runs from 0 (data) to `horizon` (masks).
Methods take floats or tensors of any shape and return float64 tensors of that shape.

Sources: Lou et al. 2024, arXiv 2310.16834 (log-linear, geometric); Sahoo et al. 2024, arXiv 2406.07524 (cosine,
cosine squared, linear); Liang et al. 2025, arXiv 2506.02318 (constant rate).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

__all__ = ["Constant", "Cosine", "CosineSquared", "Geometric", "Linear", "LogLinear", "Schedule"]


def _double(value: float | Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


class Schedule(ABC):
    """A noise schedule on [0, horizon]."""

    horizon: float

    @abstractmethod
    def alpha(self, t: float | Tensor) -> Tensor:
        r"""Survival probability $\alpha_t$."""

    @abstractmethod
    def mask_probability(self, t: float | Tensor) -> Tensor:
        r"""Mask probability $\mu_t = 1 - \alpha_t$, accurate where it is small."""

    @abstractmethod
    def sigma(self, t: float | Tensor) -> Tensor:
        r"""Total noise $\sigma(t) = -\log\alpha_t$."""

    @abstractmethod
    def rate(self, t: float | Tensor) -> Tensor:
        r"""Forward rate $\beta(t) = \sigma'(t)$."""

    @abstractmethod
    def hazard(self, t: float | Tensor) -> Tensor:
        r"""Reverse hazard $r(t) = \beta\alpha/\mu$ of every masked token; infinite at $\mu_t = 0$."""

    @abstractmethod
    def time_at(self, mask_probability: float | Tensor) -> Tensor:
        """The time at which the mask probability takes the given value (inverse of `mask_probability`)."""

    def time_at_sigma(self, sigma: float | Tensor) -> Tensor:
        """The time at which the total noise takes the given value (inverse of `sigma`)."""
        return self.time_at(-torch.expm1(-_double(sigma)))


@dataclass(frozen=True)
class _MaskSchedule(Schedule):
    r"""A schedule given by $\mu_t = (1-\epsilon) m(t)$ with m rising from 0 to 1 on [0, 1].

    Args:
        epsilon: survival probability left at the horizon; 0 (default) ends in masks alone, 1e-3 is common with
            networks that are conditioned on $\sigma$, which is infinite otherwise.
    """

    epsilon: float = 0.0
    horizon: ClassVar[float] = 1.0  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon < 1.0:
            raise ValueError(f"epsilon={self.epsilon} must lie in [0, 1)")

    def alpha(self, t: float | Tensor) -> Tensor:
        return 1.0 - self.mask_probability(t)

    def mask_probability(self, t: float | Tensor) -> Tensor:
        return (1.0 - self.epsilon) * self._fraction(_double(t))

    def sigma(self, t: float | Tensor) -> Tensor:
        return -torch.log1p(-self.mask_probability(t))

    def rate(self, t: float | Tensor) -> Tensor:
        return (1.0 - self.epsilon) * self._slope(_double(t)) / self.alpha(t)

    def time_at(self, mask_probability: float | Tensor) -> Tensor:
        return self._inverse((_double(mask_probability) / (1.0 - self.epsilon)).clamp(0.0, 1.0))

    @abstractmethod
    def _fraction(self, t: Tensor) -> Tensor:
        """m(t)."""

    @abstractmethod
    def _slope(self, t: Tensor) -> Tensor:
        """m'(t)."""

    @abstractmethod
    def _inverse(self, fraction: Tensor) -> Tensor:
        """The time at which m takes the given value."""


class LogLinear(_MaskSchedule):
    r"""$\alpha_t = 1 - (1-\epsilon)t$ on [0, 1]; hazard 1/t."""

    def hazard(self, t: float | Tensor) -> Tensor:
        return 1.0 / _double(t)

    def _fraction(self, t: Tensor) -> Tensor:
        return t

    def _slope(self, t: Tensor) -> Tensor:
        return torch.ones_like(t)

    def _inverse(self, fraction: Tensor) -> Tensor:
        return fraction


class Cosine(_MaskSchedule):
    r"""$\alpha_t = \epsilon + (1-\epsilon)\cos(\pi t/2)$ on [0, 1]."""

    def hazard(self, t: float | Tensor) -> Tensor:
        return (math.pi / 2) / torch.tan(_double(t) * (math.pi / 4))

    def _fraction(self, t: Tensor) -> Tensor:
        return torch.where(t == 1.0, 1.0, 2.0 * torch.sin(t * (math.pi / 4)) ** 2)

    def _slope(self, t: Tensor) -> Tensor:
        return (math.pi / 2) * torch.sin(t * (math.pi / 2))

    def _inverse(self, fraction: Tensor) -> Tensor:
        return (4 / math.pi) * torch.asin((fraction / 2).sqrt())


class CosineSquared(_MaskSchedule):
    r"""$\alpha_t = \epsilon + (1-\epsilon)\cos^2(\pi t/2)$ on [0, 1]."""

    def hazard(self, t: float | Tensor) -> Tensor:
        return math.pi / torch.tan(_double(t) * (math.pi / 2))

    def _fraction(self, t: Tensor) -> Tensor:
        return torch.sin(t * (math.pi / 2)) ** 2

    def _slope(self, t: Tensor) -> Tensor:
        return (math.pi / 2) * torch.sin(t * math.pi)

    def _inverse(self, fraction: Tensor) -> Tensor:
        return (2 / math.pi) * torch.asin(fraction.sqrt())


class _SigmaSchedule(Schedule):
    r"""A schedule given by its total noise $\sigma(t)$."""

    def alpha(self, t: float | Tensor) -> Tensor:
        return torch.exp(-self.sigma(t))

    def mask_probability(self, t: float | Tensor) -> Tensor:
        return -torch.expm1(-self.sigma(t))

    def hazard(self, t: float | Tensor) -> Tensor:
        return self.rate(t) / torch.expm1(self.sigma(t))

    def time_at(self, mask_probability: float | Tensor) -> Tensor:
        return self.time_at_sigma(-torch.log1p(-_double(mask_probability)))

    def time_at_sigma(self, sigma: float | Tensor) -> Tensor:
        return self._time_at_sigma(_double(sigma)).clamp(0.0, self.horizon)

    @abstractmethod
    def _time_at_sigma(self, sigma: Tensor) -> Tensor:
        """The time at which the total noise takes the given value."""


@dataclass(frozen=True)
class Linear(_SigmaSchedule):
    r"""$\sigma(t) = \sigma_{max} t$ on [0, 1]."""

    sigma_max: float = 10.0
    horizon: ClassVar[float] = 1.0  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not 0.0 < self.sigma_max < math.inf:
            raise ValueError(f"sigma_max={self.sigma_max} must be positive and finite")

    def sigma(self, t: float | Tensor) -> Tensor:
        return self.sigma_max * _double(t)

    def rate(self, t: float | Tensor) -> Tensor:
        return torch.full_like(_double(t), self.sigma_max)

    def _time_at_sigma(self, sigma: Tensor) -> Tensor:
        return sigma / self.sigma_max


@dataclass(frozen=True)
class Geometric(_SigmaSchedule):
    r"""$\sigma(t) = \sigma_{min}^{1-t}\sigma_{max}^t$ on [0, 1]; the noise $\sigma_{min}$ is left at time 0."""

    sigma_min: float = 1e-4
    sigma_max: float = 20.0
    horizon: ClassVar[float] = 1.0  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not 0.0 < self.sigma_min < self.sigma_max < math.inf:
            raise ValueError(
                f"sigma_min={self.sigma_min}, sigma_max={self.sigma_max} must satisfy 0 < sigma_min < sigma_max"
            )

    def sigma(self, t: float | Tensor) -> Tensor:
        return self.sigma_min * torch.exp(_double(t) * math.log(self.sigma_max / self.sigma_min))

    def rate(self, t: float | Tensor) -> Tensor:
        return self.sigma(t) * math.log(self.sigma_max / self.sigma_min)

    def _time_at_sigma(self, sigma: Tensor) -> Tensor:
        return torch.log(sigma / self.sigma_min) / math.log(self.sigma_max / self.sigma_min)


@dataclass(frozen=True)
class Constant(_SigmaSchedule):
    r"""The paper's clock: rate 1, $\alpha_t = e^{-t}$ on [0, horizon] (Liang et al. 2025, arXiv 2506.02318)."""

    horizon: float

    def __post_init__(self) -> None:
        if not 0.0 < self.horizon < math.inf:
            raise ValueError(f"horizon={self.horizon} must be positive and finite")

    def sigma(self, t: float | Tensor) -> Tensor:
        return _double(t)

    def rate(self, t: float | Tensor) -> Tensor:
        return torch.ones_like(_double(t))

    def _time_at_sigma(self, sigma: Tensor) -> Tensor:
        return sigma
