"""What every manifold owes to geoopt: shapes, checks that explain themselves, refusals by name."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
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


# Arguments of the kernels that must have the point's shape, and one dtype and device: checked at every call, for shapes
# and dtypes are static (unlike values, on which kernels never raise)
POINT_ARGUMENTS = {
    "projx": ("x",),
    "proju": ("x", "u"),
    "inner": ("x", "u", "v"),
    "norm": ("x", "u"),
    "dist": ("x", "y"),
    "dist2": ("x", "y"),
    "expmap": ("x", "u"),
    "geodesic_flow": ("x", "v"),
    "logmap": ("x", "y"),
    "retr": ("x", "u"),
    "transp": ("x", "y", "v"),
    "parallel_transport": ("x", "y", "v"),
    "egrad2rgrad": ("x", "u"),
}


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


def _checked(method: Callable[..., Tensor], arguments: tuple[str, ...]) -> Callable[..., Tensor]:
    """The method, after a check of its points and vectors."""

    @functools.wraps(method)
    def checked(self: CheckedManifold, *values: Any, **named: Any) -> Tensor:
        given = dict(zip(arguments, values, strict=False))
        self.check_arguments({**given, **{name: named[name] for name in arguments if name in named}})
        return method(self, *values, **named)

    return checked


class CheckedManifold(geoopt.Manifold):
    """A `geoopt.Manifold` of known point shape and signature, whose checks name argument, value and fix.

    Args:
        point_shape: shape of one point.
        signature: numbers of positive and negative directions of the tangent metric.
    """

    __scaling__ = geoopt.Manifold.__scaling__.copy()
    __scaling__.update(dict.fromkeys(NOT_SCALED.split(), ScalingInfo.NotCompatible))

    def __init_subclass__(cls, **settings: Any) -> None:
        """Check shapes and dtypes of the points and vectors given to the kernels that a class defines."""
        super().__init_subclass__(**settings)
        for name, arguments in POINT_ARGUMENTS.items():
            if name in cls.__dict__:
                setattr(cls, name, _checked(cls.__dict__[name], arguments))

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

    def check_arguments(self, values: dict[str, Any]) -> None:
        """Raise unless all tensors given have the point's shape, one floating dtype and one device.

        Args:
            values: tensors (..., *point_shape) by argument name; None is passed over.

        Raises:
            TypeError: no floating tensor, or two dtypes.
            ValueError: another shape, or two devices.
        """
        first: tuple[str, Tensor] | None = None
        for name, value in values.items():
            if value is None:
                continue
            if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
                got = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise TypeError(f"{name} must be a floating tensor, got {got}; use {name}.to(torch.float64)")
            ok, reason = self._check_shape(tuple(value.shape), name)
            if not ok:
                raise ValueError(reason)
            if first is None:
                first = name, value
            elif value.dtype != first[1].dtype or value.device != first[1].device:
                kind = TypeError if value.dtype != first[1].dtype else ValueError
                raise kind(
                    f"{first[0]} is {first[1].dtype} on {first[1].device}, {name} is {value.dtype} on {value.device}; "
                    "convert one of them with .to(...)"
                )

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
