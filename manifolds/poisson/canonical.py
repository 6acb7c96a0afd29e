r"""Cotangent bundles: canonical $(q, p)$ on $\mathbb R^d$, and $T^*G$ of a matrix group in body momenta."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from .._rotation_functions import hat
from ._blocks import block_matrix, canonical_matrix
from .base import PoissonStructure
from .lie_poisson import LiePoisson

__all__ = ["Canonical", "CotangentGroup"]


class Canonical(PoissonStructure):
    r"""$\dot q = \partial H/\partial p$, $\dot p = -\partial H/\partial q$ on states $z = (q, p)$.

    Args:
        dim: d, coordinates of the state: twice the number of positions.

    Raises:
        ValueError: `dim` is odd or not positive.
        TypeError: `dim` is no integer.
    """

    matrix: Tensor

    def __init__(self, dim: int) -> None:
        if not isinstance(dim, int):
            raise TypeError(f"dim={dim!r} must be an integer, got {type(dim).__name__}")
        if dim < 2 or dim % 2:
            raise ValueError(
                f"dim={dim} must be even and positive: a state is (q, p) with as many momenta as positions"
            )
        super().__init__(dim, rank=dim)
        self.register_buffer("matrix", canonical_matrix(dim, dim))

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        self._check(z)
        matrix = self.matrix.to(dtype=z.dtype, device=z.device)
        return matrix.expand(*z.shape, self.dim)

    def sharp(self, z: Float[Tensor, "... n"], dH: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        self._check(z, dH)
        half = self.dim // 2
        vector = torch.cat([dH[..., half:], -dH[..., :half]], dim=-1)
        return vector.expand(torch.broadcast_shapes(z.shape, dH.shape))


class CotangentGroup(PoissonStructure):
    r"""$T^*G$ of a matrix group, left-trivialised: states $z = (x, \Pi)$, the group element and the body momentum.

    With $\Omega = \partial H/\partial\Pi$ and $X_a(x) = x E_a$ the left-invariant fields,
    $\dot x = \sum_a\Omega_a X_a(x)$ and $\dot\Pi = J_{\mathfrak g^*}(\Pi)\,\Omega - \tau$, $\tau_a = dH\cdot X_a$.
    For SO(3): $\dot R = R\hat\Omega$, $\dot\Pi = \Pi\times\Omega - \tau$. The group element is flattened by rows; the
    Casimirs are the entries of $RR^\top$ (or $|q|^2$), so that flows stay on the group.

    Args:
        group: "so3" (R, 9 numbers; n = 12), "su2" (unit quaternion w, x, y, z; n = 7) or
            "se3" (rows of [R | t], 12 numbers; n = 18; momentum of rotation, then of translation).

    Raises:
        ValueError: `group` is none of these.

    Source: Marsden & Ratiu 1999, chapter 13; Holm, Schmah & Stoica, "Geometric Mechanics and Symmetry", 2009.
    """

    generators: Tensor

    def __init__(self, group: str = "so3") -> None:
        if group not in _GENERATORS:
            raise ValueError(f"group={group!r} is not known: choose one of {', '.join(map(repr, _GENERATORS))}")
        rows, generators = _GENERATORS[group]()
        self.group, self.rows = group, rows
        self.point_size = rows * generators.shape[-1]
        algebra_dim = len(generators)
        super().__init__(self.point_size + algebra_dim, rank=2 * algebra_dim)
        self.register_buffer("generators", generators)
        self.momentum = LiePoisson("se3" if group == "se3" else "so3")

    def extra_repr(self) -> str:
        return f"{self.group!r}, {super().extra_repr()}"

    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        self._check(z)
        fields = self._fields(z)
        zero = z.new_zeros(self.point_size, self.point_size).expand(*z.shape[:-1], -1, -1)
        lie_poisson = self.momentum.bivector(z[..., self.point_size :])
        return block_matrix([[zero, fields], [-fields.mT, lie_poisson]])

    def sharp(self, z: Float[Tensor, "... n"], dH: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        self._check(z, dH)
        fields, (force, velocity) = self._fields(z), (dH[..., : self.point_size], dH[..., self.point_size :])
        x_dot = torch.einsum("...xa,...a->...x", fields, velocity)
        torque = torch.einsum("...xa,...x->...a", fields, force)
        return torch.cat([x_dot, self.momentum.sharp(z[..., self.point_size :], velocity) - torque], dim=-1)

    def casimirs(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... k"]:
        self._check(z)
        columns = 4 if self.group == "su2" else 3  # the translation is the fourth column of [R | t]
        rotation = self._point(z)[..., :columns]
        i, j = torch.triu_indices(self.rows, self.rows, device=z.device)
        return (rotation @ rotation.mT)[..., i, j]

    def _point(self, z: Tensor) -> Tensor:
        """The group element (..., rows, columns)."""
        return z[..., : self.point_size].unflatten(-1, (self.rows, -1))

    def _fields(self, z: Tensor) -> Tensor:
        """The left-invariant fields as columns, (..., point_size, dim of the algebra)."""
        generators = self.generators.to(dtype=z.dtype, device=z.device)
        fields = torch.einsum("...rk,akm->...rma", self._point(z), generators)
        return fields.flatten(-3, -2)


def _rotation_generators() -> tuple[int, Tensor]:
    return 3, hat(torch.eye(3, dtype=torch.float64))


def _quaternion_generators() -> tuple[int, Tensor]:
    r"""$q\mapsto \tfrac12 q\,e_a$ acting on the row (w, x, y, z)."""
    generators = torch.zeros(3, 4, 4, dtype=torch.float64)
    generators[:, 1:, 1:] = hat(torch.eye(3, dtype=torch.float64))  # row v times hat(e) is v x e
    for a in range(3):
        generators[a, 0, a + 1], generators[a, a + 1, 0] = 1.0, -1.0
    return 1, generators / 2


def _motion_generators() -> tuple[int, Tensor]:
    """Rotations, then translations, acting on the rows of [R | t]."""
    generators = torch.zeros(6, 4, 4, dtype=torch.float64)
    generators[:3, :3, :3] = hat(torch.eye(3, dtype=torch.float64))
    generators[3:, :3, 3] = torch.eye(3, dtype=torch.float64)
    return 3, generators


_GENERATORS = {"so3": _rotation_generators, "su2": _quaternion_generators, "se3": _motion_generators}
