"""Directional derivatives by forward differentiation."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

import torch
from torch import Tensor

__all__ = ["directional_derivative"]


def directional_derivative(function: Callable[[Tensor], Tensor], z: Tensor, direction: Tensor) -> Tensor:
    r"""$DF(z)\,v$ of a function of tensors; usable within every transform of torch."""
    if not torch.compiler.is_compiling():
        _load_forward_mode()
    point, velocity = z.contiguous(), direction.contiguous()  # expanded views have no dual numbers
    derivative: Tensor = torch.func.jvp(function, (point,), (velocity,))[1]
    return derivative


@functools.cache
def _load_forward_mode() -> None:
    """Load what torch loads at the first forward derivative, without its warning about itself (torch 2.14)."""
    with warnings.catch_warnings(), suppress(ImportError):
        warnings.filterwarnings("ignore", message="`torch.jit.script` is deprecated")
        import_module("torch._decomp.decompositions_for_jvp")
