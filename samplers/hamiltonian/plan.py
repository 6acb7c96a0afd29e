"""The steps of a run: where they start, how long they are, and after which of them the state is saved."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from .._arguments import whole_number
from ._scalars import Number

__all__ = ["Plan", "plan_steps"]

_ROUNDING = 1e-6  # of T/h, within which it counts as a whole number


@dataclass(frozen=True)
class Plan:
    """Steps of a run; times and steps are numbers, or tensors with one entry per row (B,).

    Attributes:
        starts: start time of each stretch of equal steps.
        sizes: their steps.
        firsts: number of the first step of each stretch, and last the number of all steps.
        saved: after how many steps the state is saved, in order; 0 is the initial state.
        times: the times of these (T,) or (T, B), float64.
    """

    starts: Sequence[Number]
    sizes: Sequence[Number]
    firsts: Sequence[int]
    saved: Sequence[int]
    times: Tensor

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return self.firsts[-1]

    def step(self, k: int) -> tuple[Number, Number]:
        """Start time and size of step k (from 0)."""
        stretch = 0 if len(self.starts) == 1 else bisect.bisect_right(self.firsts, k) - 1
        size = self.sizes[stretch]
        return self.starts[stretch] + (k - self.firsts[stretch]) * size, size

    def to(self, like: Tensor) -> Plan:
        """Tensors among times and steps in the dtype and on the device of states."""

        def cast(values: Sequence[Number]) -> list[Number]:
            return [value.to(like) if isinstance(value, Tensor) else value for value in values]

        return Plan(cast(self.starts), cast(self.sizes), self.firsts, self.saved, self.times)


def plan_steps(
    *,
    step_size: Number | None,
    num_steps: int | None,
    end_time: Number | None,
    t0: Number,
    save_every: int,
    save_at: Sequence[int | float] | Tensor | None,
) -> Plan:
    """Lay out a run; see `integrate` for the arguments.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, contradicts another, or is out of range.
    """
    start = _number("t0", t0)
    size = None if step_size is None else _number("step_size", step_size)
    if size is not None and not _all(size, lambda h: 0 < h < math.inf):
        raise ValueError(f"step_size={step_size} must be positive and finite; Integrator.step goes back with h < 0")
    if save_at is not None:
        return _plan_between(size, num_steps, end_time, start, save_every, save_at)
    end = None if end_time is None else _number("end_time", end_time)
    count = None if num_steps is None else whole_number("num_steps", num_steps, 0)
    if (size is None) + (count is None) + (end is None) != 1:
        raise ValueError("give two of step_size, num_steps and end_time (or step_size and save_at)")
    if end is None:
        total, step = cast(int, count), cast(Number, size)
        end = start + total * step
    else:
        total, step = _divide(end - start, size, count)
    every = whole_number("save_every", save_every, 1)
    saved = [*range(0, total, every), total]
    return Plan([start], [step], [0, total], saved, _saved_times(start, step, end, saved))


def _plan_between(
    size: Number | None,
    num_steps: int | None,
    end_time: Number | None,
    start: Number,
    save_every: int,
    save_at: Sequence[int | float] | Tensor,
) -> Plan:
    """Steps that end on every output time."""
    if size is None or num_steps is not None or save_every != 1:
        raise ValueError("save_at goes with step_size, and without num_steps and save_every")
    if isinstance(size, Tensor) or isinstance(start, Tensor):
        raise ValueError("save_at has the same times for all rows: give t0 and step_size as numbers")
    times = torch.as_tensor(save_at, dtype=torch.float64).cpu()
    if times.dim() != 1 or not len(times):
        raise ValueError(f"save_at has shape {tuple(times.shape)}; give a list of at least one time")
    last = math.inf if end_time is None else end_time
    if not bool(times.isfinite().all() & (times >= start).all() & (times <= last).all()):
        raise ValueError(f"save_at={times.tolist()} leaves the range [{start}, {last}] of this run")
    if (times.diff() < 0).any():
        raise ValueError(f"save_at={times.tolist()} must not decrease")
    starts: list[Number] = []
    sizes: list[Number] = []
    firsts, saved, now = [0], [], start
    for time in times.tolist():
        count, step = _divide(time - now, size)
        if count:
            starts.append(now)
            sizes.append(step)
            firsts.append(firsts[-1] + count)
        saved.append(firsts[-1])
        now = time
    return Plan(starts, sizes, firsts, saved, times)


def _divide(span: Number, size: Number | None, count: int | None = None) -> tuple[int, Number]:
    """Number and size of equal steps that fill a span, from either of them."""
    if not _all(span, lambda s: 0 <= s < math.inf):
        raise ValueError(f"end_time lies {span} after t0: it must not lie before it, and be finite")
    if count is None:
        count = math.ceil(float(torch.as_tensor(span / cast(Number, size)).max()) * (1 - _ROUNDING))
    if count == 0 and not _all(span, lambda s: s == 0):
        raise ValueError(f"num_steps=0 steps cannot fill the span {span} from t0 to end_time")
    return count, span / count if count else 0.0 * span


def _saved_times(start: Number, size: Number, end: Number, saved: Sequence[int]) -> Tensor:
    steps = torch.tensor(saved, dtype=torch.float64)
    if isinstance(start, Tensor) or isinstance(size, Tensor):
        rows = torch.broadcast_tensors(torch.as_tensor(start).double(), torch.as_tensor(size).double())
        times = rows[0].cpu() + steps[:, None] * rows[1].cpu()
    else:
        times = start + steps * size
    times[-1] = end
    return times


def _number(name: str, value: Number) -> Number:
    """A float, or a tensor with one entry per row."""
    if isinstance(value, Tensor):
        if value.dim() > 1 or value.is_complex():
            raise ValueError(f"{name} has shape {tuple(value.shape)}; give a number, or one per row (B,)")
        value = value.detach().double()
        return value if value.dim() else value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}={value!r} must be a number, or a tensor with one per row")
    return float(value)


def _all(value: Number, holds: object) -> bool:
    values = value.tolist() if isinstance(value, Tensor) else [value]
    return all(holds(v) for v in values)  # type: ignore[operator]
