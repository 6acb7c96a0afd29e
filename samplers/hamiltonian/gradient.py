r"""The gradient of a Hamiltonian: the one place of this package that differentiates."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Energy", "Time", "evaluate", "gradient", "takes_time"]

Energy = Callable[..., Tensor]
"""A function of states, row by row: (B, n) -> (B,), or of states and time, (z, t) -> (B,)."""

Time = int | float | Tensor
"""A number, or one for each row (B,)."""


_TIMES = ("t", "time")


def gradient(
    energy: Energy, z: Float[Tensor, "..."], t: Time | None = None, *, event_dim: int = 1
) -> Float[Tensor, "..."]:
    r"""$\nabla H(z)$ of a row-wise function.

    An energy that has a method ``gradient(z)`` or ``gradient(z, t)`` is asked for it (analytic gradients of networks).
    Otherwise automatic differentiation is used: eagerly `torch.autograd`, with a graph for second derivatives in grad
    mode; `torch.func.grad` when compiling, inside other transforms of torch and in inference mode. So the result is
    right under ``no_grad`` too, where it does not require grad.

    Args:
        energy: (..., *event) -> (...), or (z, t) -> (...).
        z: states (..., *event).
        t: time; None for an energy that takes none.
        event_dim: number of axes of one state.

    Raises:
        ValueError: the energy does not return one number per row.
    """
    analytic = getattr(energy, "gradient", None)
    if analytic is not None:
        result: Tensor = analytic(z) if t is None else analytic(z, t)
        return result
    total = functools.partial(_total, energy, t, event_dim)
    if _under_transform():
        return torch.func.grad(total)(z)
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        leaf = z if z.requires_grad else z.detach().requires_grad_()
        value = total(leaf)
        if not value.requires_grad:
            return torch.zeros_like(z)
        return torch.autograd.grad(value, leaf, create_graph=create_graph, materialize_grads=True)[0]


def evaluate(energy: Energy, z: Tensor, t: Time | None) -> Tensor:
    """The energy of states, at a time if one is given."""
    value: Tensor = energy(z) if t is None else energy(z, t)
    return value


def _total(energy: Energy, t: Time | None, event_dim: int, z: Tensor) -> Tensor:
    """The sum over rows, whose gradient is each row's own."""
    values = evaluate(energy, z, t)
    rows = z.shape[: z.dim() - event_dim]
    if values.shape != rows:
        raise ValueError(
            f"the energy returned shape {tuple(values.shape)} for states of shape {tuple(z.shape)}: return one number "
            f"per row, shape {tuple(rows)}"
        )
    return values.sum()


def _under_transform() -> bool:
    """Whether autograd's tape is out of reach: compiling, inference mode, or inside a transform of torch.func."""
    if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
        return True
    return torch._C._functorch.peek_interpreter_stack() is not None


def takes_time(function: Callable[..., Any]) -> bool:
    """Whether a function of states takes the time as second positional argument.

    It does if that argument has no default or is called t or time (others with a default are settings, bound early).
    """
    target = function.forward if isinstance(function, nn.Module) else function
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return False
    if any(p.kind is p.VAR_POSITIONAL for p in parameters[:2]):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name in _TIMES)
