"""Steps compiled by ``torch.compile``, a chunk at a time: several times faster where single operations are small."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ._scalars import Number
from .base import Integrator, State
from .equation import Equation

__all__ = ["compiled_steps"]


def compiled_steps(eager: Callable[..., tuple[State, list[Tensor]]], length: int) -> Callable[..., Any]:
    """A runner of steps that compiles whole chunks; shorter ones, at the end of a run, are taken eagerly.

    Args:
        eager: takes steps one by one.
        length: steps per chunk.
    """

    def run(
        system: Equation,
        integrator: Integrator,
        state: State,
        steps: Sequence[tuple[Number, Number]],
        noise: Tensor | None,
    ) -> tuple[State, list[Tensor]]:
        if len(steps) < length:
            return eager(system, integrator, state, steps, noise)
        dtype, device = state.z.dtype, state.z.device
        times, sizes = (
            [torch.as_tensor(x, dtype=dtype, device=device) for x in row] for row in zip(*steps, strict=True)
        )
        with warnings.catch_warnings():  # the tracer looks at the .grad of whatever it is given
            warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
            z, memory, states = _compiled()(system, integrator, state.z, state.memory, times, sizes, noise)
        return State(z, steps[-1][0] + steps[-1][1], memory), states

    return run


@functools.cache
def _compiled() -> Callable[..., Any]:
    return torch.compile(_chunk, dynamic=False)


def _chunk(
    system: Any,
    integrator: Any,
    z: Tensor,
    memory: tuple[Any, ...],
    times: Sequence[Tensor],
    sizes: Sequence[Tensor],
    noise: Tensor | None,
) -> tuple[Tensor, tuple[Any, ...], list[Tensor]]:
    """The steps of a chunk, unrolled."""
    states = []
    for k, (t, h) in enumerate(zip(times, sizes, strict=True)):
        state = integrator.step(system, State(z, t, memory), h, None if noise is None else noise[k])
        z, memory = state.z, state.memory
        states.append(z)
    return z, memory, states
