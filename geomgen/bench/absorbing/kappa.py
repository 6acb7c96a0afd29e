"""P5 (first part): τ-leaping on the theorem's grid, stopped early, against its three-term path error (B3).

With a final fill the same steps give an error that is far smaller: both are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from samplers.absorbing import AbsorbingProcess, Constant, KappaGrid, TabularDenoiser, TauLeaping, bounds, exact_law
from samplers.absorbing.information import profile
from samplers.absorbing.law import kl_divergence, total_variation
from samplers.absorbing.leaping import Start

from ...plotting import COLOURS, label_axes, measured, new_figure, theory
from ...report import Block, Table
from ...statistics import slope
from ..protocol import Data, Protocol, bar, check, check_table
from .targets import spin_ring

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["KAPPA"]

_LENGTH = 4
_HORIZON = 8.0
_STEPS = (0.8, 0.4, 0.2, 0.1, 0.05)
_STOPS = (0.2, 0.05, 0.01, 0.001)
_TERMS = ("init", "time", "data")


def measure(quick: bool, progress: bool) -> Data:
    """Enumerate the laws for every step fraction c and early stop δ."""
    law = spin_ring(_LENGTH)
    pairs = [(c, stop) for stop in (_STOPS[::2] if quick else _STOPS) for c in (_STEPS[:3] if quick else _STEPS)]
    points = [_point(law, c, stop) for c, stop in bar(pairs, "P5: τ-leaping on the theorem's grid", progress)]
    stops = sorted({p["early_stop"] for p in points}, reverse=True)
    fits = [] if quick else [_fit(points, stop) for stop in stops]
    return {
        "config": {"target": "ising_ring_d4", "horizon": _HORIZON, "early_stops": stops, "quick": quick},
        "points": points,
        "fits": fits,
        "checks": [*_checks(points), *(c for fit in fits for c in _fit_checks(fit))],
    }


def stopped_law(law: Tensor, stop: float) -> Tensor:
    """The law q_δ of data after time δ of masking, (K,) * d -> (K + 1,) * d."""
    size = law.shape[0]
    kernel = AbsorbingProcess(size, law.dim(), Constant(horizon=_HORIZON)).transition(stop)[:size]
    for _ in range(law.dim()):
        law = torch.tensordot(law, kernel, dims=([0], [0]))
    return law


def _output(law: Tensor, c: float, stop: float, *, fill: bool, start: Start) -> Tensor:
    process = AbsorbingProcess(law.shape[0], law.dim(), Constant(horizon=_HORIZON))
    run = TauLeaping(process, grid=KappaGrid(c, stop), fill=fill, start=start)
    return exact_law(run, TabularDenoiser(law))


def _point(law: Tensor, c: float, stop: float) -> Data:
    grid = KappaGrid(c, stop).times(Constant(horizon=_HORIZON))
    target = stopped_law(law, stop)
    clean = torch.zeros_like(target)
    clean[(slice(0, law.shape[0]),) * law.dim()] = law
    path = bounds.tau_path_kl(grid, profile(law), law.shape[0])
    return {
        "c": c,
        "early_stop": stop,
        "steps": len(grid) - 1,
        "kl_surrogate": kl_divergence(target, _output(law, c, stop, fill=False, start="surrogate")),
        "kl_exact_start": kl_divergence(target, _output(law, c, stop, fill=False, start="exact")),
        "kl_fill": kl_divergence(law, _output(law, c, stop, fill=True, start="mask")),
        **{term: getattr(path, term) for term in _TERMS},
        "path_kl": path.total,
        "stop_tv": total_variation(clean, target),
        "stop_tv_formula": bounds.early_stop_tv(law.dim(), stop),
    }


def _of(points: Sequence[Data], stop: float) -> list[Data]:
    return [p for p in points if p["early_stop"] == stop]


def _fit(points: Sequence[Data], stop: float) -> Data:
    """Orders in c over its last three octaves."""
    own = _of(points, stop)
    fineness = [1 / p["c"] for p in own]
    keys = ("time", "data", "kl_exact_start", "kl_fill")
    return {"early_stop": stop, **{k: -slope(fineness, [p[k] for p in own]).value for k in keys}}


def _fit_checks(fit: Data) -> list[Data]:
    orders = {"time": 2.0, "data": 1.0, "kl_exact_start": 2.0}
    if fit["early_stop"] <= 0.01:  # the fill is a bin of width δ: its own error is a floor at larger δ
        orders["kl_fill"] = 2.0
    return [
        check(f"order in c of {key}, δ = {fit['early_stop']}", fit[key], order - 0.25, order + 0.25)
        for key, order in orders.items()
    ]


def _checks(points: Sequence[Data]) -> list[Data]:
    excess = max(p["kl_surrogate"] - p["path_kl"] for p in points)
    stops = max(abs(p["stop_tv"] - p["stop_tv_formula"]) for p in points)
    return [
        check("largest excess of KL(q_δ ‖ output) over the path error B3", excess, high=1e-12),
        check("largest |TV(q₀, q_δ) - (1 - exp(-dδ))|", stops, high=1e-12),
        check(
            "largest ratio of KL with fill to KL without",
            max(p["kl_fill"] / p["kl_surrogate"] for p in points),
            high=1.0,
        ),
    ]


def draw(data: Data) -> Figure:
    """Divergences against c, the three terms, the cost of stopping, and the error with a fill."""
    figure, axes = new_figure(2, 2, panel=(4.7, 3.6))
    points, stops = data["points"], data["config"]["early_stops"]
    for index, stop in enumerate(stops):
        own = _of(points, stop)
        c, label = [p["c"] for p in own], f"δ = {stop:g}"
        theory(axes[0], c, [p["path_kl"] for p in own], "path error (B3)" if not index else "")
        measured(axes[0], c, [p["kl_surrogate"] for p in own], label, index=index)
        measured(axes[3], [p["steps"] + 1 for p in own], [p["kl_fill"] for p in own], label, index=index)
    _draw_terms(axes[1], _of(points, 0.01))
    _draw_stops(axes[2], [_of(points, stop)[0] for stop in stops])
    ticks = sorted({p["c"] for p in points})
    label_axes(axes[0], "Stopped early, no fill", "step fraction c", "KL(q_δ ‖ output), nats", log="xy", ticks=ticks)
    label_axes(axes[3], "From all masks, with fill", "network stages N + 1", "KL(q₀ ‖ output), nats", log="xy")
    return figure


def _draw_terms(axis: Axes, own: Sequence[Data]) -> None:
    places = range(len(own))
    floor = [0.0] * len(own)
    for index, term in enumerate(_TERMS):
        heights = [p[term] / p["path_kl"] for p in own]
        axis.bar(places, heights, bottom=floor, color=COLOURS[index], width=0.7, label=f"{term} term")
        floor = [a + b for a, b in zip(floor, heights, strict=True)]
    measured(axis, list(places), [p["kl_surrogate"] / p["path_kl"] for p in own], "KL reached", index=6, line=False)
    axis.set_ylim(0, 1.45)
    label_axes(axis, "Shares of the path error, δ = 0.01", "step fraction c", "share")
    axis.set_xticks(list(places), [f"{p['c']:g}" for p in own])


def _draw_stops(axis: Axes, own: Sequence[Data]) -> None:
    stops = [p["early_stop"] for p in own]
    theory(axis, stops, [p["stop_tv_formula"] for p in own], "1 - exp(-dδ) (B2)")
    measured(axis, stops, [p["stop_tv"] for p in own], "TV(q₀, q_δ)", line=False)
    label_axes(axis, "Price of stopping early", "early stop δ", "total variation", log="xy", ticks=stops)


def tell(data: Data) -> list[Block]:
    """All points, the orders in c and the checks."""
    keys = ("c", "early_stop", "steps", *_TERMS, "path_kl", "kl_surrogate", "kl_exact_start", "kl_fill")
    header = ("c", "δ", "N", *_TERMS, "path error", "KL, surrogate", "KL, exact start", "KL(q₀‖·), fill")
    blocks: list[Block] = [
        Table(
            "τ-leaping on the theorem's grid, Ising ring, T = 8", header, [[p[k] for k in keys] for p in data["points"]]
        )
    ]
    if data["fits"]:
        orders = ("early_stop", "time", "data", "kl_exact_start", "kl_fill")
        rows = [[fit[k] for k in orders] for fit in data["fits"]]
        columns = ("δ", "time term (2)", "data term (1)", "KL(q_δ‖·) (2)", "KL(q₀‖·), fill (2)")
        note = "The fill is itself a bin of width δ: at large δ its error is a floor that smaller steps do not lower."
        blocks.append(Table("Orders in c over the last three octaves (expected)", columns, rows, note))
    return [*blocks, check_table(data)]


KAPPA = Protocol(
    name="p5_kappa",
    title="P5. The theorem's grid: early stopping against a fill",
    measure=measure,
    draw=draw,
    tell=tell,
    caption=(
        "τ-leaping with steps c·min(1, t) from T = 8 down to δ. Without a fill most of the error is the time term: "
        "masks left over because the rate is frozen at the start of a step. One more stage that draws what is left "
        "(bottom right) removes it, and the price of stopping with it."
    ),
)
