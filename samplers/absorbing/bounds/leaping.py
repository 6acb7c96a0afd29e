"""Frozen-rate tau-leaping, first-jump rule, stopped early and without a fill (B3).

Times are in the clock of rate 1, in which a masked token is revealed at rate $r(t) = 1/(e^t-1)$, here frozen
at the start of each step. Nats.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..information import Profile
from ._arguments import Vector, bernoulli_kl, counts, decreasing_times
from .initialisation import init_kl_exact
from .paths import path_kl

__all__ = ["PathError", "tau_mask_probability", "tau_path_kl", "tau_product_kl"]


class PathError(NamedTuple):
    """The three terms of the path error of tau-leaping, in nats.

    Attributes:
        init: divergence of the initial laws; 0 instead for a sampler that starts from $q_T$.
        time: cost of freezing the rate, the same for all data; 0 for exact reveal probabilities (`Tweedie`).
        data: cost of drawing tokens of one step independently.
    """

    init: float
    time: float
    data: float

    @property
    def total(self) -> float:
        r"""The sum, an upper bound on $KL(q_\delta\|p_{out})$."""
        return self.init + self.time + self.data


def tau_path_kl(times: Vector, profile: Profile, vocab_size: int) -> PathError:
    r"""The path error of tau-leaping from the uniform surrogate: an identity, not a bound (B3).

    $KL(q_T\|p_{init}) + d\sum_k\int\mu_t[r\log(r/r_k) - r + r_k]dt + \sum_k(p_{k+1}-p_k)g(p_k) - \int g$ with
    $p_k = e^{-t_k}$. The sum bounds $KL(q_\delta\|p_{out})$, masks that are left over included.

    Args:
        times: $T = t_0 > \dots > t_N = \delta \ge 0$, shape (N + 1,).
        profile: information profile of the data.
        vocab_size: number of clean tokens K.

    Raises:
        ValueError: times that do not decrease or are negative, or a vocabulary below 1.

    Source: identity behind Liang et al. 2025, arXiv 2506.02318, Theorem 2.
    """
    grid = decreasing_times(times)
    return PathError(
        init=float(init_kl_exact(profile, vocab_size, float(grid[0]))),
        time=profile.length * _frozen_rate_cost(grid),
        data=path_kl(torch.exp(-grid), profile),
    )


def _frozen_rate_cost(grid: Tensor) -> float:
    r"""$\sum_k\int\mu_t[r\log(r/r_k) - r + r_k]dt$ of one token.

    Elementary in p, where $r = p/(1-p)$.
    """
    step = -grid.diff()
    masked, masked_after = -torch.expm1(-grid[:-1]), -torch.expm1(-grid[1:])
    gain = torch.exp(-grid[:-1]) * torch.expm1(step)  # p_{k+1} - p_k
    drop = (-gain / masked).clamp(min=-1.0)  # relative change of the mask probability
    log_rates = torch.exp(-grid[1:]) * step + torch.special.xlog1py(masked_after, drop)
    return float((log_rates - gain + (step - gain) / torch.expm1(grid[:-1])).sum())


def tau_mask_probability(times: Vector) -> float:
    r"""Probability $\mu_T e^{-\sum_k h_k r_k}$ that tau-leaping leaves a token masked; exact: $\mu_\delta$.

    Args:
        times: $T = t_0 > \dots > t_N$, shape (N + 1,).

    Raises:
        ValueError: times that do not decrease or are negative.
    """
    grid = decreasing_times(times)
    leaps = (grid.diff() / torch.expm1(grid[:-1])).sum()
    return float(-torch.expm1(-grid[0]) * torch.exp(leaps))


def tau_product_kl(times: Vector, length: int) -> float:
    r"""The value of $KL(q_\delta\|p_{out})$ of tau-leaping from $q_T$ on independent tokens.

    Only masks that are left over cost: $d\,kl(\mu_\delta\|m_N)$, a divergence of coins, with $m_N$ from
    `tau_mask_probability` (B3).

    Args:
        times: $T = t_0 > \dots > t_N = \delta$, shape (N + 1,).
        length: number of tokens d.

    Raises:
        ValueError: times that do not decrease or are negative, or a length below 1.
    """
    grid, left = decreasing_times(times), torch.tensor(tau_mask_probability(times), dtype=torch.float64)
    return float(counts("length", length) * bernoulli_kl(-torch.expm1(-grid[-1]), left))
