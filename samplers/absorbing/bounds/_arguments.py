"""Checks shared by the formulas: what is senseless is refused, by name and with the range that is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = [
    "Number",
    "Vector",
    "bernoulli_kl",
    "counts",
    "decreasing_times",
    "fractions_of_grid",
    "plain",
    "positive",
    "real",
]

Number: TypeAlias = int | float | Tensor
Vector: TypeAlias = Tensor | Sequence[int | float]


def plain(value: Tensor) -> float | Tensor:
    """A float for a scalar, else the tensor."""
    return float(value) if value.dim() == 0 else value


def bernoulli_kl(p: Tensor, q: Tensor) -> Tensor:
    r"""Divergence $kl(p\|q)$ of two coins with p in [0, 1] and q in (0, 1)."""
    return torch.xlogy(p, p / q) + torch.special.xlog1py(1 - p, -p) - (1 - p) * torch.log1p(-q)


def _require(name: str, values: Tensor, allowed: Tensor, wanted: str) -> Tensor:
    if not bool(allowed.all()):
        raise ValueError(f"{name}={float(values[~allowed].flatten()[0]):g} must be {wanted}")
    return values


def real(name: str, value: Number, low: float, high: float = math.inf) -> Tensor:
    """The value as float64, in the closed interval [low, high]."""
    values = torch.as_tensor(value, dtype=torch.float64)
    wanted = f"at least {low:g}" if math.isinf(high) else f"in [{low:g}, {high:g}]"
    return _require(name, values, (values >= low) & (values <= high), wanted)


def positive(name: str, value: Number) -> Tensor:
    """The value as float64, positive."""
    values = torch.as_tensor(value, dtype=torch.float64)
    return _require(name, values, values > 0, "positive")


def counts(name: str, value: Number) -> Tensor:
    """The value as float64, a whole number of at least 1."""
    values = torch.as_tensor(value, dtype=torch.float64)
    return _require(name, values, (values >= 1) & (values == values.floor()), "a whole number of at least 1")


def fractions_of_grid(fractions: Vector) -> Tensor:
    """Reveal fractions (N + 1,), float64, in [0, 1] and not decreasing."""
    grid = torch.as_tensor(fractions, dtype=torch.float64)
    if grid.dim() != 1 or len(grid) < 2:
        raise ValueError(f"fractions has shape {tuple(grid.shape)}; give p_0..p_N, shape (N + 1,), N at least 1")
    real("fractions", grid, 0.0, 1.0)
    if bool((grid.diff() < 0).any()):
        raise ValueError("fractions decrease; give the revealed fractions in the order of the sampler, p_0 < ... < p_N")
    return grid


def decreasing_times(times: Vector) -> Tensor:
    """Times (N + 1,), float64, finite, decreasing, not negative."""
    grid = torch.as_tensor(times, dtype=torch.float64)
    if grid.dim() != 1 or len(grid) < 2:
        raise ValueError(f"times has shape {tuple(grid.shape)}; give t_0..t_N, shape (N + 1,), N at least 1")
    if not bool(torch.isfinite(grid).all()) or float(grid.min()) < 0:
        raise ValueError("times hold a negative, NaN or infinite time; give t_0 > ... > t_N >= 0")
    if bool((grid.diff() >= 0).any()):
        raise ValueError("times must decrease: t_0 > ... > t_N, as the sampler runs")
    return grid
