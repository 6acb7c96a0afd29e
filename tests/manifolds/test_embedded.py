"""Level sets of a constraint, against the sphere, an ellipse and a circle cut out by two constraints."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from manifolds import Embedded, Sphere, UnsupportedError


def unit(x: Tensor) -> Tensor:
    return (x * x).sum(-1) - 1


def stretched(x: Tensor) -> Tensor:
    """Ellipse with half axes 2 and 1/2."""
    return (x[..., 0] / 2) ** 2 + (2 * x[..., 1]) ** 2 - 1


def cut(x: Tensor) -> Tensor:
    """Circle of radius 0.8 at height 0.6."""
    return torch.stack([(x * x).sum(-1) - 1, x[..., 2] - 0.6], dim=-1)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def sphere() -> Sphere:
    return Sphere(2)


@pytest.fixture
def embedded() -> Embedded:
    return Embedded(unit, 3, has_log=True)


def test_agrees_with_the_sphere(embedded: Embedded, sphere: Sphere) -> None:
    raw, w = normal(5, 3), normal(5, 3, seed=1)
    x = embedded.projx(raw)
    torch.testing.assert_close(x, sphere.projx(raw))
    u, v = sphere.proju(x, w), sphere.proju(x, w.flip(0))
    u = u / u.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(embedded.proju(x, w), sphere.proju(x, w))
    y = sphere.expmap(x, u)
    end, moved = embedded.expmap_transp(x, u, v)
    torch.testing.assert_close(end, y, rtol=0, atol=1e-10)
    torch.testing.assert_close(moved, sphere.parallel_transport(x, y, v), rtol=0, atol=1e-10)
    torch.testing.assert_close(embedded.expmap(x, u), end)
    torch.testing.assert_close(embedded.logmap(x, y), u, rtol=0, atol=1e-9)
    torch.testing.assert_close(embedded.dist(x, y), torch.ones(5, dtype=torch.float64), rtol=0, atol=1e-9)
    torch.testing.assert_close(embedded.parallel_transport(x, y, v), moved, rtol=0, atol=1e-9)
    torch.testing.assert_close(embedded.exp_logdet(x, u), sphere.exp_logdet(x, u), rtol=0, atol=1e-9)
    torch.testing.assert_close(embedded.inner(x, u, v), sphere.inner(x, u, v))
    torch.testing.assert_close(embedded.egrad2rgrad(x, w), sphere.egrad2rgrad(x, w))
    torch.testing.assert_close(embedded.log_gram_factor(x), torch.full((5,), math.log(2), dtype=torch.float64))


def test_frame_is_an_orthonormal_tangent_basis(embedded: Embedded) -> None:
    x = embedded.projx(normal(5, 3))
    frame = embedded.frame(x)
    torch.testing.assert_close(frame.mT @ frame, torch.eye(2, dtype=torch.float64).expand(5, 2, 2))
    assert (x[:, None] @ frame).abs().max() < 1e-14
    torch.testing.assert_close(embedded.metric(x), torch.eye(2, dtype=torch.float64).expand(5, 2, 2))
    h, w = 1e-6, embedded.proju(x, normal(5, 3, seed=2))
    slope = torch.autograd.functional.jvp(embedded.frame, x, w)[1]
    torch.testing.assert_close(
        slope, (embedded.frame(x + h * w) - embedded.frame(x - h * w)) / (2 * h), rtol=0, atol=1e-7
    )


def test_two_constraints_cut_out_a_circle() -> None:
    circle = Embedded(cut, 3, num_constraints=2)
    x = circle.projx(normal(4, 3) + torch.tensor([3.0, 0.0, 0.0]))
    torch.testing.assert_close(circle.constraint(x), torch.zeros(4, 2, dtype=torch.float64), rtol=0, atol=1e-15)
    assert circle.dim == 1
    frame = circle.frame(x)[..., 0]
    turned = torch.stack([-x[:, 1], x[:, 0], 0 * x[:, 0]], dim=-1) / 0.8
    torch.testing.assert_close((frame * turned).sum(-1).abs(), torch.ones(4, dtype=torch.float64))
    cos, sin = math.cos(1.3 / 0.8), math.sin(1.3 / 0.8)
    flat = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    wanted = flat * (cos * x + 0.8 * sin * turned) + (1 - flat) * x
    torch.testing.assert_close(circle.expmap(x, 1.3 * turned), wanted, rtol=0, atol=1e-10)
    torch.testing.assert_close(circle.expmap(x, 0 * turned), x)


def test_gram_factor_is_that_of_the_coarea_formula() -> None:
    """Integral of delta(c(x)) dx is d/ds of the area of {c < s}: pi a b = pi for the ellipse."""
    angle = torch.arange(400, dtype=torch.float64) * (2 * math.pi / 400)
    x = torch.stack([2 * angle.cos(), angle.sin() / 2], dim=-1)
    speed = torch.stack([-2 * angle.sin(), angle.cos() / 2], dim=-1).norm(dim=-1)
    factor = Embedded(stretched, 2).log_gram_factor(x)
    assert (speed * (-factor).exp()).mean().item() * 2 * math.pi == pytest.approx(math.pi, rel=1e-12)


def test_geodesic_keeps_speed_and_constraint() -> None:
    ellipse = Embedded(stretched, 2)
    x = torch.tensor([2.0, 0.0], dtype=torch.float64)
    u = torch.tensor([0.0, 7.0], dtype=torch.float64)
    end, velocity = ellipse.expmap_transp(x, u, u)
    assert abs(stretched(end).item()) < 1e-14
    assert velocity.norm().item() == pytest.approx(7, abs=1e-9)


def test_retraction_is_of_second_order(embedded: Embedded, sphere: Sphere) -> None:
    x = embedded.projx(normal(5, 3))
    u = sphere.proju(x, normal(5, 3, seed=1))
    errors = [(embedded.retr(x, s * u) - sphere.expmap(x, s * u)).norm() for s in (0.1, 0.05)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(3, abs=0.2)
    y, v = embedded.retr_transp(x, 0.1 * u, u)
    torch.testing.assert_close(y, embedded.retr(x, 0.1 * u))
    torch.testing.assert_close(embedded.proju(y, v), v)


def test_brownian_step_is_a_geodesic_in_the_frame(embedded: Embedded, sphere: Sphere) -> None:
    x, noise = embedded.projx(normal(5, 3)), normal(5, 2, seed=1)
    wanted = sphere.expmap(x, (embedded.frame(x) @ noise[..., None])[..., 0] * 0.3)
    torch.testing.assert_close(embedded.brownian_step(x, 0.09, noise=noise), wanted, rtol=0, atol=1e-10)


class Learned(torch.nn.Module):
    """Sphere of a learned radius."""

    def __init__(self) -> None:
        super().__init__()
        self.radius = torch.nn.Parameter(torch.tensor(1.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return (x * x).sum(-1) - self.radius**2


def test_learned_constraint_gets_its_gradient() -> None:
    module = Learned()
    embedded = Embedded(module, 3)
    x = embedded.projx(torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64))
    u = torch.tensor([0.0, 0.5, 0.0], dtype=torch.float64)
    end = embedded.expmap(x, u)  # R sin(s / R) in the second coordinate
    slope = torch.autograd.grad(end[1], module.radius)[0]
    assert slope.item() == pytest.approx(math.sin(0.5) - 0.5 * math.cos(0.5), abs=1e-9)


def test_points_that_cannot_be_projected_are_nan(embedded: Embedded) -> None:
    x = torch.tensor([[0.0, 0.0, 0.0], [1e9, 0.0, 0.0], [30.0, 40.0, 0.0]], dtype=torch.float64)
    projected = embedded.projx(x)
    assert projected.isnan().all(-1).tolist() == [True, True, False]
    torch.testing.assert_close(projected[2], torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64))


def test_float32(embedded: Embedded) -> None:
    x = embedded.projx(normal(4, 3).float())
    u = embedded.proju(x, normal(4, 3, seed=1).float())
    y = embedded.expmap(x, u / u.norm(dim=-1, keepdim=True))
    assert y.dtype == torch.float32
    assert unit(y).abs().max() < 1e-6
    torch.testing.assert_close(embedded.dist(x, y), torch.ones(4), rtol=0, atol=2e-5)


def test_antipode_has_no_logarithm(embedded: Embedded) -> None:
    x = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"joins x=\[0.0, 0.0, 1.0\] and y=\[-?0.0, -?0.0, -1.0\]"):
        embedded.assert_logmap(x, -x)


def test_bad_input_is_refused_by_name(embedded: Embedded) -> None:
    off = torch.tensor([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"x=\[2.0, 0.0, 0.0\] has c\(x\)=\[3.0\], not 0 \(1 such rows\); use projx"):
        embedded.assert_check_point_on_manifold(off)
    with pytest.raises(ValueError, match=r"u=\[1.0, 1.0, 0.0\] has a normal part of length 1"):
        embedded.assert_check_vector_on_tangent(off[0], torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    with pytest.raises(ValueError, match="not row-wise"):
        Embedded(lambda x: unit(x).sum(), 3).assert_check_point_on_manifold(off[:, None])
    with pytest.raises(TypeError, match="constraint must be a function of points, got int"):
        Embedded(3, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_constraints=3 must be less than ambient_dim=3"):
        Embedded(unit, 3, num_constraints=3)
    with pytest.raises(UnsupportedError, match="Embedded"):
        Embedded(unit, 3).logmap(off[0], off[0])
    with pytest.raises(UnsupportedError, match="Embedded"):
        embedded.christoffel(off[0])
