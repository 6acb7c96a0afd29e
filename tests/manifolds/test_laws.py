"""Every manifold against every law of what it declares, and against geoopt's optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import geoopt
import pytest
import torch
from torch import Tensor

from manifolds import (
    SE3,
    SO3,
    SPD,
    AntiDeSitter,
    ChartManifold,
    DeSitter,
    Embedded,
    Euclidean,
    Hyperboloid,
    Manifold,
    Minkowski,
    PhaseSpace,
    PoincareBall,
    Product,
    Schwarzschild,
    Sphere,
    Stiefel,
    Torus,
)
from manifolds.testing import applicable_laws, assert_manifold_laws


@dataclass
class Entry:
    """How to make a manifold, where to test it if it has no origin, and whether its geodesics take an ODE."""

    make: Callable[[], Manifold]
    points: Callable[[], Tensor] | None = None
    closed_form: bool = True
    scale: float = 0.7


def half_plane(q: Tensor) -> Tensor:
    return torch.eye(2, dtype=q.dtype, device=q.device) / q[..., 1, None, None] ** 2


def above(q: Tensor) -> Tensor:
    return q[..., 1] > 0


def ellipsoid(x: Tensor) -> Tensor:
    return x[..., 0] ** 2 / 4 + x[..., 1] ** 2 + 2 * x[..., 2] ** 2 - 1


def on_ellipsoid() -> Tensor:
    angles = torch.tensor([[0.3, 1.0], [2.0, 0.7], [4.0, 2.2]], dtype=torch.float64)
    longitude, colatitude = angles.unbind(-1)
    across = colatitude.sin()
    return torch.stack([2 * across * longitude.cos(), across * longitude.sin(), colatitude.cos() / 2**0.5], -1)


def orbits() -> Tensor:
    """Events outside the horizon r = 2, away from the poles."""
    spread = torch.rand(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return torch.tensor([0.0, 8.0, 1.0, 0.0]).double() + spread * torch.tensor([1.0, 4.0, 1.0, 3.0]).double()


def states(manifold: Manifold) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    q = manifold.wrapped_normal(manifold.origin(6, *manifold.point_shape, dtype=torch.float64), 0.3, generator)
    return PhaseSpace(manifold).pack(q, manifold.lower(q, manifold.random_tangent(q, 1.0, generator)))


CASES = {
    "Euclidean": Entry(lambda: Euclidean(3)),
    "Minkowski": Entry(lambda: Minkowski(4)),
    "Torus": Entry(lambda: Torus(3)),
    "Circle": Entry(lambda: Sphere(1)),
    "Sphere2": Entry(lambda: Sphere(2)),
    "Sphere3": Entry(lambda: Sphere(3, radius=2.5)),
    "Hyperboloid2": Entry(lambda: Hyperboloid(2)),
    "Hyperboloid3": Entry(lambda: Hyperboloid(3, radius=2.0)),
    "DeSitter": Entry(lambda: DeSitter(3)),
    "AntiDeSitter": Entry(lambda: AntiDeSitter(3)),
    "SO3": Entry(SO3),
    "SE3": Entry(SE3),
    "SPD": Entry(lambda: SPD(3)),
    "Stiefel": Entry(lambda: Stiefel(5, 2)),
    "PoincareBall": Entry(lambda: PoincareBall(2, curvature=0.5), scale=0.4),
    "Product": Entry(lambda: Product([Sphere(2), Torus(2)])),
    "LorentzianProduct": Entry(lambda: Product([SO3(), Minkowski(2)])),
    "HalfPlane": Entry(
        lambda: ChartManifold(half_plane, 2, domain=above, has_log=True),
        lambda: torch.tensor([[0.3, 1.2], [-1.0, 0.8], [0.0, 2.0]]).double(),
        closed_form=False,
        scale=0.4,
    ),
    "Ellipsoid": Entry(lambda: Embedded(ellipsoid, 3), on_ellipsoid, closed_form=False, scale=0.5),
    "SpherePhaseSpace": Entry(lambda: PhaseSpace(Sphere(2)), lambda: states(Sphere(2))),
    "BallPhaseSpace": Entry(lambda: PhaseSpace(PoincareBall(2)), lambda: states(PoincareBall(2))),
    "Schwarzschild": Entry(lambda: Schwarzschild(1.0), orbits, closed_form=False),
}


def check(name: str, laws: list[str] | None, dtype: torch.dtype) -> None:
    entry = CASES[name]
    points = None if entry.points is None else entry.points()
    options = {"dtype": dtype, "scale": entry.scale, "closed_form": entry.closed_form}
    assert_manifold_laws(entry.make(), points, laws=laws, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "law"),
    [
        (name, law)
        for name, entry in CASES.items()
        for law in applicable_laws(entry.make(), closed_form=entry.closed_form)
    ],
)
def test_law_in_double_precision(name: str, law: str) -> None:
    check(name, [law], torch.float64)


@pytest.mark.parametrize("name", CASES)
def test_laws_in_single_precision(name: str) -> None:
    check(name, None, torch.float32)


RIEMANNIAN = [name for name, entry in CASES.items() if entry.make().is_riemannian]


@pytest.mark.parametrize("name", RIEMANNIAN)
def test_riemannian_adam_descends_and_stays(name: str) -> None:
    """Minimise the distance (in coordinates) to a target nearby."""
    entry = CASES[name]
    manifold = entry.make()
    torch.manual_seed(1)
    if entry.points is None:
        size = (4, *manifold.point_shape)
        compact = math.isfinite(manifold.log_volume)
        start = manifold.random(*size, dtype=torch.float64) if compact else manifold.origin(*size, dtype=torch.float64)
    else:
        start = entry.points()
    target = manifold.retr(start, manifold.random_tangent(start, 0.2))
    point = geoopt.ManifoldParameter(start.clone(), manifold=manifold)
    optimiser = geoopt.optim.RiemannianAdam([point], lr=0.02)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (point - target).square().sum()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    manifold.assert_check_point_on_manifold(point.detach(), atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("name", sorted(set(CASES) - set(RIEMANNIAN)))
def test_riemannian_adam_is_refused_on_indefinite_metrics(name: str) -> None:
    manifold = CASES[name].make()
    points = CASES[name].points
    start = manifold.origin(*manifold.point_shape) if points is None else points()
    point = geoopt.ManifoldParameter(start, manifold=manifold)
    point.square().sum().backward()
    with pytest.raises(ValueError, match="indefinite"):
        geoopt.optim.RiemannianAdam([point], lr=0.1).step()
