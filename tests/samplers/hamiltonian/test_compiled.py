"""Compiled chunks: the same states as eager steps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from manifolds import Sphere
from samplers.hamiltonian import (
    BAOAB,
    HamiltonianSystem,
    LangevinBath,
    Mechanical,
    Separable,
    Verlet,
    compiled,
    integrate,
)

F64 = torch.float64
pytestmark = pytest.mark.usefixtures("as_user")  # run-time type checks cannot be traced


@pytest.fixture(autouse=True)
def trace_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace whole chunks without generating machine code, which takes long; a break in the graph is an error."""
    torch.compiler.reset()
    traced = torch.compile(compiled._chunk, backend="eager", fullgraph=True, dynamic=False)
    monkeypatch.setattr(compiled, "_compiled", lambda: traced)


def square(x: Tensor) -> Tensor:
    return x.square().sum(-1) / 2


def systems() -> dict[str, tuple[HamiltonianSystem, Tensor]]:
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    planar = Separable(square, lambda q: network(q)[..., 0])
    sphere = Mechanical(Sphere(2), lambda q: -q[..., 2])
    q = torch.nn.functional.normalize(torch.randn(5, 3, dtype=F64), dim=-1)
    tangent = sphere.pack(q, sphere.cotangent(q, torch.randn(5, 3, dtype=F64)))
    bath = LangevinBath(0.7, 0.5)
    return {
        "network": (HamiltonianSystem(planar, noise=bath), torch.randn(5, 4, dtype=F64)),
        "sphere": (HamiltonianSystem(sphere, noise=bath), tangent),
        "no noise": (HamiltonianSystem(planar), torch.randn(5, 4, dtype=F64)),
    }


@pytest.mark.parametrize("name", ["network", "sphere", "no noise"])
def test_compiled_and_eager_runs_agree(name: str) -> None:
    """37 steps are seven chunks of five and two eager steps."""
    system, z0 = systems()[name]
    integrator = Verlet() if system.noise is None else BAOAB()
    runs = [
        integrate(
            system,
            integrator,
            z0,
            step_size=0.1,
            num_steps=37,
            save_every=3,
            compile_chunk=chunk,
            generator=torch.Generator().manual_seed(0),
        )
        for chunk in (0, 5)
    ]
    torch.testing.assert_close(runs[1].states, runs[0].states, rtol=1e-12, atol=1e-12)


def test_a_compiled_run_can_be_differentiated() -> None:
    system, z0 = systems()["network"]
    slopes = []
    for chunk in (0, 5):
        start = z0.clone().requires_grad_()
        states = integrate(
            system,
            BAOAB(),
            start,
            step_size=0.1,
            num_steps=10,
            compile_chunk=chunk,
            generator=torch.Generator().manual_seed(0),
        ).states
        slopes.append(torch.autograd.grad(states.square().sum(), start)[0])
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-10, atol=1e-10)
