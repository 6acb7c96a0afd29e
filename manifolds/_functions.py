r"""Functions that every manifold shares: smooth at zero, in value and in both first derivatives.

Trigonometric and hyperbolic functions take the *squared* angle $s$, so that one function serves both signs:
$\cos\sqrt s$ is $\cosh\sqrt{-s}$ for $s<0$. Near zero they are power series, elsewhere closed forms whose argument is
masked first, so that neither branch ever makes a NaN, in value or in gradient. No control flow depends on data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = [
    "arc_over_sin_chord",
    "generalized_cos",
    "generalized_sinc",
    "lorentz_boost",
    "safe_norm",
    "safe_sqrt",
    "standard_normal",
]

_COS_SERIES = [(-1) ** k / math.factorial(2 * k) for k in range(9)]
_SINC_SERIES = [(-1) ** k / math.factorial(2 * k + 1) for k in range(9)]
_ARC_SERIES = [4**k * math.factorial(k) ** 2 / math.factorial(2 * k + 1) for k in range(13)]
_SMALL_ANGLE = 0.25
_SMALL_CHORD = 0.03


def _polynomial(s: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's rule, lowest power first."""
    value = torch.full_like(s, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * s + coefficient
    return value


def generalized_cos(s: Tensor) -> Tensor:
    r"""$\cos\sqrt s$ for $s\ge 0$, $\cosh\sqrt{-s}$ for $s<0$; an entire function of $s$.

    Args:
        s: signed squared angle (...).
    """
    small = s.abs() < _SMALL_ANGLE
    root = s.abs().masked_fill(small, 1.0).sqrt()
    positive = s > 0
    closed = torch.where(positive, root.cos(), root.masked_fill(positive, 0.0).cosh())
    return torch.where(small, _polynomial(s.masked_fill(~small, 0.0), _COS_SERIES), closed)


def generalized_sinc(s: Tensor) -> Tensor:
    r"""$\sin\sqrt s/\sqrt s$ for $s\ge 0$, $\sinh\sqrt{-s}/\sqrt{-s}$ for $s<0$; an entire function of $s$, 1 at 0.

    Args:
        s: signed squared angle (...).
    """
    small = s.abs() < _SMALL_ANGLE
    root = s.abs().masked_fill(small, 1.0).sqrt()
    positive = s > 0
    closed = torch.where(positive, root.sin(), root.masked_fill(positive, 0.0).sinh()) / root
    return torch.where(small, _polynomial(s.masked_fill(~small, 0.0), _SINC_SERIES), closed)


def arc_over_sin_chord(y2: Tensor) -> Tensor:
    r"""$\theta/\sin\theta$ (or $\theta/\sinh\theta$) from the squared half chord $y^2=(1-\cos\theta)/2$.

    Accurate for close points when $y^2=|x-y|^2/4$ is computed from their difference. $y^2<0$ is the hyperbolic
    branch, $y^2\ge 1$ (an antipode or beyond: no unique geodesic) gives NaN.

    Args:
        y2: signed squared half chord (...).
    """
    small = y2.abs() < _SMALL_CHORD
    valid = y2 < 1
    root = y2.abs().masked_fill(small | ~valid, 0.5).sqrt()
    positive = y2 > 0
    inside = root.masked_fill(~positive, 0.5)
    cosine = (1 - inside * inside).sqrt()
    circular = torch.atan2(inside, cosine) / (inside * cosine)
    outside = root.masked_fill(positive, 0.5)
    hyperbolic = torch.asinh(outside) / (outside * (1 + outside * outside).sqrt())
    closed = torch.where(positive, circular, hyperbolic)
    value = torch.where(small, _polynomial(y2.masked_fill(~small, 0.0), _ARC_SERIES), closed)
    return torch.where(valid, value, torch.nan)


def lorentz_boost(u: Tensor, xi: Tensor) -> Tensor:
    r"""Components in the laboratory of a vector that has components $(0, \xi)$ in the rest frame of u.

    $(\vec u\cdot\xi,\ \xi+\vec u\,(\vec u\cdot\xi)/(1+u^0))$, the boost without rotation; time comes first.

    Args:
        u: unit future-directed time-like vectors (..., n).
        xi: spatial components (..., n - 1).
    """
    space = u[..., 1:]
    time = (space * xi).sum(-1, keepdim=True)
    return torch.cat([time, xi + space * time / (1 + u[..., :1])], dim=-1)


def safe_sqrt(s: Tensor) -> Tensor:
    """Square root whose gradient at zero is zero (not infinite); NaN below zero.

    Args:
        s: values (...).
    """
    zero = s == 0
    return s.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)


def safe_norm(x: Tensor, keepdim: bool = False) -> Tensor:
    """Euclidean norm over the last axis, whose gradient at the zero vector is zero (not NaN).

    Args:
        x: vectors (..., n).
        keepdim: keep the last axis with length one?
    """
    return safe_sqrt((x * x).sum(-1, keepdim=keepdim))


def standard_normal(
    shape: Sequence[int], *, dtype: torch.dtype, device: torch.device, generator: torch.Generator | None = None
) -> Tensor:
    """Standard normal numbers, drawn in float64 where the generator lives, then cast and moved.

    So float32 and float64 runs see the same numbers. Without a generator, torch's default one for ``device`` is used.

    Args:
        shape: shape of the result.
        dtype: its type.
        device: its device.
        generator: source of randomness.
    """
    source = device if generator is None else generator.device
    noise = torch.randn(tuple(shape), dtype=torch.float64, device=source, generator=generator)
    return noise.to(device=device, dtype=dtype)
