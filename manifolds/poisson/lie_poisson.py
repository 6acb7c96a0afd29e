r"""Lie–Poisson structures: duals of Lie algebras, linear in the momenta."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from .._rotation_functions import hat
from .base import PoissonStructure

__all__ = ["LiePoisson"]

_TOLERANCE = 1e-9  # of the laws of structure constants, relative to the largest one


class LiePoisson(PoissonStructure):
    r"""The dual of a Lie algebra with the minus bracket: $J_{ij}(z) = -\sum_k c_{ij}^{\ \ k} z_k$.

    * "so3": $\dot\Pi = \Pi\times\nabla H$; Casimir $|\Pi|^2$.
    * "se3": $z = (\Pi,\Gamma)$, $J = \begin{pmatrix}\hat\Pi&\hat\Gamma\\\hat\Gamma&0\end{pmatrix}$; Casimirs
      $|\Gamma|^2$, $\Pi\cdot\Gamma$ (heavy top, underwater bodies).
    * structure constants (n, n, n): $[e_i, e_j] = \sum_k c_{ijk}\,e_k$.

    Args:
        algebra: a name or the structure constants.
        casimirs: for structure constants, the known Casimirs: (..., n) -> (..., k).

    Raises:
        ValueError: an unknown name; constants that are not (n, n, n), skew in i, j, or against the Jacobi identity;
            `casimirs` beside a name.

    The reference density is uniform if the algebra is unimodular ($\sum_j c_{ijj} = 0$), as these two are; otherwise
    none is declared.

    Source: Marsden & Ratiu 1999, chapters 13 to 15 (body representation: minus bracket).
    """

    constants: Tensor

    def __init__(self, algebra: str | Tensor, casimirs: Callable[[Tensor], Tensor] | None = None) -> None:
        if isinstance(algebra, str):
            if algebra not in _ALGEBRAS:
                raise ValueError(
                    f"algebra={algebra!r} is not known: give 'so3', 'se3' or structure constants (n, n, n)"
                )
            if casimirs is not None:
                raise ValueError(
                    f"casimirs was given beside algebra={algebra!r}, whose Casimirs are known: leave it out"
                )
            build, casimirs = _ALGEBRAS[algebra]
            constants = build()
        else:
            constants = torch.as_tensor(algebra).detach().to(torch.float64)
            _check_constants(constants)
        dim = len(constants)
        unimodular = bool(torch.einsum("ijj->i", constants).abs().max() <= _TOLERANCE * constants.abs().max())
        super().__init__(dim, rank=_generic_rank(constants), has_reference_density=unimodular)
        self.algebra = algebra if isinstance(algebra, str) else None
        self._casimirs = casimirs
        self.register_buffer("constants", constants)

    def extra_repr(self) -> str:
        return f"{self.algebra or 'constants'!r}, {super().extra_repr()}"

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        self._check(z)
        if self.algebra == "so3":
            return hat(z)
        constants = self.constants.to(dtype=z.dtype, device=z.device)
        return -torch.einsum("ijk,...k->...ij", constants, z)

    def sharp(self, z: Float[Tensor, "... n"], dH: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        if self.algebra != "so3":
            return super().sharp(z, dH)
        self._check(z, dH)
        return torch.linalg.cross(*torch.broadcast_tensors(z, dH), dim=-1)

    def casimirs(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... k"]:
        return super().casimirs(z) if self._casimirs is None else self._casimirs(z)


def _so3_constants() -> Tensor:
    """The Levi-Civita symbol."""
    return -hat(torch.eye(3, dtype=torch.float64)).permute(1, 2, 0)


def _so3_casimirs(z: Tensor) -> Tensor:
    return z.square().sum(-1, keepdim=True)


def _se3_constants() -> Tensor:
    r"""Rotations $L$, then translations $P$: $[L_i,L_j] = \epsilon_{ijk}L_k$, $[L_i,P_j] = \epsilon_{ijk}P_k$."""
    symbol = _so3_constants()
    constants = torch.zeros(6, 6, 6, dtype=torch.float64)
    constants[:3, :3, :3] = symbol
    constants[:3, 3:, 3:] = symbol
    constants[3:, :3, 3:] = symbol
    return constants


def _se3_casimirs(z: Tensor) -> Tensor:
    momentum, gravity = z[..., :3], z[..., 3:]
    return torch.stack([gravity.square().sum(-1), (momentum * gravity).sum(-1)], dim=-1)


_ALGEBRAS = {"so3": (_so3_constants, _so3_casimirs), "se3": (_se3_constants, _se3_casimirs)}


def _check_constants(constants: Tensor) -> None:
    shape = tuple(constants.shape)
    if len(shape) != 3 or len(set(shape)) != 1 or not shape[0]:
        raise ValueError(
            f"algebra has shape {shape}: structure constants are (n, n, n), [e_i, e_j] = sum_k c[i,j,k] e_k"
        )
    scale = float(constants.abs().max())
    skew = float((constants + constants.transpose(0, 1)).abs().max())
    if not skew <= _TOLERANCE * scale:
        raise ValueError(f"algebra is not skew: c[i,j,k] + c[j,i,k] reaches {skew:.3g}, it must be 0")
    nested = torch.einsum("ijl,lkm->ijkm", constants, constants)
    jacobi = nested + torch.einsum("jkim->ijkm", nested) + torch.einsum("kijm->ijkm", nested)
    defect = float(jacobi.abs().max())
    if not defect <= _TOLERANCE * scale**2:
        raise ValueError(f"algebra is no Lie algebra: its Jacobi identity is violated by {defect:.3g}, it must be 0")


def _generic_rank(constants: Tensor) -> int:
    """The rank at a point in general position; a fixed one, as almost every point is."""
    point = torch.randn(len(constants), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return int(torch.linalg.matrix_rank(torch.einsum("ijk,k->ij", constants.cpu(), point), rtol=_TOLERANCE))
