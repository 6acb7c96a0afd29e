"""Structures inside torch: vmap, compilation, double backward, no_grad, inference mode, moving and copying."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from manifolds.poisson import AlmostPoisson, DarbouxPoisson, LiePoisson, PoissonStructure

Case = tuple[PoissonStructure, Tensor]


def energy(z: Tensor) -> Tensor:
    return (z.square().sum(-1) + z.sin().sum(-1)) / 2


def test_vmap_equals_batch(case: Case) -> None:
    structure, points = case
    field = structure.hamiltonian_field(energy)
    torch.testing.assert_close(torch.func.vmap(field)(points), field(points))
    torch.testing.assert_close(torch.func.vmap(structure.casimirs)(points), structure.casimirs(points))
    torch.testing.assert_close(torch.func.vmap(structure.jacobiator)(points), structure.jacobiator(points))
    if structure.has_reference_density:
        density = structure.reference_log_density
        torch.testing.assert_close(torch.func.vmap(density)(points), density(points))


@pytest.mark.usefixtures("as_user")
def test_field_compiles_to_one_graph(case: Case) -> None:
    structure, points = case
    torch._dynamo.reset()
    covector = points.sin()
    compiled = torch.compile(structure.sharp, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(points, covector), structure.sharp(points, covector))


def test_double_backward(case: Case) -> None:
    structure, points = case
    points = points.clone().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda z: structure.sharp(z, z.sin()), (points[:1],), fast_mode=True)


def test_field_reaches_the_parameters() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 16))
    for structure in (DarbouxPoisson(4, hidden=8), AlmostPoisson(net)):
        loss = structure.hamiltonian_field(energy)(torch.randn(5, 4)).square().sum()
        gradients = torch.autograd.grad(loss, list(structure.parameters()), allow_unused=True)
        used = [g for g in gradients if g is not None]
        assert all(g.isfinite().all() for g in used)
        assert sum(float(g.abs().sum()) > 0 for g in used) >= 4


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_field_under_no_grad(case: Case, mode: type) -> None:
    """M27: fields of energies work where gradients are off, and then carry none."""
    structure, points = case
    expected = structure.hamiltonian_field(energy)(points)
    with mode():
        field = structure.hamiltonian_field(energy)(points.clone())
    assert not field.requires_grad
    torch.testing.assert_close(field, expected.detach())


def test_constants_move_with_the_module(case: Case) -> None:
    """M26: all constants are buffers."""
    structure, points = case
    copied = copy.deepcopy(structure)
    torch.testing.assert_close(copied.bivector(points), structure.bivector(points))
    assert all(b.dtype == torch.float64 for b in copied.float().double().buffers())
    assert all(b.is_meta for b in copied.to("meta").buffers())


def test_output_follows_the_input(case: Case) -> None:
    structure, points = case
    structure.float()
    assert structure.bivector(points.float()).dtype == torch.float32
    assert structure.casimirs(points.float()).dtype == torch.float32
    assert structure.hamiltonian_field(energy)(points.float()).dtype == torch.float32


def test_empty_batches(case: Case) -> None:
    structure, points = case
    nothing = points[:0]
    assert structure.bivector(nothing).shape == (0, structure.dim, structure.dim)
    assert structure.hamiltonian_field(energy)(nothing).shape == (0, structure.dim)
    assert structure.casimirs(nothing).shape[0] == 0


def test_covectors_broadcast_against_states() -> None:
    structure = LiePoisson("so3")
    assert structure.sharp(torch.randn(3), torch.randn(5, 3)).shape == (5, 3)
