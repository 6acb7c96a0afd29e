"""What the gallery shows of Lorentzian manifolds: geodesics of each causal type, observers, and a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from panels import draw_curves
from portraits import vector
from torch import Tensor

from geomgen.plotting import COLOURS, label_axes, measured, new_figure, theory
from manifolds import AntiDeSitter, DeSitter, Hyperboloid, Manifold, Minkowski, Schwarzschild

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SPACE_TIMES"]

Drawn = tuple[dict[str, Any], "Figure"]
Plane = Callable[[Tensor], Tensor]


def _fan(
    axis: Axes, manifold: Manifold, start: Tensor, reach: float, plane: Plane, limits: tuple[float, float]
) -> None:
    """Time-like, null and space-like geodesics from one event, each type in one colour."""
    times = torch.linspace(-reach, reach, 161, dtype=torch.float64)
    fans = {
        "time-like": [(math.cosh(a), math.sinh(a)) for a in (-0.8, -0.4, 0.0, 0.4, 0.8)],
        "null": [(1.0, 1.0), (1.0, -1.0)],
        "space-like": [(math.sinh(a), math.cosh(a)) for a in (-0.8, -0.4, 0.0, 0.4, 0.8)],
    }
    for index, (name, directions) in enumerate(fans.items()):
        for number, direction in enumerate(directions):
            components = torch.zeros(len(times), manifold.dim, dtype=torch.float64)
            components[:, :2] = times[:, None] * vector(*direction)
            point = start.expand(len(times), *manifold.point_shape)
            curve = plane(manifold.expmap(point, manifold.combine(point, components)))
            axis.plot(curve[:, 0], curve[:, 1], color=COLOURS[index], linewidth=1.0, label=None if number else name)
    axis.set_xlim(*limits)
    axis.set_ylim(*limits)
    axis.set_aspect("equal")


def _compared(axis: Axes, title: str, names: tuple[str, str], x: Tensor, found: Tensor, exact: Tensor) -> float:
    """Points on a curve; returns the largest deviation."""
    theory(axis, x.tolist(), exact.tolist(), "closed form")
    chosen = slice(None, None, max(len(x) // 12, 1))
    measured(axis, x[chosen].tolist(), found[chosen].tolist(), "computed", line=False)
    label_axes(axis, title, *names)
    return float((found - exact).abs().max())


def _numbers(manifold: Manifold, law: str, deviation: float, allowed: float) -> dict[str, Any]:
    return {"manifold": repr(manifold), "law": law, "kolmogorov": deviation, "allowed": allowed}


def minkowski() -> Drawn:
    """World lines of momenta that diffuse on the mass shell (Dudley), and their mean energy."""
    flat, shell = Minkowski(3), Hyperboloid(2)
    figure, (left, middle, right) = new_figure(1, 3, panel=(3.7, 3.3))
    figure.suptitle("Minkowski(3)")
    _fan(left, flat, vector(0, 0, 0), 3.0, lambda x: x[..., [1, 0]], (-3.0, 3.0))
    label_axes(left, "Geodesics", "x", "t")
    walkers, steps, time = 4000, 60, 1.0
    generator = torch.Generator().manual_seed(1)
    momenta = [shell.origin(walkers, 3, dtype=torch.float64)]
    for _ in range(steps):
        momenta.append(shell.brownian_step(momenta[-1], time / steps, generator=generator))
    momentum = torch.stack(momenta)
    lines = torch.cumsum(momentum[:, :6] * (time / steps), 0).movedim(1, 0) - momentum[0, 0] * (time / steps)
    draw_curves(middle, lines[..., [1, 0]], outline=False)
    label_axes(middle, "World lines, relativistic diffusion", "x", "t")
    times = torch.linspace(0, time, steps + 1, dtype=torch.float64)
    energy = momentum[..., 0]
    deviation = _compared(right, "Mean energy", ("proper time", "E p0"), times, energy.mean(1), times.exp())
    allowed = 4.0 * float(energy[-1].std()) / math.sqrt(walkers) + math.e / (2 * steps)
    return _numbers(flat, "mean energy of relativistic diffusion, e^t", deviation, allowed), figure


def _curved(manifold: Manifold, start: Tensor, plane: Plane, names: tuple[str, str], growth: Plane) -> Drawn:
    """Geodesics, an observer's light cone, and how fast neighbouring observers part."""
    figure, (left, middle, right) = new_figure(1, 3, panel=(3.7, 3.3))
    figure.suptitle(f"{manifold.name}(3)")
    _fan(left, manifold, start, 3.0, plane, (-math.pi, math.pi))
    label_axes(left, "Geodesics", *names)
    times = torch.linspace(0, 3.0, 61, dtype=torch.float64)
    point = start.expand(len(times), *manifold.point_shape)
    frame = manifold.tetrad(start)
    observers = []
    for rapidity in (0.0, 0.2, 0.4, 0.6, 0.8):
        velocity = math.cosh(rapidity) * frame[..., 0] + math.sinh(rapidity) * frame[..., 1]
        observers.append(manifold.expmap(point, times[:, None] * velocity))
    draw_curves(middle, torch.stack([plane(curve) for curve in observers]), outline=False)
    label_axes(middle, "Free observers", *names)
    difference = observers[1] - observers[0]
    signs = torch.ones(manifold.point_shape, dtype=torch.float64)
    signs[: 1 if isinstance(manifold, DeSitter) else 2] = -1.0
    separation = (difference.square() * signs).sum(-1).abs().sqrt() / (2 * math.sinh(0.1))
    exact = growth(times).abs()
    deviation = _compared(right, "Separation of two observers", ("proper time", "per unit"), times, separation, exact)
    return _numbers(manifold, "geodesic deviation", deviation, 1e-9), figure


def de_sitter() -> Drawn:
    """Observers part like sinh."""

    def penrose(x: Tensor) -> Tensor:
        return torch.stack([torch.atan2(x[..., 2], x[..., 1]), x[..., 0].atan()], -1)

    return _curved(DeSitter(3), vector(0, 1, 0, 0), penrose, ("angle", "conformal time"), torch.sinh)


def anti_de_sitter() -> Drawn:
    """Observers meet again after half a turn: like sin."""

    def penrose(x: Tensor) -> Tensor:
        return torch.stack([x[..., 2].atan(), torch.atan2(x[..., 1], x[..., 0])], -1)

    return _curved(AntiDeSitter(3), vector(1, 0, 0, 0), penrose, ("conformal distance", "time"), torch.sin)


def schwarzschild() -> Drawn:
    """A bound orbit, light rays, and the radial equation of that orbit."""
    manifold, speed, radius = Schwarzschild(1.0), 0.32, 12.0
    figure, (left, middle, right) = new_figure(1, 3, panel=(3.7, 3.3))
    figure.suptitle("Schwarzschild(1)")
    start = vector(0.0, radius, math.pi / 2, 0.0)
    frame = manifold.tetrad(start)
    orbit, velocity = _follow(manifold, start, math.hypot(1, speed) * frame[..., 0] + speed * frame[..., 3], 700.0, 200)
    draw_curves(left, _polar(orbit)[None], outline=False)
    label_axes(left, "An orbit", "x / M", "y / M")
    far = vector(0.0, 30.0, math.pi / 2, 0.0).expand(4, 4)
    tetrad = manifold.tetrad(far)
    sideways = vector(5.3, 6.0, 7.0, 9.0)[:, None] * math.sqrt(1 - 2 / 30.0) / 30.0  # by the impact parameter
    light = tetrad[..., 0] - (1 - sideways**2).sqrt() * tetrad[..., 1] + sideways * tetrad[..., 3]
    draw_curves(middle, _polar(_follow(manifold, far, light, 60.0, 60)[0]).movedim(1, 0), outline=False)
    label_axes(middle, "Light rays", "x / M", "y / M")
    r, momentum = orbit[:, 1], speed * radius

    def barrier(r: Tensor) -> Tensor:
        return (1 - 2 / r) * (1 + (momentum / r) ** 2)

    exact, times = barrier(r[:1]) - barrier(r), torch.linspace(0, 700.0, len(r), dtype=torch.float64)
    names = ("proper time / M", "(dr/dtau)^2")
    deviation = _compared(right, "Radial motion", names, times, velocity[:, 1].square(), exact)
    return _numbers(manifold, "radial equation of the orbit", deviation, 1e-9), figure


def _follow(manifold: Manifold, start: Tensor, velocity: Tensor, time: float, steps: int) -> tuple[Tensor, Tensor]:
    """Points and velocities (steps + 1, ...) along geodesics, in equal steps."""
    points, velocities = [start], [velocity]
    for _ in range(steps):
        point, carried = manifold.expmap_transp(points[-1], velocities[-1] * (time / steps), velocities[-1])
        points.append(point)
        velocities.append(carried)
    return torch.stack(points), torch.stack(velocities)


def _polar(x: Tensor) -> Tensor:
    r, angle = x[..., 1], x[..., 3]
    return torch.stack([r * angle.cos(), r * angle.sin()], -1)


SPACE_TIMES: dict[str, tuple[str, Callable[[], Drawn]]] = {
    "minkowski": ("Minkowski(3)", minkowski),
    "de_sitter": ("DeSitter(3)", de_sitter),
    "anti_de_sitter": ("AntiDeSitter(3)", anti_de_sitter),
    "schwarzschild": ("Schwarzschild(1)", schwarzschild),
}
