r"""A charge in a magnetic field: canonical brackets bent by the field, in kinetic momenta."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._rotation_functions import hat
from ._blocks import block_matrix
from .base import PoissonStructure

__all__ = ["Magnetic"]


class Magnetic(PoissonStructure):
    r"""$z = (q, p)$ in $\mathbb R^6$ with $J = \begin{pmatrix}0&I\\-I&-\hat B(q)\end{pmatrix}$.

    With $v = \partial H/\partial p$: $\dot q = v$, $\dot p = -\partial H/\partial q + v\times B(q)$. The momentum is
    the kinetic one ($p = mv$ for $H = |p|^2/2m + V$) and B includes the charge.

    This is a Poisson structure exactly if $\mathrm{div}\,B = 0$, which cannot be read off a function: say so by
    `divergence_free`. `jacobiator` shows a wrong claim, as does `assert_poisson_laws`.

    Args:
        field: B, row-wise: (..., 3) -> (..., 3); a module is registered.
        divergence_free: whether div B = 0 is known; sets `guarantees_jacobi`.

    Source: Marsden & Ratiu 1999, section 6.7 and proposition 6.6.2.
    """

    def __init__(self, field: Callable[[Tensor], Tensor] | nn.Module, *, divergence_free: bool = False) -> None:
        super().__init__(6, rank=6, guarantees_jacobi=divergence_free)
        self.field = field

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        self._check(z)
        identity = torch.eye(3, dtype=z.dtype, device=z.device).expand(*z.shape[:-1], 3, 3)
        return block_matrix([[torch.zeros_like(identity), identity], [-identity, -hat(self._field_at(z))]])

    def sharp(self, z: Float[Tensor, "... n"], dH: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        self._check(z, dH)
        slope, velocity = dH[..., :3], dH[..., 3:]
        force = torch.linalg.cross(*torch.broadcast_tensors(velocity, self._field_at(z)), dim=-1) - slope
        return torch.cat([velocity.expand_as(force), force], dim=-1)

    def _field_at(self, z: Tensor) -> Tensor:
        field: Tensor = self.field(z[..., :3])
        if field.shape != (*z.shape[:-1], 3):
            raise ValueError(
                f"field returned shape {tuple(field.shape)} for positions of shape {(*z.shape[:-1], 3)}: "
                "return one vector per position"
            )
        return field
