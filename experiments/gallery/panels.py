"""Curves, walks and histograms of a portrait, and their three panels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from portraits import Portrait
from torch import Tensor

from geomgen.plotting import COLOURS, THEORY, label_axes, new_figure, theory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curves", "measure", "portrait_figure"]

WALKERS = 4000
PATHS, PATH_STEPS = 4, 300
GEODESICS, POINTS = 8, 80
BINS, NODES = 36, 2000
ALARM = 1.95  # of sqrt(N) times the Kolmogorov distance: one false alarm in a thousand


def geodesics(portrait: Portrait) -> Tensor:
    """Drawn coordinates (GEODESICS, POINTS, 2) of geodesics that leave the start in all directions of a plane."""
    manifold = portrait.manifold
    angles = torch.arange(GEODESICS, dtype=torch.float64) * (2 * math.pi / GEODESICS) + 0.2
    frame = manifold.frame(portrait.start)
    first, second = portrait.tangents or (frame[..., 0], frame[..., -1])
    times = torch.linspace(0, portrait.reach, POINTS, dtype=torch.float64)
    along, across = (
        torch.outer(part, times).reshape(GEODESICS, POINTS, *[1] * manifold.ndim) for part in _plane(angles)
    )
    tangent = along * first + across * second
    return portrait.plane(manifold.expmap(portrait.start.expand_as(tangent), tangent))


def _plane(angles: Tensor) -> tuple[Tensor, Tensor]:
    return angles.cos(), angles.sin()


def walk(portrait: Portrait, count: int, steps: int, seed: int) -> Tensor:
    """Brownian paths (steps + 1, count, *point_shape) up to the time of the portrait's law."""
    manifold, generator = portrait.manifold, torch.Generator().manual_seed(seed)
    states = [portrait.start.expand(count, *manifold.point_shape).contiguous()]
    dt = portrait.law.time / steps
    for _ in range(steps):
        if portrait.by_retraction:
            tangent = manifold.random_tangent(states[-1], math.sqrt(dt), generator)
            states.append(manifold.retr(states[-1], tangent))
        else:
            states.append(manifold.brownian_step(states[-1], dt, generator=generator))
    return torch.stack(states)


def measure(portrait: Portrait) -> dict[str, Any]:
    """The histogram of the law's number over Brownian samples, the exact density, and their Kolmogorov distance."""
    law, (low, high) = portrait.law, portrait.law.support
    values = law.statistic(walk(portrait, WALKERS, law.steps, seed=1)[-1]).sort().values
    grid = torch.linspace(low, high, NODES, dtype=torch.float64)
    density = law.density(grid)
    mass = torch.cumulative_trapezoid(density, grid)
    cumulative = torch.cat([torch.zeros(1, dtype=torch.float64), mass])
    cell = torch.searchsorted(grid, values.clamp(low, high)).clamp(1, NODES - 1)
    weight = (values.clamp(low, high) - grid[cell - 1]) / (grid[cell] - grid[cell - 1])
    expected = cumulative[cell - 1].lerp(cumulative[cell], weight)
    ranks = torch.arange(WALKERS + 1, dtype=torch.float64) / WALKERS
    distance = torch.maximum((ranks[1:] - expected).abs(), (expected - ranks[:-1]).abs()).max()
    edges = torch.linspace(low, high, BINS + 1, dtype=torch.float64)
    counts = torch.histc(values, BINS, low, high)
    return {
        "manifold": repr(portrait.manifold),
        "law": law.name,
        "time": law.time,
        "steps": law.steps,
        "walkers": WALKERS,
        "seed": 1,
        "mass": float(cumulative[-1]),
        "kolmogorov": float(distance),
        "allowed": ALARM / math.sqrt(WALKERS),
        "edges": edges.tolist(),
        "histogram": (counts / (WALKERS * (high - low) / BINS)).tolist(),
        "curve": [grid[:: NODES // 100].tolist(), density[:: NODES // 100].tolist()],
    }


def portrait_figure(portrait: Portrait, data: dict[str, Any]) -> Figure:
    """Geodesics, Brownian paths, and the histogram against the exact law."""
    figure, (left, middle, right) = new_figure(1, 3, panel=(3.7, 3.3))
    draw_curves(left, geodesics(portrait), portrait.outline)
    label_axes(left, "Geodesics", *portrait.axes)
    paths = portrait.plane(walk(portrait, PATHS, PATH_STEPS, seed=2)).movedim(1, 0)
    draw_curves(middle, paths, portrait.outline)
    label_axes(middle, f"Brownian paths, t = {data['time']:g}", *portrait.axes)
    edges, heights = data["edges"], data["histogram"]
    right.stairs(heights, edges, fill=True, color=COLOURS[5], alpha=0.6, label=f"{data['walkers']} walkers")
    theory(right, *data["curve"], "exact law")
    label_axes(right, f"D = {data['kolmogorov']:.3f}, allowed {data['allowed']:.3f}", data["law"], "density")
    figure.suptitle(portrait.title)
    return figure


def draw_curves(axis: Axes, curves: Tensor, outline: bool) -> None:
    """Draw curves (count, points, 2) from a common start, broken where they leave a periodic square."""
    if outline:
        circle = torch.linspace(0, 2 * math.pi, 200, dtype=torch.float64)
        axis.plot(circle.cos(), circle.sin(), color=THEORY, linewidth=1.0)
    for index, curve in enumerate(curves):
        jumps = (curve[1:] - curve[:-1]).abs().amax(-1) > 3.0
        curve = curve.clone()
        curve[1:][jumps] = torch.nan
        axis.plot(curve[:, 0], curve[:, 1], color=COLOURS[index % len(COLOURS)], linewidth=1.0)
    axis.plot(*curves[0, 0].tolist(), "o", color=COLOURS[-1], markersize=4)
    axis.set_aspect("equal", adjustable="datalim")
