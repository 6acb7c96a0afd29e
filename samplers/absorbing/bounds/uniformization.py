"""Expected numbers of candidates, jumps and network calls of uniformization (B10).

Times are in the clock of rate 1. A candidate is a point of the dominating Poisson process; a jump is a
candidate that is accepted. For absorbing diffusion the total rate is known without the network, so only jumps
need a call.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._arguments import Number, Vector, counts, decreasing_times, plain, positive, real

__all__ = [
    "unif_calls",
    "unif_candidates_absorb",
    "unif_candidates_grid",
    "unif_candidates_mask_aware",
    "unif_candidates_paper",
    "unif_candidates_uniform",
    "unif_candidates_uniform_paper",
    "unif_jumps_uniform",
    "unif_nostop",
]


def _span(horizon: Number, early_stop: Number, *, from_zero: bool = False) -> tuple[Tensor, Tensor]:
    r"""T and delta with $T > \delta > 0$ (or >= 0)."""
    start = positive("horizon", horizon)
    stop = real("early_stop", early_stop, 0.0) if from_zero else positive("early_stop", early_stop)
    if bool((stop >= start).any()):
        raise ValueError(f"early_stop={early_stop} must be below horizon={horizon}")
    return start, stop


def unif_candidates_absorb(length: Number, horizon: Number, early_stop: Number) -> float | Tensor:
    r"""Mean number of candidates with the rate bound $d\,r(t)$, in the limit of fine intervals (B10).

    $d\log\frac{1-e^{-T}}{1-e^{-\delta}}$.

    Args:
        length: number of tokens d.
        horizon: T, may be infinite.
        early_stop: delta > 0, the time at which the sampler stops.

    Raises:
        ValueError: a length below 1, or times without $T > \delta > 0$.

    Source: sharper form of Liang et al. 2025, arXiv 2506.02318, Theorem 3 (see `unif_candidates_paper`).
    """
    start, stop = _span(horizon, early_stop)
    return plain(counts("length", length) * (_log_masked(start) - _log_masked(stop)))


def unif_candidates_grid(times: Vector, length: int) -> float:
    r"""Mean number of candidates on a grid, $\sum_k d\,r(t_{k+1})h_k$, $r(t) = 1/(e^t-1)$ (B10).

    Args:
        times: $T = t_0 > \dots > t_N = \delta > 0$, shape (N + 1,).
        length: number of tokens d.

    Raises:
        ValueError: times that do not decrease to a positive one, or a length below 1.
    """
    grid = _positive_grid(times)
    return float(counts("length", length) * (-grid.diff() / torch.expm1(grid[1:])).sum())


def unif_candidates_mask_aware(times: Vector, length: int) -> float:
    r"""Mean number of candidates when the bound counts the masks: $\sum_k d\,\mu_{t_k} r(t_{k+1})h_k$ (B10).

    Args:
        times: $T = t_0 > \dots > t_N = \delta > 0$, shape (N + 1,).
        length: number of tokens d.

    Raises:
        ValueError: times that do not decrease to a positive one, or a length below 1.
    """
    grid = _positive_grid(times)
    masked = -torch.expm1(-grid[:-1])
    return float(counts("length", length) * (-grid.diff() * masked / torch.expm1(grid[1:])).sum())


def unif_calls(length: Number, horizon: Number, early_stop: Number) -> float | Tensor:
    r"""Mean number of jumps, each one network call: $d(e^{-\delta}-e^{-T}) \le d$, binomial (B10).

    Args:
        length: number of tokens d.
        horizon: T, may be infinite.
        early_stop: delta >= 0, the time at which the sampler stops.

    Raises:
        ValueError: a length below 1, or times without $T > \delta \ge 0$.
    """
    start, stop = _span(horizon, early_stop, from_zero=True)
    return plain(counts("length", length) * (torch.exp(-stop) - torch.exp(-start)))


def unif_candidates_uniform(length: Number, vocab_size: Number, horizon: Number, early_stop: Number) -> float | Tensor:
    r"""Mean number of candidates for the uniform-rate process, fine intervals (B10).

    The rate bound is $d(1/(1-e^{-t})-1/K)$, so $d[\log\frac{e^T-1}{e^\delta-1} - (T-\delta)/K]$: exactly
    $d(T-\delta)(1-1/K)$ more than for absorbing diffusion. All of them need a network call.

    Args:
        length: number of tokens d.
        vocab_size: number of states K.
        horizon: T, finite.
        early_stop: delta > 0, the time at which the sampler stops.

    Raises:
        ValueError: a size below 1, or times without $T > \delta > 0$.
    """
    start, stop = _span(horizon, early_stop)
    extra = (1.0 - 1.0 / counts("vocab_size", vocab_size)) * (start - stop)
    return plain(counts("length", length) * (_log_masked(start) - _log_masked(stop) + extra))


def unif_jumps_uniform(length: Number, vocab_size: Number, horizon: Number, early_stop: Number) -> float | Tensor:
    r"""Mean number of jumps of the uniform-rate process: $d(1-1/K)(T-\delta)$ (B10).

    Args:
        length: number of tokens d.
        vocab_size: number of states K.
        horizon: T, finite.
        early_stop: delta > 0, the time at which the sampler stops.

    Raises:
        ValueError: a size below 1, or times without $T > \delta > 0$.
    """
    start, stop = _span(horizon, early_stop)
    return plain(counts("length", length) * (1.0 - 1.0 / counts("vocab_size", vocab_size)) * (start - stop))


def unif_nostop(length: Number, horizon: Number, mask_share: Number) -> float | Tensor:
    r"""Bound $d\log(1+(1-e^{-T})/\gamma_\Sigma)$ on the mean number of candidates (B10).

    For data that may hold masks, without early stopping.

    Args:
        length: number of tokens d.
        horizon: T, may be infinite.
        mask_share: $\gamma_\Sigma > 0$, see `mask_shares`.

    Raises:
        ValueError: a length below 1, or a horizon or share that is not positive.

    Source: logarithmic form of Liang et al. 2025, arXiv 2506.02318, Theorem 5 (there: $d/\gamma$).
    """
    masked = -torch.expm1(-positive("horizon", horizon))
    return plain(counts("length", length) * torch.log1p(masked / positive("mask_share", mask_share)))


def unif_candidates_paper(length: Number, horizon: Number, early_stop: Number) -> float | Tensor:
    r"""The published order of the number of candidates, constant 1: $d(\log T+\log 1/\delta)$.

    Args:
        length: number of tokens d.
        horizon: T.
        early_stop: delta > 0, the time at which the sampler stops.

    Raises:
        ValueError: a length below 1, or times without $T > \delta > 0$.

    Source: Liang et al. 2025, arXiv 2506.02318, Theorem 3 (rates bounded by 1/t).
    """
    start, stop = _span(horizon, early_stop)
    return plain(counts("length", length) * (start.log() - stop.log()))


def unif_candidates_uniform_paper(length: Number, horizon: Number, early_stop: Number) -> float | Tensor:
    r"""The published order for the uniform-rate process, constant 1: $d(T+\log 1/\delta)$.

    Args:
        length: number of tokens d.
        horizon: T.
        early_stop: delta > 0, the time at which the sampler stops.

    Raises:
        ValueError: a length below 1, or times without $T > \delta > 0$.

    Source: Chen & Ying 2024, arXiv 2402.08095; Ren et al. 2024, arXiv 2410.03601.
    """
    start, stop = _span(horizon, early_stop)
    return plain(counts("length", length) * (start - stop.log()))


def _log_masked(t: Tensor) -> Tensor:
    r"""$\log(1-e^{-t})$."""
    return torch.log(-torch.expm1(-t))


def _positive_grid(times: Vector) -> Tensor:
    grid = decreasing_times(times)
    if float(grid[-1]) <= 0:
        raise ValueError("times end at 0, where the rate is infinite; stop at some delta > 0")
    return grid
