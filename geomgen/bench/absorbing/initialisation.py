"""P4: what the initial law costs: KL(q_T ‖ p_init) in closed form, and what of it reaches the output.

The surrogate initial law makes path divergences finite; the output does not need it (B1, B1', B1'').
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from samplers.absorbing import AbsorbingProcess, Constant, TabularDenoiser, Uniformization, bounds, exact_law
from samplers.absorbing.information import profile
from samplers.absorbing.law import kl_divergence
from samplers.absorbing.leaping import Start

from ...plotting import label_axes, measured, new_figure, theory
from ...report import Block, Table
from ...statistics import slope
from ..protocol import Data, Protocol, bar, check, check_table
from .targets import spin_ring

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["INITIALISATION"]

_LENGTH = 4
_HORIZONS = tuple(float(t) for t in range(1, 13))


def measure(quick: bool, progress: bool) -> Data:
    """Spin rings of K = 2, 3, 5 states: initial divergences and enumerated output laws for T = 1..12."""
    sizes = [2, 3] if quick else [2, 3, 5]
    points = [
        _point(size, horizon)
        for size in bar(sizes, "P4: initial laws", progress)
        for horizon in (_HORIZONS[::3] if quick else _HORIZONS)
    ]
    fits = [] if quick else [_fit(points, size) for size in sizes]
    return {
        "config": {"length": _LENGTH, "vocab_sizes": sizes, "target": "spin ring", "quick": quick},
        "points": points,
        "fits": fits,
        "checks": [*_checks(points), *(c for fit in fits for c in _fit_checks(fit))],
    }


def _point(size: int, horizon: float) -> Data:
    made = profile(spin_ring(_LENGTH, size))
    return {
        "vocab_size": size,
        "horizon": horizon,
        "bound": bounds.init_kl_bound(_LENGTH, size, horizon),
        "exact": bounds.init_kl_exact(made, size, horizon),
        "marginal": bounds.init_kl_marginal(made, horizon),
        "output_surrogate": _output_kl(size, horizon, "surrogate"),
        "output_mask": _output_kl(size, horizon, "mask"),
    }


def _output_kl(size: int, horizon: float, start: Start) -> float:
    """KL(q0 ‖ output) of the exact sampler from an initial law."""
    law = spin_ring(_LENGTH, size)
    process = AbsorbingProcess(size, _LENGTH, Constant(horizon=horizon))
    return kl_divergence(law, exact_law(Uniformization(process, start=start), TabularDenoiser(law)))


def _of(points: Sequence[Data], size: int) -> list[Data]:
    return [p for p in points if p["vocab_size"] == size]


def _fit(points: Sequence[Data], size: int) -> Data:
    """Decay rates in T, as log-log slopes against e^T over its last six octaves."""
    own = _of(points, size)
    clock = [math.exp(p["horizon"]) for p in own]
    keys = ("bound", "exact", "marginal", "output_surrogate")
    return {"vocab_size": size, **{k: slope(clock, [p[k] for p in own], last_octaves=6).value for k in keys}}


def _fit_checks(fit: Data) -> list[Data]:
    rates = {"exact": -1.0, "marginal": -2.0}
    name = "decay rate in T of the initial KL, {} surrogate, K = {}"
    kinds = {"exact": "uniform", "marginal": "marginal"}
    return [
        check(name.format(kinds[k], fit["vocab_size"]), fit[k], rate - 0.05, rate + 0.05) for k, rate in rates.items()
    ]


def _checks(points: Sequence[Data]) -> list[Data]:
    excess = max(max(p["output_surrogate"] - p["exact"], p["exact"] - p["bound"]) for p in points)
    return [
        check("largest excess of output KL over initial KL, or of initial KL over B1", excess, high=1e-12),
        check("largest output KL from all masks", max(abs(p["output_mask"]) for p in points), high=1e-12),
    ]


def draw(data: Data) -> Figure:
    """Left: the initial divergence; right: what reaches the output."""
    figure, (left, right) = new_figure(1, 2, panel=(4.6, 3.8))
    for index, size in enumerate(data["config"]["vocab_sizes"]):
        own = _of(data["points"], size)
        horizons = [p["horizon"] for p in own]
        theory(left, horizons, [p["bound"] for p in own], "bound d e⁻ᵀ log K (B1)" if not index else "")
        measured(left, horizons, [p["exact"] for p in own], f"uniform surrogate, K = {size}", index=index)
        measured(
            left, horizons, [p["marginal"] for p in own], f"marginal surrogate, K = {size}", index=index, hollow=True
        )
        theory(right, horizons, [p["exact"] for p in own], "initial KL (B1')" if not index else "")
        measured(right, horizons, [p["output_surrogate"] for p in own], f"from the surrogate, K = {size}", index=index)
    right.plot([], [], " ", label="from all masks: 0 for every T and K")
    label_axes(left, "Initial divergence", "horizon T", "KL(q_T ‖ p_init), nats", log="y")
    label_axes(right, "Divergence of the output, exact sampler", "horizon T", "KL(q₀ ‖ output), nats", log="y")
    return figure


def tell(data: Data) -> list[Block]:
    """Values at some horizons and the checks."""
    keys = ("bound", "exact", "marginal", "output_surrogate", "output_mask")
    rows = [
        [p["vocab_size"], int(p["horizon"]), *(p[k] for k in keys)]
        for p in data["points"]
        if p["horizon"] in (1, 4, 7, 10)
    ]
    header = ("K", "T", "bound B1", "uniform B1'", "marginal B1''", "output, surrogate", "output, all masks")
    return [Table("Initial divergence and output divergence, nats", header, rows), check_table(data)]


INITIALISATION = Protocol(
    name="p4_initialisation",
    title="P4. The initial law",
    measure=measure,
    draw=draw,
    tell=tell,
    caption=(
        "Left: the divergence of the surrogate initial law, its bound, and the law that uses the data's marginals "
        "instead of the uniform one. Right: what the start costs the output of an exact sampler. Starting from all "
        "masks costs nothing at any horizon, so the surrogate is a device of proofs, not of samplers."
    ),
)
