"""First order of the output law in 1/N on equal reveal fractions (B7): what a measurement really shows."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..information import check_pmf

__all__ = ["FirstOrder", "first_order_deviation", "first_order_limits"]


class FirstOrder(NamedTuple):
    r"""Limits of the error of N equal steps as N grows.

    Attributes:
        tv: limit of $N\,TV(q_0, p_{out}) = \frac12\sum|\Delta|$.
        kl: limit of $N^2\,KL(q_0\|p_{out}) = \frac12\sum\Delta^2/q_0$; infinite when mass leaks.
        leak: limit of N times the mass outside the support of $q_0$; when positive, the limit of $N\,KL$.
    """

    tv: float
    kl: float
    leak: float


def first_order_deviation(pmf: Tensor) -> Tensor:
    r"""The coefficient $\Delta$ in $p_{out} = q_0 + \Delta/N + O(N^{-2})$ (B7).

    $\Delta(x) = \sum_{i<j}\int_0^1 dp\,E_{A\sim Bern(p)}\,q_0(x)[q(x_i|x_A)q(x_j|x_A)/q(x_i,x_j|x_A) - 1]$:
    two tokens meet in one step, drawn independently given what is revealed before, and the rest follow one by
    one. Off the support the rest is uniform, as after any impossible context. The integral over p is exact.

    Args:
        pmf: probabilities, shape (K,) * d. Work grows as $d^2 2^d K^d$.

    Returns:
        float64 tensor of the shape of `pmf`, with sum 0.

    Raises:
        ValueError: `pmf` is not a law.
    """
    law = check_pmf(pmf)
    length, deviation = law.dim(), torch.zeros_like(law)
    for pair in itertools.combinations(range(length), 2):
        others = [axis for axis in range(length) if axis not in pair]
        for size in range(length - 1):
            weight = 1.0 / ((length - 1) * math.comb(length - 2, size))  # integral of p^m (1-p)^(d-2-m)
            for later in itertools.combinations(others, length - 2 - size):
                deviation += weight * (_drawn_together(law, pair, later) - law)
    return deviation


def _drawn_together(law: Tensor, pair: tuple[int, int], later: tuple[int, ...]) -> Tensor:
    """The law when `pair` is drawn independently given the earlier tokens, then the `later` ones exactly."""
    seen = law.sum(later, keepdim=True) if later else law
    context = seen.sum(pair, keepdim=True)
    one, other = seen.sum(pair[0], keepdim=True), seen.sum(pair[1], keepdim=True)
    independent = one * other / context.clamp(min=1e-300)
    rest = torch.where(seen > 0, law / seen.clamp(min=1e-300), float(law.shape[0]) ** -len(later))
    return independent * rest


def first_order_limits(pmf: Tensor) -> FirstOrder:
    """Limits of N·TV, N²·KL and N·leak for N equal steps (B7).

    Args:
        pmf: probabilities, shape (K,) * d.

    Raises:
        ValueError: `pmf` is not a law.
    """
    law, deviation = check_pmf(pmf), first_order_deviation(pmf)
    inside = law > 0
    leak = float(deviation[~inside].sum())
    kl = math.inf if leak > 0 else float((deviation[inside] ** 2 / law[inside]).sum() / 2)
    return FirstOrder(tv=float(deviation.abs().sum() / 2), kl=kl, leak=leak)
