"""Brownian steps on spheres and hyperboloids, the mass shell, de Sitter and anti-de Sitter space."""

from __future__ import annotations

import math
from functools import partial

import pytest
import scipy.linalg
import torch
from scipy.special import dawsn, erf, roots_hermitenorm, roots_laguerre
from torch import Tensor

from manifolds import AntiDeSitter, DeSitter, Hyperboloid, PseudoHyperquadric, Sphere

f64 = partial(torch.tensor, dtype=torch.float64)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- Brownian motion


def radial_rule() -> tuple[Tensor, Tensor]:
    """Nodes in the plane and weights that integrate against its standard normal law: |xi|^2 / 2 is exponential."""
    half_square, weight = roots_laguerre(60)
    angle = torch.arange(8, dtype=torch.float64) * math.pi / 4
    radius = torch.from_numpy(half_square * 2).sqrt()
    nodes = radius[:, None, None] * torch.stack([angle.cos(), angle.sin()], -1)
    return nodes.reshape(-1, 2), (torch.from_numpy(weight)[:, None].expand(-1, 8) / 8).reshape(-1)


@pytest.mark.parametrize("h", [0.05, 0.5, 1.0])
def test_factor_of_a_geodesic_step_on_the_sphere(h: float) -> None:
    """E x' = a x with a = 1 - sqrt(2h) Dawson(sqrt(h/2)), E P v = (1 + a)/2 v for transported tangent vectors."""
    a = 1 - math.sqrt(2 * h) * dawsn(math.sqrt(h / 2))
    sphere, (noise, weight) = Sphere(2), radial_rule()
    x = sphere.random_uniform(3, dtype=torch.float64, generator=generator(3))
    y = sphere.brownian_step(x, h, noise=noise)
    torch.testing.assert_close(weight @ y, a * x, rtol=0, atol=1e-12)
    v = sphere.frame(x)[:, 0]
    torch.testing.assert_close(weight @ sphere.parallel_transport(x, y, v), (1 + a) / 2 * v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("h", [0.05, 0.5])
def test_factor_of_a_geodesic_step_on_the_hyperboloid(h: float) -> None:
    """E x' = a x; on H^2 a = 1 + sqrt(pi h/2) e^(h/2) erf(sqrt(h/2)), on H^3 (mass m) a = (1 + h/m^2) e^(h/2m^2)."""
    space, (noise, weight) = Hyperboloid(2), radial_rule()
    x = space.projx(f64([0.0, 1.3, -0.7]))
    a = 1 + math.sqrt(math.pi * h / 2) * math.exp(h / 2) * erf(math.sqrt(h / 2))
    torch.testing.assert_close(weight @ space.brownian_step(x, h, noise=noise), a * x, rtol=0, atol=1e-12)

    shell, (node, mass) = Hyperboloid(3, radius=1.5), roots_hermitenorm(24)
    noise = torch.cartesian_prod(*[torch.from_numpy(node)] * 3)
    weight = torch.cartesian_prod(*[torch.from_numpy(mass / mass.sum())] * 3).prod(-1)
    p = shell.projx(f64([0.0, 0.3, -1.0, 2.0]))
    a = (1 + h / 1.5**2) * math.exp(h / (2 * 1.5**2))
    torch.testing.assert_close(weight @ shell.brownian_step(p, h, noise=noise), a * p, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("n", "steps"), [(2, 200), (2, 20), (4, 50)])
def test_brownian_motion_on_spheres(n: int, steps: int) -> None:
    """M12: E z = exp(-n T/2) on S^n. 20000 paths, 5 sigma; twice the time step must be noticed."""
    sphere, source, paths = Sphere(n), generator(4), 20_000
    results = []
    for speed in (1.0, 2.0):
        x = sphere.origin(paths, n + 1, dtype=torch.float64)
        for _ in range(steps):
            x = sphere.brownian_step(x, speed / steps, generator=source)
        assert (x.norm(dim=-1) - 1).abs().max() <= 1e-14
        results.append((x[:, 0].mean().item(), x[:, 0].std().item() / math.sqrt(paths)))
    wanted = math.exp(-n / 2)
    bias = 0.25 * n / steps * wanted  # first order: the exact factor of S^2 gives 0.17
    assert abs(results[0][0] - wanted) <= 5 * results[0][1] + bias
    assert abs(results[1][0] - wanted) > 20 * results[1][1] + bias


def test_brownian_motion_scales_with_the_radius() -> None:
    """The same noise on a sphere of twice the size takes four times the time."""
    small, large, noise = Sphere(2), Sphere(2, radius=2.0), torch.randn(50, 2, dtype=torch.float64)
    x = small.random_uniform(50, 3, dtype=torch.float64)
    torch.testing.assert_close(
        2 * small.brownian_step(x, 0.1, noise=noise), large.brownian_step(2 * x, 0.4, noise=noise)
    )
    space, shell = Hyperboloid(2), Hyperboloid(2, radius=2.0)
    y = space.wrapped_normal(space.origin(50, 3).double())
    torch.testing.assert_close(
        2 * space.brownian_step(y, 0.1, noise=noise), shell.brownian_step(2 * y, 0.4, noise=noise)
    )


# --- the mass shell


def lorentz_boost(p: Tensor, mass: float) -> Tensor:
    """The boost that takes (m, 0) to p, as the exponential of its generator."""
    space = p[1:] / p[1:].norm()
    generators = torch.zeros(4, 4, dtype=torch.float64)
    generators[0, 1:] = generators[1:, 0] = space * math.asinh(p[1:].norm().item() / mass)
    return torch.from_numpy(scipy.linalg.expm(generators.numpy()))


def test_boost_and_tetrad_are_the_lorentz_boost() -> None:
    shell = Hyperboloid(3, radius=2.0)
    p = shell.projx(f64([0.0, 0.4, -3.0, 1.0]))
    wanted = lorentz_boost(p, 2.0)
    torch.testing.assert_close(shell.tetrad(p), wanted)
    xi = f64([0.3, 0.1, -0.2])
    torch.testing.assert_close(shell.boost(p, xi), wanted @ torch.cat([f64([0.0]), xi]))
    assert shell.norm(p, shell.boost(p, xi)).item() == pytest.approx(xi.norm().item(), rel=1e-14)


def test_project_shell() -> None:
    shell = Hyperboloid(3, radius=2.0)
    p = f64([[3.0, 1.0, 0.0, 2.0], [-3.0, 1.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
    found = shell.project_shell(p)
    torch.testing.assert_close(found[0], p[0])
    torch.testing.assert_close(found[1], -p[1])
    assert found[2:].isnan().all()
    torch.testing.assert_close(shell.project_shell(p[:1], 3.0), 1.5 * p[:1])
    with pytest.raises(ValueError, match=r"mass=0.*positive"):
        shell.project_shell(p, 0)


# --- de Sitter and anti-de Sitter


def test_geodesics_of_de_sitter_space() -> None:
    """An observer at rest, a great circle, a ray of light."""
    space, x = DeSitter(2), f64([0.0, 1.0, 0.0])
    t = 1.3
    time, light = f64([1.0, 0.0, 0.0]), f64([1.0, 0.0, 1.0])
    torch.testing.assert_close(space.expmap(x, t * time), f64([math.sinh(t), math.cosh(t), 0.0]))
    torch.testing.assert_close(space.expmap(x, t * f64([0.0, 0.0, 1.0])), f64([0.0, math.cos(t), math.sin(t)]))
    torch.testing.assert_close(space.expmap(x, t * light), x + t * light)
    kinds = space.causal_type(x, torch.stack([time, light, f64([0.0, 0.0, -2.0])]))
    assert kinds.tolist() == [-1, 0, 1]
    assert space.dist(x, x + t * light).item() == 0
    torch.testing.assert_close(space.logmap(x, x + t * light), t * light)


def test_de_sitter_points_without_a_geodesic() -> None:
    space, x = DeSitter(2), f64([0.0, 1.0, 0.0])
    beyond = f64([[1.0, -math.sqrt(2), 0.0], [0.0, -1.0, 0.0], [-5.0, -math.sqrt(26), 0.0]])
    for result in (space.logmap(x, beyond), space.dist(x, beyond), space.parallel_transport(x, beyond, x.flip(0))):
        assert result.isnan().all()
    with pytest.raises(ValueError, match=r"no unique geodesic of DeSitter"):
        space.assert_logmap(x, beyond[0])
    near = f64([[1.0, math.sqrt(2), 0.0], [0.0, -0.9, math.sqrt(0.19)]])
    torch.testing.assert_close(space.expmap(x, space.logmap(x, near)), near)


def test_time_runs_in_circles_in_anti_de_sitter_space() -> None:
    space, x = AntiDeSitter(3, radius=2.0), f64([2.0, 0.0, 0.0, 0.0])
    u = space.frame(x)[:, 0]
    torch.testing.assert_close(u, f64([0.0, 1.0, 0.0, 0.0]))
    torch.testing.assert_close(space.expmap(x, 4 * math.pi * u), x)
    torch.testing.assert_close(space.expmap(x, math.pi * u), f64([0.0, 2.0, 0.0, 0.0]))
    assert space.logmap(x, space.expmap(x, 2 * math.pi * u)).isnan().all()
    side = space.expmap(x, 3 * space.frame(x)[:, 1])
    torch.testing.assert_close(side, f64([2 * math.cosh(1.5), 0.0, 2 * math.sinh(1.5), 0.0]))


@pytest.mark.parametrize("space", [DeSitter(4), AntiDeSitter(4), DeSitter(2, radius=3.0)])
def test_frames_of_space_times_point_to_the_future_everywhere(space: PseudoHyperquadric) -> None:
    """Time-like first, orthonormal far out, and of one time orientation: no jump along any path."""
    noise = torch.randn(500, space.dim + 1, dtype=torch.float64, generator=generator(5))
    x = space.projx(noise * f64([3.0] + [1.0] * space.dim))
    frame = space.frame(x)
    flipped = space._flip(frame.mT)
    eta = torch.diag(f64([-1.0] + [1.0] * (space.dim - 1))).expand(500, -1, -1)
    torch.testing.assert_close(flipped @ frame, eta, rtol=0, atol=1e-11)
    assert space._dot(x[:, :, None].mT, frame.mT).abs().max() <= 1e-11
    forward = frame[:, 0, 0] if space.index == 1 else x[:, 0] * frame[:, 1, 0] - x[:, 1] * frame[:, 0, 0]
    assert (forward > 0).all()
