"""The reversible adjoint: gradients of backpropagation, in memory that does not grow with the number of steps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from manifolds import Euclidean, Manifold, Sphere
from samplers.hamiltonian import (
    ABOBA,
    BAOAB,
    OBABO,
    HamiltonianNoise,
    HamiltonianSystem,
    Integrator,
    LangevinBath,
    Mechanical,
    Separable,
    SymplecticEuler,
    Verlet,
    integrate,
)

F64 = torch.float64


class Network(nn.Module):
    """A small smooth potential."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(size, 16), nn.Tanh(), nn.Linear(16, 1)).double()

    def forward(self, q: Tensor) -> Tensor:
        return self.layers(q)[..., 0]


def parameter(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value, dtype=F64))


def gradients(
    system: HamiltonianSystem, integrator: Integrator, z0: Tensor, adjoint: str, **run: object
) -> list[Tensor]:
    """Of a loss that weighs every saved number differently, by initial states and all parameters."""
    z0 = z0.clone().requires_grad_()
    generator = torch.Generator().manual_seed(1)
    states = integrate(system, integrator, z0, adjoint=adjoint, generator=generator, **run).states
    weights = torch.linspace(0.5, 2.0, states.numel(), dtype=F64).view_as(states)
    wanted = [z0, *system.parameters()]
    return list(
        torch.autograd.grad((states.square() * weights).mean(), wanted, allow_unused=True, materialize_grads=True)
    )


def assert_same(system: HamiltonianSystem, integrator: Integrator, z0: Tensor, **run: object) -> None:
    pairs = zip(*(gradients(system, integrator, z0, kind, **run) for kind in ("backprop", "reversible")), strict=True)
    for one, other in pairs:
        assert float((one - other).abs().max()) <= 1e-12 * (1 + float(one.abs().max()))
        assert one.abs().max() > 0 or one.numel() == 1  # the last bias of a potential does nothing


@pytest.mark.parametrize("manifold", [Euclidean(3), Sphere(2)])
@pytest.mark.parametrize("integrator", [Verlet(), Verlet("DKD"), BAOAB(), ABOBA(), OBABO()])
def test_gradients_equal_backpropagation(manifold: Manifold, integrator: Integrator) -> None:
    noise = None if isinstance(integrator, Verlet) else LangevinBath(parameter(0.7), parameter(0.5))
    system = HamiltonianSystem(Mechanical(manifold, Network(3), mass=parameter(1.3)), noise=noise)
    q = manifold.projx(torch.randn(4, 3, dtype=F64))
    z0 = system.space.pack(q, manifold.proju(q, torch.randn(4, 3, dtype=F64)))
    assert_same(system, integrator, z0, step_size=0.05, num_steps=50, save_every=20)


def test_with_hamiltonian_noise_and_steps_per_row() -> None:
    noise = HamiltonianNoise([Separable(lambda p: 0.3 * p.square().sum(-1), Network(2))])
    system = HamiltonianSystem(Separable(lambda p: p.square().sum(-1) / 2, Network(2)), noise=noise)
    z0 = torch.randn(3, 4, dtype=F64)
    assert_same(system, Verlet(), z0, step_size=torch.tensor([0.05, 0.1, 0.2], dtype=F64), num_steps=20)


def test_with_output_times_that_coincide() -> None:
    system = HamiltonianSystem(Separable(lambda p: p.square().sum(-1) / 2, Network(2)))
    z0 = torch.randn(3, 4, dtype=F64)
    assert_same(system, Verlet(), z0, step_size=0.1, save_at=[0.0, 0.0, 0.35, 0.35, 1.0])


def test_two_hundred_steps_with_friction_restore_the_start_through_saved_states() -> None:
    """Friction makes the way back unstable, e^20 here; states saved on the way hold it."""
    system = HamiltonianSystem(Separable(lambda p: p.square().sum(-1) / 2, Network(2)), noise=LangevinBath(1.0, 0.5))
    z0 = torch.randn(3, 4, dtype=F64)
    assert_same(system, BAOAB(), z0, step_size=0.1, num_steps=200, save_every=10)


def test_memory_does_not_grow_with_the_number_of_steps() -> None:
    """Nodes of the graph that the result keeps alive: constant in the reversible run, else proportional to steps."""

    def nodes(adjoint: str, num_steps: int) -> int:
        system = HamiltonianSystem(Separable(lambda p: p.square().sum(-1) / 2, Network(2)))
        z0 = torch.randn(3, 4, dtype=F64, requires_grad=True)
        run = integrate(system, Verlet(), z0, step_size=0.1, num_steps=num_steps, save_every=num_steps, adjoint=adjoint)
        seen, stack = set(), [run.states.grad_fn]
        while stack:
            node = stack.pop()
            if node is not None and node not in seen:
                seen.add(node)
                stack += [parent for parent, _ in node.next_functions]
        return len(seen)

    assert nodes("reversible", 80) == nodes("reversible", 20) < 30
    assert nodes("backprop", 80) > 3 * nodes("backprop", 20)


@pytest.mark.usefixtures("as_user")
def test_a_method_that_cannot_go_back_is_refused() -> None:
    system = HamiltonianSystem(Separable(lambda p: p.square().sum(-1) / 2, Network(2)))
    with pytest.raises(ValueError, match="explicit reversible method, which SymplecticEuler is not: use Verlet"):
        integrate(
            system, SymplecticEuler(), torch.zeros(1, 4, dtype=F64), step_size=0.1, num_steps=2, adjoint="reversible"
        )
