r"""Log-canonical structures: quadratic brackets $\{x_i, x_j\} = a_{ij}x_i x_j$ of Lotka–Volterra systems."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from .base import PoissonStructure

__all__ = ["LogCanonical"]

_TOLERANCE = 1e-9  # of skewness and of the kernel, relative to the largest entry


class LogCanonical(PoissonStructure):
    r"""$J_{ij} = a_{ij}x_i x_j$ on positive states x.

    With $H = \sum_i (x_i - b_i\log x_i)$ these are conservative Lotka–Volterra systems. Casimirs are the monomials
    $\prod_i x_i^{k_i}$, one for each k of a basis of the kernel of a (`exponents`, reduced to echelon form, so that
    integers stay integers); the reference density is $\mu = 1/\prod_i |x_i|$.

    Args:
        matrix: a, (n, n), skew.

    Raises:
        ValueError: `matrix` is not square or not skew.

    Source: Plank, "Hamiltonian structures for the n-dimensional Lotka–Volterra equations", J. Math. Phys. 36, 1995.
    """

    matrix: Tensor
    exponents: Tensor

    def __init__(self, matrix: Tensor) -> None:
        matrix = torch.as_tensor(matrix).detach().to(torch.float64)
        if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"matrix has shape {tuple(matrix.shape)}: it must be square, (n, n)")
        skew = float((matrix + matrix.mT).abs().max())
        if not skew <= _TOLERANCE * float(matrix.abs().max()):
            raise ValueError(f"matrix is not skew: a + a^T reaches {skew:.3g}, it must be 0")
        exponents = _kernel(matrix)
        super().__init__(len(matrix), rank=len(matrix) - len(exponents))
        self.register_buffer("matrix", (matrix - matrix.mT) / 2)
        self.register_buffer("exponents", exponents)

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        self._check(z)
        return _like(self.matrix, z) * (z.unsqueeze(-1) * z.unsqueeze(-2))

    def sharp(self, z: Float[Tensor, "... n"], dH: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        self._check(z, dH)
        return z * torch.einsum("ij,...j->...i", _like(self.matrix, z), z * dH)

    def casimirs(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... k"]:
        self._check(z)
        return torch.einsum("ki,...i->...k", _like(self.exponents, z), z.log()).exp()

    def reference_log_density(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        self._check(z)
        return -z.abs().log().sum(-1)


def _like(constants: Tensor, z: Tensor) -> Tensor:
    return constants.to(dtype=z.dtype, device=z.device)


def _kernel(matrix: Tensor) -> Tensor:
    """A basis (k, n) of the kernel in reduced row echelon form; rounding residues become exact zeros."""
    _, values, vectors = torch.linalg.svd(matrix)
    basis = vectors[values <= _TOLERANCE * values.max()].clone()
    for row in range(len(basis)):
        rest = basis[row:].abs()
        column = int(rest.amax(0).gt(_TOLERANCE**0.5).float().argmax())
        best = row + int(rest[:, column].argmax())
        basis[[row, best]] = basis[[best, row]]
        basis[row] = basis[row] / basis[row, column].clone()
        others = torch.arange(len(basis)) != row
        basis[others] -= basis[others, column, None] * basis[row]
    nearest = basis.round()
    return torch.where((basis - nearest).abs() <= _TOLERANCE, nearest, basis)
