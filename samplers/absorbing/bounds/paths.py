r"""Path errors of samplers that reveal each token at a random time, whatever the values (B4, B5, B6).

A sampler of this kind has revealed a token by its k-th stage with probability $p_k$ (its reveal fractions),
and with an exact denoiser its only error is that tokens of one stage are drawn independently. The path error
bounds $KL(q_0\|p_{out})$ from above. Nats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch

from ..information import Profile
from ._arguments import Vector, counts, fractions_of_grid

__all__ = [
    "fixed_size_bound",
    "fixed_size_path_kl",
    "li_cai_bound",
    "optimal_grid_constant",
    "path_kl",
    "path_kl_bound",
    "path_kl_crude",
    "path_kl_crudest",
    "path_nelbo",
    "uniform_grid_constant",
]


def path_kl(fractions: Vector, profile: Profile) -> float:
    r"""The path error $KL_{path} = \sum_k (p_{k+1}-p_k) g(p_k) - \int_{p_0}^{p_N} g$ (B4).

    The left Riemann error of the decreasing g. From an all-mask start to a filled end ($p_0 = 0$, $p_N = 1$)
    it is the whole path error; on a part of [0, 1] it is the part made there. Exact to rounding, better than
    1e-13 nats a token.

    Args:
        fractions: reveal fractions $p_0 < \dots < p_N$, shape (N + 1,).
        profile: information profile of the data.

    Raises:
        ValueError: fractions that leave [0, 1] or decrease.
    """
    grid = fractions_of_grid(fractions)
    excess = Profile.from_increments(profile.h - profile.h[-1])  # a constant in g costs nothing
    return float((grid.diff() * excess.g(grid[:-1])).sum() - (excess.F(grid[-1]) - excess.F(grid[0])))


def path_nelbo(fractions: Vector, profile: Profile) -> float:
    r"""NELBO of N steps on a sampler's own grid: $\sum_k (p_{k+1}-p_k)\hat g(p_k)$.

    With the profile of a network (`information.estimate_profile`) and $p_0 = 0$, $p_N = 1$, less the entropy
    of the data it bounds $KL(q_0\|p_{out})$ of the network's sampler; less $\int\hat g$ it is the part due to
    steps.

    Args:
        fractions: reveal fractions $p_0 < \dots < p_N$, shape (N + 1,).
        profile: information profile of the network.

    Raises:
        ValueError: fractions that leave [0, 1] or decrease.
    """
    grid = fractions_of_grid(fractions)
    return float((grid.diff() * profile.g(grid[:-1])).sum())


def path_kl_bound(fractions: Vector, profile: Profile) -> float:
    r"""Bound $\sum_k (p_{k+1}-p_k)(g(p_k)-g(p_{k+1}))$ on `path_kl` (B4).

    Args:
        fractions: reveal fractions $p_0 < \dots < p_N$, shape (N + 1,).
        profile: information profile of the data.

    Raises:
        ValueError: fractions that leave [0, 1] or decrease.
    """
    grid = fractions_of_grid(fractions)
    return float(-(grid.diff() * profile.g(grid).diff()).sum())


def path_kl_crude(fractions: Vector, profile: Profile) -> float:
    r"""Bound $(TC+DTC)\max_k(p_{k+1}-p_k)$ on `path_kl` and `path_kl_bound` (B4).

    Args:
        fractions: reveal fractions $p_0 < \dots < p_N$, shape (N + 1,).
        profile: information profile of the data.

    Raises:
        ValueError: fractions that leave [0, 1] or decrease.
    """
    return _total(profile) * float(fractions_of_grid(fractions).diff().max())


def path_kl_crudest(fractions: Vector, length: int, vocab_size: int) -> float:
    r"""Bound $d\log K\max_k(p_{k+1}-p_k)$ on `path_kl` of every law (B4).

    Args:
        fractions: reveal fractions $p_0 < \dots < p_N$, shape (N + 1,).
        length: number of tokens d.
        vocab_size: number of clean tokens K.

    Raises:
        ValueError: fractions that leave [0, 1] or decrease, or a size below 1.
    """
    largest = fractions_of_grid(fractions).diff().max()
    return float(counts("length", length) * counts("vocab_size", vocab_size).log() * largest)


def uniform_grid_constant(profile: Profile) -> float:
    r"""Limit of $N\,KL_{path}$ on N equal reveal fractions: $(TC+DTC)/2$ (B6)."""
    return _total(profile) / 2


def optimal_grid_constant(profile: Profile) -> float:
    r"""Limit of $N\,KL_{path}$ on the best N fractions: $(\int_0^1\sqrt{-g'(p)}\,dp)^2/2$ (B6).

    Best is $\Delta p\propto |g'|^{-1/2}$ (`grids.EqualError`). The integral is a double-exponential one,
    because the integrand has boundary layers of width 1/d.

    Source: Chen, Cong & Li 2025, arXiv 2511.04647; Takahasi & Mori 1974 for the quadrature.
    """
    u = torch.linspace(-4.0, 4.0, 1601, dtype=torch.float64)
    inner = (math.pi / 2) * torch.sinh(u)
    weights = (math.pi / 4) * torch.cosh(u) / torch.cosh(inner) ** 2 * (u[1] - u[0])
    root = profile.slope(torch.sigmoid(2 * inner)).clamp(min=0.0).sqrt()
    return float((root * weights).sum() ** 2 / 2)


def fixed_size_path_kl(sizes: Sequence[int], profile: Profile) -> float:
    r"""The path error of revealing $s_k$ random tokens in stage k (B5).

    $\sum_k [s_k h_{m_k} - (f(m_{k+1}) - f(m_k))]$ with $m_k$ tokens revealed before stage k.

    Args:
        sizes: tokens revealed in each stage; their sum is the length.
        profile: information profile of the data.

    Raises:
        ValueError: a size below 1, or a sum that is not the length.
    """
    if any(size < 1 for size in sizes) or sum(sizes) != profile.length:
        raise ValueError(f"sizes={list(sizes)} must be at least 1 each and sum to the length {profile.length}")
    starts = itertools.accumulate(sizes[:-1], initial=0)
    lost = [(profile.h[m] - profile.h[m : m + size]).sum() for m, size in zip(starts, sizes, strict=True)]
    return float(torch.stack(lost).sum())


def fixed_size_bound(tokens_per_call: int, profile: Profile) -> float:
    r"""Bound $\frac{s-1}{d}(TC+DTC)$ on `fixed_size_path_kl` with at most s tokens a call (B5); 0 at s = 1.

    Args:
        tokens_per_call: s, from 1 to the length.
        profile: information profile of the data.

    Raises:
        ValueError: `tokens_per_call` outside 1..length.
    """
    return (_check_block(tokens_per_call, profile) - 1) / profile.length * _total(profile)


def li_cai_bound(tokens_per_call: int, profile: Profile) -> float:
    r"""Published bound $\frac{2^{\lceil\log_2 s\rceil}-1}{d}(TC+DTC)$ on `fixed_size_path_kl`.

    Args:
        tokens_per_call: s, from 1 to the length.
        profile: information profile of the data.

    Raises:
        ValueError: `tokens_per_call` outside 1..length.

    Source: Li & Cai 2025, arXiv 2505.21400 (without its training-error term).
    """
    power = 1 << (_check_block(tokens_per_call, profile) - 1).bit_length()
    return (power - 1) / profile.length * _total(profile)


def _total(profile: Profile) -> float:
    r"""$TC + DTC = \sum_i I(X_i; X_{-i}) = g(0) - g(1)$."""
    return profile.length * float(profile.h[0] - profile.h[-1])


def _check_block(tokens_per_call: int, profile: Profile) -> int:
    if not 1 <= tokens_per_call <= profile.length:
        raise ValueError(f"tokens_per_call={tokens_per_call} must lie in 1..{profile.length}, the length")
    return tokens_per_call
