r"""Embedded: the manifold $\{c(x)=0\}$ in Euclidean space, from the constraint alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ._checked import positive_integer
from ._connection import ConnectionManifold

__all__ = ["Embedded"]

_NEWTON_STEPS = 12


class Embedded(ConnectionManifold):
    r"""Level set $\{x\in\mathbb R^n: c(x)=0\}$ with the metric of the ambient Euclidean space.

    With the constraint Jacobian $G(x)$, (m, n) of full rank, and $G^{+}=G^{\mathsf T}(GG^{\mathsf T})^{-1}$: tangent
    vectors have $Gv=0$, the tangent projector is $P=1-G^{+}G$, and geodesics solve
    $\ddot x=-G^{+}(\dot x^{\mathsf T}\nabla^2c\,\dot x)$. Points are projected by Newton steps $x\leftarrow x-G^{+}c$
    along the normals; where twelve of them do not converge, or G loses rank, the result is NaN.

    Unit sphere: ``Embedded(lambda x: (x * x).sum(-1) - 1, 3)``.

    Args:
        constraint: c: (..., n) -> (...) or (..., m), row-wise, twice differentiable by ``torch.func``, in the dtype of
            its argument. A module is registered.
        ambient_dim: n.
        num_constraints: m.
        has_log: offer ``logmap``, ``dist`` and ``parallel_transport``, by shooting: geodesics between nearby points.

    Raises:
        TypeError: the constraint cannot be called, or a count is no integer.
        ValueError: there are not fewer constraints than ambient dimensions.
    """

    name = "Embedded"

    def __init__(
        self,
        constraint: Callable[[Tensor], Tensor],
        ambient_dim: int,
        *,
        num_constraints: int = 1,
        has_log: bool = False,
    ) -> None:
        if not callable(constraint):
            raise TypeError(f"constraint must be a function of points, got {type(constraint).__name__}")
        positive_integer("ambient_dim", ambient_dim)
        if positive_integer("num_constraints", num_constraints) >= ambient_dim:
            raise ValueError(
                f"num_constraints={num_constraints} must be less than ambient_dim={ambient_dim} or no dimension is left"
            )
        super().__init__(ambient_dim, (ambient_dim - num_constraints, 0), has_log)
        self._constraint = constraint
        self.num_constraints = num_constraints

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        return f"ambient_dim={self.point_shape[0]}, num_constraints={self.num_constraints}"

    # --- constraint

    def constraint(self, x: Tensor) -> Tensor:
        """Values c(x) (..., m)."""
        values = self._constraint(x)
        return values[..., None] if values.dim() == x.dim() - 1 else values

    def jacobian(self, x: Tensor) -> Tensor:
        """Jacobian G(x) (..., m, n) of the constraint."""
        return self._slopes_of(self.constraint, x)

    def _slopes_of(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Derivatives (..., m, n) of a function (..., n) -> (..., m)."""
        values, pullback = torch.func.vjp(function, x)[:2]
        rows = torch.eye(self.num_constraints, dtype=x.dtype, device=x.device)
        return torch.stack([pullback(row.expand_as(values))[0] for row in rows], dim=-2)

    def _normal(self, jacobian: Tensor, values: Tensor) -> Tensor:
        """$G^+$ (..., n, m) applied to values (..., m, k)."""
        result, info = torch.linalg.solve_ex(jacobian @ jacobian.mT, values)
        return jacobian.mT @ torch.where((info == 0)[..., None, None], result, torch.nan)

    def log_gram_factor(self, x: Tensor) -> Tensor:
        r"""$\tfrac12\log\det GG^{\mathsf T}$ (...): volume is $e^{\text{this}}\delta(c(x))\,dx$ (co-area).

        Args:
            x: points (..., n).
        """
        jacobian = self.jacobian(x)
        return torch.linalg.slogdet(jacobian @ jacobian.mT).logabsdet / 2

    # --- checks

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        values = self.constraint(x)
        if values.shape != (*x.shape[:-1], self.num_constraints):
            return False, f"constraint(x) has shape {tuple(values.shape)} for x of shape {tuple(x.shape)}: not row-wise"
        distance = self._normal(self.jacobian(x), values[..., None]).norm(dim=(-1, -2))
        wrong = ~(distance <= atol + rtol * x.norm(dim=-1))
        if not wrong.any():
            return True, None
        row = x[wrong][0].tolist()
        return False, f"x={row} has c(x)={values[wrong][0].tolist()}, not 0 ({int(wrong.sum())} such rows); use projx"

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        normal = (u - self.proju(x, u)).norm(dim=-1)
        wrong = ~(normal <= atol + rtol * u.norm(dim=-1))
        if not wrong.any():
            return True, None
        row = u.expand(torch.broadcast_shapes(u.shape, x.shape))[wrong][0].tolist()
        return False, f"u={row} has a normal part of length {float(normal[wrong][0]):.3g}; use proju"

    # --- geometry

    def projx(self, x: Tensor) -> Tensor:
        """Point of the manifold close to x, by Newton steps along the normals; NaN where they do not converge."""
        for _ in range(_NEWTON_STEPS):
            step = self._normal(self.jacobian(x), self.constraint(x)[..., None])[..., 0]
            x = x - step
        tolerance = torch.finfo(x.dtype).eps ** 0.5  # steps converge quadratically: the next would be invisible
        converged = step.norm(dim=-1, keepdim=True) <= tolerance * (1 + x.norm(dim=-1, keepdim=True))
        return torch.where(converged, x, torch.nan)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        jacobian = self.jacobian(x)
        return u - self._normal(jacobian, jacobian @ u[..., None])[..., 0]

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        product = u * (u if v is None else v)
        return self._sum(product.expand(torch.broadcast_shapes(x.shape, product.shape)), keepdim)

    def connection(self, x: Tensor, v: Tensor) -> Tensor:
        x, v = torch.broadcast_tensors(x, v)
        rate = self._slopes_of(lambda y: (self.jacobian(y) @ v[..., None])[..., 0], x)  # the Hessian is symmetric
        return self._normal(self.jacobian(x), rate)

    def frame(self, x: Tensor) -> Tensor:
        r"""Orthonormal frame (..., n, n - m): the columns of a Householder QR of $G^{\mathsf T}$ that are tangent."""
        return _complement(self.jacobian(x).mT)


def _complement(normals: Tensor) -> Tensor:
    """Orthonormal basis (..., n, n - m) of what is orthogonal to the columns of normals (..., n, m), smoothly."""
    n, m = normals.shape[-2:]
    identity = torch.eye(n, dtype=normals.dtype, device=normals.device)
    basis = identity.expand(*normals.shape[:-1], n)
    for k in range(m):
        column = (basis.mT @ normals[..., k : k + 1])[..., k:, 0]
        sign = torch.where(column[..., :1] < 0, -1.0, 1.0)
        mirror = column + sign * column.norm(dim=-1, keepdim=True) * identity[k, k:]
        mirror = torch.nn.functional.pad(mirror / mirror.norm(dim=-1, keepdim=True), (k, 0))[..., None]
        basis = basis - 2 * (basis @ mirror) @ mirror.mT
    return basis[..., m:]
