"""The helpers that test integrators: each catches a broken one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from samplers.hamiltonian import (
    HamiltonianNoise,
    HamiltonianSystem,
    Integrator,
    Separable,
    State,
    SymplecticEuler,
    Verlet,
)
from samplers.hamiltonian.testing import (
    assert_integrator_order,
    assert_reversible,
    assert_symplectic,
    measure_order,
    nested_noise,
    slope,
)

F64 = torch.float64
Z = torch.randn(3, 2, dtype=F64, generator=torch.Generator().manual_seed(0))


def square(x: Tensor) -> Tensor:
    return x.square().sum(-1) / 2


def kubo() -> HamiltonianSystem:
    return HamiltonianSystem(Separable(square, square), noise=HamiltonianNoise([Separable(square, square)]))


def free() -> HamiltonianSystem:
    return HamiltonianSystem(Separable(square, square))


class Euler(Integrator):
    """Explicit Euler in the equation's own calculus: neither symplectic nor reversible, and wrong for noise."""

    def refusal(self, system: object) -> None:
        return None

    def step(self, system: HamiltonianSystem, state: State, h: float, noise: Tensor | None) -> State:
        change = h * system.drift(state.z)
        if noise is not None:
            change = change + system.diffuse(state.z, h**0.5 * noise)
        return State(state.z + change, state.t + h)


def test_slope_of_a_power_law() -> None:
    steps = [2, 4, 8, 16, 32]
    assert slope(steps, [9.0, *[3.0 * n**-1.5 for n in steps[1:]]]) == pytest.approx(1.5)  # the first is not fitted


def test_nested_noise_has_the_same_end_and_stays_standard() -> None:
    fine = torch.randn(64, 2000, 3, dtype=F64)
    for count in (64, 16, 1):
        coarse = nested_noise(fine, count)
        torch.testing.assert_close(coarse.sum(0) / count**0.5, fine.sum(0) / 64**0.5)
        assert abs(float(coarse.var()) - 1) < 5 * (2 / coarse.numel()) ** 0.5


def test_a_wrong_order_is_noticed() -> None:
    run = {"end_time": 1.0, "steps": (8, 16, 32, 64)}
    assert_integrator_order(Verlet(), free(), Z, order=2, **run)
    with pytest.raises(AssertionError, match=r"order 2\.\d+, not 1"):
        assert_integrator_order(Verlet(), free(), Z, order=1, **run)


def test_a_stochastic_method_that_stalls_is_noticed() -> None:
    """Euler reads the Stratonovich equation as Ito: its error does not vanish."""
    z0 = torch.tensor([[1.0, 0.0]], dtype=F64).expand(500, 2)

    def exact(increments: Tensor) -> Tensor:
        angle = 1.0 + increments[..., 0].sum(0)
        return torch.stack([angle.cos(), -angle.sin()], -1)

    run = {"end_time": 1.0, "steps": (16, 32, 64, 128), "kind": "strong", "reference": exact}
    assert_integrator_order(Verlet(), kubo(), z0, order=1, **run)
    with pytest.raises(AssertionError, match="order"):
        assert_integrator_order(Euler(), kubo(), z0, order=0.5, **run)


def test_a_weak_error_that_drowns_in_noise_is_not_taken_for_an_order() -> None:
    z0 = torch.tensor([[1.0, 0.0]], dtype=F64).expand(50, 2)
    exact = float(torch.tensor(1.0, dtype=F64).cos() * torch.tensor(-0.5, dtype=F64).exp())
    with pytest.raises(AssertionError, match="standard errors off zero"):
        assert_integrator_order(
            Verlet(),
            kubo(),
            z0,
            order=1,
            end_time=1.0,
            steps=(16, 32, 64, 128),
            kind="weak",
            observable=lambda z: z[:, 0],
            reference=exact,
        )


def test_what_is_not_symplectic_or_reversible_is_noticed() -> None:
    assert_symplectic(SymplecticEuler(), free(), Z, 0.3)
    with pytest.raises(AssertionError, match="no Poisson map"):
        assert_symplectic(Euler(), free(), Z, 0.3)
    with pytest.raises(AssertionError, match="miss by"):
        assert_reversible(SymplecticEuler(), free(), Z, 0.3)


@pytest.mark.usefixtures("as_user")
def test_questions_without_sense() -> None:
    with pytest.raises(ValueError, match="kind='mean'"):
        measure_order(Verlet(), free(), Z, end_time=1.0, steps=(2, 4), kind="mean")
    with pytest.raises(ValueError, match="each must divide the last"):
        measure_order(Verlet(), free(), Z, end_time=1.0, steps=(2, 3))
    with pytest.raises(ValueError, match="observable and its exact expectation"):
        measure_order(Verlet(), kubo(), Z, end_time=1.0, steps=(2, 4), kind="weak")
