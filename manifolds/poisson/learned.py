r"""Learned structures: one that is Poisson by construction, and one that is only skew."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._forward_mode import directional_derivative
from ._blocks import canonical_matrix
from .base import PoissonStructure, derivative
from .coupling import CouplingNetwork

__all__ = ["AlmostPoisson", "DarbouxPoisson"]


class DarbouxPoisson(PoissonStructure):
    r"""$J(z) = K J_0 K^\top$ with $K = (D\phi(z))^{-1}$: canonical brackets in learned coordinates $y = \phi(z)$.

    By the theorem of Darboux and Lie every Poisson structure of constant rank looks like this locally, and every
    structure like this is Poisson. $J_0$ is canonical on the first `rank` coordinates y, and the others are the
    Casimirs. The reference density is $|\det D\phi|$.

    Args:
        dim: n, coordinates of a state, at least 2.
        rank: even, from 2 to n; the largest even number by default.
        hidden: width of the networks inside $\phi$ (`CouplingNetwork`, smooth).
        depth: number of couplings.

    Raises:
        ValueError: `dim` is below 2; `rank` is odd or out of range.

    Source: Jin et al., "Learning Poisson systems and trajectories of autonomous systems via Poisson neural
    networks", IEEE TNNLS 2022.
    """

    matrix: Tensor

    def __init__(self, dim: int, rank: int | None = None, *, hidden: int = 32, depth: int = 4) -> None:
        rank = dim - dim % 2 if rank is None else rank
        if rank % 2 or not 2 <= rank <= dim:
            raise ValueError(f"rank={rank} must be even and from 2 to dim={dim}")
        super().__init__(dim, rank=rank)
        self.coordinates = CouplingNetwork(dim, hidden, depth)
        self.register_buffer("matrix", canonical_matrix(rank, dim))

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        self._check(z)
        frame = derivative(self.coordinates.inverse, self.coordinates(z))
        half = self.rank // 2
        positions, momenta = frame[..., :half], frame[..., half : self.rank]
        product = positions @ momenta.mT
        return product - product.mT

    def sharp(self, z: Float[Tensor, "... n"], dH: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        self._check(z, dH)
        z, dH = torch.broadcast_tensors(z, dH)
        y = self.coordinates(z)
        pulled = torch.func.vjp(self.coordinates.inverse, y)[1](dH)[0]
        matrix = self.matrix.to(dtype=z.dtype, device=z.device)
        return directional_derivative(self.coordinates.inverse, y, pulled @ matrix.mT)

    def casimirs(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... k"]:
        self._check(z)
        return self.coordinates(z)[..., self.rank :]

    def reference_log_density(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        self._check(z)
        return self.coordinates.log_det(z)


class AlmostPoisson(PoissonStructure):
    r"""$J(z) = A(z) - A(z)^\top$ with a free network A: skew, but in general against the Jacobi identity.

    Energy is conserved exactly ($\nabla H\cdot J\nabla H = 0$); brackets, Casimirs and an invariant density are not
    those of a Poisson structure. Penalise `contracted_jacobiator` in training, or learn a `DarbouxPoisson`.

    Args:
        net: row-wise network, (..., n) -> (..., n * n) or (..., n, n).
        dim: n; by default the input size of the first linear layer of `net`.

    Raises:
        ValueError: `dim` is not given and `net` has no linear layer.
    """

    def __init__(self, net: nn.Module, dim: int | None = None) -> None:
        if dim is None:
            inputs = [layer.in_features for layer in net.modules() if isinstance(layer, nn.Linear)]
            if not inputs:
                raise ValueError("net has no linear layer to read the number of coordinates from: give dim=")
            dim = inputs[0]
        super().__init__(dim, rank=dim - dim % 2, guarantees_jacobi=False, has_reference_density=False)
        self.net = net

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        self._check(z)
        matrix: Tensor = self.net(z)
        shape = (*z.shape[:-1], self.dim, self.dim)
        if matrix.shape not in (shape, (*z.shape[:-1], self.dim**2)):
            raise ValueError(
                f"net returned shape {tuple(matrix.shape)} for states of shape {tuple(z.shape)}: "
                f"return {self.dim} x {self.dim} = {self.dim**2} numbers per row"
            )
        matrix = matrix.reshape(shape)
        return matrix - matrix.mT
