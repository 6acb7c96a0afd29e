"""The functions every manifold shares, and what the base class promises whatever the geometry."""

from __future__ import annotations

import copy
import io
import math
import pickle
import subprocess
import sys
from collections.abc import Callable

import geoopt
import numpy as np
import pytest
import torch
from torch import Tensor

from manifolds import Euclidean, Manifold, Minkowski, Torus, UnsupportedError
from manifolds._functions import (
    arc_over_sin_chord,
    generalized_cos,
    generalized_sinc,
    lorentz_boost,
    safe_norm,
    safe_sqrt,
    standard_normal,
)


def derivatives(function: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value, first and second derivative by double backward."""
    at = at.clone().requires_grad_()
    value = function(at)
    first = torch.autograd.grad(value.sum(), at, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), at)[0]
    return value.detach(), first.detach(), second


SQUARES = torch.cat([torch.logspace(-14, 1.5, 60), torch.tensor([0.25, 0.249999, 0.03, 0.02999])]).double()
SIGNED = torch.cat([SQUARES, -SQUARES, torch.zeros(1)])


def test_generalized_trigonometry_has_right_values() -> None:
    root = SQUARES.abs().sqrt().numpy()
    torch.testing.assert_close(generalized_cos(SQUARES), torch.from_numpy(np.cos(root)), atol=1e-14, rtol=1e-14)
    torch.testing.assert_close(generalized_cos(-SQUARES), torch.from_numpy(np.cosh(root)), atol=0, rtol=1e-14)
    sinc = torch.from_numpy(np.sinc(root / np.pi))
    torch.testing.assert_close(generalized_sinc(SQUARES), sinc, atol=1e-15, rtol=1e-13)
    torch.testing.assert_close(generalized_sinc(-SQUARES), torch.from_numpy(np.sinh(root) / root), atol=0, rtol=1e-14)


def test_generalized_trigonometry_has_right_derivatives_on_both_sides_of_zero() -> None:
    """C' = -S/2 and S' = (C - S)/(2 s), with their series at 0: S'(0) = -1/6, S''(0) = 1/60."""
    cos, slope, second = derivatives(generalized_cos, SIGNED)
    sinc, sinc_slope, sinc_second = derivatives(generalized_sinc, SIGNED)
    torch.testing.assert_close(slope, -sinc / 2, atol=1e-14, rtol=1e-13)
    torch.testing.assert_close(second, -sinc_slope / 2, atol=1e-14, rtol=1e-13)
    large = SIGNED.abs() > 0.1
    s = SIGNED[large]
    torch.testing.assert_close(sinc_slope[large], ((cos - sinc)[large]) / (2 * s), atol=1e-14, rtol=1e-12)
    wanted = (-sinc[large] / 2 - 3 * sinc_slope[large]) / (2 * s)
    torch.testing.assert_close(sinc_second[large], wanted, atol=1e-13, rtol=1e-11)
    tiny = SIGNED.abs() < 1e-9
    torch.testing.assert_close(sinc_slope[tiny], torch.full_like(sinc[tiny], -1 / 6), atol=1e-10, rtol=0)
    torch.testing.assert_close(sinc_second[tiny], torch.full_like(sinc[tiny], 1 / 60), atol=1e-10, rtol=0)


def test_arc_over_sin_is_smooth_through_coincidence_and_nan_at_the_antipode() -> None:
    angle = torch.cat([torch.logspace(-7, 0.49, 50)]).double()
    chord = torch.sin(angle / 2) ** 2
    torch.testing.assert_close(arc_over_sin_chord(chord), angle / torch.sin(angle), atol=0, rtol=1e-12)
    hyperbolic = -(torch.sinh(angle / 2) ** 2)
    torch.testing.assert_close(arc_over_sin_chord(hyperbolic), angle / torch.sinh(angle), atol=0, rtol=1e-12)
    _, slope, second = derivatives(arc_over_sin_chord, torch.zeros(1, dtype=torch.float64))
    assert (slope.item(), second.item()) == pytest.approx((2 / 3, 16 / 15), abs=1e-15)
    assert arc_over_sin_chord(torch.tensor([1.0, 1.5])).isnan().all()


def test_arc_over_sin_has_right_derivatives_where_series_and_closed_form_meet() -> None:
    y2 = torch.tensor([0.0299999, 0.0300001, -0.0299999, -0.0300001], dtype=torch.float64)
    _, slope, second = derivatives(arc_over_sin_chord, y2)
    assert slope[0].item() == pytest.approx(slope[1].item(), abs=1e-6)
    assert slope[2].item() == pytest.approx(slope[3].item(), abs=1e-6)
    torch.testing.assert_close(second[0::2], second[1::2], atol=1e-5, rtol=0)


def test_safe_roots_have_zero_gradient_at_zero() -> None:
    for function in (lambda t: safe_sqrt(t * t), lambda t: safe_norm(t)):
        x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        assert torch.equal(torch.autograd.grad(function(x).sum(), x)[0], torch.zeros_like(x))
    assert safe_norm(torch.tensor([3.0, 4.0])).item() == 5
    assert safe_sqrt(torch.tensor(-1.0)).isnan()


def test_boost_is_the_lorentz_matrix() -> None:
    velocity = 0.6
    gamma = 1 / math.sqrt(1 - velocity**2)
    u = torch.tensor([gamma, gamma * velocity, 0.0])
    torch.testing.assert_close(lorentz_boost(u, torch.tensor([1.0, 2.0])), torch.tensor([gamma * velocity, gamma, 2.0]))


def test_normal_numbers_are_the_same_in_both_precisions() -> None:
    draws = [
        standard_normal((5,), dtype=dtype, device=torch.device("cpu"), generator=torch.Generator().manual_seed(0))
        for dtype in (torch.float64, torch.float32)
    ]
    assert torch.equal(draws[0].float(), draws[1])


def test_import_is_silent() -> None:
    code = "import warnings; warnings.simplefilter('error'); import manifolds, geoopt"
    subprocess.run([sys.executable, "-c", code], check=True)


class Bare(Manifold):
    """A manifold that declares nothing: the plane, without any capability."""

    name = "Bare"

    def __init__(self) -> None:
        super().__init__((2,), (2, 0))

    def projx(self, x: Tensor) -> Tensor:
        return x

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return u

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        return self._sum(u * (u if v is None else v), keepdim)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return x + u

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        return True, None

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return True, None


X = torch.zeros(2)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.logmap(X, X),
        lambda m: m.dist(X, X),
        lambda m: m.parallel_transport(X, X, X),
        lambda m: m.christoffel(X),
        lambda m: m.frame(X),
        lambda m: m.log_heat_kernel(X, X, 1.0),
        lambda m: m.random_uniform(2),
        lambda m: m.random(2),
        lambda m: m.origin(2),
    ],
)
def test_what_is_not_declared_is_refused_by_name(call: Callable[[Manifold], object]) -> None:
    with pytest.raises(UnsupportedError, match="Bare manifold has no"):
        call(Bare())


def test_undeclared_transport_is_the_projection() -> None:
    assert torch.equal(Bare().transp(X, X, torch.ones(2)), torch.ones(2))


@pytest.mark.parametrize(
    ("x", "u", "reason"),
    [
        (torch.zeros(4, 3), torch.zeros(4, 3, dtype=torch.float64), "float64"),
        (torch.zeros(4, 3), torch.zeros(5, 3), r"\(4, 3\) and u \(5, 3\)"),
        (torch.zeros(4, 3), torch.zeros(4, 2), r"u has shape \(4, 2\).*\(\.\.\., 3\)"),
        (torch.zeros(3, 4), torch.zeros(4, 3), r"x has shape \(3, 4\)"),
        (torch.tensor([0, math.nan, 0]), torch.zeros(3), "not finite"),
        (torch.zeros(3), torch.tensor([0, 0, math.inf]), "not finite"),
    ],
)
def test_checks_explain_themselves(x: Tensor, u: Tensor, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Euclidean(3).assert_check_vector_on_tangent(x, u)


def test_the_asserting_logarithm_checks_its_points() -> None:
    with pytest.raises(ValueError, match="float64"):
        Euclidean(2).assert_logmap(torch.zeros(2), torch.zeros(2).double())
    with pytest.raises(ValueError, match="not finite"):
        Torus(2).assert_logmap(torch.zeros(2), torch.tensor([0.0, math.nan]))


@pytest.mark.parametrize(
    ("n", "error", "message"), [(0, ValueError, "n=0"), (2.0, TypeError, "n=2.0"), (True, TypeError, "n=True")]
)
@pytest.mark.parametrize("make", [Euclidean, Minkowski, Torus])
def test_sizes_are_checked(make: type[Manifold], n: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(n)  # type: ignore[arg-type]


def test_an_optimiser_is_refused_on_an_indefinite_metric() -> None:
    momentum = geoopt.ManifoldParameter(torch.ones(4), manifold=Minkowski(4))
    optimiser = geoopt.optim.RiemannianAdam([momentum], lr=0.1)
    momentum.square().sum().backward()
    with pytest.raises(ValueError, match=r"Minkowski\(4\).*Riemannian gradient.*indefinite, signature \(3, 1\)"):
        optimiser.step()


class Model(torch.nn.Module):
    """A module with one parameter on a torus."""

    def __init__(self) -> None:
        super().__init__()
        self.angles = geoopt.ManifoldParameter(torch.tensor([[0.5, -1.0]]), manifold=Torus(2))


def test_copies_of_parameters_keep_their_manifold() -> None:
    """P04."""
    model = Model()
    buffer = io.BytesIO()
    torch.save(model.angles, buffer)
    buffer.seek(0)
    twins = [
        copy.deepcopy(model.angles),
        pickle.loads(pickle.dumps(model.angles)),
        copy.deepcopy(model).angles,
        torch.load(buffer, weights_only=False),
    ]
    for twin in twins:
        assert type(twin) is geoopt.ManifoldParameter
        assert isinstance(twin.manifold, Torus)
        assert twin.manifold.dim == 2
        assert torch.equal(twin.data, model.angles.data)
        assert twin.requires_grad


def test_geoopt_cannot_scale_what_it_does_not_know() -> None:
    scaled = geoopt.Scaled(Euclidean(2), 3.0)
    x, y = torch.zeros(2), torch.tensor([3.0, 4.0])
    assert scaled.dist(x, y).item() == 15
    for call in (
        lambda: scaled.brownian_step(x, 1.0),
        lambda: scaled.wrapped_normal(x),
        lambda: scaled.log_heat_kernel(x, y, 1.0),
    ):
        with pytest.raises(NotImplementedError, match="Scaled"):
            call()
