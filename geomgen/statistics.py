"""Means with 95 % intervals, paired differences and log-log slopes: the three numbers every report here quotes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import torch

__all__ = ["Interval", "Slope", "mean_interval", "paired_interval", "slope", "t_quantile"]

_TAIL = 0.975  # a two-sided interval of 95 %
_EXACT_BELOW = 100  # degrees of freedom from which the expansion of the t quantile is good to 1e-9


class Interval(NamedTuple):
    """A mean and the half-width of its 95 % interval: mean ± half_width."""

    mean: float
    half_width: float


class Slope(NamedTuple):
    """A log-log slope and its standard error (NaN when the fit has only two points)."""

    value: float
    standard_error: float


def mean_interval(values: Sequence[float | int] | torch.Tensor) -> Interval:
    """Mean of independent values with Student's 95 % interval.

    Args:
        values: (n,) independent measurements (one per seed, sequence, ...), n >= 1.

    Returns:
        Interval(mean, half_width); half_width is infinite for n = 1, where nothing is known about the spread.

    Raises:
        ValueError: no values, or a value that is not finite.
    """
    sample = _vector(values, "values")
    if len(sample) == 0:
        raise ValueError("values is empty: an interval needs at least one measurement")
    if len(sample) == 1:
        return Interval(float(sample[0]), math.inf)
    spread = float(sample.std()) / math.sqrt(len(sample))
    return Interval(float(sample.mean()), t_quantile(len(sample) - 1) * spread)


def paired_interval(
    first: Sequence[float | int] | torch.Tensor, second: Sequence[float | int] | torch.Tensor
) -> Interval:
    """Mean of first - second with Student's 95 % interval, for measurements made in pairs (same seed, same data).

    Args:
        first: (n,) measurements.
        second: (n,) measurements, item i made under the same conditions as first[i].

    Raises:
        ValueError: different lengths, no values, or a value that is not finite.
    """
    a, b = _vector(first, "first"), _vector(second, "second")
    if len(a) != len(b):
        raise ValueError(f"first has {len(a)} values and second has {len(b)}: pairs need equal lengths")
    return mean_interval(a - b)


def slope(
    x: Sequence[float | int] | torch.Tensor, y: Sequence[float | int] | torch.Tensor, last_octaves: int = 3
) -> Slope:
    """Least-squares slope of log y against log x over the last octaves of x.

    Args:
        x: (n,) positive abscissae in any order.
        y: (n,) positive ordinates.
        last_octaves: points with x >= max(x) / 2**last_octaves are used.

    Returns:
        Slope(value, standard_error); the standard error comes from the residuals (n - 2 degrees of freedom).

    Raises:
        ValueError: different lengths, values that are not positive, or fewer than two distinct x in the window.
    """
    xs, ys = _vector(x, "x"), _vector(y, "y")
    if len(xs) != len(ys):
        raise ValueError(f"x has {len(xs)} values and y has {len(ys)}: a slope needs equal lengths")
    if not last_octaves > 0:
        raise ValueError(f"last_octaves={last_octaves}: must be positive")
    if bool((xs <= 0).any()) or bool((ys <= 0).any()):
        raise ValueError("x and y must be positive: a log-log slope has no value at zero or below")
    window = xs >= xs.max() / 2**last_octaves * (1 - 1e-12) if len(xs) else torch.zeros(0, dtype=torch.bool)
    u, v = xs[window].log(), ys[window].log()
    u, v = u - u.mean(), v - v.mean()
    spread = float((u * u).sum())
    if len(u) < 2 or spread == 0.0:
        raise ValueError(f"x has fewer than two distinct values in its last {last_octaves} octaves: add points")
    value = float((u * v).sum()) / spread
    if len(u) == 2:
        return Slope(value, math.nan)
    residual = float(((v - value * u) ** 2).sum())
    return Slope(value, math.sqrt(residual / (len(u) - 2) / spread))


def t_quantile(degrees: int, probability: float = _TAIL) -> float:
    """Quantile of Student's t for an integer number of degrees of freedom and a probability in [1/2, 1).

    Below 100 degrees the finite trigonometric form of the distribution function is inverted by bisection;
    above, the expansion around the normal quantile is good to 1e-9.

    Source: Abramowitz & Stegun, 26.7.3, 26.7.4 and 26.7.5.
    """
    if degrees < 1:
        raise ValueError(f"degrees={degrees}: Student's t needs at least one degree of freedom")
    if not 0.5 <= probability < 1:
        raise ValueError(f"probability={probability}: must lie in [0.5, 1)")
    if degrees >= _EXACT_BELOW:
        return _t_expansion(degrees, NormalDist().inv_cdf(probability))
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_central_mass(middle, degrees) < 2 * probability - 1 else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def _t_central_mass(angle: float, degrees: int) -> float:
    """P(|t| < √degrees·tan(angle)): a finite sum of powers of cos(angle)."""
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= (k - 1) / k * cosine * cosine
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _t_expansion(degrees: int, z: float) -> float:
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / degrees + second / degrees**2 + third / degrees**3 + fourth / degrees**4


def _vector(values: Sequence[float | int] | torch.Tensor, name: str) -> torch.Tensor:
    vector = torch.as_tensor(values, dtype=torch.float64).reshape(-1)
    if not bool(torch.isfinite(vector).all()):
        raise ValueError(f"{name} holds a value that is not finite: drop or repair it before averaging")
    return vector
