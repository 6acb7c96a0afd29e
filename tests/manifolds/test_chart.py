"""Manifolds given by a metric in coordinates, against the half plane and the sphere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from manifolds import ChartManifold, Schwarzschild, Sphere, UnsupportedError
from manifolds._forward_mode import directional_derivative


def half_plane(q: Tensor) -> Tensor:
    return torch.diag_embed((q[..., 1:] ** -2).expand(q.shape))


def above(q: Tensor) -> Tensor:
    return q[..., 1] > 0


def hyperbolic(*, has_log: bool = True) -> ChartManifold:
    return ChartManifold(half_plane, 2, domain=above, has_log=has_log)


def round_sphere(q: Tensor) -> Tensor:
    theta = q[..., 0]
    return torch.diag_embed(torch.stack([torch.ones_like(theta), theta.sin() ** 2], dim=-1))


def spherical(*, has_log: bool = True) -> ChartManifold:
    return ChartManifold(round_sphere, 2, domain=lambda q: (q[..., 0] > 0) & (q[..., 0] < math.pi), has_log=has_log)


def embed(q: Tensor) -> Tensor:
    """Colatitude and longitude on the unit sphere."""
    theta, phi = q.unbind(-1)
    return torch.stack([theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos()], dim=-1)


def tensor(*rows: object) -> Tensor:
    return torch.tensor(rows if len(rows) > 1 else rows[0], dtype=torch.float64)


POINTS = tensor([0.0, 1.0], [0.3, 2.0], [-1.0, 0.4])
VECTORS = tensor([0.0, 1.0], [0.5, 0.2], [0.3, -0.1])


def test_christoffel_of_the_half_plane() -> None:
    y = POINTS[:, 1]
    wanted = torch.zeros(3, 2, 2, 2, dtype=torch.float64)
    wanted[:, 0, 0, 1] = wanted[:, 0, 1, 0] = wanted[:, 1, 1, 1] = -1 / y
    wanted[:, 1, 0, 0] = 1 / y
    torch.testing.assert_close(hyperbolic().christoffel(POINTS), wanted, rtol=1e-13, atol=1e-13)


def test_geodesics_and_distance_of_the_half_plane() -> None:
    plane = hyperbolic()
    torch.testing.assert_close(
        plane.expmap(tensor([0.0, 1.0]), tensor([0.0, 1.5])), tensor([0.0, math.exp(1.5)]), rtol=0, atol=1e-9
    )
    x, y = POINTS, POINTS.roll(1, 0)
    wanted = torch.acosh(1 + (x - y).square().sum(-1) / (2 * x[..., 1] * y[..., 1]))
    torch.testing.assert_close(plane.dist(x, y), wanted, rtol=0, atol=1e-9)


def test_geodesics_and_transport_of_the_sphere_in_a_chart() -> None:
    chart, sphere = spherical(), Sphere(2)
    q, u, v = tensor([1.0, 0.2], [2.0, -3.0]), tensor([0.4, 0.7], [-0.5, 0.3]), tensor([0.3, -0.2], [1.0, 1.0])

    def push(q: Tensor, u: Tensor) -> Tensor:
        (theta, phi), zero = q.unbind(-1), torch.zeros_like(q[..., 0])
        by_theta = torch.stack([theta.cos() * phi.cos(), theta.cos() * phi.sin(), -theta.sin()], dim=-1)
        by_phi = torch.stack([-theta.sin() * phi.sin(), theta.sin() * phi.cos(), zero], dim=-1)
        return u[..., :1] * by_theta + u[..., 1:] * by_phi

    end, moved = chart.expmap_transp(q, u, v)
    x = embed(q)
    y = sphere.expmap(x, push(q, u))
    torch.testing.assert_close(embed(end), y, rtol=0, atol=1e-9)
    torch.testing.assert_close(push(end, moved), sphere.parallel_transport(x, y, push(q, v)), rtol=0, atol=1e-9)
    torch.testing.assert_close(chart.parallel_transport(q, end, v), moved, rtol=0, atol=1e-8)
    torch.testing.assert_close(chart.transp_follow_expmap(q, u, v), moved)
    torch.testing.assert_close(chart.exp_logdet(q, u), sphere.exp_logdet(x, push(q, u)), rtol=0, atol=1e-8)
    torch.testing.assert_close(chart.log_volume_density(q), q[:, 0].sin().log())


@pytest.mark.parametrize(("chart", "sign"), [(spherical(), 1), (hyperbolic(), -1)])
def test_constant_curvature(chart: ChartManifold, sign: int) -> None:
    q = tensor([1.0, 0.5], [0.4, 2.0])
    metric, riemann = chart.metric(q), chart.riemann(q)
    lowered = torch.einsum("bim,bmjkl->bijkl", metric, riemann)
    square = torch.einsum("bik,bjl->bijkl", metric, metric)
    torch.testing.assert_close(lowered, sign * (square - square.transpose(-1, -2)), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(chart.kretschmann(q), torch.full((2,), 4.0, dtype=torch.float64))


def test_retraction_is_of_second_order() -> None:
    plane = hyperbolic()
    errors = [(plane.retr(POINTS, s * VECTORS) - plane.expmap(POINTS, s * VECTORS)).norm() for s in (0.1, 0.05)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(3, abs=0.2)
    y, carried = plane.retr_transp(POINTS, 0.01 * VECTORS, VECTORS.flip(0))
    exact = plane.expmap_transp(POINTS, 0.01 * VECTORS, VECTORS.flip(0))[1]
    assert (carried - exact).abs().max() < 1e-2 * (VECTORS.flip(0) - exact).abs().max()
    torch.testing.assert_close(y, plane.retr(POINTS, 0.01 * VECTORS))


def test_brownian_step_has_half_the_laplacian() -> None:
    """One step changes E cos(theta) by -dt cos(theta), and E cosh d from the start by +dt: exact by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    noise = torch.cartesian_prod(torch.tensor(nodes), torch.tensor(nodes))
    weight = torch.cartesian_prod(torch.tensor(weights), torch.tensor(weights)).prod(-1) / (2 * math.pi)
    for dt in (1e-2, 1e-3):
        end = spherical().brownian_step(tensor([1.1, 0.3]).expand(144, 2), dt, noise=noise)
        change = (weight * end[:, 0].cos()).sum() - math.cos(1.1)
        assert change / dt == pytest.approx(-math.cos(1.1), abs=2 * dt)
        start = tensor([0.2, 1.3]).expand(144, 2)
        end = hyperbolic().brownian_step(start, dt, noise=noise)
        cosh = 1 + (end - start).square().sum(-1) / (2 * end[:, 1] * start[:, 1])
        assert ((weight * cosh).sum() - 1) / dt == pytest.approx(1, abs=5 * dt)


def test_brownian_step_out_of_the_domain_is_nan() -> None:
    step = hyperbolic().brownian_step(tensor([0.0, 1.0], [0.0, 1.0]), 1.0, noise=tensor([0.0, -3.0], [0.0, 1.0]))
    assert step.isnan().tolist() == [[True, True], [False, False]]


# --- derivatives


class Learned(torch.nn.Module):
    """A metric with one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def forward(self, q: Tensor) -> Tensor:
        return torch.diag_embed(torch.stack([1 + self.a * q[..., 1] ** 2, torch.ones_like(q[..., 0])], dim=-1))


def test_learned_metric_gets_its_gradient() -> None:
    chart = ChartManifold(Learned(), 2, has_log=True)
    assert [name for name, _ in chart.named_parameters()] == ["_metric.a"]
    x, u = tensor([0.1, 0.5]), tensor([0.6, 0.3])
    y = chart.expmap(x, u).detach()

    def value(a: Tensor, name: str) -> Tensor:
        result = torch.func.functional_call(
            Method(chart, name), {"manifold._metric.a": a}, (x, u if name == "expmap" else y)
        )
        return (result * tensor([1.0, 0.3])).sum() if name == "expmap" else result

    a, h = torch.tensor(0.7, dtype=torch.float64), 1e-5
    for name in ("expmap", "dist"):
        wanted = ((value(a + h, name) - value(a - h, name)) / (2 * h)).item()
        assert abs(wanted) > 1e-3
        leaf = a.clone().requires_grad_()
        assert torch.autograd.grad(value(leaf, name), leaf)[0].item() == pytest.approx(wanted, rel=1e-7)
    forward = directional_derivative(lambda a: value(a, "dist"), a, torch.ones_like(a))
    assert forward.item() == pytest.approx(wanted, rel=1e-7)
    assert torch.func.grad(value)(a, "dist").item() == pytest.approx(wanted, rel=1e-7)


class Method(torch.nn.Module):
    """A method of a manifold as a module, for functional_call."""

    def __init__(self, manifold: ChartManifold, name: str) -> None:
        super().__init__()
        self.manifold, self.name = manifold, name

    def forward(self, *arguments: Tensor) -> Tensor:
        result: Tensor = getattr(self.manifold, self.name)(*arguments)
        return result


def test_logarithm_has_right_first_and_second_derivatives() -> None:
    plane, w, h = hyperbolic(), tensor([0.3, -0.7]), 1e-4
    x, y = tensor([0.0, 1.0]), tensor([0.8, 1.5])

    def value(s: Tensor) -> Tensor:
        return (plane.logmap(x + s * w, y + s * w.flip(0)) * tensor([1.0, 0.3])).sum()

    def at(s: float) -> Tensor:
        return value(torch.tensor(s, dtype=torch.float64))

    first, second = (at(h) - at(-h)) / (2 * h), (at(h) + at(-h) - 2 * at(0.0)) / h**2
    zero = torch.zeros((), dtype=torch.float64, requires_grad=True)
    slope = torch.autograd.grad(value(zero), zero, create_graph=True)[0]
    assert slope.item() == pytest.approx(first.item(), rel=1e-6)
    assert torch.autograd.grad(slope, zero)[0].item() == pytest.approx(second.item(), rel=1e-5)


def test_shooting_fails_as_nan_and_by_name() -> None:
    flat_strip = ChartManifold(lambda q: torch.eye(2).to(q).expand(*q.shape, 2), 2, domain=gap, has_log=True)
    x, y = tensor([-1.0, 0.0], [-1.0, 0.0]), tensor([1.0, 0.0], [-0.5, 0.5])  # the hole lies between the first two
    assert flat_strip.logmap(x, y).isnan().all(-1).tolist() == [True, False]
    with pytest.raises(ValueError, match=r"no unique geodesic .* joins x=\[-1.0, 0.0\] and y=\[1.0, 0.0\]"):
        flat_strip.assert_logmap(x, y)


def gap(q: Tensor) -> Tensor:
    return q.norm(dim=-1) > 0.3


def test_distance_of_very_close_points_is_accurate() -> None:
    plane = hyperbolic()
    u = tensor([0.6, 0.8]) * torch.tensor([1e-3, 1e-6, 1e-9], dtype=torch.float64)[:, None]
    x = tensor([0.2, 1.0]).expand(3, 2)
    torch.testing.assert_close(plane.dist(x, plane.expmap(x, u)), u.norm(dim=-1), rtol=1e-6, atol=1e-16)


def test_inference_mode_changes_nothing() -> None:
    plane = hyperbolic()
    with torch.inference_mode():
        quiet = plane.logmap(POINTS, plane.expmap(POINTS, VECTORS))
    torch.testing.assert_close(quiet, VECTORS, rtol=0, atol=1e-9)


def test_float32() -> None:
    plane, x, u = hyperbolic(), POINTS.float(), VECTORS.float()
    y = plane.expmap(x, u)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y.double(), plane.expmap(POINTS, VECTORS), rtol=0, atol=2e-5)
    torch.testing.assert_close(plane.logmap(x, y), u, rtol=0, atol=1e-4)


# --- bad input


def test_constructor_refuses() -> None:
    with pytest.raises(TypeError, match="metric must be a function of coordinates, got Tensor"):
        ChartManifold(torch.eye(2), 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="domain must be a function"):
        ChartManifold(half_plane, 2, domain=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dim=0"):
        ChartManifold(half_plane, 0)
    with pytest.raises(ValueError, match=r"signature=\(1, 2\) must be two counts that add up to dim=2"):
        ChartManifold(half_plane, 2, signature=(1, 2))
    with pytest.raises(ValueError, match=r"mass=-1\.0"):
        Schwarzschild(-1.0)


def test_checks_name_the_value() -> None:
    plane = hyperbolic()
    with pytest.raises(ValueError, match=r"x=\[0.5, -1.0\] \(one of 1 such rows\) is outside the domain"):
        plane.assert_check_point_on_manifold(tensor([0.5, 1.0], [0.5, -1.0]))
    with pytest.raises(ValueError, match=r"wants \(..., 2\)"):
        plane.assert_check_point_on_manifold(tensor([0.5, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"x=\[0.0, 1.0, 1.0, 0.0\] .* outside"):
        Schwarzschild(1.0).assert_check_point_on_manifold(tensor([0.0, 1.0, 1.0, 0.0]))
    with pytest.raises(ValueError, match=r"has not signature \(2, 0\)"):
        ChartManifold(lambda q: -half_plane(q), 2).assert_check_point_on_manifold(POINTS)
    with pytest.raises(ValueError, match="let the metric work row by row"):
        ChartManifold(lambda q: half_plane(q)[0], 2).assert_check_point_on_manifold(POINTS)
    with pytest.raises(ValueError, match=r"torch.float64.*torch.float32"):
        plane.assert_check_vector_on_tangent(POINTS, VECTORS.float())
    with pytest.raises(TypeError, match="use float64 or float32"):
        plane.expmap(POINTS.half(), VECTORS.half())


def test_undeclared_capabilities_are_refused_by_name() -> None:
    plane, space = hyperbolic(has_log=False), Schwarzschild(1.0)
    x = tensor([0.0, 9.0, 1.0, 0.0])
    for refused in (
        lambda: plane.dist(POINTS, POINTS),
        lambda: plane.parallel_transport(POINTS, POINTS, VECTORS),
        lambda: space.logmap(x, x),
        lambda: space.brownian_step(x, 0.1),
        lambda: space.egrad2rgrad(x, x),
    ):
        with pytest.raises(UnsupportedError, match=r"ChartManifold|Schwarzschild"):
            refused()
