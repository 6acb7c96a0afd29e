"""Time of exponential map, logarithm and transport beside geoopt's, in turns within one process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...plotting import COLOURS, THEORY, label_axes, new_figure
from ...report import Block, Table
from ..protocol import Data, Protocol, bar, check, check_table
from .peers import PEERS, Peer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SPEED"]

_BATCH = 4096
_CALLS = 10  # per timing
_FEWEST = 3  # timings of slow operations
_BUDGET = 1e6  # microseconds, after which no more timings are made
_STEP = 0.5
_LIMITS = {"exp": 1.0, "log": 1.0, "transport": 2.0}  # of S², ours over geoopt's


def measure(quick: bool, progress: bool) -> Data:
    """Medians of CPU microseconds per call."""
    repeats = 5 if quick else 41
    with warnings.catch_warnings():  # geoopt scripts a function in its logarithm of matrices
        warnings.filterwarnings("ignore", message="`torch.jit.script` is deprecated")
        points = [
            _point(peer, operation, dtype, repeats)
            for peer in bar(PEERS, "speed", progress)
            for dtype in (torch.float32, torch.float64)
            for operation in _LIMITS
        ]
    return {
        "config": {"batch": _BATCH, "calls": _CALLS, "repeats": repeats, "step": _STEP, "seed": 0, "quick": quick},
        "points": points,
        "checks": [_check(points, operation, dtype) for operation in _LIMITS for dtype in ("float32", "float64")],
    }


def _point(peer: Peer, operation: str, dtype: torch.dtype, repeats: int) -> Data:
    x, y, u = (tensor.to(dtype) for tensor in _arguments(peer))
    ours, theirs = _calls(peer.ours, operation, x, y, u), _calls(peer.theirs(), operation, x, y, u)
    _microseconds(ours), _microseconds(theirs)
    own: list[float] = []
    other: list[float] = []
    while len(own) < _FEWEST or (len(own) < repeats and (sum(own) + sum(other)) * _CALLS < _BUDGET):
        own.append(_microseconds(ours))  # in turns, so that a busy machine slows both
        other.append(_microseconds(theirs))
    times = median(own), median(other)
    return {
        "manifold": peer.label,
        "operation": operation,
        "dtype": str(dtype).removeprefix("torch."),
        "ours": times[0],
        "geoopt": times[1],
        "ratio": times[0] / times[1],
        "geoopt_transport": peer.transport if operation == "transport" else None,
    }


def _arguments(peer: Peer) -> tuple[Tensor, Tensor, Tensor]:
    """Points x, points y half a unit away, and their connecting vectors."""
    manifold, generator = peer.ours, torch.Generator().manual_seed(0)
    origin = manifold.origin(_BATCH, *manifold.point_shape, dtype=torch.float64)
    x = manifold.wrapped_normal(origin, std=_STEP, generator=generator)
    u = manifold.random_tangent(x, std=_STEP, generator=generator)
    return x, manifold.expmap(x, u), u


def _calls(manifold: Any, operation: str, x: Tensor, y: Tensor, u: Tensor) -> Callable[[], Tensor]:
    return {
        "exp": lambda: manifold.expmap(x, u),
        "log": lambda: manifold.logmap(x, y),
        "transport": lambda: manifold.transp(x, y, u),
    }[operation]


def _microseconds(call: Callable[[], Tensor]) -> float:
    start = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - start) * 1e6 / _CALLS


def _check(points: list[Data], operation: str, dtype: str) -> Data:
    own = next(p for p in points if (p["manifold"], p["operation"], p["dtype"]) == (PEERS[0].label, operation, dtype))
    against = "mere projection" if operation == "transport" else operation
    return check(
        f"{PEERS[0].label}, {dtype}: {operation} over geoopt's {against}", own["ratio"], high=_LIMITS[operation]
    )


def draw(data: Data) -> Figure:
    """Ratios of times."""
    figure, axes = new_figure(1, 2, panel=(4.6, 3.6))
    for axis, dtype in zip(axes, ("float32", "float64"), strict=True):
        own = [p for p in data["points"] if p["dtype"] == dtype][::-1]
        axis.barh([f"{p['manifold']}: {p['operation']}" for p in own], [p["ratio"] for p in own], color=COLOURS[5])
        axis.axvline(1.0, color=THEORY, linestyle="--", label="equal")
        label_axes(axis, dtype, "CPU time, ours over geoopt's", "")
    return figure


def tell(data: Data) -> list[Block]:
    """Times and checks."""
    rows = [[p["manifold"], p["dtype"], p["operation"], p["ours"], p["geoopt"], p["ratio"]] for p in data["points"]]
    return [
        Table(
            f"CPU microseconds per call, batch {_BATCH}",
            ("manifold", "dtype", "operation", "ours", "geoopt", "ratio"),
            rows,
            note="Medians, one thread, both in turns. On the sphere geoopt's transport is only a projection.",
        ),
        check_table(data),
    ]


SPEED = Protocol(
    name="speed",
    title="Speed",
    measure=measure,
    draw=draw,
    tell=tell,
    caption=f"CPU time of our operations over geoopt's, batch {_BATCH}, one thread; below one is faster.",
)
