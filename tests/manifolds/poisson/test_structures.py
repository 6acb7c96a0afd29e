"""Signs, Casimirs and closed-form flows of each structure, and what they refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from manifolds.poisson import (
    AlmostPoisson,
    Canonical,
    CotangentGroup,
    CouplingNetwork,
    DarbouxPoisson,
    Dirac,
    LiePoisson,
    LogCanonical,
    Magnetic,
    Nambu,
    ProductPoisson,
)

INERTIA = torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
START = torch.tensor([1.0, 0.2, -0.5], dtype=torch.float64)
Flow = Callable[..., Tensor]


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def rotor(z: Tensor) -> Tensor:
    """Kinetic energy of a free body; the momentum is the last three coordinates."""
    return (z[..., -3:].square() / INERTIA.to(z)).sum(-1) / 2


def test_canonical_signs() -> None:
    """M29: H = p²/2 + q from (0, 0) falls to (-2, -2) in t = 2; leapfrog is exact."""
    field = Canonical(2).hamiltonian_field(lambda z: z[..., 1].square() / 2 + z[..., 0])
    assert field(vector(0.0, 3.0)).tolist() == [3.0, -1.0]
    z, h = vector(0.0, 0.0), 0.5
    for _ in range(4):
        half = z + vector(0.0, 1.0) * field(z) * h / 2
        moved = half + vector(1.0, 0.0) * field(half) * h
        z = moved + vector(0.0, 1.0) * field(moved) * h / 2
    assert z.tolist() == [-2.0, -2.0]


def test_spin_precesses_about_the_field() -> None:
    """Heisenberg pair: each spin turns about the total M at the rate |M|."""
    pair = ProductPoisson([LiePoisson("so3")] * 2)
    field = pair.hamiltonian_field(lambda z: (z[..., :3] * z[..., 3:]).sum(-1))
    first, second = vector(1.0, 0.0, 0.5), vector(-0.2, 0.7, 0.1)
    velocity = field(torch.cat([first, second]))
    expected = torch.linalg.cross(first, first + second)
    torch.testing.assert_close(velocity, torch.cat([expected, -expected]))


def test_free_rigid_body(flow: Flow, shared: Path) -> None:
    oracles = json.loads((shared / "oracles" / "hamiltonian.json").read_text(encoding="utf-8"))
    right = oracles["rigid_body.Pi(I=(2,1,.5),Pi0=(1,.2,-.5),t=10)"]["value"]
    structure = LiePoisson("so3")
    end = flow(structure.hamiltonian_field(rotor), START, 10.0)
    torch.testing.assert_close(end, vector(*map(float, right)), rtol=0, atol=1e-9)
    torch.testing.assert_close(structure.casimirs(end), structure.casimirs(START), rtol=0, atol=1e-10)
    period = float(oracles["rigid_body.period_of_Pi"]["value"])
    torch.testing.assert_close(flow(structure.hamiltonian_field(rotor), START, period), START, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("group", "identity"), [("so3", torch.eye(3).flatten()), ("su2", torch.tensor([1.0, 0, 0, 0]))]
)
def test_rigid_body_with_attitude(flow: Flow, group: str, identity: Tensor) -> None:
    """The spatial momentum R Pi is conserved, R stays a rotation, and Pi moves as in so(3)*."""
    structure = CotangentGroup(group)
    end = flow(structure.hamiltonian_field(rotor), torch.cat([identity.double(), START]), 10.0)
    torch.testing.assert_close(
        end[-3:], flow(LiePoisson("so3").hamiltonian_field(rotor), START, 10.0), rtol=0, atol=1e-9
    )
    matrix = end[:9].reshape(3, 3) if group == "so3" else rotation_of(end[:4])
    torch.testing.assert_close(matrix @ end[-3:], START, rtol=0, atol=1e-9)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-9)


def rotation_of(q: Tensor) -> Tensor:
    """Rotation matrix of a unit quaternion (w, x, y, z)."""
    w, v = q[0], q[1:]
    cross = torch.linalg.cross(v.expand(3, 3), torch.eye(3, dtype=q.dtype), dim=-1).T
    return torch.eye(3, dtype=q.dtype) + 2 * w * cross + 2 * cross @ cross


@pytest.mark.parametrize("group", ["so3", "su2", "se3"])
def test_generators_close_under_the_bracket(group: str) -> None:
    structure = CotangentGroup(group)
    generators = structure.generators
    products = torch.einsum("aij,bjk->abik", generators, generators)
    expected = torch.einsum("abc,cij->abij", structure.momentum.constants, generators)
    torch.testing.assert_close(products - products.transpose(0, 1), expected)


def test_torque_of_a_potential_on_rotations() -> None:
    """Hanging body, V = R_33: the torque is -(dV/d angle) about each body axis."""
    structure = CotangentGroup("so3")
    angle = torch.tensor(0.3, dtype=torch.float64)
    turned = torch.tensor(
        [[1, 0, 0], [0, angle.cos(), -angle.sin()], [0, angle.sin(), angle.cos()]], dtype=torch.float64
    )
    field = structure.hamiltonian_field(lambda z: rotor(z) + z[..., 8])
    velocity = field(torch.cat([turned.flatten(), torch.zeros(3, dtype=torch.float64)]))
    torch.testing.assert_close(velocity[-3:], vector(math.sin(0.3), 0.0, 0.0))


def test_heavy_top_conserves_its_casimirs(flow: Flow) -> None:
    structure = LiePoisson("se3")
    inertia = vector(1.0, 1.0, 0.4)
    field = structure.hamiltonian_field(lambda z: (z[..., :3].square() / inertia).sum(-1) / 2 + z[..., 5])
    start = vector(0.1, -0.2, 2.0, 0.3, 0.1, math.sqrt(0.9))
    end = flow(field, start, 5.0)
    assert (end - start).abs().max() > 0.1
    torch.testing.assert_close(structure.casimirs(end), structure.casimirs(start), rtol=0, atol=1e-10)
    torch.testing.assert_close(end[2], start[2], rtol=0, atol=1e-10)  # symmetric top: the spin is conserved


def test_structure_constants_give_the_named_algebra() -> None:
    named = LiePoisson("so3")
    z = torch.randn(4, 3, dtype=torch.float64)
    general = LiePoisson(named.constants)
    torch.testing.assert_close(general.bivector(z), named.bivector(z))
    assert general.rank == 2
    assert general.casimirs(z).shape == (4, 0)


def test_affine_algebra_declares_no_density() -> None:
    constants = torch.zeros(2, 2, 2)
    constants[0, 1, 1], constants[1, 0, 1] = 1.0, -1.0
    with pytest.raises(ValueError, match="LiePoisson has no known density"):
        LiePoisson(constants).reference_log_density(torch.zeros(2))


def test_charge_turns_with_the_cyclotron_frequency(flow: Flow) -> None:
    """B = (0, 0, 2), m = 1: v turns clockwise about B with rate qB/m = 2."""
    structure = Magnetic(lambda q: vector(0.0, 0.0, 2.0).expand_as(q), divergence_free=True)
    field = structure.hamiltonian_field(lambda z: z[..., 3:].square().sum(-1) / 2)
    end = flow(field, [0, 0, 0, 1, 0, 0.5], 0.7)
    expected = vector(math.sin(1.4) / 2, (math.cos(1.4) - 1) / 2, 0.35, math.cos(1.4), -math.sin(1.4), 0.5)
    torch.testing.assert_close(end, expected, rtol=0, atol=1e-10)


def test_charge_drifts_across_both_fields(flow: Flow) -> None:
    """E = (.3, 0, 0), B = (0, 0, 2): the drift of E x B is (0, -.15), met exactly after each turn."""
    structure = Magnetic(lambda q: vector(0.0, 0.0, 2.0).expand_as(q), divergence_free=True)
    field = structure.hamiltonian_field(lambda z: z[..., 3:].square().sum(-1) / 2 - 0.3 * z[..., 0])
    end = flow(field, [0, 0, 0, 0, 0, 0], math.pi)
    torch.testing.assert_close(end[:2], vector(0.0, -0.15 * math.pi), rtol=0, atol=1e-10)


def test_jacobiator_of_a_magnetic_field_is_its_divergence() -> None:
    structure = Magnetic(lambda q: q * vector(1.0, 2.0, 3.0))
    jacobiator = structure.jacobiator(torch.randn(5, 6, dtype=torch.float64))
    torch.testing.assert_close(jacobiator[..., 3, 4, 5].abs(), torch.full((5,), 6.0, dtype=torch.float64))


def test_nambu_with_the_sphere_is_so3() -> None:
    nambu, so3 = Nambu(lambda z: z.square().sum(-1) / 2), LiePoisson("so3")
    z = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(nambu.bivector(z), so3.bivector(z))
    torch.testing.assert_close(nambu.hamiltonian_field(rotor)(z), so3.hamiltonian_field(rotor)(z))
    torch.testing.assert_close(2 * nambu.casimirs(z), so3.casimirs(z))


def test_lotka_volterra_equations() -> None:
    """H = x - ln x + y - 2 ln y: x' = x (y - 2), y' = -y (x - 1), and H is conserved."""
    structure = LogCanonical(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    field = structure.hamiltonian_field(lambda z: (z - vector(1.0, 2.0) * z.log()).sum(-1))
    torch.testing.assert_close(field(vector(3.0, 5.0)), vector(3.0 * 3.0, -5.0 * 2.0))


@pytest.mark.parametrize(
    ("matrix", "exponents"),
    [
        ([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], [[1, 1, 1]]),
        ([[0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], [[0, 0, 1, 0], [0, 0, 0, 1]]),
        ([[0, 2, 1], [-2, 0, 3], [-1, -3, 0]], [[1, -1 / 3, 2 / 3]]),
        ([[0, 1], [-1, 0]], []),
        ([[0, 0], [0, 0]], [[1, 0], [0, 1]]),
    ],
)
def test_exponents_of_the_casimirs(matrix: list, exponents: list) -> None:
    structure = LogCanonical(torch.tensor(matrix))
    expected = torch.tensor(exponents, dtype=torch.float64).reshape(-1, len(matrix))
    torch.testing.assert_close(structure.exponents, expected)
    assert structure.rank == len(matrix) - len(exponents)
    z = torch.full((len(matrix),), 2.0, dtype=torch.float64)
    torch.testing.assert_close(structure.casimirs(z), 2.0 ** expected.sum(-1))


def test_cotangent_bundle_of_the_sphere(flow: Flow) -> None:
    """Dirac's bracket of |q|² - 1 and its velocity: q' = p, p' = -|p|² q, a great circle."""
    structure = Dirac.holonomic([lambda q: q.square().sum(-1) - 1.0], 3)
    field = structure.hamiltonian_field(lambda z: z[..., 3:].square().sum(-1) / 2)
    q, p = vector(0.6, 0.0, 0.8), 1.5 * vector(0.8, 0.0, -0.6)
    torch.testing.assert_close(field(torch.cat([q, p])), torch.cat([p, -2.25 * q]), rtol=0, atol=1e-15)
    end = flow(field, torch.cat([q, p]), 2.0)
    expected = torch.cat([q * math.cos(3.0) + p / 1.5 * math.sin(3.0), p * math.cos(3.0) - 1.5 * q * math.sin(3.0)])
    torch.testing.assert_close(end, expected, rtol=0, atol=1e-9)


def test_dirac_casimirs_are_the_constraints_and_the_density_is_liouville() -> None:
    structure = Dirac.holonomic([lambda q: q.square().sum(-1) - 1.0], 3)
    z = vector(1.0, 2.0, 2.0, 0.5, 0.0, 1.0)
    torch.testing.assert_close(structure.casimirs(z), vector(8.0, 2 * 2.5))
    # {|q|², 2 q.p} = 4 |q|², so mu = 4 |q|²
    torch.testing.assert_close(structure.reference_log_density(z), torch.tensor(math.log(36.0), dtype=torch.float64))


def test_dirac_moves_modules_among_its_constraints() -> None:
    plane = nn.Sequential(nn.Linear(3, 1), nn.Flatten(-2))
    structure = Dirac.holonomic([plane], 3).double()
    assert all(p.dtype == torch.float64 for p in structure.parameters())
    assert len(list(structure.parameters())) == 2


def test_antisymmetry_and_energy_rate() -> None:
    """M32: learned matrices are exactly skew in float32 and do not change the energy."""
    net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 25))
    for structure in (AlmostPoisson(net), DarbouxPoisson(5)):
        z, slope = torch.randn(100, 5), torch.randn(100, 5)
        matrix = structure.bivector(z)
        assert matrix.dtype == torch.float32
        assert torch.equal(matrix, -matrix.mT)
        rate = (slope * structure.sharp(z, slope)).sum(-1).abs()
        bound = 1e-5 * slope.square().sum(-1) * torch.linalg.matrix_norm(matrix)
        assert (rate <= bound).all()
    assert not AlmostPoisson(net).guarantees_jacobi


def test_almost_poisson_takes_matrices_and_reads_the_dimension() -> None:
    class Matrices(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return z.unsqueeze(-1) * z.square().unsqueeze(-2)

    structure = AlmostPoisson(Matrices(), dim=4)
    z = torch.randn(3, 4)
    torch.testing.assert_close(structure.bivector(z)[:, 0, 1], z[:, 0] * z[:, 1] * (z[:, 1] - z[:, 0]))
    assert AlmostPoisson(nn.Linear(5, 25)).dim == 5


def test_coupling_network_is_invertible() -> None:
    network = CouplingNetwork(5).double()
    z = torch.randn(7, 5, dtype=torch.float64)
    torch.testing.assert_close(network.inverse(network(z)), z)
    jacobian = torch.func.vmap(torch.func.jacrev(network))(z)
    torch.testing.assert_close(network.log_det(z), torch.linalg.slogdet(jacobian)[1])
    assert jacobian.abs().amin(0).min() > 0  # every coordinate depends on every other


def test_darboux_coordinates_are_canonical() -> None:
    structure = DarbouxPoisson(5, 4).double()
    z = torch.randn(7, 5, dtype=torch.float64)
    jacobian = torch.func.vmap(torch.func.jacrev(structure.coordinates))(z)
    torch.testing.assert_close(jacobian @ structure.bivector(z) @ jacobian.mT, structure.matrix.expand(7, 5, 5))
    torch.testing.assert_close(structure.casimirs(z), structure.coordinates(z)[:, 4:])


def test_product_keeps_blocks_apart() -> None:
    structure = ProductPoisson([LiePoisson("so3"), Canonical(2)])
    z = torch.randn(4, 5, dtype=torch.float64)
    torch.testing.assert_close(structure.bivector(z)[:, :3, :3], LiePoisson("so3").bivector(z[:, :3]))
    assert structure.bivector(z)[:, :3, 3:].abs().max() == 0
    assert (structure.dim, structure.rank, structure.guarantees_jacobi) == (5, 4, True)
    almost = ProductPoisson([Canonical(2), AlmostPoisson(nn.Linear(2, 4))])
    assert (almost.guarantees_jacobi, almost.has_reference_density) == (False, False)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "odd canonical": (lambda: Canonical(3), "dim=3 must be even"),
    "no coordinates": (lambda: Canonical(0), "dim=0"),
    "unknown algebra": (lambda: LiePoisson("so4"), "algebra='so4'"),
    "casimirs of a name": (lambda: LiePoisson("so3", casimirs=torch.neg), "casimirs was given"),
    "constants of wrong shape": (lambda: LiePoisson(torch.zeros(3, 3)), r"shape \(3, 3\)"),
    "constants not skew": (lambda: LiePoisson(torch.ones(2, 2, 2)), "not skew: .* 2"),
    "constants against Jacobi": (lambda: LiePoisson(not_lie()), "Jacobi identity is violated by 1"),
    "unknown group": (lambda: CotangentGroup("so4"), "group='so4'"),
    "not skew": (lambda: LogCanonical(torch.eye(2)), "not skew: .* 2"),
    "not square": (lambda: LogCanonical(torch.zeros(2, 3)), r"shape \(2, 3\)"),
    "odd constraints": (lambda: Dirac(Canonical(4), [lambda z: z[..., 0]]), "1 functions"),
    "too many constraints": (lambda: Dirac(Canonical(2), [lambda z: z[..., 0]] * 4), "4 functions"),
    "odd rank": (lambda: DarbouxPoisson(4, 3), "rank=3"),
    "rank above dim": (lambda: DarbouxPoisson(2, 4), "rank=4"),
    "one coordinate": (lambda: CouplingNetwork(1), "dim=1"),
    "no linear layer": (lambda: AlmostPoisson(nn.Identity()), "give dim="),
    "empty product": (lambda: ProductPoisson([]), "structures is empty"),
}


def not_lie() -> Tensor:
    """Skew constants against the Jacobi identity: [e0, e1] = e2, [e1, e2] = e1."""
    constants = torch.zeros(3, 3, 3)
    constants[0, 1, 2], constants[1, 0, 2] = 1.0, -1.0
    constants[1, 2, 1], constants[2, 1, 1] = 1.0, -1.0
    return constants


@pytest.mark.parametrize("what", REFUSED)
def test_constructors_name_what_is_wrong(what: str) -> None:
    make, message = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("as_user")
def test_states_of_wrong_shape_or_dtype_are_refused() -> None:
    structure = Canonical(4)
    with pytest.raises(ValueError, match=r"z has shape \(2, 3\); its last axis must hold the 4 coordinates"):
        structure.bivector(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"dH has shape \(2, 3\)"):
        structure.sharp(torch.zeros(2, 4), torch.zeros(2, 3))
    with pytest.raises(TypeError, match=r"z has dtype torch\.int64"):
        structure.bivector(torch.zeros(2, 4, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"dH has dtype torch\.float64 and z torch\.float32"):
        structure.sharp(torch.zeros(2, 4), torch.zeros(2, 4, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"parameters of torch\.float32"):
        DarbouxPoisson(4).bivector(torch.zeros(2, 4, dtype=torch.float64))


@pytest.mark.usefixtures("as_user")
def test_functions_of_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one number per row, shape \(2,\)"):
        Canonical(4).hamiltonian_field(lambda z: z[..., :1])(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="field returned shape"):
        Magnetic(lambda q: q[..., :2]).bivector(torch.zeros(2, 6))
    with pytest.raises(ValueError, match=r"return 4 x 4 = 16 numbers"):
        AlmostPoisson(nn.Linear(4, 4)).bivector(torch.zeros(2, 4))
