"""Products: layout, what combines and how, refusals that name the part."""

from __future__ import annotations

import copy
import math

import geoopt
import pytest
import torch
from torch import Tensor

from manifolds import SO3, SPD, Euclidean, Minkowski, PoincareBall, Product, Sphere, Stiefel, Torus
from manifolds.base import UnsupportedError


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mixed() -> Product:
    return Product([Sphere(2), SO3(), Torus(2)])


def points(manifold: Product, count: int, seed: int = 0) -> Tensor:
    return manifold.random_uniform(count, *manifold.point_shape, dtype=torch.float64, generator=generator(seed))


def test_layout_is_row_by_row() -> None:
    m = mixed()
    assert m.slices == [slice(0, 3), slice(3, 12), slice(12, 14)]
    assert (m.point_shape, m.ndim, m.dim, m.signature) == ((14,), 1, 7, (7, 0))
    x = torch.arange(28.0).reshape(2, 14)
    sphere, rotation, torus = m.unpack(x)
    assert rotation[0].tolist() == [[3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert torch.equal(m.pack(sphere, rotation, torus), x)
    assert torch.equal(m.pack_point(*m.unpack_tensor(x)), x)
    broadcast = m.pack(sphere[:, None], rotation, torus[0])
    assert broadcast.shape == (2, 2, 14)
    with pytest.raises(ValueError, match=r"2 tensors given, but .* has 3 parts"):
        m.pack(sphere, rotation)
    with pytest.raises(ValueError, match=r"points\[1\] has shape \(2, 9\)"):
        m.pack(sphere, rotation.flatten(-2), torus)


def test_everything_is_that_of_the_parts() -> None:
    m = mixed()
    x, y = points(m, 4), points(m, 4, seed=1)
    u = m.random_tangent(x, generator=generator(2))
    triples = list(zip(m.parts, m.unpack(x), m.unpack(y), m.unpack(u), strict=True))
    torch.testing.assert_close(m.expmap(x, u), m.pack(*[part.expmap(a, w) for part, a, _, w in triples]))
    torch.testing.assert_close(m.logmap(x, y), m.pack(*[part.logmap(a, b) for part, a, b, _ in triples]))
    squares = sum(part.dist(a, b) ** 2 for part, a, b, _ in triples)
    torch.testing.assert_close(m.dist(x, y), squares.sqrt())
    moved = m.pack(*[part.parallel_transport(a, b, w) for part, a, b, w in triples])
    torch.testing.assert_close(m.parallel_transport(x, y, u), moved)
    kernels = sum(part.log_heat_kernel(a, b, 0.4) for part, a, b, _ in triples)
    torch.testing.assert_close(m.log_heat_kernel(x, y, 0.4), kernels)
    assert math.exp(m.log_volume) == pytest.approx(4 * math.pi * 8 * math.pi**2 * (2 * math.pi) ** 2)
    assert (m.has_log, m.has_transport, m.has_kernel, m.has_chart) == (True, True, True, False)


def test_frames_put_negative_directions_first() -> None:
    m = Product([Sphere(1), Minkowski(2), Product([Minkowski(3)])])
    assert m.signature == (4, 2)
    sphere, flat, space = m.unpack(m.frame(m.origin(7)).T)
    assert flat[0].tolist() == [1, 0] and space[1].tolist() == [1, 0, 0], "times of the second and third part"
    assert flat[3].tolist() == [0, 1] and sphere[2].abs().sum() == 1
    components = torch.randn(5, 6, generator=generator())
    vector = m.combine(m.origin(7), components)
    torch.testing.assert_close(vector, (m.frame(m.origin(7)) * components[:, None]).sum(-1))
    torch.testing.assert_close(m.components(m.origin(5, 7), vector), components)
    with pytest.raises(UnsupportedError, match=r"Product.*not Lorentzian"):
        m.boost(vector, components[:, 1:], x=m.origin(7))


def test_one_time_among_the_parts_makes_a_space_time() -> None:
    m = Product([Torus(1), Minkowski(2)])
    x = m.origin(3)
    momentum = torch.tensor([0.5, 3.0, 1.0])
    shell = m.project_shell(momentum, 2.0, x=x)
    assert m.inner(x, shell).item() == pytest.approx(-4)
    assert m.causal_type(x, torch.eye(3)).tolist() == [1, -1, 1]
    assert m.dist(x, torch.tensor([0.6, 1.0, 0.0])).item() == pytest.approx(0.8), "time-like: sqrt(|0.36 - 1|)"
    with pytest.raises(ValueError, match="indefinite"):
        m.egrad2rgrad(x, momentum)


def test_charts_combine_to_a_chart() -> None:
    m = Product([PoincareBall(2), Euclidean(1), PoincareBall(1, curvature=2.0)])
    x = torch.tensor([0.3, -0.2, 5.0, 0.4], dtype=torch.float64)
    assert m.has_chart
    wanted = torch.block_diag(*[part.metric(a) for part, a in zip(m.parts, m.unpack(x), strict=True)])
    torch.testing.assert_close(m.metric(x), wanted)
    torch.testing.assert_close(m.cometric(x), torch.linalg.inv(wanted))
    symbols = m.christoffel(x)
    torch.testing.assert_close(symbols[:2, :2, :2], PoincareBall(2).christoffel(x[:2]))
    torch.testing.assert_close(symbols[3:, 3:, 3:], PoincareBall(1, curvature=2.0).christoffel(x[3:]))
    assert symbols[2].abs().max() == symbols[:2, 2:].abs().max() == 0


def test_what_a_part_lacks_the_product_lacks() -> None:
    m = Product([Stiefel(4, 2), SPD(2)])
    x = m.origin(12)
    calls = [
        lambda: m.logmap(x, x),
        lambda: m.dist(x, x),
        lambda: m.parallel_transport(x, x, x),
        lambda: m.log_heat_kernel(x, x, 1.0),
        lambda: m.christoffel(x),
        lambda: m.random_uniform(12),
    ]
    for call in calls:
        with pytest.raises(UnsupportedError, match=r"Product\(Stiefel\(4, 2\), SPD\(2\)\)"):
            call()


def test_checks_name_the_part() -> None:
    m = mixed()
    x = points(m, 3)
    x[1, 4] += 0.1
    with pytest.raises(ValueError, match=r"part 1, SO3 manifold, entries slice\(3, 12, None\): x\^T x differs"):
        m.assert_check_point_on_manifold(x)
    with pytest.raises(ValueError, match=r"shape \(3, 13\)"):
        m.assert_check_point_on_manifold(x[:, 1:])
    with pytest.raises(ValueError, match=r"manifolds=\[\] is empty"):
        Product([])
    with pytest.raises(TypeError, match=r"manifolds\[1\]=Euclidean"):
        Product([SO3(), geoopt.Euclidean()])  # type: ignore[list-item]


def test_optimisers_adapt_part_by_part_and_reach_the_minimum() -> None:
    m = Product([Sphere(2), SPD(2), Euclidean(2)])
    goal = m.wrapped_normal(m.origin(3, 9, dtype=torch.float64), 0.7, generator(5))
    x = geoopt.ManifoldParameter(m.origin(3, 9, dtype=torch.float64), manifold=m)
    inner = m.component_inner(x, m.random_tangent(x, generator=generator()))
    assert inner.shape == (3, 9)
    assert torch.equal(inner[:, 3], inner[:, 6]) and not torch.equal(inner[:, 2], inner[:, 3])
    optimiser = geoopt.optim.RiemannianAdam([x], lr=0.1)
    for step in range(150):
        optimiser.param_groups[0]["lr"] = 0.1 * (1 - step / 150)
        optimiser.zero_grad()
        m.dist2(x, goal).sum().backward()
        optimiser.step()
    torch.testing.assert_close(x.detach(), goal, atol=5e-3, rtol=0)
    twin = copy.deepcopy(x)
    assert type(twin.manifold) is Product and torch.equal(twin, x)
