"""Several structures side by side: independent blocks of one state."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ._blocks import block_matrix
from .base import PoissonStructure

__all__ = ["ProductPoisson"]


class ProductPoisson(PoissonStructure):
    r"""$J = \mathrm{diag}(J_1(z_1), \dots, J_m(z_m))$ on states $z = (z_1, \dots, z_m)$.

    Spins on $(S^2)^N$ are `ProductPoisson([LiePoisson("so3")] * N)`. Casimirs are those of the parts in order.

    Args:
        structures: the parts; one may occur several times.

    Raises:
        ValueError: `structures` is empty.
    """

    def __init__(self, structures: Sequence[PoissonStructure]) -> None:
        structures = list(structures)
        if not structures:
            raise ValueError("structures is empty: give at least one")
        super().__init__(
            sum(part.dim for part in structures),
            rank=sum(part.rank for part in structures),
            guarantees_jacobi=all(part.guarantees_jacobi for part in structures),
            has_reference_density=all(part.has_reference_density for part in structures),
        )
        self.structures = nn.ModuleList(structures)
        self.sizes = [part.dim for part in structures]

    def split(self, z: Float[Tensor, "... n"]) -> tuple[Tensor, ...]:
        """The blocks $z_1$ to $z_m$ of a state."""
        self._check(z)
        return z.split(self.sizes, dim=-1)

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        rows = []
        for index, (part, block) in enumerate(zip(self._parts(), self.split(z), strict=True)):
            matrix = part.bivector(block)
            before, after = sum(self.sizes[:index]), sum(self.sizes[index + 1 :])
            rows.append(
                [matrix.new_zeros(*matrix.shape[:-1], before), matrix, matrix.new_zeros(*matrix.shape[:-1], after)]
            )
        return block_matrix(rows)

    def sharp(self, z: Float[Tensor, "... n"], dH: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        self._check(z, dH)
        blocks = zip(self._parts(), self.split(z), self.split(dH), strict=True)
        return torch.cat([part.sharp(block, covector) for part, block, covector in blocks], dim=-1)

    def casimirs(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... k"]:
        return torch.cat(
            [part.casimirs(block) for part, block in zip(self._parts(), self.split(z), strict=True)], dim=-1
        )

    def reference_log_density(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        densities = [p.reference_log_density(block) for p, block in zip(self._parts(), self.split(z), strict=True)]
        return torch.stack(densities).sum(0)

    def _parts(self) -> list[PoissonStructure]:
        return [part for part in self.structures if isinstance(part, PoissonStructure)]
