r"""Functions of matrices with derivatives that survive repeated eigenvalues.

An eigendecomposition has no derivative where eigenvalues meet, and they meet at the commonest points of all (a matrix
compared with itself, an orthogonal matrix). Here decompositions only ever give *values*, behind `detach`; derivatives
come from Newton steps on the equation that defines the function, each of which adds orders. No control flow depends on
data, and nothing raises on values: what is not finite stays so.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = [
    "absolute_spectrum",
    "check_body_skew",
    "check_orthonormal",
    "cholesky",
    "eye_like",
    "log_spd",
    "orthonormal_factor",
    "polish",
    "skew",
    "skew_basis",
    "sym",
    "sym_basis",
]

_NEWTON_STEPS = 12  # from a condition number of 1e15 to rounding


def sym(a: Tensor) -> Tensor:
    """Symmetric part of (..., n, n)."""
    return (a + a.mT) / 2


def skew(a: Tensor) -> Tensor:
    """Antisymmetric part of (..., n, n)."""
    return (a - a.mT) / 2


def eye_like(a: Tensor, n: int | None = None) -> Tensor:
    """Identity (n, n) in the dtype and on the device of a; n is the last axis of a if None."""
    return torch.eye(a.shape[-1] if n is None else n, dtype=a.dtype, device=a.device)


def sym_basis(n: int, like: Tensor) -> Tensor:
    """Frobenius-orthonormal basis (n, n, n(n+1)/2) of the symmetric matrices."""
    rows, columns = torch.triu_indices(n, n, device=like.device)
    units = eye_like(like, n)
    basis = units[rows, :, None] * units[columns, None, :]
    basis = basis + basis.mT
    return (basis / torch.linalg.matrix_norm(basis)[:, None, None]).movedim(0, -1)


def skew_basis(n: int, like: Tensor) -> Tensor:
    """Frobenius-orthonormal basis (n, n, n(n-1)/2) of the antisymmetric matrices."""
    rows, columns = torch.triu_indices(n, n, offset=1, device=like.device)
    units = eye_like(like, n)
    basis = units[rows, :, None] * units[columns, None, :]
    return ((basis - basis.mT) / math.sqrt(2)).movedim(0, -1)


def cholesky(x: Tensor) -> Tensor:
    """Lower Cholesky factor of (..., n, n); NaN, not an error, where x is not positive definite."""
    factor, info = torch.linalg.cholesky_ex(x)
    return torch.where((info == 0)[..., None, None], factor, torch.nan)


def _eigh(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues and vectors as constants, and a mask (..., 1, 1) of matrices that had any."""
    finite = a.isfinite().all(dim=-1).all(dim=-1)[..., None, None]
    values, vectors = torch.linalg.eigh(torch.where(finite, a.detach(), eye_like(a)))
    return values, vectors, finite


def log_spd(a: Tensor, deviation: Tensor) -> Tensor:
    r"""Logarithm of a symmetric positive definite matrix, given also its deviation from the identity.

    Values: eigenvalues of the deviation through log1p near the identity (no digit is lost there, and log 1 is 0), of a
    itself elsewhere. Derivatives are right up to third order: $L\leftarrow L-\Gamma\circ(e^L-a)$, with $\Gamma$ the
    divided differences of the logarithm in the eigenbasis, adds one order per step.

    Args:
        a: matrices (..., n, n).
        deviation: a - I, computed without cancellation.

    Returns:
        (..., n, n); NaN where a is not positive definite.
    """
    near = (deviation * deviation).sum(dim=(-2, -1))[..., None, None] < 0.25
    matrix = torch.where(near, deviation, a)
    values, vectors, finite = _eigh(matrix)
    logs = torch.where(near[..., 0], values.log1p(), values.log())
    half_gap = (logs[..., :, None] - logs[..., None, :]) / 2
    small = half_gap.abs() < 1e-3
    ratio = torch.where(small, 1 - half_gap**2 / 6, half_gap / half_gap.masked_fill(small, 1.0).sinh())
    gamma = ratio * (-(logs[..., :, None] + logs[..., None, :]) / 2).exp()
    rotated = vectors.mT @ matrix @ vectors
    result = torch.diag_embed(logs) + gamma * (rotated - rotated.detach())
    for _ in range(2):
        residual = torch.linalg.matrix_exp(result) - rotated
        result = result - gamma * (residual - residual.detach())
    return torch.where(finite, sym(vectors @ result @ vectors.mT), torch.nan)


def absolute_spectrum(x: Tensor) -> Tensor:
    """Symmetric part of x with its eigenvalues in absolute value; differentiated as the symmetric part alone."""
    symmetric = sym(x)
    values, vectors, finite = _eigh(symmetric)
    correction = (vectors * (values.abs() - values)[..., None, :]) @ vectors.mT
    return symmetric + torch.where(finite, correction, torch.nan)


def polish(x: Tensor) -> Tensor:
    """One Newton-Schulz step towards orthonormal columns; removes rounding, at second order, from (..., n, p)."""
    return x + x @ (eye_like(x) - x.mT @ x) / 2


def orthonormal_factor(x: Tensor) -> Tensor:
    r"""Nearest matrix with orthonormal columns, the polar factor $x(x^Tx)^{-1/2}$; NaN if columns are dependent.

    Newton's iteration $R\leftarrow\tfrac12(\mu R+(\mu R)^{-T})$ on the triangular factor of $x=QR$, with Frobenius
    scaling (Higham, Functions of Matrices, 2008, sections 8.6 and 8.9): it has every derivative, unlike the SVD.

    Args:
        x: matrices (..., n, p) with n >= p.
    """
    orthonormal, triangular = torch.linalg.qr(x)
    for _ in range(_NEWTON_STEPS):
        inverse = torch.linalg.inv_ex(triangular).inverse.mT
        norms = [torch.linalg.matrix_norm(factor, keepdim=True).detach() for factor in (inverse, triangular)]
        scale = (norms[0] / norms[1]).sqrt()
        triangular = (scale * triangular + inverse / scale) / 2
    return orthonormal @ triangular


def check_orthonormal(x: Tensor, atol: float, rtol: float) -> tuple[bool, str | None]:
    """Whether the columns of x (..., n, p) are orthonormal, and why not."""
    defect = (x.mT @ x - eye_like(x)).abs()
    if (defect <= atol + rtol).all():
        return True, None
    return False, f"x^T x differs from the identity by {float(defect.max()):.3g}; use projx"


def check_body_skew(x: Tensor, u: Tensor, atol: float, rtol: float) -> tuple[bool, str | None]:
    """Whether x^T u is antisymmetric, as it is for tangent vectors u at orthonormal x, and why not."""
    body = x.mT @ u
    defect = (body + body.mT).abs()
    if (defect <= atol + rtol * body.abs().amax(dim=(-2, -1), keepdim=True)).all():
        return True, None
    return False, f"x^T u is not antisymmetric: x^T u + u^T x reaches {float(defect.max()):.3g}; use proju"
