"""Numbers of steps and network calls: of the theorem's grid, of lazy samplers, for a wanted accuracy."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..grids import KappaGrid
from ..information import Profile
from ..schedules import Constant
from ._arguments import Number, Vector, counts, plain, positive, real
from .closed_forms import parity_kl
from .expansion import first_order_limits
from .paths import uniform_grid_constant

__all__ = [
    "kappa_steps",
    "kappa_steps_estimate",
    "lazy_nfe",
    "seed_rate",
    "steps_for",
    "steps_for_law",
    "steps_for_parity",
    "steps_for_path",
]


def kappa_steps(horizon: int | float, early_stop: int | float, c: float) -> int:
    r"""Number of steps N of the theorem's grid, $t_k - t_{k+1} = c\min(1, t_k)$ from T to delta.

    Args:
        horizon: T.
        early_stop: delta, below T.
        c: step fraction in (0, 1).

    Raises:
        ValueError: `c` outside (0, 1), or times without $T > \delta > 0$.

    Source: Liang et al. 2025, arXiv 2506.02318, Theorem 2.
    """
    return len(KappaGrid(c, float(early_stop)).times(Constant(float(horizon)))) - 1


def kappa_steps_estimate(horizon: int | float, early_stop: int | float, c: float) -> float:
    r"""Estimate of `kappa_steps`, $(T-1)/c + \log(1/\delta)/(-\log(1-c))$, for $T \ge 1 \ge \delta$.

    Args:
        horizon: T, at least 1.
        early_stop: delta in (0, 1].
        c: step fraction in (0, 1).

    Raises:
        ValueError: an argument outside its range.
    """
    if not 0.0 < c < 1.0:
        raise ValueError(f"c={c} must lie in (0, 1)")
    if not 0.0 < early_stop <= 1.0 <= horizon:
        raise ValueError(f"horizon={horizon}, early_stop={early_stop} must satisfy 0 < early_stop <= 1 <= horizon")
    return (horizon - 1.0) / c + math.log(early_stop) / math.log1p(-c)


def lazy_nfe(increments: Vector, length: int, batch_size: int = 1) -> float:
    r"""Mean number of stages that reveal something, so need a network call: $\sum_k 1-(1-\Delta p_k)^{dB}$.

    Args:
        increments: $\Delta p_k$, the probability that a token is revealed in stage k, shape (N,): the differences of
            a sampler's reveal fractions.
        length: number of tokens d.
        batch_size: B rows that share a call; 1 for a cache per row.

    Raises:
        ValueError: increments outside [0, 1] or of a sum above 1, or a size below 1.

    Source: cached ancestral sampling, Sahoo et al. 2024, arXiv 2406.07524; Ou et al. 2024, arXiv 2406.03736.
    """
    tokens = counts("length", length) * counts("batch_size", batch_size)
    shares = real("increments", torch.as_tensor(increments, dtype=torch.float64), 0.0, 1.0)
    if float(shares.sum()) > 1.0 + 1e-9:
        raise ValueError(f"increments sum to {float(shares.sum()):g}, above 1: give differences of reveal fractions")
    return float(-torch.expm1(tokens * torch.log1p(-shares)).sum())


def seed_rate(
    length: Number,
    horizon: Number,
    early_stop: Number,
    steps: Number,
    score_range: Number,
    constant: Number = 1.0,
) -> float | Tensor:
    r"""The published order of $KL(q_\delta\|p_{out})$ of tau-leaping, times a constant that has to be fitted.

    $C[d e^{-T} + d(T+\log(M/\delta))(T+\log 1/\delta)^2/N]$. Plot it with C fitted at one point, and say so.

    Args:
        length: number of tokens d.
        horizon: T.
        early_stop: delta.
        steps: N.
        score_range: M, with $|\log\hat s| \le \log M$.
        constant: C.

    Raises:
        ValueError: an argument out of range.

    Source: Liang et al. 2025, arXiv 2506.02318, Theorem 2 (log powers rebuilt from the proof; without score
        error).
    """
    tokens, time = counts("length", length), positive("horizon", horizon)
    log_stop = positive("early_stop", early_stop).log()
    logs = (time + real("score_range", score_range, 1.0).log() - log_stop) * (time - log_stop) ** 2
    return plain(positive("constant", constant) * tokens * (torch.exp(-time) + logs / counts("steps", steps)))


def steps_for(epsilon: int | float, profile: Profile) -> int:
    r"""Equal steps that guarantee $KL(q_0\|p_{out}) \le \epsilon$: $N = \lceil(TC+DTC)/\epsilon\rceil$ (B4).

    Args:
        epsilon: wanted divergence, nats.
        profile: information profile of the data.

    Raises:
        ValueError: an epsilon that is not positive.
    """
    return _at_least_one(2.0 * uniform_grid_constant(profile) / float(positive("epsilon", epsilon)))


def steps_for_path(epsilon: int | float, profile: Profile) -> int:
    r"""Equal steps at which the path error is about (small) epsilon: $\lceil(TC+DTC)/(2\epsilon)\rceil$ (B6).

    Args:
        epsilon: wanted path error, nats.
        profile: information profile of the data.

    Raises:
        ValueError: an epsilon that is not positive.
    """
    return _at_least_one(uniform_grid_constant(profile) / float(positive("epsilon", epsilon)))


def steps_for_law(epsilon: int | float, pmf: Tensor) -> int:
    r"""Equal steps at which $KL(q_0\|p_{out})$ is about epsilon, for small epsilon (B7).

    $\lceil\sqrt{\frac12\sum\Delta^2/q_0/\epsilon}\,\rceil$, or leak/epsilon when mass leaks off the support.

    Args:
        epsilon: wanted divergence, nats.
        pmf: probabilities, shape (K,) * d, small enough for `first_order_deviation`.

    Raises:
        ValueError: an epsilon that is not positive, or `pmf` is not a law.
    """
    target, limits = float(positive("epsilon", epsilon)), first_order_limits(pmf)
    return _at_least_one(limits.leak / target if limits.leak > 0 else math.sqrt(limits.kl / target))


def steps_for_parity(epsilon: int | float, length: int, vocab_size: int) -> int:
    """The least number of equal steps with `parity_kl` at most epsilon (B8).

    Args:
        epsilon: wanted divergence, nats.
        length: number of tokens d.
        vocab_size: number of symbols K.

    Raises:
        ValueError: an epsilon that is not positive, or a size below 1.
    """
    target, high = float(positive("epsilon", epsilon)), 1
    while parity_kl(length, high, vocab_size) > target:
        high *= 2
    low = high // 2  # too few, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parity_kl(length, middle, vocab_size) > target else (low, middle)
    return high


def _at_least_one(steps: float) -> int:
    return max(1, math.ceil(steps))
