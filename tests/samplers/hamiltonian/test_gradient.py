"""The one place that differentiates: in and out of grad mode, inference mode, transforms and compilation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from manifolds.poisson import Canonical
from samplers.hamiltonian import HamiltonianSystem, gradient
from samplers.hamiltonian.gradient import takes_time


def oscillator(z: Tensor) -> Tensor:
    return z.square().sum(-1) / 2


def pulsed(z: Tensor, t: float | Tensor = 0.0) -> Tensor:
    return oscillator(z) * t


Z = torch.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=torch.float64)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_grad_mode_the_field_is_right_and_free_of_a_graph(mode: type) -> None:
    system = HamiltonianSystem(oscillator, structure=Canonical(2))
    with mode():
        field = system.drift(torch.tensor([[1.0, 2.0]]))
    assert field.tolist() == [[2.0, -1.0]] and not field.requires_grad


def test_in_grad_mode_second_derivatives_work() -> None:
    z = Z.clone().requires_grad_()
    slope = gradient(lambda z: z.pow(4).sum(-1), z)
    curvature = torch.autograd.grad(slope.sum(), z)[0]
    torch.testing.assert_close(curvature, 12 * Z.square())


def test_parameters_get_gradients_through_the_field() -> None:
    stiffness = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    gradient(lambda z: stiffness * oscillator(z), Z).sum().backward()
    assert float(stiffness.grad) == pytest.approx(float(Z.sum()))


@pytest.mark.usefixtures("as_user")  # run-time type checks cannot be traced
def test_under_transforms_and_compilation() -> None:
    def field(z: Tensor) -> Tensor:
        return gradient(lambda z: z.pow(4).sum(-1), z)

    expected = 4 * Z.pow(3)
    torch.testing.assert_close(torch.func.vmap(field)(Z), expected)
    torch.testing.assert_close(torch.func.grad(lambda z: field(z).sum())(Z), 12 * Z.square())
    torch.testing.assert_close(torch.compile(field, backend="eager", fullgraph=True)(Z), expected)


def test_an_energy_is_asked_for_its_own_gradient() -> None:
    class Known(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            raise AssertionError("not needed")

        def gradient(self, z: Tensor) -> Tensor:
            return 7 * z

    assert torch.equal(gradient(Known(), Z), 7 * Z)


def test_a_constant_energy_has_gradient_zero() -> None:
    assert torch.equal(gradient(lambda z: torch.ones(len(z), dtype=z.dtype), Z), torch.zeros_like(Z))
    assert torch.equal(gradient(lambda z: z[:, 0], Z), torch.tensor([[1.0, 0.0]] * 2, dtype=torch.float64))


def test_time_is_passed_to_energies_that_take_it() -> None:
    assert not takes_time(oscillator) and takes_time(pulsed) and takes_time(lambda z, t: z) and takes_time(lambda *a: a)
    assert not takes_time(lambda z, k=2.0: k * oscillator(z))  # a setting, bound early
    system = HamiltonianSystem(pulsed, structure=Canonical(2))
    torch.testing.assert_close(system.gradient(Z, 3.0), 3 * Z)
    torch.testing.assert_close(system.gradient(Z, torch.tensor([1.0, 2.0])), Z * torch.tensor([[1.0], [2.0]]))
    assert torch.equal(system.gradient(Z), 0 * Z)  # time starts at zero


@pytest.mark.usefixtures("as_user")
def test_an_energy_must_return_one_number_per_row() -> None:
    with pytest.raises(ValueError, match=r"returned shape \(\).*one number per row, shape \(2,\)"):
        gradient(lambda z: z.square().sum(), Z)


def test_no_row_sees_another() -> None:
    z = Z.clone()
    z[1] = torch.nan
    assert torch.equal(gradient(lambda z: z.pow(4).sum(-1), z)[0], gradient(lambda z: z.pow(4).sum(-1), Z)[0])
