r"""Nambu structures on $\mathbb R^3$: motion along the level sets of one given function."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._rotation_functions import hat
from .base import PoissonStructure, RowFunction, gradient

__all__ = ["Nambu"]


class Nambu(PoissonStructure):
    r"""$J = \lambda(z)\,\widehat{\nabla C}(z)$: $\dot z = \lambda\,\nabla C\times\nabla H$, with Casimir C.

    Poisson for every C and $\lambda$. $C = |z|^2/2$ gives so(3)*. The reference density is $1/|\lambda|$.

    Args:
        casimir: C, row-wise: (..., 3) -> (...); smooth. A module is registered.
        multiplier: $\lambda$, row-wise and without zeros; None is 1.

    Source: Nambu, "Generalized Hamiltonian dynamics", Phys. Rev. D 7, 1973.
    """

    def __init__(self, casimir: RowFunction | nn.Module, multiplier: RowFunction | nn.Module | None = None) -> None:
        super().__init__(3, rank=2)
        self.casimir = casimir
        self.multiplier = multiplier

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        self._check(z)
        return hat(self._axis(z))

    def sharp(self, z: Float[Tensor, "... n"], dH: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        self._check(z, dH)
        return torch.linalg.cross(*torch.broadcast_tensors(self._axis(z), dH), dim=-1)

    def casimirs(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... k"]:
        self._check(z)
        return self.casimir(z).unsqueeze(-1)

    def reference_log_density(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        uniform = super().reference_log_density(z)
        return uniform if self.multiplier is None else -self.multiplier(z).abs().log()

    def _axis(self, z: Tensor) -> Tensor:
        r"""$\lambda\nabla C$."""
        slope = gradient(self.casimir, z)
        return slope if self.multiplier is None else self.multiplier(z).unsqueeze(-1) * slope
