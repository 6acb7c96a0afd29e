"""Curvature of a chart manifold, by differentiating its Christoffel symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .base import Manifold

__all__ = ["kretschmann", "riemann"]


def riemann(manifold: Manifold, x: Tensor) -> Tensor:
    r"""Riemann tensor of a chart.

    $R^i{}_{jkl}=\partial_k\Gamma^i_{lj}-\partial_l\Gamma^i_{kj}+\Gamma^i_{km}\Gamma^m_{lj}-\Gamma^i_{lm}\Gamma^m_{kj}$.

    Args:
        manifold: gives ``christoffel``.
        x: coordinates (..., n).

    Returns:
        (..., i, j, k, l); a sphere has $g_{im}R^m{}_{jkl}=g_{ik}g_{jl}-g_{il}g_{jk}$.
    """
    flat = x.reshape(-1, x.shape[-1])
    slopes = torch.func.vmap(torch.func.jacrev(manifold.christoffel))(flat)  # (batch, i, l, j, k) = d_k Gamma^i_lj
    slopes = slopes.reshape(*x.shape[:-1], *slopes.shape[1:])
    gamma = manifold.christoffel(x)
    half = torch.einsum("...iljk->...ijkl", slopes) + torch.einsum("...ikm,...mlj->...ijkl", gamma, gamma)
    return half - half.transpose(-1, -2)


def kretschmann(manifold: Manifold, x: Tensor) -> Tensor:
    r"""Kretschmann scalar $R_{ijkl}R^{ijkl}$ (...).

    Args:
        manifold: gives ``metric``, ``cometric``, ``christoffel``.
        x: coordinates (..., n).
    """
    up, metric, cometric = riemann(manifold, x), manifold.metric(x), manifold.cometric(x)
    down = torch.einsum("...im,...mjkl->...ijkl", metric, up)
    raised = torch.einsum("...ijkl,...ja,...kb,...lc->...iabc", up, cometric, cometric, cometric)
    return (down * raised).sum((-1, -2, -3, -4))
