"""Frames along curves: the lift is the derivative of transport, holonomy and frame decay have known values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import dawsn, erf
from torch import Tensor

from manifolds import (
    SE3,
    SO3,
    SPD,
    ChartManifold,
    DeSitter,
    Embedded,
    Hyperboloid,
    Manifold,
    Minkowski,
    PoincareBall,
    Product,
    Schwarzschild,
    Sphere,
    Stiefel,
    Torus,
    UnsupportedError,
)
from manifolds.frames import (
    holonomy,
    horizontal_lift,
    horizontal_step,
    orthonormalize,
    parallel_frames,
    transport_along,
)


def unit(x: Tensor) -> Tensor:
    return (x * x).sum(-1) - 1


def round_sphere(q: Tensor) -> Tensor:
    theta = q[..., 0]
    return torch.diag_embed(torch.stack([torch.ones_like(theta), theta.sin() ** 2], dim=-1))


def draw(manifold: Manifold, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Points and two tangent vectors of length about one."""
    generator = torch.Generator().manual_seed(seed)
    size = (3, *manifold.point_shape)
    noise = torch.randn(3, 3, manifold.dim, dtype=torch.float64, generator=generator) / 2
    if math.isfinite(manifold.log_volume):
        x = manifold.random_uniform(*size, dtype=torch.float64, generator=generator)
    else:
        origin = manifold.origin(*size, dtype=torch.float64)
        x = manifold.expmap(origin, manifold.combine(origin, noise[0]))
    return x, manifold.combine(x, noise[1]), manifold.combine(x, noise[2])


@pytest.mark.parametrize(
    "manifold",
    [
        Sphere(2),
        Hyperboloid(3),
        DeSitter(2),
        SO3(),
        SE3(),
        SPD(2),
        PoincareBall(2),
        Torus(2),
        Minkowski(3),
        Product([Sphere(2), SO3()]),
    ],
    ids=repr,
)
def test_lift_is_the_derivative_of_transport(manifold: Manifold) -> None:
    x, v, w = draw(manifold)
    h = 1e-4
    ahead, behind = (manifold.parallel_transport(x, manifold.expmap(x, s * v), w) for s in (h, -h))
    found = horizontal_lift(manifold, x, v, torch.stack([w, v], dim=-1))
    torch.testing.assert_close(found[..., 0], (ahead - behind) / (2 * h), rtol=0, atol=1e-6)
    linear = horizontal_lift(manifold, x, 2 * v, (3 * w)[..., None])[..., 0]
    torch.testing.assert_close(linear, 6 * found[..., 0], rtol=1e-10, atol=1e-10)


def test_lift_without_transport() -> None:
    """On Stiefel and Embedded the lift keeps a frame tangent and its inner products."""
    for manifold in (Stiefel(4, 2), Embedded(unit, 3)):
        generator = torch.Generator().manual_seed(0)
        x = manifold.projx(torch.randn(*manifold.point_shape, dtype=torch.float64, generator=generator))
        v = manifold.combine(x, torch.randn(manifold.dim, dtype=torch.float64, generator=generator))
        frame, h = manifold.frame(x), 1e-5
        rate = horizontal_lift(manifold, x, v, frame)
        y = manifold.retr(x, h * v)
        moved = (frame + h * rate).movedim(-1, 0)
        torch.testing.assert_close(manifold.proju(y, moved), moved, rtol=0, atol=1e-8)
        assert manifold.proju(x, rate.movedim(-1, 0)).abs().max() < 1e-12


def test_holonomy_of_a_circle_of_latitude(hamiltonian_oracles: dict[str, float]) -> None:
    """In the sphere's orientation the frame has turned by the area 2 pi (1 - cos 1) that lies to the left."""
    wanted = hamiltonian_oracles["S2.latitude_holonomy(colat=1.0)"]

    def circle(t: Tensor) -> Tensor:
        height = torch.full_like(t, math.cos(1))
        return torch.stack([math.sin(1) * t.cos(), math.sin(1) * t.sin(), height], dim=-1)

    south = torch.tensor([math.cos(1), 0.0, -math.sin(1)], dtype=torch.float64)
    east = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    frame = torch.stack([south, east], dim=-1)  # south x east points outwards
    cos, sin = math.cos(wanted), math.sin(wanted)
    turn = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)
    for manifold in (Sphere(2), Embedded(unit, 3)):
        torch.testing.assert_close(holonomy(manifold, circle, 2 * math.pi, frame), turn, rtol=0, atol=1e-9)
    chart = ChartManifold(round_sphere, 2)
    x = torch.tensor([1.0, 0.0], dtype=torch.float64)
    found = holonomy(chart, lambda t: torch.stack([torch.ones_like(t), t], dim=-1), 2 * math.pi, chart.frame(x))
    torch.testing.assert_close(found, turn, rtol=0, atol=1e-9)


def test_parallel_frames_stay_orthonormal_and_are_the_limit_of_transport() -> None:
    space = Hyperboloid(2)

    def curve(t: Tensor) -> Tensor:
        a, b = t.sin(), (2 * t).cos() / 2
        return torch.stack([(1 + a * a + b * b).sqrt(), a, b], dim=-1)

    zero = torch.zeros((), dtype=torch.float64)
    frame = space.frame(curve(zero))
    times = torch.linspace(0, 2, 3, dtype=torch.float64)
    exact = parallel_frames(space, curve, times, frame)
    columns = exact.movedim(-1, 1)
    points = torch.stack([curve(t) for t in times])
    gram = space.inner(points[:, None, None], columns[:, :, None], columns[:, None])
    torch.testing.assert_close(gram, torch.eye(2, dtype=torch.float64).expand(3, 2, 2), rtol=0, atol=1e-9)
    errors = []
    for steps in (32, 64):
        path = torch.stack([curve(t) for t in torch.linspace(0, 2, steps + 1, dtype=torch.float64)])
        errors.append((transport_along(space, path, frame)[-1] - exact[-1]).norm().item())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2)


def quadrature(dim: int) -> tuple[Tensor, Tensor]:
    """Nodes (N, dim) and weights (N) of the standard normal law."""
    nodes, weights = (torch.tensor(values) for values in np.polynomial.hermite_e.hermegauss(24))
    grid = torch.cartesian_prod(*[nodes] * dim)
    return grid, torch.cartesian_prod(*[weights / math.sqrt(2 * math.pi)] * dim).prod(-1)


def expected_step(manifold: Manifold, x: Tensor, dt: float) -> tuple[Tensor, Tensor]:
    """Expectation of one horizontal step from x and its frame, by quadrature."""
    noise, weight = quadrature(manifold.dim)
    count = len(noise)
    frame = manifold.frame(x)
    y, moved = horizontal_step(manifold, x.expand(count, -1), frame.expand(count, *frame.shape), dt, noise=noise)
    return torch.einsum("b,bi->i", weight, y), torch.einsum("b,bia->ia", weight, moved)


def sphere_factor(h: float) -> float:
    return float(1 - math.sqrt(2 * h) * dawsn(math.sqrt(h / 2)))


def hyperbolic_factor(h: float) -> float:
    return float(1 + math.sqrt(math.pi * h / 2) * math.exp(h / 2) * erf(math.sqrt(h / 2)))


@pytest.mark.parametrize(("make", "sign", "factor"), [(Sphere, -1, sphere_factor), (Hyperboloid, 1, hyperbolic_factor)])
def test_horizontal_walk_has_its_exact_factors(
    make: type[Sphere], sign: int, factor: object, hamiltonian_oracles: dict[str, float]
) -> None:
    """A step multiplies E x by a and E e_a by (1 + a) / 2; many small ones by e^{-+ t} and e^{-+ t/2}."""
    assert callable(factor)
    space = make(2)
    x = space.expmap(space.origin(3, dtype=torch.float64), torch.tensor([0.0, 0.3, 0.5], dtype=torch.float64))
    x = space.projx(x)
    for h in (0.5, 0.1):
        point, frame = expected_step(space, x, h)
        torch.testing.assert_close(point, factor(h) * x, rtol=0, atol=1e-12)
        torch.testing.assert_close(frame, (1 + factor(h)) / 2 * space.frame(x), rtol=0, atol=1e-12)
    decay = math.exp(sign / 2)
    if sign < 0:
        assert decay == pytest.approx(hamiltonian_oracles["frame.S2.E[<e_a(t),e_a(0)>](t=1)"])
    errors = [((1 + factor(1 / n)) / 2) ** n - decay for n in (32, 64)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(1, abs=0.1)
    assert 2 * errors[1] - errors[0] == pytest.approx(0, abs=2e-4)


def test_horizontal_step_by_ode_is_that_of_the_sphere() -> None:
    embedded, sphere = Embedded(unit, 3), Sphere(2)
    x = sphere.random_uniform(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    frame = sphere.frame(x)
    noise = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for found, wanted in zip(
        horizontal_step(embedded, x, frame, 0.3, noise=noise),
        horizontal_step(sphere, x, frame, 0.3, noise=noise),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_horizontal_step_draws_what_the_generator_gives() -> None:
    space = SO3()
    x = space.origin(2, 3, 3, dtype=torch.float64)
    one, two = (
        horizontal_step(space, x, space.frame(x), 0.1, generator=torch.Generator().manual_seed(3)) for _ in range(2)
    )
    torch.testing.assert_close(one, two, rtol=0, atol=0)
    assert not torch.equal(one[0][0], one[0][1])


def test_orthonormalize_restores_a_frame() -> None:
    for manifold, x in (
        (Sphere(2), torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)),
        (Schwarzschild(1.0), torch.tensor([0.0, 5.0, 1.0, 0.0], dtype=torch.float64)),
        (SO3(), torch.eye(3, dtype=torch.float64)),
    ):
        frame = manifold.frame(x)
        mix = torch.eye(manifold.dim, dtype=torch.float64)
        mix += 0.1 * torch.randn(mix.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        repaired = orthonormalize(manifold, x, frame @ mix)
        columns = repaired.movedim(-1, 0)
        gram = manifold.inner(x, columns[:, None], columns[None])
        torch.testing.assert_close(gram, torch.diag(manifold.frame_signs(x)), rtol=0, atol=1e-12)
        torch.testing.assert_close(orthonormalize(manifold, x, frame), frame)
    space_first = torch.eye(2, dtype=torch.float64).flip(-1)
    assert orthonormalize(Minkowski(2), torch.zeros(2, dtype=torch.float64), space_first).isnan().any()


def test_refusals_name_the_manifold() -> None:
    chart = Schwarzschild(1.0)
    x = torch.tensor([0.0, 5.0, 1.0, 0.0], dtype=torch.float64)
    with pytest.raises(UnsupportedError, match=r"Schwarzschild.*indefinite"):
        horizontal_step(chart, x, chart.frame(x), 0.1)
    stiefel = Stiefel(3, 2)
    y = stiefel.projx(torch.eye(3, 2, dtype=torch.float64))
    with pytest.raises(UnsupportedError, match="Stiefel"):
        horizontal_step(stiefel, y, stiefel.frame(y), 0.1)
    mixed = Product([Sphere(2), Embedded(unit, 3)])
    z = mixed.pack(torch.tensor([0.0, 0.0, 1.0]).double(), torch.tensor([0.0, 0.0, 1.0]).double())
    with pytest.raises(UnsupportedError, match=r"Product.*horizontal lift"):
        horizontal_lift(mixed, z, z, z[..., None])
