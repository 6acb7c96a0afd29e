r"""Dirac brackets: a Poisson structure restricted by constraints that its own flows then keep."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._forward_mode import directional_derivative
from .base import PoissonStructure, RowFunction, gradient
from .canonical import Canonical

__all__ = ["Dirac"]


class Dirac(PoissonStructure):
    r"""$J_D = J - JG^\top(GJG^\top)^{-1}GJ$ with $G = \partial c/\partial z$: every flow keeps $c_1,\dots,c_k$.

    A Poisson structure wherever the matrix of brackets $C = GJG^\top$ is invertible; elsewhere the result is not
    finite. Its Casimirs are the constraints and those of the base; its reference density is $|\det C|^{1/2}$ times
    the base's, which makes $e^{-\beta H}\mu\,dz$ the Liouville measure of every level set.

    Args:
        base: the unconstrained structure.
        constraints: $c_1,\dots,c_k$, each row-wise (..., n) -> (...); an even number. Modules are registered.

    Raises:
        ValueError: the number of constraints is odd, zero, or larger than the rank of the base.

    Example: `Dirac.holonomic([lambda q: q.square().sum(-1) - 1], 3)` is $T^*S^2$: for $H = |p|^2/2$ it gives
    $\dot q = p$, $\dot p = -|p|^2 q$.

    Source: Dirac, "Generalized Hamiltonian dynamics", Canad. J. Math. 2, 1950.
    """

    def __init__(self, base: PoissonStructure, constraints: Sequence[RowFunction | nn.Module]) -> None:
        if callable(constraints) or not isinstance(constraints, Sequence):
            raise TypeError(
                f"constraints is a {type(constraints).__name__}; give a list of scalar functions, one per constraint"
            )
        constraints = list(constraints)
        count = len(constraints)
        if not count or count % 2 or count > base.rank:
            raise ValueError(
                f"constraints has {count} functions: a Dirac bracket needs an even number, from 2 to the rank "
                f"{base.rank} of its base (Dirac.holonomic adds the velocity of each constraint on positions)"
            )
        super().__init__(
            base.dim,
            rank=base.rank - count,
            guarantees_jacobi=base.guarantees_jacobi,
            has_reference_density=base.has_reference_density,
        )
        self.base = base
        self.constraints = constraints
        self.constraint_modules = nn.ModuleList(c for c in constraints if isinstance(c, nn.Module))

    @classmethod
    def holonomic(cls, constraints: Sequence[RowFunction | nn.Module], dim: int) -> Dirac:
        r"""$T^*Q$ of $Q = \{q \in \mathbb R^d: g(q) = 0\}$ from the canonical structure of states (q, p).

        Args:
            constraints: functions g of positions, (..., d) -> (...); with each comes $\dot g = \nabla g\cdot p$.
            dim: d, coordinates of a position.
        """
        pairs = [(_OnPositions(g, dim), _Velocity(g, dim)) for g in constraints]
        return cls(Canonical(2 * dim), [constraint for pair in pairs for constraint in pair])

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        self._check(z)
        matrix = self.base.bivector(z)
        fields, brackets = self._constraint_fields(z, matrix)
        inverse, _ = torch.linalg.inv_ex(brackets)
        # J is skew, so GJ = -(J G^T)^T
        return matrix + fields @ ((inverse - inverse.mT) / 2) @ fields.mT

    def casimirs(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... k"]:
        self._check(z)
        own = torch.stack([constraint(z) for constraint in self.constraints], dim=-1)
        return torch.cat([own, self.base.casimirs(z)], dim=-1)

    def reference_log_density(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        self._check(z)
        _, brackets = self._constraint_fields(z, self.base.bivector(z))
        return self.base.reference_log_density(z) + torch.linalg.slogdet(brackets)[1] / 2

    def _constraint_fields(self, z: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
        r"""$JG^\top$ (..., n, k) and $C = GJG^\top$ (..., k, k)."""
        slopes = torch.stack([gradient(constraint, z) for constraint in self.constraints], dim=-2)
        fields = matrix @ slopes.mT
        return fields, slopes @ fields


class _OnPositions(nn.Module):
    """A function of positions as one of states (q, p)."""

    def __init__(self, g: RowFunction | nn.Module, dim: int) -> None:
        super().__init__()
        self.g = g
        self.dim = dim

    def forward(self, z: Tensor) -> Tensor:
        value: Tensor = self.g(z[..., : self.dim])
        return value


class _Velocity(_OnPositions):
    r"""Its rate of change $\nabla g\cdot p$ for unit masses."""

    def forward(self, z: Tensor) -> Tensor:
        return directional_derivative(self.g, z[..., : self.dim], z[..., self.dim :])
