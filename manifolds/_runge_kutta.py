r"""An adaptive Runge-Kutta solver whose rows do not see one another, transparent to every kind of differentiation.

torchdiffeq's dopri8 shares its steps among all rows of a batch and is opaque to ``torch.func``. Here its coefficients
are used in two passes. The first chooses the steps of every row, without derivatives. The second repeats the accepted
steps, now fixed, as plain tensor operations: derivatives of any order and in any mode are those of the discrete
solution, with respect to the state and to whatever the equation depends on. Where nobody differentiates it is left out.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torchdiffeq._impl.dopri8 import Dopri8Solver

__all__ = ["TOLERANCE", "Rate", "solve"]

Rate = Callable[[Tensor], Tensor]

TOLERANCE = {torch.float64: 1e-11, torch.float32: 3e-6}
_ORDER = 8
_FASTEST = 1e12  # rates above it are those of a singularity
_SHORTEST = 1e-9  # so are shorter steps
_EXIT = 1e-4  # a solution leaves where a step that visits the outside is accurate, or this short
_MOST_STEPS = 2000


def solve(rate: Rate, inside: Callable[[Tensor], Tensor], state: Tensor, looser: float = 1.0) -> Tensor:
    """State at time 1; NaN in rows that leave the domain of the equation, or run into a singularity.

    Args:
        rate: derivative (..., rows, n) -> (..., rows, n), row-wise in the batch.
        inside: points (..., n) -> (...) bool, the domain; a state's point is its row 0.
        state: states (..., rows, n) at time 0.
        looser: factor on the tolerance.

    Raises:
        TypeError: the dtype is neither float64 nor float32.
    """
    if state.dtype not in TOLERANCE:
        raise TypeError(f"state is {state.dtype}, in which the equation cannot be solved; use float64 or float32")
    table = [weights.to(state) for weights in (*Dopri8Solver.tableau.beta, Dopri8Solver.tableau.c_error)]
    with torch.no_grad():
        steps, end, alive = _plan(rate, inside, state.detach(), looser * TOLERANCE[state.dtype], table)
    if _differentiates(rate, state):
        end, slope = state, rate(state)
        for step in steps:
            end, slope, *_ = _step(rate, end, slope, step, table)
    return torch.where(alive[..., None, None], end, torch.nan)


def _differentiates(rate: Rate, state: Tensor) -> bool:
    """Whether anyone asks for derivatives, be it with respect to what the equation depends on."""
    if torch._C._are_functorch_transforms_active():
        return True
    return torch.is_grad_enabled() and (state.requires_grad or rate(state).requires_grad)


def _plan(
    rate: Rate, inside: Callable[[Tensor], Tensor], state: Tensor, tolerance: float, table: list[Tensor]
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Accepted steps (..., 1, 1), of length zero in rows that are finished, the end, and which rows reach it."""

    def regular(state: Tensor, slope: Tensor) -> Tensor:
        return inside(state[..., 0, :]) & (slope.abs() < _FASTEST).all(-1).all(-1)

    slope = rate(state)
    alive = regular(state, slope)
    time, step = torch.zeros_like(state[..., 0, 0]), torch.ones_like(state[..., 0, 0])
    steps: list[Tensor] = []
    for _ in range(_MOST_STEPS):
        running = alive & (time < 1)
        if not running.any():
            break
        last = step >= 1 - time
        step = torch.where(last, 1 - time, step)
        moved, moved_slope, error, visited = _step(rate, state, slope, step[..., None, None], table)
        scale = tolerance * (1 + torch.maximum(state.abs(), moved.abs()))
        ratio = (error.abs() / scale).flatten(-2).amax(-1).nan_to_num(nan=torch.inf)
        stays = inside(visited).all(0)
        alive = alive & (stays | ((ratio > 1) & (step > _EXIT)))
        accepted = running & stays & (ratio <= 1)
        steps.append(torch.where(accepted, step, 0.0)[..., None, None])
        state = torch.where(accepted[..., None, None], moved, state)
        slope = torch.where(accepted[..., None, None], moved_slope, slope)
        time = torch.where(accepted, torch.where(last, 1.0, time + step), time)
        step = step * (0.9 * ratio ** (-1 / _ORDER)).clamp(0.2, 10.0)
        alive = alive & regular(state, slope) & ((step > _SHORTEST) | (time >= 1))
    return [step for step in steps if (step > 0).any()], state, alive & (time >= 1)


def _step(
    rate: Rate, state: Tensor, slope: Tensor, step: Tensor, table: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One step: the new state, its slope, an estimate of the error, and the points (13, ..., n) visited."""
    slopes, moved, visited = [slope], state, []
    for weights in table[:-1]:
        moved = state + step * (torch.stack(slopes, dim=-1) @ weights)
        visited.append(moved[..., 0, :])
        slopes.append(rate(moved))
    error = step * (torch.stack(slopes, dim=-1) @ table[-1])
    return moved, slopes[-1], error, torch.stack(visited)
