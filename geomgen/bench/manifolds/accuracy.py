"""Distances and logarithms of small steps in single precision, as samplers make them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manifolds import Manifold

from ...plotting import label_axes, measured, new_figure, theory
from ...report import Block, Table
from ..protocol import Data, Protocol, bar, check, check_table
from .peers import PEERS, Peer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ACCURACY"]

_STEPS = tuple(10.0**-k for k in range(1, 7))
_REACH = 1.0  # distance of hyperbolic points from the origin, at most
_PAIRS = 10_000
_LIMIT = 1e-6  # relative
_FLOOR = 1e-8  # of drawn errors


def measure(quick: bool, progress: bool) -> Data:
    """Largest relative errors in float32 against the same formula in float64 on the stored points."""
    pairs = _PAIRS // 10 if quick else _PAIRS
    points = [_point(peer, step, pairs) for peer in bar(PEERS[:2], "accuracy", progress) for step in _STEPS]
    return {
        "config": {"pairs": pairs, "steps": _STEPS, "reach": _REACH, "dtype": "float32", "seed": 0, "quick": quick},
        "points": points,
        "checks": [_check(points, peer.label, what) for peer in PEERS[:2] for what in ("distance", "logarithm")],
    }


def _point(peer: Peer, step: float, pairs: int) -> Data:
    x, y = _stored_pairs(peer.ours, step, pairs)
    exact = peer.ours.dist(x.double(), y.double()), peer.ours.logmap(x.double(), y.double())
    errors = {
        f"{name}_{what}": _worst(function(x, y), right)
        for name, manifold in (("ours", peer.ours), ("geoopt", peer.theirs()))
        for what, function, right in zip(
            ("distance", "logarithm"), (manifold.dist, manifold.logmap), exact, strict=True
        )
    }
    return {"manifold": peer.label, "step": step, **errors}


def _stored_pairs(manifold: Manifold, step: float, pairs: int) -> tuple[Tensor, Tensor]:
    """Points x near the origin and y one step away, float32: what is stored is what counts."""
    generator = torch.Generator().manual_seed(0)
    origin = manifold.origin(pairs, *manifold.point_shape, dtype=torch.float64)
    radius = _REACH * torch.rand(pairs, 1, dtype=torch.float64, generator=generator)
    x = manifold.expmap(origin, manifold.combine(origin, radius * _directions(pairs, manifold.dim, generator)))
    y = manifold.expmap(x, manifold.combine(x, step * _directions(pairs, manifold.dim, generator)))
    return x.float(), y.float()


def _directions(pairs: int, dim: int, generator: torch.Generator) -> Tensor:
    noise = torch.randn(pairs, dim, dtype=torch.float64, generator=generator)
    return noise / noise.norm(dim=-1, keepdim=True)


def _worst(found: Tensor, exact: Tensor) -> float:
    """Largest relative error, infinities and NaN as 1e300."""
    if exact.dim() > 1:
        error = (found.double() - exact).norm(dim=-1) / exact.norm(dim=-1)
    else:
        error = (found.double() - exact).abs() / exact
    return float(error.nan_to_num(nan=1e300, posinf=1e300).max())


def _check(points: list[Data], manifold: str, what: str) -> Data:
    worst = max(p[f"ours_{what}"] for p in points if p["manifold"] == manifold)
    return check(f"{manifold}: relative error of the {what} in float32, steps 1e-1 to 1e-6", worst, high=_LIMIT)


def draw(data: Data) -> Figure:
    """Error against step, ours and geoopt's."""
    figure, axes = new_figure(1, 2, panel=(4.6, 3.2))
    for axis, peer in zip(axes, PEERS[:2], strict=True):
        own = [p for p in data["points"] if p["manifold"] == peer.label]
        steps = [p["step"] for p in own]
        for index, name in enumerate(("ours", "geoopt")):
            for what, hollow in (("distance", False), ("logarithm", True)):
                errors = [_shown(p[f"{name}_{what}"]) for p in own]
                measured(axis, steps, errors, f"{name}, {what}", index=index, hollow=hollow)
        theory(axis, steps, [_LIMIT] * len(steps), "limit")
        label_axes(axis, peer.label, "length of the step", "largest relative error", log="y")
        axis.set_xscale("log")
    return figure


def _shown(error: float) -> float:
    return min(max(error, _FLOOR), 1e6)


def tell(data: Data) -> list[Block]:
    """Errors and checks."""
    columns = ("ours_distance", "geoopt_distance", "ours_logarithm", "geoopt_logarithm")
    rows = [[p["manifold"], f"{p['step']:.0e}", *(_cell(p[name]) for name in columns)] for p in data["points"]]
    return [
        Table(
            "Largest relative error in float32",
            ("manifold", "step", "distance, ours", "geoopt", "logarithm, ours", "geoopt"),
            rows,
            note=f"{data['config']['pairs']} pairs each, against float64 on the stored points; inf: NaN or infinite.",
        ),
        check_table(data),
    ]


def _cell(error: float) -> float | str:
    return "inf" if math.isclose(error, 1e300) else error


ACCURACY = Protocol(
    name="accuracy",
    title="Accuracy in single precision",
    measure=measure,
    draw=draw,
    tell=tell,
    caption="Largest relative error of distances and logarithms in float32, against float64 on the stored points.",
)
