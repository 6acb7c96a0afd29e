"""Verlet and symplectic Euler: conserved quantities, order, symplecticity, Hamiltonian noise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from manifolds import SO3, Hyperboloid, Manifold, Minkowski, Sphere, Torus
from samplers.hamiltonian import (
    HamiltonianNoise,
    HamiltonianSystem,
    LangevinBath,
    Mechanical,
    Separable,
    SymplecticEuler,
    Verlet,
    integrate,
)
from samplers.hamiltonian.testing import assert_integrator_order, assert_reversible, assert_symplectic, measure_order

F64 = torch.float64


def square(x: Tensor) -> Tensor:
    return x.square().sum(-1) / 2


def pendula() -> HamiltonianSystem:
    return HamiltonianSystem(Separable(square, lambda q: -q.cos().sum(-1)))


class Oscillator(Separable):
    """With its gradients, for long runs."""

    def __init__(self) -> None:
        super().__init__(square, square)

    def kick(self, q: Tensor, t: object = None) -> Tensor:
        return -q

    def velocity(self, q: Tensor, p: Tensor) -> Tensor:
        return p

    def drift(self, q: Tensor, p: Tensor, h: object) -> tuple[Tensor, Tensor]:
        return q + h * p, p


@pytest.mark.parametrize(("letters", "steps"), [("KDK", 100_000), ("DKD", 10_000)])
def test_the_modified_energy_of_an_oscillator_is_constant(letters: str, steps: int) -> None:
    system, z0 = HamiltonianSystem(Oscillator()), torch.tensor([[1.0, 0.0]], dtype=F64)
    q, p = integrate(system, Verlet(letters), z0, step_size=0.5, num_steps=steps, save_every=50).states[:, 0].mT
    kept = (1 - 0.25 / 4) * q**2 + p**2 if letters == "KDK" else q**2 + (1 - 0.25 / 4) * p**2
    assert float((kept - kept[0]).abs().max()) < 1e-10
    assert float((q**2 + p**2 - 1).abs().max()) > 0.05  # the energy itself is not


def test_one_step_turns_the_oscillator_by_a_known_angle(oracle: Callable[[str], Tensor]) -> None:
    step = torch.eye(2, dtype=F64)
    matrix = integrate(HamiltonianSystem(Oscillator()), Verlet(), step, step_size=0.5, num_steps=1).states[-1].mT
    assert float(torch.linalg.det(matrix)) == pytest.approx(1.0, abs=1e-15)
    cosine = float(torch.trace(matrix)) / 2
    assert cosine == pytest.approx(float(oracle("verlet_ho.rotation_angle(h=.5,w=1)").cos()), abs=1e-14)


@pytest.mark.parametrize(("integrator", "order"), [(Verlet(), 2), (Verlet("DKD"), 2), (SymplecticEuler(), 1)])
def test_order_and_symplecticity(integrator: Verlet | SymplecticEuler, order: int) -> None:
    z0 = torch.randn(5, 4, dtype=F64)
    assert_integrator_order(integrator, pendula(), z0, end_time=2.0, steps=(16, 32, 64, 128), order=order)
    assert_symplectic(integrator, pendula(), z0, 0.3)
    if integrator.reversible:
        assert_reversible(integrator, pendula(), z0, 0.3)


def test_energy_of_a_nonlinear_oscillator_does_not_drift() -> None:
    """Over 5,000 steps the error of the energy stays within its first swing; Euler's grows without bound."""
    z0 = torch.tensor([[1.5, 0.0]], dtype=F64)
    system = pendula()
    states = integrate(system, Verlet(), z0, step_size=0.2, num_steps=5_000, save_every=1).states[:, 0]
    error = (system.energy(states) - system.energy(z0)).abs()
    assert float(error[-200:].max()) < 1.05 * float(error[:200].max()) < 0.02


@pytest.mark.parametrize("manifold", [Sphere(2), Sphere(3, radius=0.5), Hyperboloid(2), SO3(), Torus(2), Minkowski(3)])
@pytest.mark.parametrize("letters", ["KDK", "DKD"])
def test_motion_on_manifolds(manifold: Manifold, letters: str) -> None:
    """Of order two, reversible, and never off the manifold."""
    system = HamiltonianSystem(Mechanical(manifold, lambda q: q.flatten(1)[:, 1].sin(), mass=1.5))
    origin = manifold.origin(3, *manifold.point_shape, dtype=F64)
    q = manifold.expmap(origin, manifold.combine(origin, torch.randn(3, manifold.dim, dtype=F64) / 2))
    p = manifold.lower(q, manifold.combine(q, torch.randn(3, manifold.dim, dtype=F64)))
    z0 = system.space.pack(q, p)
    assert_reversible(Verlet(letters), system, z0, 0.1)
    assert_integrator_order(Verlet(letters), system, z0, end_time=1.0, steps=(8, 16, 32, 64), order=2)
    end = integrate(system, Verlet(letters), z0, step_size=0.1, num_steps=50, save_every=50).states[-1]
    system.space.assert_check_point_on_manifold(end, atol=1e-12, rtol=1e-12)


def test_angles_stay_in_their_range() -> None:
    system = HamiltonianSystem(Mechanical(Torus(1), lambda q: -q.cos().sum(-1)))
    states = integrate(system, Verlet(), torch.tensor([[3.0, 2.5]], dtype=F64), step_size=0.1, num_steps=200).states
    assert float(states[..., 0].abs().max()) <= torch.pi and float(states[..., 1].min()) > 0  # it goes round and round


class TestHamiltonianNoise:
    def kubo(self, strengths: tuple[float, ...] = (0.5,)) -> HamiltonianSystem:
        noise = HamiltonianNoise(
            [Separable(lambda p, s=s: s * square(p), lambda q, s=s: s * square(q)) for s in strengths]
        )
        return HamiltonianSystem(Separable(lambda p: 2 * square(p), lambda q: 2 * square(q)), noise=noise)

    def test_strong_order_one_on_the_kubo_oscillator(self) -> None:
        """The exact path turns clockwise by at + sigma W; the errors are those measured elsewhere."""

        def exact(increments: Tensor) -> Tensor:
            angle = 2 * 1.0 + 0.5 * increments[..., 0].sum(0)
            return torch.stack([angle.cos(), -angle.sin()], -1)

        z0 = torch.tensor([[1.0, 0.0]], dtype=F64).expand(1000, 2)
        found = assert_integrator_order(
            Verlet(),
            self.kubo(),
            z0,
            end_time=1.0,
            steps=(16, 32, 64, 128, 256),
            order=1,
            kind="strong",
            reference=exact,
        )
        assert found.errors[-1] == pytest.approx(5.0e-4, rel=0.3)

    def test_mean_of_the_kubo_oscillator(self, oracle: Callable[[str], Tensor]) -> None:
        z0 = torch.tensor([[1.0, 0.0]], dtype=F64).expand(20_000, 2)
        end = integrate(self.kubo(), Verlet(), z0, step_size=1 / 64, num_steps=64, save_every=64).states[-1]
        error = end.std(0) / len(z0) ** 0.5
        known = oracle("kubo.E[q+ip](a=2,sigma=.5,t=1,q0=1,p0=0)")
        assert ((end.mean(0) - known).abs() < 4 * error + 1e-3).all()

    def test_symplectic_for_every_path_and_reversible(self) -> None:
        z0 = torch.randn(4, 2, dtype=F64)
        assert_symplectic(Verlet(), self.kubo((0.5, 0.3)), z0, 0.1)
        assert_reversible(Verlet(), self.kubo((0.5, 0.3)), z0, 0.1)

    def test_one_sided_kicks_are_refused_since_they_do_not_converge(self) -> None:
        """Symplectic Euler with the same noise would stall; the refusal names Verlet."""
        ok, reason = SymplecticEuler().accepts(self.kubo(), explain=True)
        assert not ok and "use Verlet" in reason


def test_what_is_refused_names_alternatives() -> None:
    bath = HamiltonianSystem(Separable(square, square), noise=LangevinBath(1.0, 1.0))
    with pytest.raises(ValueError, match=r"Verlet does not fit.*integrators for this system: .*BAOAB"):
        integrate(bath, Verlet(), torch.zeros(1, 2), step_size=0.1, num_steps=1)


@pytest.mark.usefixtures("as_user")
def test_letters() -> None:
    with pytest.raises(ValueError, match="letters='DKK' must be 'KDK' or 'DKD'"):
        Verlet("DKK")


def test_time_dependent_potential() -> None:
    """A force cos t on a free particle: q = 1 - cos t; KDK is the trapezoidal rule, of order two."""
    system = HamiltonianSystem(Separable(square, lambda q, t: -(q[..., 0] * torch.as_tensor(t).cos())))
    exact = torch.tensor([[1 - torch.tensor(2.0, dtype=F64).cos(), torch.tensor(2.0, dtype=F64).sin()]], dtype=F64)
    z0 = torch.zeros(1, 2, dtype=F64)
    for letters in ("KDK", "DKD"):
        found = measure_order(Verlet(letters), system, z0, end_time=2.0, steps=(8, 16, 32, 64), reference=exact)
        assert abs(found.order - 2) < 0.1
