r"""Symmetric positive definite matrices with the affine-invariant metric."""

from __future__ import annotations

import torch
from torch import Tensor

from ._checked import positive_integer
from ._functions import safe_sqrt
from ._matrices import absolute_spectrum, cholesky, eye_like, log_spd, skew_basis, sym, sym_basis
from .base import Manifold

__all__ = ["SPD"]


class SPD(Manifold):
    r"""Symmetric positive definite matrices (..., n, n) with metric $\langle u,v\rangle_x=\mathrm{tr}(x^{-1}ux^{-1}v)$.

    Every pair of points is joined by one geodesic, and $x\mapsto gxg^T$ is an isometry for every invertible g. Formulas
    are those of the identity, moved there by the Cholesky factor $x=CC^T$ (Pennec, Fillard & Ayache, 2006; Thanwerdas
    & Pennec, 2023), so that equal points and repeated eigenvalues have derivatives. Points that are not positive
    definite give NaN. The frame at x is $C B_a C^T$ with $B_a$ an orthonormal basis of the symmetric matrices.

    Args:
        n: matrix size.
    """

    name = "SPD"
    reversible = True
    has_log = True
    has_transport = True

    def __init__(self, n: int) -> None:
        self.n = positive_integer("n", n)
        super().__init__((n, n), (n * (n + 1) // 2, 0))

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        return str(self.n)

    # --- to the identity and back

    @staticmethod
    def _whiten(factor: Tensor, u: Tensor) -> Tensor:
        """C^-1 u C^-T."""
        half = torch.linalg.solve_triangular(factor, u, upper=False)
        return torch.linalg.solve_triangular(factor, half.mT, upper=False).mT

    def _whitened_log(self, factor: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """log(C^-1 y C^-T), the logarithm of y at x moved to the identity; exactly zero if x is y."""
        return log_spd(sym(self._whiten(factor, y)), sym(self._whiten(factor, y - x)))

    # --- geoopt's names

    def projx(self, x: Tensor) -> Tensor:
        """Symmetric part with eigenvalues in absolute value, as in geoopt; singular matrices stay singular."""
        return absolute_spectrum(x)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return sym(u).expand(torch.broadcast_shapes(x.shape, u.shape))

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        factor = cholesky(x)
        left = self._whiten(factor, u)
        return self._sum(left * (left if v is None else self._whiten(factor, v)), keepdim)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        r"""$C\exp(C^{-1}uC^{-T})C^T$, formed as a square, so that it stays symmetric and positive."""
        factor = cholesky(x)
        root = factor @ torch.linalg.matrix_exp(sym(self._whiten(factor, u)) / 2)
        return root @ root.mT

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        factor = cholesky(x)
        return sym(factor @ self._whitened_log(factor, x, y) @ factor.mT)

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Sum of the squared logarithms of the eigenvalues of x^-1 y; derivatives are right up to third order."""
        log = self._whitened_log(cholesky(x), x, y)
        return self._sum(log * log, keepdim)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Length of the geodesic from x to y; its gradient is zero where they coincide."""
        return safe_sqrt(self.dist2(x, y, keepdim=keepdim))

    def origin(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = None,
    ) -> Tensor:
        """The identity, repeated to shape ``size`` = (..., n, n)."""
        return torch.eye(self.n, dtype=dtype, device=device).expand(self._size(*size)).clone()

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        ok, reason = _check_symmetric("x", x, atol, rtol)
        if not ok:
            return ok, reason
        bad = torch.linalg.cholesky_ex(x).info != 0
        if bad.any():
            smallest = float(torch.linalg.eigvalsh(x).min())
            return False, f"{int(bad.sum())} of x's matrices have an eigenvalue <= 0, e.g. {smallest:.3g}; use projx"
        return True, None

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return _check_symmetric("u", u, atol, rtol)

    # --- metric, frames, volume

    def lower(self, x: Tensor, v: Tensor) -> Tensor:
        """Covector $x^{-1}vx^{-1}$."""
        factor = cholesky(x)
        half = torch.linalg.solve_triangular(factor.mT, self._whiten(factor, v), upper=True)
        return torch.linalg.solve_triangular(factor.mT, half.mT, upper=True).mT

    def raise_(self, x: Tensor, p: Tensor) -> Tensor:
        r"""Tangent vector $x\,\mathrm{sym}(p)\,x$; so geoopt's optimisers follow the metric."""
        return x @ sym(p) @ x

    def frame(self, x: Tensor) -> Tensor:
        factor = cholesky(x)
        return torch.einsum("...ij,jka,...lk->...ila", factor, sym_basis(self.n, x), factor)

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        r"""$C e^{L/2}(C^{-1}vC^{-T})e^{L/2}C^T$ with $L=\log(C^{-1}yC^{-T})$."""
        factor = cholesky(x)
        step = factor @ torch.linalg.matrix_exp(self._whitened_log(factor, x, y) / 2)
        return step @ sym(self._whiten(factor, v)) @ step.mT

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        r"""$\sum_{i<j}\log\frac{\sinh(s_i-s_j)/2}{(s_i-s_j)/2}$, with $s$ the eigenvalues of $S=C^{-1}vC^{-T}$.

        Computed without eigenvalues, as $\log\det\mathrm{sinhc}\sqrt K$ with $K=\tfrac14\mathrm{ad}_S^2$ on the
        antisymmetric matrices, the upper right block of $\exp\begin{pmatrix}0&I\\K&0\end{pmatrix}$: smooth at v = 0.
        """
        whitened = sym(self._whiten(cholesky(x), v))
        basis = skew_basis(self.n, x).movedim(-1, 0)
        once = whitened[..., None, :, :] @ basis - basis @ whitened[..., None, :, :]
        squared = torch.einsum("...aij,...bij->...ab", once, once) / 4
        identity, zero = eye_like(squared).expand_as(squared), torch.zeros_like(squared)
        block = torch.cat([torch.cat([zero, identity], dim=-1), torch.cat([squared, zero], dim=-1)], dim=-2)
        size = squared.shape[-1]
        return torch.linalg.slogdet(torch.linalg.matrix_exp(block)[..., :size, size:]).logabsdet

    def log_lebesgue_density(self, x: Tensor) -> Tensor:
        r"""$-\tfrac{n+1}2\log\det x$ (...): the volume's density w.r.t. Lebesgue measure on the symmetric matrices.

        Lebesgue measure is that of the Frobenius norm: diagonal entries, and $\sqrt2$ times those above the diagonal.
        """
        diagonal = torch.diagonal(cholesky(x), dim1=-2, dim2=-1)
        return -(self.n + 1) * diagonal.log().sum(-1)


def _check_symmetric(name: str, a: Tensor, atol: float, rtol: float) -> tuple[bool, str | None]:
    if torch.allclose(a, a.mT, atol=atol, rtol=rtol):
        return True, None
    return (
        False,
        f"{name} is not symmetric (or not finite): {name} - {name}^T reaches {float((a - a.mT).abs().max()):.3g}",
    )
