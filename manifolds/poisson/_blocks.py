"""Small matrices that several structures are made of."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["block_matrix", "canonical_matrix"]


def canonical_matrix(rank: int, dim: int) -> Float[Tensor, "dim dim"]:
    r"""Canonical $J$ on the first `rank` coordinates (q, p) and zero on the others, float64."""
    half = rank // 2
    matrix = torch.zeros(dim, dim, dtype=torch.float64)
    index = torch.arange(half)
    matrix[index, half + index] = 1.0
    matrix[half + index, index] = -1.0
    return matrix


def block_matrix(blocks: Sequence[Sequence[Tensor]]) -> Tensor:
    """The matrix (..., n, n) of rows of blocks with equal leading axes."""
    return torch.cat([torch.cat(list(row), dim=-1) for row in blocks], dim=-2)
