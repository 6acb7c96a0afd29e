"""Entropies of small laws given as a table. Natural logarithms (nats), float64."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from .profiles import Profile

__all__ = ["check_pmf", "dual_total_correlation", "entropy", "profile", "total_correlation"]

_LARGEST_ENUMERATION = 16


def check_pmf(pmf: Tensor) -> Tensor:
    """Return the table of a law as float64, or say what is wrong with it.

    Args:
        pmf: probabilities of shape (K,) * d: axis i is token i.

    Raises:
        ValueError: without axes, axes of different sizes, negative, NaN or infinite entries, or a sum away
            from 1 by more than 1e-9 (1e-5 for float32).
    """
    given = torch.as_tensor(pmf).detach()
    table, tolerance = given.double(), 1e-9 if given.dtype == torch.float64 else 1e-5
    if table.dim() == 0 or len(set(table.shape)) != 1 or not table.numel():
        raise ValueError(f"pmf has shape {tuple(table.shape)}; give one axis of the same size K per token: (K,) * d")
    if not bool(torch.isfinite(table).all()) or bool((table < 0).any()):
        raise ValueError("pmf holds a negative, NaN or infinite entry; probabilities must lie in [0, 1]")
    if abs(float(table.sum()) - 1.0) > tolerance:
        raise ValueError(f"pmf sums to {float(table.sum()):.12g}; divide it by its sum in float64")
    return table / table.sum()


def entropy(pmf: Tensor) -> float:
    """Entropy H(X) in nats of the law `pmf`, shape (K,) * d.

    Raises:
        ValueError: `pmf` is not a law (see `check_pmf`).
    """
    return _entropy(check_pmf(pmf))


def total_correlation(pmf: Tensor) -> float:
    r"""Total correlation $TC = \sum_i H(X_i) - H(X)$ in nats: the error of drawing all tokens in one step.

    Raises:
        ValueError: `pmf` is not a law (see `check_pmf`).

    Source: Watanabe 1960.
    """
    table = check_pmf(pmf)
    axes = range(table.dim())
    return sum(_entropy(_marginal(table, [i])) for i in axes) - _entropy(table)


def dual_total_correlation(pmf: Tensor) -> float:
    r"""Dual total correlation $DTC = H(X) - \sum_i H(X_i | X_{-i})$ in nats.

    Raises:
        ValueError: `pmf` is not a law (see `check_pmf`).

    Source: Han 1978.
    """
    table = check_pmf(pmf)
    whole = _entropy(table)
    return whole - sum(whole - _entropy(table.sum(i)) for i in range(table.dim()))


def profile(pmf: Tensor) -> Profile:
    r"""Information profile $f(m) = \mathrm{mean}_{|A|=m} H(X_A)$ of a law, over all $2^d$ subsets A.

    Args:
        pmf: probabilities, shape (K,) * d with d at most 16; work and memory grow as $(K+1)^d$.

    Raises:
        ValueError: `pmf` is not a law (see `check_pmf`), or has too many tokens to enumerate.
    """
    table = check_pmf(pmf)
    length = table.dim()
    if length > _LARGEST_ENUMERATION:
        raise ValueError(
            f"pmf has {length} tokens, enumeration stops at {_LARGEST_ENUMERATION}; "
            "use a closed form such as markov_chain_profile, or estimate_profile"
        )
    totals = torch.zeros(length + 1, dtype=torch.float64)
    for size, value in _subset_entropies(table, 0):
        totals[size] += value
    subsets = torch.tensor([math.comb(length, size) for size in range(length + 1)], dtype=torch.float64)
    return Profile(totals / subsets)


def _subset_entropies(table: Tensor, axis: int) -> Iterator[tuple[int, float]]:
    """(|A|, H(X_A)) of every subset A that keeps the axes before `axis`."""
    if axis == table.dim():
        yield axis, _entropy(table) if axis else 0.0
        return
    yield from _subset_entropies(table, axis + 1)
    yield from _subset_entropies(table.sum(axis), axis)


def _marginal(table: Tensor, kept: list[int]) -> Tensor:
    dropped = [axis for axis in range(table.dim()) if axis not in kept]
    return table.sum(dropped) if dropped else table


def _entropy(table: Tensor) -> float:
    return float(torch.special.entr(table).sum())
