"""What follows from a metric or an exponential map by differentiation: defaults that closed forms override."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .base import Manifold

__all__ = ["christoffel", "exp_logdet"]


def christoffel(manifold: Manifold, x: Tensor) -> Tensor:
    r"""Christoffel symbols of the Levi-Civita connection in a chart.

    $\Gamma^i_{jk}=\tfrac12 g^{il}(\partial_j g_{lk}+\partial_k g_{lj}-\partial_l g_{jk})$, by reverse differentiation.

    Args:
        manifold: gives ``metric`` and ``cometric``.
        x: coordinates (..., n).

    Returns:
        (..., i, j, k).
    """
    flat = x.reshape(-1, x.shape[-1])
    slopes = torch.func.vmap(torch.func.jacrev(manifold.metric))(flat)  # (batch, l, k, j) = d_j g_lk
    slopes = slopes.reshape(*x.shape[:-1], *slopes.shape[1:])
    first_kind = slopes.transpose(-1, -2) + slopes - slopes.movedim(-1, -3)
    return torch.einsum("...il,...ljk->...ijk", manifold.cometric(x), first_kind) / 2


def exp_logdet(manifold: Manifold, x: Tensor, v: Tensor) -> Tensor:
    r"""$\log|\det d(\exp_x)_v|$ between orthonormal frames at x and at $\exp_x v$.

    Args:
        manifold: gives ``expmap``, ``frame`` and ``lower``.
        x: points (..., *point_shape).
        v: tangent vectors.

    Returns:
        (...).
    """
    x, v = torch.broadcast_tensors(x, v)
    y, pull_back = torch.func.vjp(lambda u: manifold.expmap(x, u), v)[:2]
    targets = manifold.frame(y).movedim(-1, 0)
    slopes = torch.func.vmap(lambda covector: pull_back(covector)[0])(manifold.lower(y, targets))
    matrix = manifold._sum(slopes[:, None] * manifold.frame(x).movedim(-1, 0)).movedim((0, 1), (-2, -1))
    return torch.linalg.slogdet(matrix).logabsdet
