"""What the gallery shows of a phase space: motion on it, and momenta in equilibrium."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from panels import ALARM, BINS, WALKERS, draw_curves

from geomgen.plotting import COLOURS, label_axes, new_figure, theory
from manifolds import PhaseSpace, Sphere

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["phase_space"]

TEMPERATURE = 0.7


def phase_space() -> tuple[dict[str, Any], Figure]:
    """Free motion on the sphere, momenta drawn on it, and their energy against its law (two degrees of freedom)."""
    ball = Sphere(2)
    space, generator = PhaseSpace(ball), torch.Generator().manual_seed(1)
    figure, (left, middle, right) = new_figure(1, 3, panel=(3.7, 3.3))
    figure.suptitle("PhaseSpace(Sphere(2))")
    q = ball.random_uniform(WALKERS, 3, dtype=torch.float64, generator=generator)
    p = space.gibbs_momentum(q, TEMPERATURE, generator=generator)
    times = torch.linspace(0, 1.5, 60, dtype=torch.float64)[None, :, None]
    orbits = ball.expmap(q[:4, None].expand(4, 60, 3), times * p[:4, None])
    for orbit in orbits:
        draw_curves(left, orbit[None, :, :2], outline=True)
    label_axes(left, "Free motion", "x", "y")
    seen = (q[:, 2] > 0).nonzero()[:80, 0]
    middle.quiver(*q[seen, :2].T, *p[seen, :2].T, color=COLOURS[0], angles="xy", scale_units="xy", scale=8, width=0.004)
    middle.set_aspect("equal", adjustable="datalim")
    label_axes(middle, f"Gibbs momenta, kT = {TEMPERATURE:g}", "x", "y")
    energy = space.kinetic_energy(space.pack(q, p)).sort().values / TEMPERATURE
    ranks = torch.arange(1, WALKERS + 1, dtype=torch.float64) / WALKERS
    distance = float((1 - (-energy).exp() - ranks).abs().max()) + 1 / WALKERS
    edges = torch.linspace(0, 6, BINS + 1, dtype=torch.float64)
    heights = torch.histc(energy, BINS, 0.0, 6.0) * BINS / (6 * WALKERS)
    right.stairs(heights.tolist(), edges.tolist(), fill=True, color=COLOURS[5], alpha=0.6, label=f"{WALKERS} momenta")
    theory(right, edges.tolist(), (-edges).exp().tolist(), "exact law")
    allowed = ALARM / math.sqrt(WALKERS)
    label_axes(right, f"D = {distance:.3f}, allowed {allowed:.3f}", "kinetic energy / kT", "density")
    law = {"law": "kinetic energy in equilibrium", "kolmogorov": distance, "allowed": allowed}
    return {"manifold": repr(space), **law, "seed": 1, "histogram": heights.tolist(), "edges": edges.tolist()}, figure
