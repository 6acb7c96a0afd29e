"""Requirements by example that span several manifolds, with geoopt's answer beside ours where it is the fault."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import geoopt
import pytest
import torch
from torch import Tensor

import manifolds
import manifolds.poisson
from manifolds import SPD, Hyperboloid, Manifold, PoincareBall, Sphere, Torus

f64 = partial(torch.tensor, dtype=torch.float64)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 5e-4), (torch.float64, 1e-7)])
def test_self_distance_is_zero(dtype: torch.dtype, tolerance: float) -> None:
    """M01; geoopt's is 1.4e-2 in single precision."""
    x = torch.nn.functional.normalize(torch.randn(10_000, 3, dtype=dtype), dim=-1)
    nudged = torch.nextafter(x, torch.full_like(x, 2.0))
    for y in (x, nudged):
        distance = Sphere(2).dist(x, y)
        assert distance.isfinite().all()
        assert distance.abs().max() <= tolerance
    assert geoopt.Sphere().dist(x.float(), x.float()).max() > 1e-2


POINTS: list[tuple[Callable[[], Manifold], Tensor]] = [
    (lambda: Sphere(2), f64([0.0, 0.0, 1.0])),
    (lambda: PoincareBall(2), f64([0.1, 0.2])),
    (lambda: Hyperboloid(2), f64([math.sqrt(1.13), 0.3, -0.2])),
    (lambda: SPD(3), torch.diag(f64([1.0, 2.0, 3.0]))),
    (lambda: Torus(2), f64([1.0, 6.0])),
]


@pytest.mark.parametrize(("make", "point"), POINTS)
def test_gradients_where_two_points_coincide(make: Callable[[], Manifold], point: Tensor) -> None:
    """M02."""
    manifold = make()
    for method in (manifold.dist, manifold.dist2):
        x, y = point.clone().requires_grad_(), point.clone()
        method(x, y).backward()
        assert torch.equal(x.grad, torch.zeros_like(point))


def test_distances_near_the_rim_of_the_ball() -> None:
    """M03."""
    x = torch.tensor([0.99999, 0.0])
    distance = PoincareBall(2).dist(x, -x)
    assert distance.dtype == torch.float32
    assert distance.item() == pytest.approx(4 * math.atanh(0.99999), rel=1e-3)


def test_the_antipode_has_no_logarithm() -> None:
    """M04."""
    x = f64([0.0, 0.0, 1.0])
    assert Sphere(2).logmap(x, -x).isnan().all()
    with pytest.raises(ValueError, match="antipode"):
        Sphere(2).assert_logmap(x, -x)


def test_short_vectors_give_points_on_the_sphere() -> None:
    """M06."""
    y = Sphere(2).expmap(torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.01, 0.0, 0.0]))
    torch.testing.assert_close(y, torch.tensor([0.00999983, 0, 0.99995000]), atol=1e-8, rtol=1e-7)
    assert abs(y.double().norm().item() - 1) <= 2e-7


def test_transport_keeps_length() -> None:
    """M08; geoopt's transport is the projection, which gives 0."""
    e1, e2 = f64([1.0, 0.0, 0.0]), f64([0.0, 1.0, 0.0])
    torch.testing.assert_close(Sphere(2).parallel_transport(e1, e2, e2), -e1)
    assert geoopt.Sphere().transp(e1, e2, e2).norm() == 0


def test_riemannian_gradients_use_the_metric() -> None:
    """M09: f(p) = p at p = 2 with metric u v / p^2; the disc at its centre, where the metric is 4."""
    assert SPD(1).egrad2rgrad(f64([[2.0]]), f64([[1.0]])).item() == pytest.approx(4, rel=1e-14)
    found = PoincareBall(2).egrad2rgrad(torch.zeros(2).double(), f64([1.0, 0.0]))
    torch.testing.assert_close(found, f64([0.25, 0.0]))


def test_random_tangent_vectors_have_as_many_degrees_of_freedom_as_the_sphere() -> None:
    """M11, for the normal law that momenta are made of."""
    sphere, generator = Sphere(2), torch.Generator().manual_seed(5)
    x = sphere.random_uniform(40_000, 3, dtype=torch.float64, generator=generator)
    p = sphere.random_tangent(x, generator=generator)
    assert (x * p).sum(-1).abs().max() <= 1e-6
    assert (p * p).sum(-1).mean().item() == pytest.approx(2.0, abs=0.03)


class Model(torch.nn.Module):
    """One point of a hyperboloid, and the manifold as a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.space = Hyperboloid(2, radius=5.0)
        self.point = geoopt.ManifoldParameter(self.space.origin(4, 3), manifold=self.space)


def test_constants_follow_their_module() -> None:
    """M26."""
    model = Model().double()
    point = model.space.random(6, 3, dtype=torch.float64)
    assert point.dtype == torch.float64
    model.space.assert_check_point_on_manifold(point, atol=1e-10, rtol=1e-10)
    assert all(t.dtype == torch.float64 for t in [*model.buffers(), *model.parameters()])
    meta = copy.deepcopy(model).to("meta")
    assert all(t.device.type == "meta" for t in [*meta.buffers(), *meta.parameters()])


ONE, WIDE = torch.ones(3, dtype=torch.float64), torch.ones(4, 4, dtype=torch.float64)


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda m: m.Sphere(2).dist(WIDE, WIDE), ValueError, r"x has shape \(4, 4\)"),
        (lambda m: m.Sphere(2).expmap(ONE, WIDE), ValueError, r"u has shape \(4, 4\)"),
        (lambda m: m.Torus(2).dist(ONE, y=ONE), ValueError, r"x has shape \(3,\)"),
        (lambda m: m.SE3().expmap(torch.randn(7, 7), torch.randn(7, 7)), ValueError, r"x has shape \(7, 7\)"),
        (lambda m: m.Product([m.Sphere(2), m.SO3()]).expmap(torch.zeros(13), torch.zeros(13)), ValueError, "13"),
        (lambda m: m.Sphere(2).dist(ONE, ONE.float()), TypeError, "x is torch.float64 on cpu, y is torch.float32"),
        (lambda m: m.Sphere(2).inner(ONE, ONE, ONE.float()), TypeError, "v is torch.float32"),
        (lambda m: m.Sphere(2).expmap(torch.tensor([0, 0, 1]), ONE), TypeError, "x must be a floating tensor"),
        (lambda m: m.poisson.Canonical(3), ValueError, "dim=3"),
        (lambda m: m.poisson.Canonical(2.0), TypeError, "dim=2.0"),
        (lambda m: m.poisson.Dirac(m.poisson.Canonical(6), lambda z: z), TypeError, "list of scalar functions"),
    ],
)
def test_wrong_shapes_and_dtypes_are_refused_by_name(use: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        use(manifolds)


def test_no_tetrad_is_static_inside_the_horizon() -> None:
    x = torch.tensor([[0.0, 1.5, 1.0, 0.0], [0.0, 2.0, 1.0, 0.0], [0.0, 3.0, 1.0, 0.0]], dtype=torch.float64)
    known = manifolds.Schwarzschild(1.0).tetrad(x).isnan().flatten(1).any(1)
    assert known.tolist() == [True, True, False]


def test_structure_constants_may_be_plain_lists() -> None:
    signs = torch.zeros(3, 3, 3)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        signs[i, j, k], signs[j, i, k] = 1.0, -1.0
    z = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64)
    expected = manifolds.poisson.LiePoisson("so3").bivector(z)
    torch.testing.assert_close(manifolds.poisson.LiePoisson(signs.tolist()).bivector(z), expected)
    assert manifolds.poisson.LogCanonical([[0.0, 1.0], [-1.0, 0.0]]).rank == 2
