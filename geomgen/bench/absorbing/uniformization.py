"""P3: what uniformization costs against sequence length, counted and beside the formulas of B10.

Neither candidates nor network calls depend on the data law, so the cheapest exact denoiser (uniform tokens) will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from samplers.absorbing import AbsorbingProcess, Constant, KappaGrid, Uniformization, bounds
from samplers.absorbing.leaping import Start

from ...plotting import COLOURS, label_axes, measured, new_figure, theory
from ...report import Block, Table
from ...statistics import mean_interval
from ..protocol import Data, Protocol, bar, check, check_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["UNIFORMIZATION"]

_VOCAB = 27
_ACCURACY = 1e-2
_GRID = 0.5  # step fraction c of the grid versions of the formula
_SEED = 0
_SPREAD = (6.0, 0.1)  # T and δ of the histograms: so early a stop leaves the number of calls random


def measure(quick: bool, progress: bool) -> Data:
    """Count candidates and calls for d = 8..4096 (..256 when quick), and their distributions at one length."""
    lengths = [8 * 2**k for k in range(6 if quick else 10)]
    points = [_point(d, quick) for d in bar(lengths, "P3: calls of uniformization", progress)]
    histogram = _histogram(64 if quick else 256, 500 if quick else 4000)
    return {
        "config": {"vocab_size": _VOCAB, "accuracy": _ACCURACY, "grid_c": _GRID, "seed": _SEED, "quick": quick},
        "points": points,
        "histogram": histogram,
        "checks": [*_count_checks(points), *_histogram_checks(histogram)],
    }


def horizon_and_stop(length: int) -> tuple[float, float]:
    """The theorem's choices: T = log(d log K / ε), δ = ε / d."""
    return math.log(length * math.log(_VOCAB) / _ACCURACY), _ACCURACY / length


def _count(length: int, rows: int, horizon: float, stop: float, start: Start) -> tuple[Tensor, Tensor]:
    """Candidates and network calls of each sequence, stopped at δ without a fill."""
    process = AbsorbingProcess(_VOCAB, length, Constant(horizon=horizon))
    sampler = Uniformization(process, early_stop=stop, fill=False, start=start)
    made = sampler.sample(_uniform_tokens, rows, generator=torch.Generator().manual_seed(_SEED))
    return made.candidates.double(), made.sequence_evaluations.double()


def _uniform_tokens(tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
    """The exact denoiser of independent uniform tokens."""
    shape = tokens.shape if positions is None else positions.shape[:1]
    return torch.full((*shape, _VOCAB), -math.log(_VOCAB), dtype=torch.float64)


def _point(length: int, quick: bool) -> Data:
    horizon, stop = horizon_and_stop(length)
    rows = max(32, min(1000, 2**13 // length)) if quick else max(64, min(2000, 2**16 // length))
    candidates, calls = map(mean_interval, _count(length, rows, horizon, stop, "surrogate"))
    times = KappaGrid(_GRID, stop).times(Constant(horizon=horizon))
    return {
        "length": length,
        "horizon": horizon,
        "early_stop": stop,
        "rows": rows,
        "candidates": {"mean": candidates.mean, "half_width": candidates.half_width},
        "calls": {"mean": calls.mean, "half_width": calls.half_width},
        "theory": {
            "candidates": bounds.unif_candidates_absorb(length, horizon, stop),
            "candidates_grid": bounds.unif_candidates_grid(times, length),
            "candidates_mask_aware": bounds.unif_candidates_mask_aware(times, length),
            "candidates_paper": bounds.unif_candidates_paper(length, horizon, stop),
            "calls": bounds.unif_calls(length, horizon, stop),
            "candidates_uniform_rate": bounds.unif_candidates_uniform(length, _VOCAB, horizon, stop),
            "candidates_uniform_rate_paper": bounds.unif_candidates_uniform_paper(length, horizon, stop),
        },
    }


def _count_checks(points: Sequence[Data]) -> list[Data]:
    """Means within four standard errors of B10 (both laws have known variance), and the exact gap to uniform rate."""
    worst = {"candidates": 0.0, "calls": 0.0}
    gap = 0.0
    for p in points:
        expected, d = p["theory"], p["length"]
        share = expected["calls"] / d
        spread = {"candidates": expected["candidates"], "calls": d * share * (1 - share)}
        for key in worst:
            error = abs(p[key]["mean"] - expected[key]) / math.sqrt(spread[key] / p["rows"])
            worst[key] = max(worst[key], error)
        difference = expected["candidates_uniform_rate"] - expected["candidates"]
        gap = max(gap, abs(difference / (d * (p["horizon"] - p["early_stop"]) * (1 - 1 / _VOCAB)) - 1))
    return [
        *(check(f"largest |mean {k} - B10| in standard errors", v, high=4.0) for k, v in worst.items()),
        check("relative error of the gap d(T-δ)(1-1/K) to the uniform-rate process", gap, high=1e-12),
    ]


def _histogram(length: int, rows: int) -> Data:
    horizon, stop = _SPREAD
    candidates, calls = _count(length, rows, horizon, stop, "mask")
    mean = torch.tensor(bounds.unif_candidates_absorb(length, horizon, stop), dtype=torch.float64)
    share = float(bounds.unif_calls(1, horizon, stop)) / -math.expm1(
        -horizon
    )  # from all masks: given that T masked them
    return {
        "length": length,
        "rows": rows,
        "horizon": horizon,
        "early_stop": stop,
        "candidates": _counted(candidates, lambda k: k * mean.log() - mean - torch.lgamma(k + 1)),
        "calls": _counted(calls, lambda k: _log_binomial(k, length, share)),
    }


def _counted(values: Tensor, log_law: Callable[[Tensor], Tensor]) -> Data:
    """Observed and expected frequencies over the values seen, and the p-value of their chi-square distance."""
    support = torch.arange(int(values.min()), int(values.max()) + 1, dtype=torch.float64)
    observed = torch.bincount((values - values.min()).long(), minlength=len(support)).double()
    expected = log_law(support).exp() * len(values)
    return {
        "value": support.tolist(),
        "observed": observed.tolist(),
        "expected": expected.tolist(),
        "p_value": _chi_square(observed, expected, len(values)),
    }


def _chi_square(observed: Tensor, expected: Tensor, total: int) -> float:
    """p-value; values with fewer than 5 expected are pooled with everything outside the observed range."""
    rare = expected < 5
    rest = torch.tensor([total - float(expected[~rare].sum()), float(observed[rare].sum())], dtype=torch.float64)
    distance = ((observed[~rare] - expected[~rare]) ** 2 / expected[~rare]).sum()
    distance = distance + (rest[1] - rest[0]) ** 2 / rest[0].clamp(min=1e-9)
    return float(torch.special.gammaincc((~rare).sum().double() / 2, distance / 2))


def _log_binomial(k: Tensor, n: int, share: float) -> Tensor:
    size = torch.tensor(float(n), dtype=torch.float64)
    choose = torch.lgamma(size + 1) - torch.lgamma(k + 1) - torch.lgamma(size - k + 1)
    return choose + k * math.log(share) + (size - k) * math.log1p(-share)


def _histogram_checks(histogram: Data) -> list[Data]:
    names = {"candidates": "Poisson", "calls": "binomial"}
    return [
        check(f"p-value, {key} against the {law} law", histogram[key]["p_value"], low=1e-4)
        for key, law in names.items()
    ]


_LINES: dict[str, tuple[str, str | tuple[int, tuple[int, int]]]] = {
    "candidates": ("candidates, d log((1-e⁻ᵀ)/(1-e⁻ᵟ))", "--"),
    "calls": ("calls, d(e⁻ᵟ-e⁻ᵀ)", "-"),
    "candidates_grid": ("candidates on the grid c = 0.5", ":"),
    "candidates_paper": ("published order, d(log T + log 1/δ)", "-."),
    "candidates_uniform_rate": ("uniform-rate candidates", (0, (1, 3))),
}


def draw(data: Data) -> Figure:
    """Counts per token against d, and the two histograms against their laws."""
    figure, axes = new_figure(1, 3, panel=(4.4, 3.6))
    points = data["points"]
    lengths = [p["length"] for p in points]
    for key, (label, dashes) in _LINES.items():
        theory(axes[0], lengths, [p["theory"][key] / p["length"] for p in points], label, dashes=dashes)
    for index, key in enumerate(("candidates", "calls")):
        means = [p[key]["mean"] / p["length"] for p in points]
        widths = [p[key]["half_width"] / p["length"] for p in points]
        measured(axes[0], lengths, means, f"{key}, counted", half_width=widths, index=index, line=False)
    axes[0].set_ylim(0, 45)
    label_axes(axes[0], "Cost of one exact sample, per token", "length d", "count / d", log="x", ticks=lengths)
    for index, (key, law) in enumerate((("candidates", "Poisson"), ("calls", "binomial"))):
        _draw_histogram(axes[index + 1], data["histogram"], key, law, index)
    return figure


def _draw_histogram(axis: Axes, histogram: Data, key: str, law: str, index: int) -> None:
    counted = histogram[key]
    width = max(1, len(counted["value"]) // 30)
    values, observed, expected = [_pooled(counted[k], width) for k in ("value", "observed", "expected")]
    middles = [total / width for total in values]
    axis.bar(middles, observed, width=0.9 * width, color=COLOURS[index], alpha=0.6, label="counted")
    theory(axis, middles, expected, f"{law} law")
    title = f"{key.capitalize()} at d = {histogram['length']}"
    label_axes(axis, title, f"{key} of a sequence", "sequences")


def _pooled(values: Sequence[float], width: int) -> list[float]:
    """Sums of consecutive values, the incomplete rest left out."""
    return [sum(values[i : i + width]) for i in range(0, len(values) - width + 1, width)]


def tell(data: Data) -> list[Block]:
    """Counted and expected numbers for each length."""
    rows = [
        [
            p["length"],
            p["candidates"]["mean"],
            p["candidates"]["half_width"],
            p["theory"]["candidates"],
            p["calls"]["mean"],
            p["calls"]["half_width"],
            p["theory"]["calls"],
            p["theory"]["candidates_paper"],
            p["theory"]["candidates_uniform_rate"],
        ]
        for p in data["points"]
    ]
    header = ("d", "candidates", "±95 %", "B10", "calls", "±95 %", "B10", "paper's order", "uniform rate")
    return [Table("Candidates and network calls per sequence", header, rows), check_table(data)]


UNIFORMIZATION = Protocol(
    name="p3_uniformization",
    title="P3. Cost of uniformization against length",
    measure=measure,
    draw=draw,
    tell=tell,
    caption=(
        "Counts per token with T = log(d log K / ε), δ = ε / d, ε = 0.01, K = 27, and their distributions. Rejecting a "
        "candidate needs no network, so an exact sample costs at most d calls, although the candidates grow as d log d."
    ),
)
