"""Errors in closed form of laws with hard constraints (B8): how sharp the bounds are. Nats.

The N steps are equal in reveal fraction (Tweedie or Euler on the log-linear schedule), filled at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ._arguments import counts

__all__ = ["parity_kl", "parity_path_kl", "perm_kl", "repeat_kl"]


def parity_kl(length: int, steps: int, vocab_size: int) -> float:
    r"""The value of $KL(q_0\|p_{out})$ for uniform symbols with a zero check sum (B8).

    It is $-\log(1-(1-1/K)\pi_N)$ with $\pi_N = 1 - \frac dN\sum_{j<N}(j/N)^{d-1}$, the probability that the
    last stage with a token has two or more. Asymptotically $d(1-1/K)/(2N)$: the d/N law is attained.

    Args:
        length: number of tokens d.
        steps: N.
        vocab_size: number of symbols K.

    Raises:
        ValueError: an argument below 1.
    """
    return -math.log1p(-(1.0 - 1.0 / _whole("vocab_size", vocab_size)) * _collision(length, steps))


def parity_path_kl(length: int, steps: int, vocab_size: int) -> float:
    r"""The path error for uniform symbols with a zero check sum (B8): $\pi_N\log K$; see `parity_kl`.

    Args:
        length: number of tokens d.
        steps: N.
        vocab_size: number of symbols K.

    Raises:
        ValueError: an argument below 1.
    """
    return _collision(length, steps) * math.log(_whole("vocab_size", vocab_size))


def repeat_kl(length: int, steps: int, vocab_size: int) -> float:
    r"""The value of $KL(q_0\|p_{out})$ for one uniform symbol repeated in all tokens (B8).

    It is $-\log(K\,E[K^{-s_1}])$ with $s_1$ the number of tokens in the first stage that has one.

    Args:
        length: number of tokens d.
        steps: N.
        vocab_size: number of symbols K.

    Raises:
        ValueError: an argument below 1.
    """
    size = _whole("vocab_size", vocab_size)
    bins, tokens = _whole("steps", steps), _whole("length", length)
    later = _fractions_below_one(bins)  # probability of a later stage
    moment = (later + 1.0 / (bins * size)) ** tokens - later**tokens
    return -math.log(size * float(moment.sum()))


def perm_kl(sizes: Sequence[int]) -> float:
    r"""The value of KL and path error for a uniform permutation, $s_k$ random tokens in stage k (B8).

    $\sum_k s_k\log r_k - \log d!$ with $r_k$ tokens masked before stage k.

    Args:
        sizes: tokens revealed in each stage; their sum is d.

    Raises:
        ValueError: no stage, or a size below 1.
    """
    if not sizes or any(size < 1 for size in sizes):
        raise ValueError(f"sizes={list(sizes)} must hold at least one stage of at least 1 token each")
    masked = [sum(sizes[stage:]) for stage in range(len(sizes))]
    return sum(s * math.log(r) for s, r in zip(sizes, masked, strict=True)) - math.lgamma(sum(sizes) + 1)


def _collision(length: int, steps: int) -> float:
    r"""$\pi_N$: probability that the last non-empty one of N equal bins holds at least two of d tokens."""
    tokens, bins = _whole("length", length), _whole("steps", steps)
    if bins < 64 * tokens:
        return 1.0 - tokens / bins * float((_fractions_below_one(bins) ** (tokens - 1)).sum())
    terms = {1: 1 / 2, 2: -1 / 12, 4: 1 / 720}  # Euler-Maclaurin; what follows is below 1e-15
    return sum(c * math.perm(tokens, n) / bins**n for n, c in terms.items() if tokens != n)


def _fractions_below_one(bins: int) -> Tensor:
    return torch.arange(bins, dtype=torch.float64) / bins


def _whole(name: str, value: int) -> int:
    return int(counts(name, value))
