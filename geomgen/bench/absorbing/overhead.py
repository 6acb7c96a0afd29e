"""Cost of the sampler itself: a stub denoiser returns ready log-probabilities, so all time is the engine's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from samplers.absorbing import AbsorbingProcess, FirstHitting, Sampler, TauLeaping, Tweedie, Uniformization

from ...plotting import COLOURS, THEORY, label_axes, measured, new_figure
from ...report import Block, Table
from ...statistics import mean_interval
from ..protocol import Data, Protocol, bar, check, check_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["OVERHEAD"]

_LENGTH, _VOCAB, _BATCH = 256, 1000, 16
_LONG, _PER_CALL = 1024, 4  # second measurement: length, tokens revealed by each call
_LIMIT = 2.0  # ms per call


class ReadyDenoiser:
    """Returns rows of a table of log-probabilities (B, L, K), whatever the tokens are."""

    takes_time = False

    def __init__(self, batch: int, length: int, vocab_size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.table = torch.randn(batch, length, vocab_size, generator=generator).log_softmax(-1)

    def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        return self.table[: len(tokens)] if positions is None else self.table[positions[:, 0], positions[:, 1]]


def measure(quick: bool, progress: bool) -> Data:
    """CPU milliseconds per network call of each sampler, then against the number of places that stay masked."""
    repeats = 2 if quick else 10
    process = AbsorbingProcess(_VOCAB, _LENGTH)
    samplers: dict[str, Sampler] = {
        "Tweedie, 64 steps": Tweedie(process, steps=64),
        "τ-leaping, 64 steps": TauLeaping(process, steps=64),
        "first-hitting, 4 per call": FirstHitting(process, tokens_per_call=4),
        "uniformization": Uniformization(process),
    }
    ready = ReadyDenoiser(_BATCH, _LENGTH, _VOCAB)
    calls = [
        {"sampler": name, **_time(run, ready, None, repeats)}
        for name, run in bar(list(samplers.items()), "overhead of the samplers", progress)
    ]
    masked = _by_masked((64, 256) if quick else (64, 256, 1024), repeats)
    worst, most = max(point["milliseconds"] for point in calls), masked[-1]["masked"]
    growth = masked[-1]["milliseconds"] / masked[0]["milliseconds"]
    memory = masked[-1]["allocated_bytes"] / masked[0]["allocated_bytes"]
    return {
        "config": {"length": _LENGTH, "vocab_size": _VOCAB, "batch": _BATCH, "repeats": repeats, "quick": quick},
        "points": calls,
        "by_masked": masked,
        "checks": [
            check(
                f"CPU ms per call at d = {_LENGTH}, K = {_VOCAB}, batch {_BATCH}, slowest sampler", worst, high=_LIMIT
            ),
            check(f"time per call, {most} masked places over 64", growth, high=1.5),
            check(f"memory allocated per call, {most} masked places over 64", memory, high=1.5),
        ],
    }


def _time(sampler: Sampler, denoiser: ReadyDenoiser, prompt: Tensor | None, repeats: int) -> Data:
    """CPU milliseconds per call over the repeats (after one warm-up); unlike wall time not shared with others."""
    values = []
    for seed in range(repeats + 1):
        generator = torch.Generator().manual_seed(seed)
        start = time.thread_time()
        made = sampler.sample(denoiser, _BATCH, prompt=prompt, generator=generator)
        values.append((time.thread_time() - start) * 1e3 / made.network_calls)
    interval = mean_interval(values[1:])
    return {"milliseconds": interval.mean, "half_width": interval.half_width, "network_calls": made.network_calls}


def _by_masked(counts: Sequence[int], repeats: int) -> list[Data]:
    """First-hitting on long sequences of which `count` places are free and the others given."""
    process = AbsorbingProcess(_VOCAB, _LONG)
    sampler = FirstHitting(process, tokens_per_call=_PER_CALL)
    ready = ReadyDenoiser(_BATCH, _LONG, _VOCAB)
    points = []
    for count in counts:
        prompt = torch.zeros(_LONG, dtype=torch.int64)
        prompt[:count] = process.mask_id
        memory = _allocated(sampler, ready, prompt)
        points.append({"masked": count, **_time(sampler, ready, prompt, repeats), "allocated_bytes": memory})
    return points


def _allocated(sampler: Sampler, denoiser: ReadyDenoiser, prompt: Tensor) -> float:
    """Bytes of new tensors per network call, the set-up of the run included."""
    with _AllocatedBytes() as allocated:
        made = sampler.sample(denoiser, _BATCH, prompt=prompt, generator=torch.Generator().manual_seed(0))
    return allocated.total / made.network_calls


class _AllocatedBytes(TorchDispatchMode):
    """Adds up the sizes of all tensors that operations return, views excepted."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.total += sum(leaf.nbytes for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
        return result


def draw(data: Data) -> Figure:
    """Milliseconds per call of each sampler, and against the number of masked places."""
    figure, (left, right) = new_figure(1, 2, panel=(4.6, 3.2))
    names = [p["sampler"] for p in data["points"]]
    widths = [p["half_width"] for p in data["points"]]
    left.barh(names, [p["milliseconds"] for p in data["points"]], xerr=widths, color=COLOURS[5])
    left.axvline(_LIMIT, color=THEORY, linestyle="--", label="limit")
    label_axes(left, "Cost of the sampler itself", "CPU ms per network call", "")
    own = data["by_masked"]
    times, widths = [p["milliseconds"] for p in own], [p["half_width"] for p in own]
    measured(right, [p["masked"] for p in own], times, "4 tokens per call", half_width=widths)
    right.set_ylim(0, max(_LIMIT, max(times)))
    title = f"Against the masks that stay, d = {_LONG}"
    label_axes(
        right, title, "free places at the start", "CPU ms per network call", log="x", ticks=[p["masked"] for p in own]
    )
    return figure


def tell(data: Data) -> list[Block]:
    """Times and checks."""
    rows = [[p["sampler"], p["milliseconds"], p["half_width"], p["network_calls"]] for p in data["points"]]
    masked = [[p["masked"], p["milliseconds"], p["half_width"], p["allocated_bytes"] / 1024] for p in data["by_masked"]]
    return [
        Table("Time of the sampler per network call", ("sampler", "CPU ms per call", "±95 %", "calls"), rows),
        Table(
            f"Against the number of masked places, d = {_LONG}, {_PER_CALL} tokens per call",
            ("free places", "CPU ms per call", "±95 %", "KiB allocated per call"),
            masked,
        ),
        check_table(data),
    ]


OVERHEAD = Protocol(
    name="overhead",
    title="Cost of the sampler itself",
    measure=measure,
    draw=draw,
    tell=tell,
    caption=(
        "CPU time per network call (one thread) when the network costs nothing: d = 256, K = 1,000, batch 16 (left), "
        "and against the number of places that are masked, when each call reveals four (right)."
    ),
)
