r"""Matrices with orthonormal columns."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._checked import positive_integer
from ._functions import standard_normal
from ._matrices import (
    check_body_skew,
    check_orthonormal,
    cholesky,
    eye_like,
    orthonormal_factor,
    polish,
    skew_basis,
    sym,
)
from .base import Manifold

__all__ = ["Stiefel"]


class Stiefel(Manifold):
    r"""Matrices x (..., n, p) with $x^Tx=I$, as a submanifold of $\mathbb R^{n\times p}$ (Euclidean metric).

    Geodesics are exact (Edelman, Arias & Smith, 1998, eq. 2.45). The logarithm, parallel transport and the heat kernel
    have no closed form: they are refused by name, and ``transp`` is the projection. Stiefel(n, n) is the orthogonal
    group, both components; for rotations alone, with logarithm, use `SO3`.

    Args:
        n: length of the columns.
        p: number of columns, at most n.
    """

    name = "Stiefel"

    def __init__(self, n: int, p: int) -> None:
        self.n, self.p = positive_integer("n", n), positive_integer("p", p)
        if p > n:
            raise ValueError(f"p={p} exceeds n={n}: at most n columns of length n are orthonormal; swap them?")
        if n == p == 1:
            raise ValueError("n=1, p=1 is two points, which no path joins; use n >= 2")
        super().__init__((n, p), (n * p - p * (p + 1) // 2, 0))

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        return f"{self.n}, {self.p}"

    @property
    def log_volume(self) -> float:
        r"""$\log\left(2^{p(p-1)/4}\,2^p\,\pi^{np/2}/\Gamma_p(n/2)\right)$ (Muirhead, 1982, theorem 2.1.15, rescaled).

        The first factor is due to the Euclidean metric, which counts each antisymmetric entry twice.
        """
        n, p = self.n, self.p
        log_gamma = p * (p - 1) / 4 * math.log(math.pi) + sum(math.lgamma((n - i) / 2) for i in range(p))
        return (p * (p - 1) / 4 + p) * math.log(2) + n * p / 2 * math.log(math.pi) - log_gamma

    # --- geoopt's names

    def projx(self, x: Tensor) -> Tensor:
        """Nearest matrix with orthonormal columns, the polar factor; NaN if the columns are dependent."""
        return orthonormal_factor(x)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return u - x @ sym(x.mT @ u)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        product = u * (u if v is None else v)
        return self._sum(product.expand(torch.broadcast_shapes(x.shape, product.shape)), keepdim)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        r"""$[x\;u]\exp\begin{pmatrix}a&-s\\I&a\end{pmatrix}[I\;0]^Te^{-a}$, $a=x^Tu$, $s=u^Tu$; stays orthonormal."""
        turn, square = x.mT @ u, u.mT @ u
        identity = eye_like(turn).expand_as(turn)
        block = torch.cat([torch.cat([turn, -square], dim=-1), torch.cat([identity, turn], dim=-1)], dim=-2)
        flow = torch.linalg.matrix_exp(block)[..., : self.p] @ torch.linalg.matrix_exp(-turn)
        return polish(x @ flow[..., : self.p, :] + u @ flow[..., self.p :, :])

    def random_uniform(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Uniform (invariant under rotations) matrices of shape ``size`` = (..., n, p): polar factors of Gaussians.

        Args:
            size: shape of the result, point axes included.
            dtype: torch's default type if None.
            device: torch's default device if None.
            generator: source of randomness.
        """
        like = torch.empty(0, dtype=dtype, device=device)
        noise = standard_normal(self._size(*size), dtype=torch.float64, device=like.device, generator=generator)
        return orthonormal_factor(noise).to(like.dtype)

    def origin(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = None,
    ) -> Tensor:
        """The first p columns of the identity, repeated to shape ``size`` = (..., n, p)."""
        return torch.eye(self.n, self.p, dtype=dtype, device=device).expand(self._size(*size)).clone()

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        return check_orthonormal(x, atol, rtol)

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return check_body_skew(x, u, atol, rtol)

    # --- frames

    def frame(self, x: Tensor) -> Tensor:
        """Orthonormal frame (..., n, p, dim): rotations within the span of x, then moves out of it.

        The basis of the complement of x is one of many and jumps somewhere, as it must; its derivatives are right.
        """
        within = torch.einsum("...ij,jka->...ika", x, skew_basis(self.p, x))
        constant = torch.linalg.qr(x.detach(), mode="complete").Q[..., self.p :]
        normal = constant - x @ (torch.linalg.inv_ex(x.mT @ x).inverse @ x.mT @ constant)
        normal = torch.linalg.solve_triangular(cholesky(normal.mT @ normal).mT, normal, upper=True, left=False)
        outside = torch.einsum("...ib,jk->...ijbk", normal, eye_like(x))
        return torch.cat([within, outside.flatten(-2)], dim=-1)
