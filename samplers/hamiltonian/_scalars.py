"""Numbers that may be tensors: steps and settings, one for all rows or one for each."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["Number", "exp", "expm1", "setting", "spread", "sqrt", "wiener_scale"]

Number = int | float | Tensor


def spread(number: Number, like: Tensor) -> Number:
    """A number per row (B,) as (B, 1, ..., 1), ready to multiply states; plain numbers as they are."""
    if not isinstance(number, Tensor) or not number.dim():
        return number
    return number.reshape(*number.shape, *[1] * (like.dim() - number.dim()))


def exp(number: Number) -> Number:
    """Exponential function."""
    return number.exp() if isinstance(number, Tensor) else math.exp(number)


def expm1(number: Number) -> Number:
    r"""$e^x-1$."""
    return number.expm1() if isinstance(number, Tensor) else math.expm1(number)


def sqrt(number: Number) -> Number:
    r"""$\operatorname{sign}(x)\sqrt{|x|}$."""
    if isinstance(number, Tensor):
        return number.sign() * number.abs().sqrt()
    return math.copysign(math.sqrt(abs(number)), number)


def wiener_scale(h: Number, like: Tensor) -> Number:
    r"""The factor $\sqrt h$ that makes increments $\Delta W$ of standard normal numbers.

    For h < 0 it is $-\sqrt{|h|}$, so that a step back with the same numbers undoes the step.
    """
    return spread(sqrt(h), like)


def setting(module: nn.Module, name: str, value: Number, *, minimum: float | None = 0.0) -> None:
    """Keep a setting under its name: numbers as they are, tensors as buffers, parameters as parameters.

    Raises:
        TypeError: no number.
        ValueError: not finite, or below the minimum.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Tensor):
        raise TypeError(f"{name}={value!r} must be a number or a tensor, got {type(value).__name__}")
    values = torch.as_tensor(value).detach()
    if not values.isfinite().all() or (minimum is not None and (values < minimum).any()):
        bound = "" if minimum is None else f" and at least {minimum:g}"
        raise ValueError(f"{name}={value} must be finite{bound}")
    if isinstance(value, nn.Parameter):
        module.register_parameter(name, value)
    elif isinstance(value, Tensor):
        module.register_buffer(name, value)
    else:
        setattr(module, name, float(value))
