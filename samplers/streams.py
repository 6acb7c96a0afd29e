"""Keyed random numbers: every draw is a pure function of (key, counters).

A counter hash (the SplitMix64 finaliser, applied once per counter) turns a 64-bit key and any number of integer
counters, say (row, token), into a 64-bit word. A draw therefore depends on nothing but its own coordinates: not on
the batch it is drawn in, not on the number of steps, not on what was drawn before.

Source: Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

__all__ = ["derive", "draw_key", "exponential", "normal", "poisson", "uniform"]


def _signed(word: int) -> int:
    """The two's-complement int64 of a 64-bit word."""
    return word - (1 << 64) if word >= 1 << 63 else word


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MULTIPLY_1 = _signed(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = _signed(0x94D049BB133111EB)


def draw_key(generator: torch.Generator | None = None) -> int:
    """Draw one int64 key from `generator`, or from torch's default generator when it is None.

    This is the only number a call of the library takes from a generator, on whichever device the generator lives.
    """
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator={generator!r} must be a torch.Generator; torch.Generator().manual_seed(seed) makes one"
        )
    device = "cpu" if generator is None else generator.device
    return int(torch.randint(-(1 << 63), (1 << 63) - 1, (), generator=generator, device=device))


def derive(key: int, purpose: int) -> int:
    """A key for another purpose; streams of different purposes are independent."""
    return int(_bits(key, -1 - purpose))


def uniform(key: int, *counters: Tensor | int) -> Float64[Tensor, "*shape"]:
    """Uniform numbers in the open interval (0, 1), float64 with 52 random bits.

    Args:
        key: the stream's key.
        counters: int64 tensors or ints that broadcast together; their shape is the shape of the result.
    """
    return (_shift(_bits(key, *counters), 12).double() + 0.5) * 2.0**-52


def exponential(key: int, *counters: Tensor | int) -> Float64[Tensor, "*shape"]:
    """Exponential numbers of mean 1, float64, accurate near zero: P(E <= -log1p(-p)) = p for p down to 1e-12."""
    return -torch.log1p(-uniform(key, *counters))


def normal(key: int, count: int, *counters: Tensor | int) -> Float64[Tensor, "*shape"]:
    """Standard normal numbers, float64, by the Box-Muller transform of two uniform numbers for each pair.

    Args:
        key: the stream's key.
        count: numbers per combination of counters, >= 0.
        counters: int64 tensors or ints that broadcast together, to a shape (...).

    Returns:
        (..., count). The first numbers do not depend on `count`.
    """
    words = [counter[..., None] if isinstance(counter, Tensor) else counter for counter in counters]
    device = next((word.device for word in words if isinstance(word, Tensor)), None)
    place = torch.arange(2 * ((count + 1) // 2), device=device)
    radius, angle = uniform(key, *words, place).unflatten(-1, (-1, 2)).unbind(-1)
    radius, angle = (-2.0 * radius.log()).sqrt(), 2.0 * math.pi * angle
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1).flatten(-2)[..., :count]


def poisson(key: int, mean: Float[Tensor, "*shape"], *counters: Tensor | int) -> Int64[Tensor, "*out"]:
    """Poisson counts of the given mean (finite, >= 0), int64, by inversion of the distribution function."""
    if not bool(mean.isfinite().all() & (mean >= 0).all()):
        raise ValueError("mean must be finite and not negative")
    level = uniform(key, *counters)
    mean, level = torch.broadcast_tensors(mean.double(), level)
    low = torch.full_like(mean, -1.0)  # P(N <= low) <= level < P(N <= high)
    high = mean + 10.0 * mean.sqrt() + 60.0
    high = high.ceil()
    while bool((high - low > 1).any()):
        middle = ((low + high) / 2).floor()
        below = torch.where(mean > 0, torch.special.gammaincc(middle + 1.0, mean), 1.0) <= level
        narrow = high - low > 1
        low = torch.where(narrow & below, middle, low)
        high = torch.where(narrow & ~below, middle, high)
    return high.long()


def _bits(key: int, *counters: Tensor | int) -> Tensor:
    """The 64-bit word of (key, counters) as an int64 tensor."""
    word = _mix(torch.tensor(key, dtype=torch.int64))
    for counter in counters:
        step = torch.as_tensor(counter, dtype=torch.int64) * _GOLDEN
        word = _mix(word.to(step.device) + step if step.dim() else word + step.to(word.device))
    return word


def _mix(word: Tensor) -> Tensor:
    """The SplitMix64 finaliser: a bijection of 64-bit words in which each input bit changes half of the output."""
    word = (word ^ _shift(word, 30)) * _MULTIPLY_1
    word = (word ^ _shift(word, 27)) * _MULTIPLY_2
    return word ^ _shift(word, 31)


def _shift(word: Tensor, count: int) -> Tensor:
    """Logical right shift (torch's own is arithmetic)."""
    return (word >> count) & ((1 << (64 - count)) - 1)
