"""Heat kernels against series in 70 digits, oracles, quadrature, the semigroup property and the small-time limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import partial

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from manifolds import Hyperboloid, Sphere
from manifolds.heat import (
    hyperbolic_log_kernel,
    log_sinhc,
    log_wrapped_normal,
    so3_log_angle_density,
    so3_log_kernel,
    sphere_log_kernel,
)

f64 = partial(torch.tensor, dtype=torch.float64)


def sphere(theta: float, t: float, n: int) -> float:
    return math.exp(sphere_log_kernel(f64(theta**2), t, n))


def hyperbolic(r: float, t: float, n: int) -> float:
    return math.exp(hyperbolic_log_kernel(f64(r**2), t, n))


def area(n: int) -> float:
    """Of the unit sphere in R^n."""
    return 2 * math.pi ** (n / 2) / math.gamma(n / 2)


def sphere_mean(f: Callable[[float], float], t: float, n: int) -> float:
    """E f(distance) under the kernel of S^n."""
    split = min(4 * math.sqrt(t), 3.0)
    value: float = quad(
        lambda w: sphere(w, t, n) * area(n) * math.sin(w) ** (n - 1) * f(w), 0, math.pi, points=[split], epsabs=1e-11
    )[0]
    return value


def hyperbolic_mean(f: Callable[[float], float], t: float, n: int) -> float:
    """E f(distance) under the kernel of H^n."""
    end = 10 * math.sqrt(t) + n * t + 3
    value: float = quad(
        lambda r: hyperbolic(r, t, n) * area(n) * math.sinh(r) ** (n - 1) * f(r),
        0,
        end,
        points=[4 * math.sqrt(t)],
        epsabs=1e-11,
    )[0]
    return value


# --- values


def decimal_cosine(angle: float) -> Decimal:
    x = Decimal(angle)
    total, term, k = Decimal(0), Decimal(1), 0
    while abs(term) > Decimal(10) ** -70 or k < 10:
        total, k = total + term, k + 2
        term = -term * x * x / (k * (k - 1))
    return total


def series(theta: float, t: float, n: int) -> float:
    """Log of the Gegenbauer series in 70 digits: the tails survive its cancellation."""
    with localcontext() as context:
        context.prec = 70
        x, order, time = decimal_cosine(theta), Decimal(n - 1) / 2, Decimal(t)
        before, zonal, total, degree, weight = Decimal(1), 2 * order * x, Decimal(1), 1, Decimal(1)
        while weight > Decimal(10) ** -69:
            weight = (-degree * (degree + n - 1) * time / 2).exp()
            total += (degree + order) / order * zonal * weight
            before, zonal = zonal, (2 * (degree + order) * x * zonal - (degree + 2 * order - 1) * before) / (degree + 1)
            degree += 1
        return float(total.ln()) - math.log(area(n + 1))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7])
def test_spheres_match_their_series_across_the_switches(n: int) -> None:
    for t in (0.06, 0.269, 0.271, 0.5, 0.799, 0.801, 3.0):
        theta = f64([0.0, 1e-3, 0.4, 1.57, 1.58, 2.4, 3.0] + ([3.14, math.pi] if n < 4 else []))
        wanted = f64([series(angle, t, n) for angle in theta.tolist()])
        torch.testing.assert_close(sphere_log_kernel(theta**2, t, n), wanted, rtol=1e-11, atol=1e-11)


def test_antipode_in_higher_dimensions() -> None:
    """Within 10^(-4/m) of it the density is that at this distance, which is close: 1e-6 for n = 5, 2e-3 for n = 7."""
    for n, tolerance in ((5, 1e-6), (7, 2e-3)):
        found = sphere_log_kernel(f64(math.pi**2), 0.2, n).item()
        assert found == pytest.approx(series(math.pi, 0.2, n), abs=tolerance)


def test_values_of_the_oracle(hamiltonian_oracles: dict[str, float]) -> None:
    oracle = hamiltonian_oracles
    found = log_wrapped_normal(f64(1.0), 2.0).exp().item()
    assert found == pytest.approx(oracle["S1.wrapped_normal_density(x=1,var=2)"], rel=1e-14)
    found = so3_log_angle_density(f64(1.0), 0.5).exp().item()
    assert found == pytest.approx(oracle["SO3.angle_density(w=1,t=.5) wrt dw on [0,pi]"], rel=1e-14)


@pytest.mark.parametrize("t", [0.1, 0.5, 1.0])
def test_moments_of_the_oracle(t: float, hamiltonian_oracles: dict[str, float]) -> None:
    wanted = {name: value for name, value in hamiltonian_oracles.items() if name.endswith(f"(t={t:g})")}
    found = {f"S{n}.E[cos](t={t:g})": sphere_mean(math.cos, t, n) for n in (2, 3)}
    found[f"S2.E[cos^2](t={t:g})"] = sphere_mean(lambda w: math.cos(w) ** 2, t, 2)
    found[f"S2.E[dist](t={t:g})"] = sphere_mean(lambda w: w, t, 2)
    circle = quad(lambda w: math.exp(log_wrapped_normal(f64(w), t)) * math.cos(w), -math.pi, math.pi, points=[0])
    found[f"S1.E[cos](t={t:g})"] = circle[0]
    for name, f in (("trR", lambda w: 1 + 2 * math.cos(w)), ("angle", lambda w: w)):
        law = quad(lambda w, f=f: math.exp(so3_log_angle_density(f64(w), t)) * f(w), 0, math.pi)
        found[f"SO3.E[{name}](t={t:g})"] = law[0]
    for n in (2, 3):
        found[f"H{n}.E[cosh d](t={t:g})"] = hyperbolic_mean(math.cosh, t, n)
        found[f"H{n}.E[d](t={t:g})"] = hyperbolic_mean(lambda r: r, t, n)
    compared = {name: value for name, value in found.items() if name in wanted}
    assert len(compared) >= 9
    assert compared == pytest.approx({name: wanted[name] for name in compared}, rel=1e-9)


@pytest.mark.parametrize("r", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("t", [0.05, 1.0, 6.0])
def test_hyperbolic_plane_against_mckean(r: float, t: float) -> None:
    """His integral as printed, but for the square root's end point: u = r + v^2."""

    def integrand(v: float) -> float:
        u = r + v * v
        root = math.sqrt(2 * math.sinh((u + r) / 2) * math.sinh(v * v / 2))
        return u * math.exp((r * r - u * u) / (2 * t)) / root * 2 * v

    integral = quad(integrand, 1e-12, 6 + 2 * math.sqrt(t), epsabs=0, epsrel=1e-10, limit=300)[0]
    wanted = math.log(math.sqrt(2) * integral) - t / 8 - r * r / (2 * t) - 1.5 * math.log(2 * math.pi * t)
    assert hyperbolic_log_kernel(f64(r * r), t, 2).item() == pytest.approx(wanted, abs=1e-8)


def test_hyperbolic_space_of_odd_dimension_in_closed_form() -> None:
    """n = 1, 3, 5, written out; far tails and distance 800, where sinh overflows, included."""
    r, t = f64([1e-3, 0.7, 3.0, 20.0]), 0.6
    flat = -r * r / (2 * t)
    torch.testing.assert_close(hyperbolic_log_kernel(r * r, t, 1), flat - 0.5 * math.log(2 * math.pi * t))
    three = flat - 1.5 * math.log(2 * math.pi * t) - t / 2 + torch.log(r / r.sinh())
    torch.testing.assert_close(hyperbolic_log_kernel(r * r, t, 3), three)
    slope = r / t + 1 / r.tanh() - 1 / r  # of -log p
    five = three - 1.5 * t - math.log(2 * math.pi) + torch.log(slope / r.sinh())
    torch.testing.assert_close(hyperbolic_log_kernel(r * r, t, 5), five, rtol=1e-9, atol=1e-9)
    far = hyperbolic_log_kernel(f64(800.0**2), t, 3).item()
    assert far == pytest.approx(-(800.0**2) / (2 * t) - 800 + math.log(1600) - t / 2 - 1.5 * math.log(2 * math.pi * t))
    assert log_sinhc(f64(1.0)).item() == pytest.approx(math.log(math.sinh(1)), rel=1e-14)


# --- laws


@pytest.mark.parametrize("t", [1e-3, 0.3, 0.9, 4.0])
def test_kernels_are_densities(t: float) -> None:
    for n in (2, 3, 4):
        assert sphere_mean(lambda w: 1.0, t, n) == pytest.approx(1, abs=1e-9)
        assert hyperbolic_mean(lambda r: 1.0, t, n) == pytest.approx(1, abs=1e-9)
    split = [4 * math.sqrt(t)] if t < 0.5 else None
    angle = quad(lambda w: math.exp(so3_log_angle_density(f64(w), t)), 0, math.pi, points=split)[0]
    assert angle == pytest.approx(1, abs=1e-9)
    circle = quad(lambda w: math.exp(log_wrapped_normal(f64(w), t)), -math.pi, math.pi, points=[-0.1, 0, 0.1])[0]
    assert circle == pytest.approx(1, abs=1e-9)


def test_semigroup_on_the_sphere() -> None:
    """Integral of p_s(x, z) p_t(z, y) over z is p_(s+t)(x, y); one time on either side of the switch."""
    manifold, (s, t) = Sphere(2, radius=1.5), (0.7, 2.5)
    height, weight = np.polynomial.legendre.leggauss(40)
    z, angle = torch.from_numpy(height)[:, None], torch.arange(80).double() * (2 * math.pi / 80)
    ring = (1 - z * z).sqrt()
    nodes = 1.5 * torch.stack([ring * angle.cos(), ring * angle.sin(), z.expand(-1, 80)], -1)
    weights = torch.from_numpy(weight)[:, None] * 2 * math.pi / 80 * 1.5**2
    x, y = 1.5 * f64([0.6, 0.0, 0.8]), 1.5 * f64([0.0, 1.0, 0.0])
    both = manifold.log_heat_kernel(x, nodes, s) + manifold.log_heat_kernel(nodes, y, t)
    found = (both.exp() * weights).sum().log()
    torch.testing.assert_close(found, manifold.log_heat_kernel(x, y, s + t), rtol=0, atol=1e-11)


@pytest.mark.parametrize("n", [2, 3])
def test_semigroup_on_the_hyperboloid(n: int) -> None:
    """In polar coordinates about x; the fibre of S^(n-1) reduces to one angle."""
    manifold, (s, t) = Hyperboloid(n, radius=0.8), (0.2, 0.3)
    nodes, weight = np.polynomial.legendre.leggauss(80)
    r, c = (torch.from_numpy(nodes)[:, None] + 1) * 2.5, torch.from_numpy(nodes)
    angle = (c + 1) * math.pi / 2
    zero = torch.zeros(80, 80, n - 2, dtype=torch.float64)
    plane = torch.stack([r.cosh().expand(-1, 80), r.sinh() * angle.cos(), r.sinh() * angle.sin()], -1)
    z = 0.8 * torch.cat([plane, zero], -1)
    sphere_part = area(n - 1) * angle.sin() ** (n - 2) * (math.pi / 2)
    weights = torch.from_numpy(weight)[:, None] * 2.5 * torch.from_numpy(weight) * sphere_part * r.sinh() ** (n - 1)
    x = manifold.origin(n + 1, dtype=torch.float64)
    y = manifold.projx(f64([0.0, 0.5, 0.0, 0.0])[: n + 1])
    both = manifold.log_heat_kernel(x, z, s) + manifold.log_heat_kernel(z, y, t)
    found = (both.exp() * weights * 0.8**n).sum().log()
    torch.testing.assert_close(found, manifold.log_heat_kernel(x, y, s + t), rtol=0, atol=1e-9)


@pytest.mark.parametrize("t", [1e-2, 1e-3, 1e-4])
def test_small_times_after_varadhan(t: float) -> None:
    """log p = -d^2/2t - n/2 log 2 pi t + (n-1)/2 log(theta/sin theta) + t a_1 + O(t^2), and its gradient log_x(y)/t."""
    theta = f64([0.0, 0.3, 1.2, 2.2])
    cot = torch.where(theta > 0, (1 - theta / theta.tan()) / theta**2, torch.full_like(theta, 1 / 3)).nan_to_num(1 / 3)
    for n in (2, 3, 5):
        first = (n - 1) ** 2 / 8 - (n - 1) * (n - 3) / 8 * cot
        stretch = (n - 1) / 2 * -torch.special.sinc(theta / math.pi).log()
        wanted = -(theta**2) / (2 * t) - n / 2 * math.log(2 * math.pi * t) + stretch + t * first
        torch.testing.assert_close(sphere_log_kernel(theta**2, t, n), wanted, rtol=1e-11, atol=t * t)
    manifold = Sphere(2)
    x = manifold.random_uniform(20, 3, dtype=torch.float64)
    y = manifold.expmap(x, 0.5 * manifold.combine(x, torch.eye(2, dtype=torch.float64)[0])).requires_grad_()
    score = torch.autograd.grad(manifold.log_heat_kernel(x, y, t).sum(), y)[0]
    # of (1/2) log(d / sin d), times t:
    slope = t * (1 / 0.5 - 1 / math.tan(0.5)) / 2
    wanted = manifold.logmap(y.detach(), x) * (1 - slope / 0.5) / t
    torch.testing.assert_close(manifold.proju(y.detach(), score), wanted, rtol=0, atol=2 * t)


def test_rotations_are_the_three_sphere_folded() -> None:
    """The printed series where it converges fast; at small times both ways to a half turn count alike."""
    w, t = f64([1e-6, 0.5, 2.0, 3.0, math.pi]), 1.2
    degree = torch.arange(30).double()
    terms = (2 * degree + 1) * torch.exp(-degree * (degree + 1) * t / 2)
    wanted = (terms * torch.sin((degree + 0.5) * w[:, None])).sum(-1) / torch.sin(w / 2) / (8 * math.pi**2)
    torch.testing.assert_close(so3_log_kernel(w, t), wanted.log(), rtol=0, atol=1e-9)
    half_turn = so3_log_kernel(f64(math.pi), 0.01).item()
    leading = -(math.pi**2) / 0.02 - 1.5 * math.log(2 * math.pi * 0.01) + math.log(math.pi / 2)
    assert half_turn == pytest.approx(leading + 0.01 / 8 + math.log(2), rel=1e-14)


# --- derivatives, types, shapes


def test_derivatives_at_the_source_are_right() -> None:
    """Second derivatives at y = x, through autograd twice: for H^3 -1/t - 1/3, and symmetric in the plane."""
    t = 0.4
    for manifold, wanted in ((Hyperboloid(3), -1 / t - 1 / 3), (Sphere(3), None), (Sphere(2), None), (Sphere(4), None)):
        n = manifold.dim
        x = manifold.origin(n + 1, dtype=torch.float64)

        def height(c: Tensor, manifold: Sphere = manifold, x: Tensor = x) -> Tensor:
            return manifold.log_heat_kernel(x, manifold.expmap(x, manifold.combine(x, c)), t)

        hessian = torch.func.jacrev(torch.func.jacrev(height))(torch.zeros(n, dtype=torch.float64))
        h = 1e-2
        steps = [height(torch.eye(n, dtype=torch.float64)[0] * s).item() for s in (-2 * h, -h, 0, h, 2 * h)]
        numeric = (-steps[0] + 16 * steps[1] - 30 * steps[2] + 16 * steps[3] - steps[4]) / (12 * h * h)
        expected = numeric if wanted is None else wanted
        torch.testing.assert_close(hessian, expected * torch.eye(n, dtype=torch.float64), rtol=0, atol=1e-6)


def test_times_differentiate_broadcast_and_batch() -> None:
    s = f64([[0.0], [0.5], [9.0]]).requires_grad_()
    t = f64([0.2, 0.5, 0.9]).requires_grad_()
    for kernel in (
        lambda s, t: sphere_log_kernel(s, t, 1),
        lambda s, t: sphere_log_kernel(s, t, 2),
        lambda s, t: sphere_log_kernel(s, t, 3),
        lambda s, t: hyperbolic_log_kernel(s, t, 2),
        lambda s, t: hyperbolic_log_kernel(s, t, 4),
        lambda s, t: so3_log_kernel((s + 1e-3).sqrt(), t),
    ):
        value = kernel(s, t)
        assert value.shape == (3, 3)
        assert value.isfinite().all()
        slopes = torch.autograd.grad(value.sum(), (s, t))
        numeric = (kernel(s, t + 1e-6) - kernel(s, t - 1e-6)).sum(0) / 2e-6
        torch.testing.assert_close(slopes[1], numeric.detach(), rtol=1e-6, atol=1e-6)
        assert slopes[0].isfinite().all()
        batched = torch.func.vmap(torch.func.vmap(kernel), (None, 0))(s[:, 0], t[:, None].expand(-1, 3))
        torch.testing.assert_close(batched.mT, value)
        single = kernel(s.detach().float(), 0.5)
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), kernel(s.detach(), 0.5), rtol=1e-6, atol=1e-6)


def test_wrapped_normal_takes_any_angle() -> None:
    angle = f64([0.3, -3.1, 2.0])
    wanted = log_wrapped_normal(angle, 0.7)
    torch.testing.assert_close(log_wrapped_normal(angle + 4 * math.pi, 0.7), wanted)
    direct = sum(torch.exp(-((angle + 2 * math.pi * k) ** 2) / 1.4) for k in range(-5, 6)) / math.sqrt(1.4 * math.pi)
    torch.testing.assert_close(wanted.exp(), direct)
