"""What every manifold owes to geoopt: shapes, checks that explain themselves, refusals by name."""

from __future__ import annotations

import math
import warnings
from typing import Any, NoReturn

import torch
from torch import Tensor

with warnings.catch_warnings():  # geoopt 0.5 scripts its Lorentz and stereographic functions while it is imported
    warnings.filterwarnings("ignore", message="`torch.jit.script` is deprecated")
    import geoopt
    from geoopt.manifolds.base import ScalingInfo

__all__ = ["CheckedManifold", "UnsupportedError", "positive_integer", "positive_number"]

# What `geoopt.Scaled` would otherwise pass on without its scale
NOT_SCALED = (
    "frame combine components metric cometric christoffel lower raise_ log_volume_density exp_logdet random_tangent"
    " wrapped_normal brownian_step log_heat_kernel"
)


class UnsupportedError(ValueError, NotImplementedError):
    """A capability that a manifold does not have; the message names both and says what to use instead."""


def positive_integer(name: str, value: int) -> int:
    """Check a size.

    Args:
        name: the argument's name, for the message.
        value: its value.

    Raises:
        TypeError: no integer.
        ValueError: not positive.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be an integer, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name}={value} must be at least 1")
    return value


def positive_number(name: str, value: float) -> float:
    """Check a scale.

    Args:
        name: the argument's name, for the message.
        value: its value.

    Raises:
        TypeError: no real number.
        ValueError: not positive, or not finite.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a number, got {type(value).__name__}")
    if not 0 < value < math.inf:
        raise ValueError(f"{name}={value} must be positive and finite")
    return float(value)


class CheckedManifold(geoopt.Manifold):
    """A `geoopt.Manifold` of known point shape and signature, whose checks name argument, value and fix.

    Args:
        point_shape: shape of one point.
        signature: numbers of positive and negative directions of the tangent metric.
    """

    __scaling__ = geoopt.Manifold.__scaling__.copy()
    __scaling__.update(dict.fromkeys(NOT_SCALED.split(), ScalingInfo.NotCompatible))

    def __init__(self, point_shape: tuple[int, ...], signature: tuple[int, int]) -> None:
        super().__init__()
        self.point_shape = tuple(point_shape)
        self.ndim = len(self.point_shape)
        self.signature = signature

    @property
    def dim(self) -> int:
        """Intrinsic dimension."""
        return sum(self.signature)

    @property
    def is_riemannian(self) -> bool:
        """Whether the metric is positive definite."""
        return self.signature[1] == 0

    # --- refusals and shapes

    def _refuse(self, what: str, why: str) -> NoReturn:
        raise UnsupportedError(f"{self!r} has no {what}: {why}")

    def _require_riemannian(self, what: str) -> None:
        if not self.is_riemannian:
            self._refuse(what, f"its metric is indefinite, signature {self.signature}; use a Riemannian manifold")

    def _check_shape(self, shape: tuple[int, ...], name: str) -> tuple[bool, str | None]:
        if tuple(shape[len(shape) - self.ndim :]) == self.point_shape and len(shape) >= self.ndim:
            return True, None
        wanted = ", ".join(map(str, self.point_shape))
        return False, f"{name} has shape {tuple(shape)}, but {self!r} wants (..., {wanted})"

    def _size(self, *size: int | tuple[int, ...]) -> tuple[int, ...]:
        """Flatten geoopt's ``*size`` and check that it ends in ``point_shape``."""
        shape = tuple(geoopt.utils.size2shape(*size))
        self._assert_check_shape(shape, "size")
        return shape

    def _batch(self, x: Tensor) -> tuple[int, ...]:
        """Leading shape of points."""
        return tuple(x.shape[: x.dim() - self.ndim])

    def _expand(self, scalar: Tensor) -> Tensor:
        """Scalars (...) as (..., 1, ..., 1), ready to multiply points."""
        return scalar.reshape(*scalar.shape, *[1] * self.ndim)

    def _sum(self, u: Tensor, keepdim: bool = False) -> Tensor:
        """Sum over the point axes."""
        return u.sum(dim=tuple(range(-self.ndim, 0)), keepdim=keepdim)

    # --- checks that explain themselves

    def _check_pair(self, x: Tensor, u: Tensor, name: str) -> tuple[bool, str | None]:
        """Same dtype and device, batch shapes that broadcast."""
        if x.dtype != u.dtype or x.device != u.device:
            got = f"x is {x.dtype} on {x.device}, {name} is {u.dtype} on {u.device}"
            return False, f"{got}; convert one of them with .to(...)"
        try:
            torch.broadcast_shapes(x.shape, u.shape)
        except RuntimeError:
            return False, f"x has shape {tuple(x.shape)} and {name} {tuple(u.shape)}: these do not broadcast"
        return True, None

    def check_vector_on_tangent(
        self,
        x: Tensor,
        u: Tensor,
        *,
        ok_point: bool = False,
        explain: bool = False,
        atol: float = 1e-5,
        rtol: float = 1e-5,
    ) -> Any:
        """Whether u is tangent at x, of its dtype and of a batch shape that fits; see geoopt.

        Args:
            x: points (..., *point_shape).
            u: vectors (..., *point_shape).
            ok_point: skip the check of x.
            explain: return (ok, reason) instead of ok.
            atol: absolute tolerance.
            rtol: relative tolerance.
        """
        ok, reason = self._check_shape(x.shape, "x")
        if ok:
            ok, reason = self._check_shape(u.shape, "u")
        if ok:
            ok, reason = self._check_pair(x, u, "u")
        if ok and not ok_point:
            ok, reason = self._check_point_on_manifold(x, atol=atol, rtol=rtol)
        if ok:
            ok, reason = self._check_vector_on_tangent(x, u, atol=atol, rtol=rtol)
        return (ok, reason) if explain else ok

    def assert_check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, ok_point: bool = False, atol: float = 1e-5, rtol: float = 1e-5
    ) -> None:
        """Raise the explanation of `check_vector_on_tangent`.

        Raises:
            ValueError: u is not tangent at x, or shapes, dtypes or devices do not fit.
        """
        ok, reason = self.check_vector_on_tangent(x, u, ok_point=ok_point, explain=True, atol=atol, rtol=rtol)
        if not ok:
            raise ValueError(f"u is no tangent vector of {self!r} at x: {reason}")
