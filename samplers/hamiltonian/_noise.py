"""Where the normal numbers of a run come from: a key, a tensor, or a Brownian path."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import streams
from .brownian_path import BrownianPath
from .plan import Plan

__all__ = ["NoiseSource", "noise_source"]

_LONGEST = 128  # steps per chunk
_NUMBERS = 1 << 21  # normal numbers per chunk


@dataclass(frozen=True)
class NoiseSource:
    """Standard normal numbers for the steps of one run.

    Attributes:
        shape: of the numbers of one row at one step.
        like: states, whose batch, dtype and device the numbers follow.
        num_steps: of the run.
        key: of the stream, or None where numbers are given or none are needed.
        given: (num_steps, B, *shape), or None.
        first: number of the first row.
        first_step: number of the first step.
    """

    shape: tuple[int, ...]
    like: Tensor
    num_steps: int
    key: int | None = None
    given: Tensor | None = None
    first: int = 0
    first_step: int = 0

    def chunks(self, length: int = 0) -> Iterator[tuple[int, int]]:
        """Stretches [begin, end) of steps, of the given length or as many as one draw is good for."""
        per_step = max(1, len(self.like) * math.prod(self.shape))
        length = length or max(1, min(_LONGEST, _NUMBERS // per_step))
        for begin in range(0, self.num_steps, length):
            yield begin, min(begin + length, self.num_steps)

    def draw(self, begin: int, end: int) -> Tensor | None:
        """Numbers (end - begin, B, *shape) of some steps, None where none are needed."""
        if self.given is not None:
            return self.given[begin:end]
        if self.key is None:
            return None
        device = self.like.device
        steps = torch.arange(begin, end, device=device)[:, None] + self.first_step
        rows = torch.arange(len(self.like), device=device) + self.first
        numbers = streams.normal(self.key, math.prod(self.shape), steps, rows)
        return numbers.to(self.like.dtype).unflatten(-1, self.shape)


def noise_source(
    shape: tuple[int, ...],
    z0: Tensor,
    plan: Plan,
    *,
    generator: torch.Generator | None,
    given: Tensor | BrownianPath | None,
    first: int,
    first_step: int,
) -> NoiseSource:
    """The source for a run; a key is drawn only if numbers are needed and none are given.

    Raises:
        ValueError: numbers are given in the wrong shape, or where none are needed.
    """
    needed = plan.num_steps > 0 and math.prod(shape) > 0
    if given is not None:
        if not math.prod(shape):
            raise ValueError("noise was given, but this system and integrator take none")
        if not isinstance(given, Tensor):
            given = given.normals(plan)
        wanted = (plan.num_steps, len(z0), *shape)
        if tuple(given.shape) != wanted:
            raise ValueError(
                f"noise has shape {tuple(given.shape)}; this run takes {wanted}: steps, rows, and standard normal "
                "numbers of each"
            )
        return NoiseSource(shape, z0, plan.num_steps, given=given.to(z0))
    key = streams.draw_key(generator) if needed else None
    return NoiseSource(shape, z0, plan.num_steps, key, first=first, first_step=first_step)
