r"""Rotations of three-dimensional space as functions: hat and vee, exponential and logarithm, quaternions.

Angular velocities and rotation vectors $\omega$ are (..., 3), rotations (..., 3, 3), quaternions (..., 4) with the real
part first, $q=(\cos\tfrac\theta2, n\sin\tfrac\theta2)$, so that q and -q are one rotation. Left trivialisation: a
tangent vector at R is $R\hat\omega$. Everything is smooth at the identity; nothing raises on values.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._functions import _polynomial as polynomial
from ._functions import generalized_cos, generalized_sinc, safe_norm
from ._matrices import eye_like, skew, sym

__all__ = [
    "deviation_angle",
    "deviation_angle2",
    "deviation_log",
    "hat",
    "matrix_to_quaternion",
    "nearest_rotation",
    "quaternion_to_matrix",
    "rotation_dexp",
    "rotation_dexp_inverse",
    "rotation_exp",
    "vee",
]

_ARCSIN = [math.factorial(2 * k) / (4**k * math.factorial(k) ** 2 * (2 * k + 1)) for k in range(9)]
_CUBIC = [(-1) ** k / math.factorial(2 * k + 3) for k in range(10)]
_BERNOULLI = [1 / 6, 1 / 30, 1 / 42, 1 / 30, 5 / 66, 691 / 2730, 7 / 6, 3617 / 510]
_COTANGENT = [value / math.factorial(2 * k + 2) for k, value in enumerate(_BERNOULLI)]


def hat(omega: Tensor) -> Tensor:
    r"""Matrix $\hat\omega$ (..., 3, 3) with $\hat\omega v=\omega\times v$.

    Args:
        omega: vectors (..., 3).
    """
    x, y, z = omega.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1).unflatten(-1, (3, 3))


def vee(matrix: Tensor) -> Tensor:
    r"""Vector (..., 3) of the antisymmetric part of a matrix (..., 3, 3); inverts `hat`."""
    entries = skew(matrix)
    return torch.stack([entries[..., 2, 1], entries[..., 0, 2], entries[..., 1, 0]], dim=-1)


def _polynomial_of_hat(omega: Tensor, linear: Tensor, quadratic: Tensor) -> Tensor:
    r"""$I + a\hat\omega + b\hat\omega^2$."""
    outer = omega[..., :, None] * omega[..., None, :]
    squared = outer - (omega * omega).sum(-1)[..., None, None] * eye_like(omega)
    return eye_like(omega) + linear[..., None, None] * hat(omega) + quadratic[..., None, None] * squared


def _sine_and_versine(s: Tensor) -> tuple[Tensor, Tensor]:
    r"""$\sin\theta/\theta$ and $(1-\cos\theta)/\theta^2$ of $s=\theta^2$."""
    whole, half = generalized_sinc(torch.stack([s, s / 4])).unbind()
    return whole, half * half / 2


def rotation_exp(omega: Tensor) -> Tensor:
    r"""Rotation $\exp\hat\omega$ about $\omega$ by the angle $|\omega|$ (Rodrigues).

    Args:
        omega: rotation vectors (..., 3).

    Returns:
        (..., 3, 3).
    """
    return _polynomial_of_hat(omega, *_sine_and_versine((omega * omega).sum(-1)))


def rotation_dexp(omega: Tensor) -> Tensor:
    r"""Left-trivialised derivative of `rotation_exp`: $\exp(\omega+\epsilon v)\approx\exp(\omega)\exp(\epsilon Dv)$.

    $D=I-\frac{1-\cos\theta}{\theta^2}\hat\omega+\frac{\theta-\sin\theta}{\theta^3}\hat\omega^2$ (the right Jacobian).

    Args:
        omega: rotation vectors (..., 3).

    Returns:
        D, (..., 3, 3).
    """
    s = (omega * omega).sum(-1)
    small = s < 1
    sine, versine = _sine_and_versine(s)
    closed = (1 - sine) / s.masked_fill(small, 1.0)
    cubic = torch.where(small, polynomial(s.masked_fill(~small, 0.0), _CUBIC), closed)
    return _polynomial_of_hat(omega, -versine, cubic)


def rotation_dexp_inverse(omega: Tensor) -> Tensor:
    r"""Inverse of `rotation_dexp`: $I+\tfrac12\hat\omega+\theta^{-2}(1-\tfrac\theta2\cot\tfrac\theta2)\hat\omega^2$.

    Args:
        omega: rotation vectors (..., 3) of length below $2\pi$, where the exponential map folds.

    Returns:
        (..., 3, 3).
    """
    s = (omega * omega).sum(-1)
    small = s < 0.25
    masked = s.masked_fill(small, 1.0)
    closed = (1 - generalized_cos(masked / 4) / generalized_sinc(masked / 4)) / masked
    quadratic = torch.where(small, polynomial(s.masked_fill(~small, 0.0), _COTANGENT), closed)
    return _polynomial_of_hat(omega, torch.full_like(s, 0.5), quadratic)


def _deviation_quaternion(deviation: Tensor) -> Tensor:
    """Unit quaternion with real part >= 0 of the rotation I + deviation; close to I it loses no digit.

    The rows of 4 q q^T are linear in the matrix; the one with the largest diagonal entry (at least 1) is scaled.
    """
    a, b, c = (2 * vee(deviation)).unbind(-1)
    x, y, z = torch.diagonal(deviation, dim1=-2, dim2=-1).unbind(-1)
    xy, xz, yz = (deviation[..., i, j] + deviation[..., j, i] for i, j in ((0, 1), (0, 2), (1, 2)))
    entries = [4 + x + y + z, a, b, c, a, x - y - z, xy, xz, b, xy, y - x - z, yz, c, xz, yz, z - x - y]
    outer = torch.stack(entries, dim=-1).unflatten(-1, (4, 4))
    largest = torch.diagonal(outer, dim1=-2, dim2=-1).argmax(-1)
    row = torch.take_along_dim(outer, largest[..., None, None], dim=-2)[..., 0, :]
    quaternion = row / torch.linalg.vector_norm(row, dim=-1, keepdim=True)
    return torch.where(quaternion[..., :1] < 0, -quaternion, quaternion)


def _half_angle_ratio(quaternion: Tensor) -> Tensor:
    r"""$\theta/\sin\tfrac\theta2$ of unit quaternions with real part >= 0, as a smooth function."""
    s = (quaternion[..., 1:] ** 2).sum(-1)
    small = s < 0.01
    root = s.masked_fill(small, 0.5).sqrt()
    series = 2 * polynomial(s.masked_fill(~small, 0.0), _ARCSIN)
    return torch.where(small, series, 2 * torch.atan2(root, quaternion[..., 0]) / root)


def deviation_log(deviation: Tensor) -> Tensor:
    r"""Rotation vector of the rotation I + deviation, $|\omega|<\pi$; NaN at $\pi$, where $\pm\omega$ are equally near.

    Args:
        deviation: R - I (..., 3, 3), computed without cancellation.

    Returns:
        (..., 3).
    """
    quaternion = _deviation_quaternion(deviation)
    unique = quaternion[..., 0] > 4 * torch.finfo(quaternion.dtype).eps
    return torch.where(unique, _half_angle_ratio(quaternion), torch.nan)[..., None] * quaternion[..., 1:]


def deviation_angle(deviation: Tensor) -> Tensor:
    r"""Angle in $[0,\pi]$ of the rotation I + deviation, with zero gradient at zero.

    Args:
        deviation: R - I (..., 3, 3), computed without cancellation.
    """
    quaternion = _deviation_quaternion(deviation)
    return _half_angle_ratio(quaternion) * safe_norm(quaternion[..., 1:])


def deviation_angle2(deviation: Tensor) -> Tensor:
    r"""Squared angle in $[0,\pi^2]$ of the rotation I + deviation, smooth at zero.

    Args:
        deviation: R - I (..., 3, 3), computed without cancellation.
    """
    quaternion = _deviation_quaternion(deviation)
    return _half_angle_ratio(quaternion) ** 2 * (quaternion[..., 1:] ** 2).sum(-1)


def matrix_to_quaternion(rotation: Tensor) -> Tensor:
    """Unit quaternion (..., 4), real part first and not negative; its sign is arbitrary for half turns.

    Args:
        rotation: (..., 3, 3).
    """
    return _deviation_quaternion(rotation - eye_like(rotation))


def quaternion_to_matrix(quaternion: Tensor) -> Tensor:
    """Rotation (..., 3, 3) of a quaternion, which is normalised first; q and -q give the same; NaN for zero.

    Args:
        quaternion: (..., 4), real part first.
    """
    unit = quaternion / torch.linalg.vector_norm(quaternion, dim=-1, keepdim=True)
    real, imaginary = unit[..., :1], unit[..., 1:]
    outer = imaginary[..., :, None] * imaginary[..., None, :]
    squared = outer - (imaginary * imaginary).sum(-1)[..., None, None] * eye_like(imaginary)
    return eye_like(imaginary) + 2 * (real[..., None] * hat(imaginary) + squared)


def nearest_rotation(matrix: Tensor) -> Tensor:
    r"""Rotation R that maximises $\mathrm{tr}(R^TA)$; derivatives are right up to third order.

    The value comes from an SVD; two Newton steps on its condition, $R^TA$ symmetric, give the derivatives, which the
    SVD does not have at a rotation. Not unique where the two smallest singular values, with the sign of det A, cancel.

    Args:
        matrix: A, (..., 3, 3).
    """
    finite = matrix.isfinite().all(dim=-1).all(dim=-1)[..., None, None]
    left, _, right = torch.linalg.svd(torch.where(finite, matrix.detach(), eye_like(matrix)))
    sign = torch.linalg.det(left @ right)
    scale = torch.stack([torch.ones_like(sign), torch.ones_like(sign), sign], dim=-1)
    rotation = (left * scale[..., None, :]) @ right
    aligned = rotation.mT @ matrix
    for _ in range(2):
        symmetric = sym(aligned)
        trace = torch.diagonal(symmetric, dim1=-2, dim2=-1).sum(-1)[..., None, None]
        inverse = torch.linalg.inv_ex(trace * eye_like(matrix) - symmetric).inverse
        turn = rotation_exp((inverse @ (2 * vee(aligned))[..., None])[..., 0])
        rotation, aligned = rotation @ turn, turn.mT @ aligned
    return rotation
