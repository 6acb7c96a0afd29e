"""Langevin splittings: exact stationary moments, order, sampling on curved manifolds, reversibility."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import scipy.linalg
import torch
from torch import Tensor

from manifolds import Sphere
from samplers.hamiltonian import (
    ABOBA,
    BAOAB,
    OABAO,
    OBABO,
    HamiltonianSystem,
    LangevinBath,
    LangevinSplitting,
    Mechanical,
    Separable,
    Verlet,
    integrate,
)
from samplers.hamiltonian.testing import assert_reversible, slope

F64 = torch.float64
SPLITTINGS = {"BAOAB": BAOAB, "ABOBA": ABOBA, "OBABO": OBABO, "OABAO": OABAO}


def square(x: Tensor) -> Tensor:
    return x.square().sum(-1) / 2


def oscillator(friction: float = 1.0) -> HamiltonianSystem:
    return HamiltonianSystem(Separable(square, square), noise=LangevinBath(friction, 1.0))


@torch.no_grad()
def linear_step(integrator: LangevinSplitting, system: HamiltonianSystem, h: float) -> tuple[Tensor, Tensor]:
    """A and B of a step z' = A z + B xi of a linear system."""
    system.bind(torch.zeros(1, 2, dtype=F64))
    shape = integrator.noise_shape(system)
    count = torch.Size(shape).numel()
    z, xi = torch.eye(2, dtype=F64), torch.eye(count, dtype=F64).unflatten(-1, shape)
    by_state = integrator.step(system, integrator.init(system, z), h, torch.zeros(2, *shape, dtype=F64)).z
    start = integrator.init(system, torch.zeros(count, 2, dtype=F64))
    return by_state.mT, integrator.step(system, start, h, xi).z.mT


@pytest.mark.parametrize("letters", SPLITTINGS)
@pytest.mark.parametrize("friction", [0.1, 1.0, 7.0])
def test_stationary_moments_are_exact(letters: str, friction: float, oracle: Callable[[str], Tensor]) -> None:
    """The discrete Lyapunov equation of the step gives the known moments, whatever the friction."""
    a, b = linear_step(SPLITTINGS[letters](), oscillator(friction), 0.5)
    covariance = scipy.linalg.solve_discrete_lyapunov(a.numpy(), (b @ b.mT).numpy())
    known = oracle(f"splitting.{letters}.stationary(qq,qp,pp)(h=.5,w=1,gamma=1,kT=1)")
    moments = torch.tensor([covariance[0, 0], covariance[0, 1], covariance[1, 1]], dtype=F64)
    torch.testing.assert_close(moments, known, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("letters", SPLITTINGS)
def test_weak_order_two_from_exact_moments(letters: str, oracle: Callable[[str], Tensor]) -> None:
    """Mean and covariance at t = 1 by powers of the step's matrices, without sampling."""
    mean = oracle("langevin_ho.mean(w=1,gamma=.5,kT=1,t=1,q0=1,p0=0)")
    qq, qp, pp = oracle("langevin_ho.cov(qq,qp,pp)").tolist()
    exact = torch.tensor([[qq, qp], [qp, pp]], dtype=F64)
    steps, errors = (4, 8, 16, 32), []
    for count in steps:
        a, b = linear_step(SPLITTINGS[letters](), oscillator(0.5), 1 / count)
        found, covariance = torch.tensor([1.0, 0.0], dtype=F64), torch.zeros(2, 2, dtype=F64)
        for _ in range(count):
            found, covariance = a @ found, a @ covariance @ a.mT + b @ b.mT
        errors.append(float((found - mean).norm() + (covariance - exact).norm()))
    assert abs(slope(steps, errors) - 2) < 0.15, errors


def test_samples_of_a_harmonic_force_have_no_step_size_error() -> None:
    """At h = 1 positions are exact, and momenta at full steps have variance 1 - h²/4."""
    z0 = torch.zeros(100_000, 2)
    generator = torch.Generator().manual_seed(0)
    end = integrate(oscillator(), BAOAB(), z0, step_size=1.0, num_steps=60, save_every=60, generator=generator).states[
        -1
    ]
    error = 4 * (2 / len(z0)) ** 0.5  # four standard errors of a variance of one
    assert float(end[:, 0].var()) == pytest.approx(1.0, abs=error)
    assert float(end[:, 1].var()) == pytest.approx(0.75, abs=0.75 * error)


@pytest.mark.parametrize("letters", [*SPLITTINGS, "BAOOAB", "OABABAO"])
def test_a_step_back_undoes_a_step(letters: str) -> None:
    system = HamiltonianSystem(Separable(square, lambda q: -q.cos().sum(-1)), noise=LangevinBath(1.0, 0.5))
    z0 = torch.randn(5, 4, dtype=F64)
    assert_reversible(LangevinSplitting(letters), system, z0, 0.1)
    sphere = Mechanical(Sphere(2), lambda q: -q[..., 2], mass=2.0)
    q = torch.nn.functional.normalize(torch.randn(5, 3, dtype=F64), dim=-1)
    z0 = sphere.pack(q, sphere.cotangent(q, torch.randn(5, 3, dtype=F64)))
    assert_reversible(LangevinSplitting(letters), HamiltonianSystem(sphere, noise=LangevinBath(1.0, 0.5)), z0, 0.1)


def test_without_friction_it_is_verlet() -> None:
    hamiltonian = Separable(square, lambda q: -q.cos().sum(-1))
    z0 = torch.randn(5, 4, dtype=F64)
    settings = {"step_size": 0.1, "num_steps": 20}
    free = integrate(HamiltonianSystem(hamiltonian), Verlet(), z0, **settings).states
    still = integrate(HamiltonianSystem(hamiltonian, noise=LangevinBath(0.0, 1.0)), OBABO(), z0, **settings).states
    torch.testing.assert_close(still, free, rtol=1e-13, atol=1e-13)


def test_masses_friction_and_temperature_per_coordinate() -> None:
    """Two independent oscillators of masses 1 and 4 in baths of their own."""
    masses, kT = torch.tensor([1.0, 4.0], dtype=F64), torch.tensor([1.0, 2.0], dtype=F64)
    hamiltonian = Separable(lambda p: (p.square() / masses).sum(-1) / 2, lambda q: (masses * q.square()).sum(-1) / 2)
    system = HamiltonianSystem(hamiltonian, noise=LangevinBath(torch.tensor([1.0, 3.0], dtype=F64), kT))
    z0 = torch.zeros(40_000, 4, dtype=F64)
    end = integrate(system, BAOAB(), z0, step_size=0.5, num_steps=60, save_every=60).states[-1]
    expected = torch.cat([kT / masses, masses * kT * (1 - 0.5**2 / 4)])
    assert ((end.var(0) / expected - 1).abs() < 4 * (2 / len(z0)) ** 0.5).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "height_bias", "kinetic"), [(BAOAB, -0.0107, 1.827), (ABOBA, -0.0078, None), (OBABO, -0.0550, 2.00)]
)
def test_geodesic_splittings_on_the_sphere(
    make: Callable[[], LangevinSplitting], height_bias: float, kinetic: float | None, oracle: Callable[[str], Tensor]
) -> None:
    """V = -z, kT = 1/2, h = .8: the bias of <z> and <|p|²>/kT are known numbers, and 0 and 2 would be right."""
    system = HamiltonianSystem(Mechanical(Sphere(2), lambda q: -q[..., 2]), noise=LangevinBath(1.0, 0.5))
    rows, generator = 4_000, torch.Generator().manual_seed(0)
    q = torch.nn.functional.normalize(torch.randn(rows, 3, dtype=F64, generator=generator), dim=-1)
    z0 = system.space.pack(q, system.space.gibbs_momentum(q, 0.5, generator=generator))
    states = integrate(system, make(), z0, step_size=0.8, num_steps=340, save_every=2, generator=generator).states[20:]
    for values, expected in (
        (states[..., 2], float(oracle("gibbs.S2 <z>(V=-z,beta=2)")) + height_bias),
        (states[..., 3:].square().sum(-1) / 0.5, kinetic),
    ):
        if expected is not None:
            means = values.mean(0)  # rows are independent
            error = float(means.std()) / rows**0.5
            assert abs(float(means.mean()) - expected) < 4 * error + 5e-4, (float(means.mean()), error)
    torch.testing.assert_close(states[-1, :, :3].norm(dim=-1), torch.ones(rows, dtype=F64), rtol=1e-14, atol=1e-14)


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize("letters", ["BAOBA", "BAB", "XAOAX", "", 3])
def test_letters_must_be_a_palindrome(letters: object) -> None:
    with pytest.raises(ValueError, match="must be a palindrome of A, B and O"):
        LangevinSplitting(letters)


@pytest.mark.usefixtures("as_user")
def test_a_bath_is_needed() -> None:
    z0 = torch.zeros(1, 2)
    with pytest.raises(ValueError, match=r"BAOAB|LangevinSplitting does not fit.*noise=LangevinBath.*Verlet"):
        integrate(HamiltonianSystem(Separable(square, square)), BAOAB(), z0, step_size=0.1, num_steps=1)
