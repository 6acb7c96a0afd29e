r"""Bounds on score and rates when data may hold masks, so that they stay finite down to time 0 (2.5).

Times are in the clock of rate 1. The score of revealing token i as a is
$s_t(x)_{i\leftarrow a} = q_t(y)/q_t(x)$.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..information import check_pmf
from ._arguments import Number, plain, positive, real

__all__ = ["MaskShares", "mask_shares", "score_bound", "score_bound_crude", "total_rate_bound"]


class MaskShares(NamedTuple):
    r"""How likely a mask is in the data, relative to clean tokens, in the worst context.

    Attributes:
        single: $\gamma = \min q_0(x_{-i}, M)/\max_a q_0(x_{-i}, a)$.
        total: $\gamma_\Sigma = \min q_0(x_{-i}, M)/\sum_a q_0(x_{-i}, a)$, at least $\gamma/K$.
    """

    single: float
    total: float


def mask_shares(pmf: Tensor, mask_id: int) -> MaskShares:
    """The two mask shares of a law on states with the mask among them; infinite if all data are masks.

    Args:
        pmf: probabilities, shape (S,) * d, S the number of states.
        mask_id: index of the mask.

    Raises:
        ValueError: `pmf` is not a law, or `mask_id` is no state of it.

    Source: Liang et al. 2025, arXiv 2506.02318, Assumption 4 (its exact inequality read from the text).
    """
    law = check_pmf(pmf)
    states = law.shape[0]
    if not 0 <= mask_id < states:
        raise ValueError(f"mask_id={mask_id} must be a state of pmf, 0..{states - 1}")
    clean = [state for state in range(states) if state != mask_id]
    single, total = [], []
    for axis in range(law.dim()):
        rows = law.movedim(axis, -1).reshape(-1, states)
        rows = rows[rows[:, clean].sum(-1) > 0]
        single.append(rows[:, mask_id] / rows[:, clean].amax(-1))
        total.append(rows[:, mask_id] / rows[:, clean].sum(-1))
    worst = [torch.cat([*ratios, torch.tensor([torch.inf])]).min() for ratios in (single, total)]
    return MaskShares(float(worst[0]), float(worst[1]))


def score_bound(t: Number, mask_share: Number) -> float | Tensor:
    r"""Bound $e^{-t}/(1-e^{-t}+\gamma)$ on every score; $1/(e^t-1)$ for data without masks.

    Args:
        t: time, at least 0.
        mask_share: $\gamma \ge 0$, see `MaskShares.single`.

    Raises:
        ValueError: a negative time or share, or both 0 (the score is unbounded).
    """
    return _rate(t, real("mask_share", mask_share, 0.0))


def score_bound_crude(t: Number, mask_share: Number) -> float | Tensor:
    r"""Bound $\min(1/\gamma, 1/(e^t-1))$ on every score, at least `score_bound`.

    Args:
        t: time, at least 0.
        mask_share: $\gamma > 0$, see `MaskShares.single`.

    Raises:
        ValueError: a negative time or a share that is not positive.

    Source: Liang et al. 2025, arXiv 2506.02318.
    """
    share = positive("mask_share", mask_share)
    return plain(torch.minimum(1.0 / share, 1.0 / torch.expm1(real("t", t, 0.0))))


def total_rate_bound(t: Number, mask_share: Number) -> float | Tensor:
    r"""Bound $e^{-t}/(1-e^{-t}+\gamma_\Sigma)$ on the total reverse rate of one masked token.

    Args:
        t: time, at least 0.
        mask_share: $\gamma_\Sigma \ge 0$, see `MaskShares.total`.

    Raises:
        ValueError: a negative time or share, or both 0 (the rate is unbounded).
    """
    return _rate(t, real("mask_share", mask_share, 0.0))


def _rate(t: Number, share: Tensor) -> float | Tensor:
    time = real("t", t, 0.0)
    masked = share - torch.expm1(-time)
    if not bool((masked > 0).all()):
        raise ValueError("t=0 with mask_share=0 has no bound: stop at some t > 0")
    return plain(torch.exp(-time) / masked)
