r"""What the two ends of the process cost: the surrogate initial law (B1) and early stopping (B2).

Times are in the clock of rate 1, in which a token survives with probability $\alpha = e^{-T}$. Nats.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..information import Profile, bernstein
from ._arguments import Number, bernoulli_kl, counts, plain, positive, real

__all__ = ["early_stop_kl", "early_stop_tv", "init_kl_bound", "init_kl_exact", "init_kl_marginal"]


def init_kl_bound(
    length: Number, vocab_size: Number, horizon: Number, *, masks_in_data: bool = False
) -> float | Tensor:
    r"""Bound $d e^{-T}\log K$ on $KL(q_T \| p_{init})$ for the uniform surrogate (B1).

    The surrogate's tokens are independent: a mask with probability $1-e^{-T}$, else a uniform clean token.

    Args:
        length: number of tokens d.
        vocab_size: number of clean tokens K.
        horizon: T.
        masks_in_data: data may hold masks: $d\max\{e^{-T}\log K, -\log(1-e^{-T})\}$.

    Raises:
        ValueError: a size below 1 or a horizon that is not positive.

    Source: Liang et al. 2025, arXiv 2506.02318, Theorem 1; constant explicit, bound B1.
    """
    survival = torch.exp(-positive("horizon", horizon))
    per_token = survival * counts("vocab_size", vocab_size).log()
    if masks_in_data:
        per_token = torch.maximum(per_token, -torch.log1p(-survival))
    return plain(counts("length", length) * per_token)


def init_kl_exact(
    profile: Profile, vocab_size: int, horizon: Number, *, epsilon: Number | None = None
) -> float | Tensor:
    r"""The value of $KL(q_T \| p_{init})$ for the uniform surrogate, data without masks (B1').

    $d\,kl(\alpha\|\epsilon) + \alpha d\log K - F(\alpha)$, $\alpha = e^{-T}$; the first term, the divergence
    of two coins, vanishes at its minimiser $\epsilon = \alpha$. Also bounds the KL of the output of an exact
    sampler that starts from the surrogate.

    Args:
        profile: information profile of the data.
        vocab_size: number of clean tokens K.
        horizon: T.
        epsilon: probability that the surrogate's token is not a mask; $e^{-T}$ when None.

    Raises:
        ValueError: a size below 1, a horizon that is not positive, or an epsilon outside (0, 1).
    """
    survival = torch.exp(-positive("horizon", horizon))
    log_size = counts("vocab_size", vocab_size).log()
    gap = bernstein(_cumulative(log_size - profile.h), survival)  # alpha d log K - F(alpha)
    if epsilon is None:
        return plain(gap)
    level = real("epsilon", epsilon, 0.0, 1.0)
    if not bool(((level > 0) & (level < 1)).all()):
        raise ValueError(f"epsilon={epsilon} must not be 0 or 1, else the divergence is infinite")
    coin = bernoulli_kl(survival, level)
    return plain(profile.length * coin + gap)


def init_kl_marginal(profile: Profile, horizon: Number) -> float | Tensor:
    r"""The value of $KL(q_T \| p_{init})$ for the marginal surrogate (B1'').

    It is $E_{A\sim Bern(e^{-T})} TC(X_A)$. The surrogate's clean tokens follow the data's marginals (a
    network's first call gives them); the divergence is then of second order in $e^{-T}$.

    Args:
        profile: information profile of the data.
        horizon: T.

    Raises:
        ValueError: a horizon that is not positive.
    """
    survival = torch.exp(-positive("horizon", horizon))
    return plain(bernstein(_cumulative(profile.h[0] - profile.h), survival))


def _cumulative(increments: Tensor) -> Tensor:
    return torch.cat([increments.new_zeros(1), increments.cumsum(0)])


def early_stop_tv(length: Number, early_stop: Number) -> float | Tensor:
    r"""The value of $TV(q_0, q_\delta) = 1 - e^{-d\delta}$, data without masks (B2).

    Args:
        length: number of tokens d.
        early_stop: delta, the time at which the reverse process stops.

    Raises:
        ValueError: a length below 1 or a negative time.

    Source: exact form of Liang et al. 2025, arXiv 2506.02318 (there: at most of order $d\delta$).
    """
    return plain(-torch.expm1(-counts("length", length) * real("early_stop", early_stop, 0.0)))


def early_stop_kl(length: Number, early_stop: Number) -> float | Tensor:
    r"""The value of $KL(q_0 \| q_\delta) = d\delta$, data without masks (B2).

    The reverse divergence is infinite.

    Args:
        length: number of tokens d.
        early_stop: delta, the time at which the reverse process stops.

    Raises:
        ValueError: a length below 1 or a negative time.
    """
    return plain(counts("length", length) * real("early_stop", early_stop, 0.0))
