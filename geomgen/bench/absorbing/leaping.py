"""P1: error of the leaping samplers against the number of steps, beside the exact path error and its bounds.

Output laws are enumerated, so no point has sampling noise. Theory: bounds B4 (grids) and B5 (fixed sizes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from samplers.absorbing import (
    AbsorbingProcess,
    Euler,
    FirstHitting,
    TabularDenoiser,
    TauLeaping,
    Tweedie,
    bounds,
    exact_law,
)
from samplers.absorbing.information import Profile, profile
from samplers.absorbing.law import kl_divergence, total_variation
from samplers.absorbing.testing import small_targets

from ...plotting import COLOURS, label_axes, measured, new_figure, shared_legend, theory
from ...report import Block, Table
from ...statistics import slope
from ..protocol import Data, Protocol, bar, check, check_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LEAPING", "draw_steps", "errors", "slope_table"]

_FIXED = "first-hitting, fixed sizes"
_SAMPLERS: dict[str, Callable[..., Any]] = {
    "Euler": Euler,
    "Tweedie": Tweedie,
    "τ-leaping": TauLeaping,
    "τ-leaping, reject": lambda process, steps: TauLeaping(process, steps=steps, multi_event="reject"),
}
_KL_SLOPES = {"dense_d3K2": -2.0, "ising_ring_d4": -2.0, "parity_d4": -1.0, "perm_d4": -1.0}
_WINDOW = 0.1
_STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def measure(quick: bool, progress: bool) -> Data:
    """All targets for N = 1..256 steps (two of them up to 16 when quick, too few for slopes)."""
    return (
        errors(["dense_d3K2", "parity_d4"], _STEPS[:5], progress)
        if quick
        else errors(list(_KL_SLOPES), _STEPS, progress)
    )


def errors(names: Sequence[str], steps: Sequence[int], progress: bool) -> Data:
    """Enumerate the output law of every sampler on small targets for the given numbers of steps.

    Slopes are fitted and checked when there are at least 64 steps.
    """
    points: list[Data] = []
    for name in bar(names, "P1: laws of leaping samplers", progress):
        law = small_targets()[name]
        sizes = [size for size in range(law.dim(), 0, -1) if law.dim() % size == 0]
        points += [_grid_point(name, law, sampler, n) for sampler in _SAMPLERS for n in steps]
        points += [_fixed_point(name, law, size) for size in sizes]
    fits = [_fit(points, name, sampler) for name in names for sampler in _SAMPLERS] if max(steps) >= 64 else []
    return {
        "config": {"steps": list(steps), "targets": list(names), "schedule": "LogLinear"},
        "points": points,
        "sizes": {name: _sizes(small_targets()[name]) for name in names},
        "fits": fits,
        "checks": [*_order_checks(points), *(c for fit in fits for c in _fit_checks(fit))],
    }


def _grid_point(name: str, law: Tensor, sampler: str, steps: int) -> Data:
    made = profile(law)
    run = _SAMPLERS[sampler](AbsorbingProcess(law.shape[0], law.dim()), steps=steps)
    fractions = run.reveal_fractions()
    return {
        **_errors(name, law, sampler, run),
        "steps": steps,
        "network_calls": bounds.lazy_nfe(fractions.diff(), law.dim()),
        "path_kl": bounds.path_kl(fractions, made),
        "bound": bounds.path_kl_crude(fractions, made),
    }


def _fixed_point(name: str, law: Tensor, size: int) -> Data:
    made = profile(law)
    run = FirstHitting(AbsorbingProcess(law.shape[0], law.dim()), tokens_per_call=size)
    calls = law.dim() // size
    return {
        **_errors(name, law, _FIXED, run),
        "steps": calls,
        "network_calls": float(calls),
        "path_kl": bounds.fixed_size_path_kl([size] * calls, made),
        "bound": bounds.fixed_size_bound(size, made),
    }


def _errors(name: str, law: Tensor, sampler: str, run: Any) -> Data:
    output = exact_law(run, TabularDenoiser(law))
    kl, distance = kl_divergence(law, output), total_variation(law, output)
    return {"target": name, "sampler": sampler, "kl": max(kl, 0.0), "tv": distance}


def _sizes(law: Tensor) -> Data:
    made: Profile = profile(law)
    return {
        "length": law.dim(),
        "vocab_size": law.shape[0],
        "total_correlation": made.total_correlation,
        "dual_total_correlation": made.dual_total_correlation,
    }


def _of(points: Sequence[Data], name: str, sampler: str) -> list[Data]:
    return [p for p in points if p["target"] == name and p["sampler"] == sampler]


def _fit(points: Sequence[Data], name: str, sampler: str) -> Data:
    own = _of(points, name, sampler)
    steps = [p["steps"] for p in own]
    return {
        "target": name,
        "sampler": sampler,
        **{f"{key}_slope": slope(steps, [p[key] for p in own]).value for key in ("kl", "path_kl", "tv")},
    }


def _fit_checks(fit: Data) -> list[Data]:
    expected = {"kl": _KL_SLOPES[fit["target"]], "path_kl": -1.0, "tv": -1.0}
    return [
        check(f"slope of {key} in N, {fit['sampler']}, {fit['target']}", fit[f"{key}_slope"], s - _WINDOW, s + _WINDOW)
        for key, s in expected.items()
    ]


def _order_checks(points: Sequence[Data]) -> list[Data]:
    """KL ≤ path KL ≤ (TC + DTC) max Δp everywhere; Euler is Tweedie under the log-linear schedule."""
    margin = max(max(p["kl"] - p["path_kl"], p["path_kl"] - p["bound"]) for p in points)
    names = {p["target"] for p in points}
    apart = max(
        abs(a["kl"] - b["kl"])
        for name in names
        for a, b in zip(_of(points, name, "Euler"), _of(points, name, "Tweedie"), strict=True)
    )
    exact = max(p["kl"] for p in points if p["sampler"] == _FIXED and p["bound"] == 0.0)
    return [
        check("largest excess of KL over path KL, or of path KL over its bound", margin, high=1e-12),
        check("largest |KL(Euler) - KL(Tweedie)|: one law under the log-linear schedule", apart, high=1e-12),
        check("KL of first-hitting at one token per call", exact, high=1e-12),
    ]


def draw(data: Data) -> Figure:
    """First row: KL against steps with the theory lines; second row: KL against expected network calls."""
    names = data["config"]["targets"]
    figure, axes = new_figure(2, len(names), panel=(3.6, 3.1))
    for axis, lower, name in zip(axes[: len(names)], axes[len(names) :], names, strict=True):
        draw_steps(axis, data, name)
        _draw_calls(lower, data, name)
    shared_legend(figure)
    return figure


def draw_steps(axis: Axes, data: Data, name: str) -> None:
    """KL of the output against steps on one target, with the exact path error of Tweedie and its two bounds."""
    sizes, steps = data["sizes"][name], data["config"]["steps"]
    tweedie = _of(data["points"], name, "Tweedie")
    total = sizes["total_correlation"] + sizes["dual_total_correlation"]
    seed = sizes["length"] * math.log(sizes["vocab_size"])
    theory(axis, steps, [seed / n for n in steps], "d log K / N", dashes=":")
    theory(axis, steps, [total / n for n in steps], "(TC+DTC) / N", dashes="-.")
    theory(axis, steps, [p["path_kl"] for p in tweedie], "path KL of Tweedie (B4)")
    for index, sampler in enumerate(_SAMPLERS):
        own = _of(data["points"], name, sampler)
        measured(axis, steps, [p["kl"] for p in own], sampler, index=index, hollow=sampler == "Euler")
    label_axes(axis, name, "steps N", "KL(data ‖ samples), nats", log="xy", ticks=steps, legend=False)


def _draw_calls(axis: Axes, data: Data, name: str) -> None:
    length = data["sizes"][name]["length"]
    for index, sampler in enumerate([*_SAMPLERS, _FIXED]):
        own = [p for p in _of(data["points"], name, sampler) if p["kl"] > 1e-12]
        calls, kl = [p["network_calls"] for p in own], [p["kl"] for p in own]
        measured(axis, calls, kl, sampler, index=index, hollow=sampler == "Euler")
    axis.axvline(length, color=COLOURS[2], linewidth=1, label="exact samplers: KL 0 at d calls")
    title, x, y = f"{name}, by cost", "expected network calls", "KL(data ‖ samples), nats"
    label_axes(axis, title, x, y, log="y", legend=False)


def tell(data: Data) -> list[Block]:
    """The slopes and the checks."""
    blocks: list[Block] = []
    if data["fits"]:
        blocks.append(slope_table(data))
    return [*blocks, check_table(data)]


def slope_table(data: Data) -> Table:
    """Fitted slopes beside the expected ones."""
    rows = [
        [f["target"], f["sampler"], f["kl_slope"], _KL_SLOPES[f["target"]], f["path_kl_slope"], f["tv_slope"]]
        for f in data["fits"]
    ]
    header = ("target", "sampler", "KL slope", "expected", "path KL slope (-1)", "TV slope (-1)")
    return Table("Log-log slopes in N over the last three octaves", header, rows)


LEAPING = Protocol(
    name="p1_leaping",
    title="P1. Error against the number of steps",
    measure=measure,
    draw=draw,
    tell=tell,
    caption=(
        "KL between the data law and the enumerated law of the samples, against steps (top) and against expected "
        "network calls (bottom). Where every string is possible the error falls as 1/N², although the path error "
        "that theory bounds falls as 1/N; with forbidden strings (parity, permutations) both fall as 1/N."
    ),
)
