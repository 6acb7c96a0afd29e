"""Spheres and hyperboloids: digits kept in single precision and far out, transport, derivatives, volume, bad input."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import Tensor

from manifolds import DeSitter, Hyperboloid, PseudoHyperquadric, Sphere

f64 = partial(torch.tensor, dtype=torch.float64)
STEPS = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def exact_distance(x: Tensor, y: Tensor) -> float:
    """Distance on the unit hyperboloid in 60 digits; the stored spatial parts are taken as exact."""
    with localcontext() as context:
        context.prec = 60
        a, b = ([Decimal(value) for value in point[1:].tolist()] for point in (x, y))
        times = [(1 + sum(value * value for value in point)).sqrt() for point in (a, b)]
        cosh = times[0] * times[1] - sum(left * right for left, right in zip(a, b, strict=True))
        return float((cosh + (cosh * cosh - 1).sqrt()).ln())


def polar(r: float, angle: float, dtype: torch.dtype = torch.float64) -> Tensor:
    point = [math.cosh(r), math.sinh(r) * math.cos(angle), math.sinh(r) * math.sin(angle)]
    return Hyperboloid(2).projx(torch.tensor(point, dtype=dtype))


# --- single precision


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("manifold", [Sphere(2), Hyperboloid(2)])
def test_single_precision_agrees_with_double_on_the_stored_points(manifold: PseudoHyperquadric, step: float) -> None:
    origin = manifold.origin(2000, 3, dtype=torch.float64)
    radius = 2 * torch.rand(2000, 1, dtype=torch.float64, generator=generator()) - 1
    x = manifold.expmap(origin, radius * unit(manifold, origin, 1)).float()
    y = manifold.expmap(x.double(), step * unit(manifold, x.double(), 2)).float()
    wanted = manifold.dist(x.double(), y.double())
    assert ((manifold.dist(x, y) - wanted) / wanted).abs().max() <= 1e-6
    log = manifold.logmap(x.double(), y.double())
    defect = (manifold.logmap(x, y) - log).norm(dim=-1) / log.norm(dim=-1)
    assert defect.max() <= 1e-6


def unit(manifold: PseudoHyperquadric, x: Tensor, seed: int) -> Tensor:
    """Unit tangent vectors of random directions."""
    noise = torch.randn(*x.shape[:-1], manifold.dim, dtype=torch.float64, generator=generator(seed))
    return manifold.combine(x, (noise / noise.norm(dim=-1, keepdim=True)).to(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [1e-5, 1e-2, 1.0, 3.0, math.pi - 1e-2])
def test_angles_on_the_sphere_against_the_cross_product(dtype: torch.dtype, distance: float) -> None:
    """Of the stored points, in 80 bits: atan2(|x cross y|, x . y), whatever their lengths."""
    sphere = Sphere(2)
    x = sphere.random_uniform(500, 3, dtype=dtype, generator=generator())
    y = sphere.expmap(x, distance * unit(sphere, x, 3))
    left, right = (point.double().numpy().astype(np.longdouble) for point in (x, y))
    sine = np.sqrt((np.cross(left, right) ** 2).sum(-1))
    wanted = np.arctan2(sine, (left * right).sum(-1))
    defect = np.abs(sphere.dist(x, y).double().numpy() / wanted - 1)
    lost = np.finfo(np.longdouble).eps / distance  # by the cross product
    assert defect.max() <= 4 * torch.finfo(dtype).eps + 4 * lost


@pytest.mark.slow
@pytest.mark.parametrize("manifold", [Sphere(2), Hyperboloid(2)])
@torch.inference_mode()
def test_long_walks_stay_on_the_manifold(manifold: PseudoHyperquadric) -> None:
    """M07: 100000 steps of length 1e-2 in single precision, no projection by the user."""
    x = manifold.origin(4, manifold.dim + 1)
    source = generator(7)
    for _ in range(1000):
        noise = 1e-2 * torch.nn.functional.normalize(torch.randn(100, 4, manifold.dim, generator=source), dim=-1)
        for components in noise:
            x = manifold.expmap(x, manifold.combine(x, components))
    square = manifold._dot(x.double(), x.double())[:, 0] * manifold.curvature
    assert ((square - 1).abs() <= 1e-5 * x[:, 0].double().square().clamp(min=1)).all()
    assert manifold.dist(x, manifold.origin(4, manifold.dim + 1)).min() > 0.1


# --- far out on the hyperboloid


@pytest.mark.parametrize(
    ("first", "second"),
    [((20, 0.3), (20, 0.3 + a)) for a in (1e-9, 1e-7, 1e-3, 1.0, 3.1)]
    + [((20, 0.3), (19.5, 0.3)), ((20, 0.3), (20 + 1e-6, 0.3)), ((20, 1.0), (5, 1.01)), ((20, 2.0), (0, 0))],
)
def test_distances_at_twenty_radii(first: tuple[float, float], second: tuple[float, float]) -> None:
    x, y = polar(*first), polar(*second)
    wanted = exact_distance(x, y)
    space = Hyperboloid(2)
    assert space.dist(x, y).item() == pytest.approx(wanted, rel=2e-7)
    assert space.dist2(x, y).item() == pytest.approx(wanted**2, rel=4e-7)
    assert space.dist(y, x).item() == pytest.approx(wanted, rel=2e-7)


@pytest.mark.parametrize("step", [1e-6, 1e-3, 1e-1, 1.0])
def test_exp_log_and_transport_at_twenty_radii(step: float) -> None:
    space = Hyperboloid(2)
    x = polar(20.0, 0.3).expand(200, 3)
    u, v = step * unit(space, x, 4), unit(space, x, 5)
    y = space.expmap(x, u)
    assert (space._dot(y, y)[:, 0] + 1).abs().max() <= 1e-15 * y[:, 0].square().max()
    length = space.norm(x, space.logmap(x, y))
    wanted = f64([exact_distance(left, right) for left, right in zip(x, y, strict=True)])
    torch.testing.assert_close(length, wanted, rtol=5e-7, atol=0)
    torch.testing.assert_close(length, torch.full_like(length, step), rtol=5e-7, atol=5e-8)
    moved = space.parallel_transport(x, y, v)
    torch.testing.assert_close(space.norm(y, moved), torch.ones_like(length), rtol=5e-7, atol=0)
    assert torch.equal(space.proju(y, moved), moved)


def test_logarithm_in_single_precision_keeps_what_the_points_store() -> None:
    space = Hyperboloid(2)
    for r in (0.0, 1.0, 3.0, 6.0):
        x = polar(r, 0.4, torch.float32).expand(50, 3)
        y = space.expmap(x, 0.1 * unit(space, x, 6))
        wanted = f64([exact_distance(left.double(), right.double()) for left, right in zip(x, y, strict=True)])
        defect = (space.norm(x, space.logmap(x, y)) / wanted - 1).abs().max().item()
        assert defect <= 4 * torch.finfo(torch.float32).eps * math.cosh(r)


# --- transport and holonomy


def test_holonomy_of_the_octant() -> None:
    """Three right angles enclose pi/2."""
    sphere = Sphere(2)
    e1, e2, e3 = torch.eye(3, dtype=torch.float64)
    v = e2
    for x, y in ((e1, e2), (e2, e3), (e3, e1)):
        v = sphere.parallel_transport(x, y, v)
    torch.testing.assert_close(v, e3)


def test_holonomy_of_a_hyperbolic_triangle() -> None:
    """Rotation by pi minus the sum of the angles."""
    space = Hyperboloid(2)
    points = [polar(1.2, 0.1), polar(0.7, 2.0), polar(1.5, 4.0)]
    angles = 0.0
    for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        u, v = space.logmap(points[a], points[b]), space.logmap(points[a], points[c])
        cosine = space.inner(points[a], u, v) / (space.norm(points[a], u) * space.norm(points[a], v))
        angles += math.acos(cosine.item())
    v = start = unit(space, points[0], 8)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        v = space.parallel_transport(points[a], points[b], v)
    assert math.acos(space.inner(points[0], v, start).item()) == pytest.approx(math.pi - angles, abs=1e-9)


def test_holonomy_of_a_circle_of_latitude(hamiltonian_oracles: dict[str, float]) -> None:
    wanted = hamiltonian_oracles["S2.latitude_holonomy(colat=1.0)"]
    sphere, pieces = Sphere(2), 2000
    angle = torch.linspace(0, 2 * math.pi, pieces + 1, dtype=torch.float64)
    ring = torch.stack([math.sin(1) * angle.cos(), math.sin(1) * angle.sin(), math.cos(1) + 0 * angle], -1)
    v = start = f64([math.cos(1), 0.0, -math.sin(1)])
    for x, y in pairwise(ring):
        v = sphere.parallel_transport(x, y, v)
    assert math.acos((v @ start).item()) == pytest.approx(wanted, abs=1e-5)


# --- derivatives


@pytest.mark.parametrize("manifold", [Sphere(2, radius=2.0), Hyperboloid(3, radius=0.5)])
def test_hessian_of_the_squared_distance_is_twice_the_metric(manifold: PseudoHyperquadric) -> None:
    """Also where the points coincide, and exp at the zero vector curves by -kappa |u|^2 x."""
    origin = manifold.origin(manifold.dim + 1, dtype=torch.float64)
    x = manifold.expmap(origin, 0.3 * unit(manifold, origin, 1))

    def height(c: Tensor) -> Tensor:
        return manifold.dist2(x, manifold.expmap(x, manifold.combine(x, c)))

    zero = torch.zeros(manifold.dim, dtype=torch.float64)
    hessian = torch.func.jacrev(torch.func.jacrev(height))(zero)
    torch.testing.assert_close(hessian, 2 * torch.eye(manifold.dim, dtype=torch.float64))
    curve = torch.func.jacrev(torch.func.jacrev(lambda c: manifold.expmap(x, manifold.combine(x, c))))(zero)
    wanted = -manifold.curvature * x[:, None, None] * torch.eye(manifold.dim, dtype=torch.float64)
    torch.testing.assert_close(curve, wanted)


def test_distance_to_the_antipode_is_half_a_great_circle() -> None:
    sphere = Sphere(3, radius=2.0)
    x = sphere.random_uniform(1000, 4, dtype=torch.float64, generator=generator())
    y = (-x).requires_grad_()
    distance, square = sphere.dist(x, y), sphere.dist2(x, y)
    torch.testing.assert_close(distance, torch.full_like(distance, 2 * math.pi), rtol=1e-14, atol=0)
    torch.testing.assert_close(square, distance**2)
    assert torch.autograd.grad(square.sum() + distance.sum(), y)[0].isfinite().all()
    assert sphere.logmap(x, -x).isnan().all()
    assert sphere.parallel_transport(x, -x, torch.ones_like(x)).isnan().all()
    assert sphere.logmap(x.float(), -x.float()).isnan().all()


# --- volume and uniform law


@pytest.mark.parametrize(("n", "volume"), [(1, 2 * math.pi), (2, 4 * math.pi), (3, 2 * math.pi**2)])
def test_volume_of_spheres(n: int, volume: float) -> None:
    assert Sphere(n).log_volume == pytest.approx(math.log(volume), rel=1e-14)
    assert Sphere(n, radius=3.0).log_volume == pytest.approx(math.log(volume * 3**n), rel=1e-14)
    assert math.isinf(Hyperboloid(n).log_volume)


def test_exp_jacobian_closed_forms() -> None:
    v = f64([[0.0, 0.0, 2.0, 0.0]])
    assert Sphere(3).exp_logdet(v.roll(-2, -1), v).item() == pytest.approx(2 * math.log(math.sin(2) / 2), rel=1e-14)
    space = Hyperboloid(3)
    origin = space.origin(4).double()
    assert space.exp_logdet(origin, v[0]).item() == pytest.approx(2 * math.log(math.sinh(2) / 2), rel=1e-14)
    assert space.exp_logdet(origin, 500 * v[0]).item() == pytest.approx(2 * (1000 - math.log(2000)), rel=1e-14)


def test_uniform_points_on_spheres() -> None:
    """Archimedes on S^2; second and fourth moments on S^4. False alarms: 1e-6 (KS), 5 sigma."""
    z = Sphere(2).random_uniform(50_000, 3, dtype=torch.float64, generator=generator(1))[:, 2]
    assert kstest(z.numpy(), "uniform", (-1, 2)).pvalue > 1e-6
    x = Sphere(4, radius=2.0).random_uniform(50_000, 5, dtype=torch.float64, generator=generator(2)) / 2
    for power, moment, next_moment in ((2, 1 / 5, 3 / 35), (4, 3 / 35, 105 / (5 * 7 * 9 * 11))):
        sigma = math.sqrt((next_moment - moment**2) / 50_000)
        assert ((x**power).mean(0) - moment).abs().max() <= 5 * sigma


# --- bad input


def test_bad_constructor_arguments() -> None:
    with pytest.raises(ValueError, match=r"n=1.*at least 2.*DeSitter"):
        DeSitter(1)
    with pytest.raises(ValueError, match=r"n=0"):
        Sphere(0)
    with pytest.raises(TypeError, match=r"n=2\.5"):
        Sphere(2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"radius=-1"):
        Hyperboloid(2, radius=-1)


def test_points_off_the_manifold_are_named() -> None:
    sphere, space = Sphere(2), Hyperboloid(2)
    x = f64([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    with pytest.raises(ValueError, match=r"x\[1\] has <x, x> = 4/kappa.*projx"):
        sphere.assert_check_point_on_manifold(x)
    with pytest.raises(ValueError, match=r"x_0 = -1 <= 0.*upper sheet"):
        space.assert_check_point_on_manifold(-x[0])
    with pytest.raises(ValueError, match=r"u\[0\] has <x, u> = 1 .*proju"):
        sphere.assert_check_vector_on_tangent(x[:1], x[:1])
    with pytest.raises(ValueError, match=r"x has shape \(2, 2\)"):
        sphere.assert_check_point_on_manifold(x[:, :2])
    with pytest.raises(ValueError, match="float32"):
        sphere.assert_check_vector_on_tangent(x[:1], torch.zeros(1, 3))
    space.assert_check_point_on_manifold(polar(20.0, 1.0), atol=1e-12, rtol=1e-12)
