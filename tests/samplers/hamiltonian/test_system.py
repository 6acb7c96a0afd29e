"""What a system is made of, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from manifolds import SO3, Euclidean, Hyperboloid, Minkowski, PhaseSpace, Product, Sphere, Torus
from manifolds.poisson import Canonical, Dirac, LiePoisson, Magnetic
from samplers.hamiltonian import (
    BAOAB,
    HamiltonianNoise,
    HamiltonianSystem,
    LangevinBath,
    LiePoissonBath,
    Mechanical,
    Separable,
    Verlet,
    integrate,
)

F64 = torch.float64


def square(x: Tensor) -> Tensor:
    return x.square().sum(-1) / 2


def height(q: Tensor) -> Tensor:
    return -q[..., -1]


def states(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(0))


def test_signs() -> None:
    system = HamiltonianSystem(Separable(square, lambda q: q[..., 0]))
    end = integrate(system, Verlet(), torch.zeros(1, 2, dtype=F64), step_size=0.25, num_steps=8).states[-1]
    assert end.tolist() == [[-2.0, -2.0]]  # q = -t²/2, p = -t


def test_mechanical_systems_know_their_space_and_structure() -> None:
    on_torus = HamiltonianSystem(Mechanical(Torus(2), height))
    assert isinstance(on_torus.space, PhaseSpace) and isinstance(on_torus.structure, Canonical)
    on_sphere = HamiltonianSystem(Mechanical(Sphere(2), height))
    assert isinstance(on_sphere.structure, Dirac) and on_sphere.state_size == 6 and on_sphere.is_canonical


def test_the_drift_of_the_dirac_bracket_is_that_of_the_splitting() -> None:
    """On the sphere: q' = p/m, p' = -m|v|² q + tangent force."""
    mass = 1.7
    system = HamiltonianSystem(Mechanical(Sphere(2), height, mass=mass))
    q = torch.nn.functional.normalize(states(5, 3), dim=-1)
    p = system.space.manifold.proju(q, states(5, 3))
    dq, dp = system.space.unpack(system.drift(system.space.pack(q, p)))
    force = system.space.manifold.proju(q, torch.tensor([0.0, 0.0, 1.0], dtype=F64).expand_as(q))
    torch.testing.assert_close(dq, p / mass)
    torch.testing.assert_close(dp, force - p.square().sum(-1, keepdim=True) / mass * q)


def test_friction_and_noise_of_the_bath_balance() -> None:
    r"""$G G^{\mathsf T} = 2\gamma kT M$ and the friction is $-\gamma p$, for vector masses too."""
    masses = torch.tensor([1.0, 4.0], dtype=F64)
    for hamiltonian in (
        Mechanical(Euclidean(2), square, mass=masses),
        Separable(lambda p: (p.square() / masses).sum(-1) / 2, square),
    ):
        system = HamiltonianSystem(hamiltonian, noise=LangevinBath(0.3, 2.0))
        z = states(3, 4)
        system.bind(z)
        columns = torch.stack([system.diffuse(z, w.expand(3, 2)) for w in torch.eye(2, dtype=F64)], -1)
        covariance = columns @ columns.mT
        torch.testing.assert_close(covariance[0, 2:, 2:], 2 * 0.3 * 2.0 * torch.diag(masses))
        assert not covariance[:, :2].any()
        friction = system.drift(z) - HamiltonianSystem(hamiltonian).drift(z)
        torch.testing.assert_close(friction, torch.cat([torch.zeros(3, 2, dtype=F64), -0.3 * z[:, 2:]], -1))


@pytest.mark.parametrize(
    "manifold", [Sphere(2), Sphere(3, radius=2.0), SO3(), Hyperboloid(2), Product([Sphere(2)] * 2)]
)
def test_momentum_noise_has_the_covariance_of_the_metric(manifold: object) -> None:
    """The noise is cotangent, and its components in the coframe are standard normal."""
    hamiltonian = Mechanical(manifold, lambda q: q.flatten(1).sum(-1))
    if isinstance(manifold, Product):
        q = torch.nn.functional.normalize(states(1, 2, 3), dim=-1).flatten(1)
    else:
        q = manifold.wrapped_normal(manifold.origin(1, *manifold.point_shape, dtype=F64), std=0.4)
    size = hamiltonian.momentum_size(2 * q[0].numel())
    eye = torch.eye(size, dtype=F64)
    p = hamiltonian.momentum_noise(q.expand(size, *q.shape[1:]), eye)
    frame = manifold.frame(q)[0].flatten(0, -2)
    components = p.flatten(1) @ frame
    torch.testing.assert_close(components.mT @ components, torch.eye(manifold.dim, dtype=F64))
    torch.testing.assert_close(hamiltonian.cotangent(q.expand_as(p), p), p)


def test_the_lie_poisson_bath_keeps_casimirs_and_dissipates() -> None:
    system = HamiltonianSystem(
        lambda s: -s[..., 2], structure=LiePoisson("so3"), noise=LiePoissonBath(strength=0.7, temperature=1.3)
    )
    s, w = states(6, 3), states(6, 3).flip(0)
    dH = system.gradient(s)
    assert (dH * (system.drift(s) - torch.linalg.cross(s, dH))).sum(-1).max() < 0
    for change in (system.drift(s), system.diffuse(s, w)):
        torch.testing.assert_close((s * change).sum(-1), torch.zeros(6, dtype=F64))
    torch.testing.assert_close(system.diffuse(s, w), (2 * 0.7 * 1.3) ** 0.5 * torch.linalg.cross(s, w))


def test_hamiltonian_noise_is_a_sum_of_hamiltonian_fields() -> None:
    system = HamiltonianSystem(
        square, structure=Canonical(2), noise=HamiltonianNoise([lambda z: z[..., 0], lambda z: z[..., 1] * z[..., 0]])
    )
    z, w = states(4, 2), states(4, 2).flip(0)
    q, p = z.unbind(-1)
    torch.testing.assert_close(system.diffuse(z, w), torch.stack([w[:, 1] * q, -w[:, 0] - w[:, 1] * p], -1))


def test_settings_may_be_numbers_or_tensors() -> None:
    z0, seed = states(7, 2), 3
    ends = []
    for make in (float, lambda x: torch.tensor(x, dtype=F64), lambda x: torch.nn.Parameter(torch.tensor(x, dtype=F64))):
        system = HamiltonianSystem(Separable(square, square), noise=LangevinBath(make(0.5), make(1.0)))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            end = integrate(system, BAOAB(), z0, step_size=torch.tensor(0.1), num_steps=5, generator=generator).states[
                -1
            ]
        ends.append(end)
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(ends[1], ends[2], rtol=0, atol=0)


def test_constants_move_and_cast_with_the_module() -> None:
    system = HamiltonianSystem(
        Mechanical(Hyperboloid(5), lambda q: q[..., 0], mass=torch.tensor(2.0)),
        noise=LangevinBath(torch.tensor(1.0), torch.nn.Parameter(torch.tensor(0.5))),
    )
    system.double()
    assert all(tensor.dtype == F64 for tensor in (*system.buffers(), *system.parameters()))
    space = system.space
    q = space.manifold.wrapped_normal(space.manifold.origin(3, 6, dtype=F64))
    space.assert_check_point_on_manifold(space.pack(q, space.gibbs_momentum(q, 1.0)))
    system.to("meta")
    assert all(tensor.is_meta for tensor in (*system.buffers(), *system.parameters()))


@pytest.mark.usefixtures("as_user")
class TestBadInput:
    def test_a_general_hamiltonian_needs_its_structure(self) -> None:
        with pytest.raises(ValueError, match=r"structure is None.*Canonical\(n\)"):
            HamiltonianSystem(square)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"hamiltonian": 3.0}, "hamiltonian=3.0 must be a function"),
            ({"hamiltonian": square, "structure": 2}, "structure=2 must be a PoissonStructure"),
            ({"hamiltonian": square, "structure": Canonical(2), "noise": 0.1}, "noise=0.1 must be a Noise"),
        ],
    )
    def test_wrong_kinds(self, arguments: dict, message: str) -> None:
        with pytest.raises(TypeError, match=message):
            HamiltonianSystem(**arguments)

    def test_noises_that_make_no_sense(self) -> None:
        with pytest.raises(ValueError, match="LangevinBath needs momenta"):
            HamiltonianSystem(square, structure=LiePoisson("so3"), noise=LangevinBath(1.0, 1.0))
        with pytest.raises(ValueError, match="needs a Lie-Poisson structure"):
            HamiltonianSystem(Separable(square, square), noise=LiePoissonBath(1.0, 1.0))
        with pytest.raises(ValueError, match="indefinite"):
            HamiltonianSystem(Mechanical(Minkowski(4), square), noise=LangevinBath(1.0, 1.0))

    @pytest.mark.parametrize("settings", [(-1.0, 1.0), (1.0, -0.1), (float("nan"), 1.0), (1.0, torch.tensor(-1.0))])
    def test_negative_settings(self, settings: tuple) -> None:
        with pytest.raises(ValueError, match="must be finite and at least 0"):
            LangevinBath(*settings)

    def test_settings_of_the_wrong_kind(self) -> None:
        with pytest.raises(TypeError, match="temperature='hot' must be a number or a tensor"):
            LangevinBath(1.0, "hot")

    def test_masses(self) -> None:
        with pytest.raises(ValueError, match=r"mass=0\.0 must be positive"):
            Mechanical(Torus(2), square, mass=0.0)
        with pytest.raises(ValueError, match="curved: give one number"):
            Mechanical(Sphere(2), square, mass=torch.ones(3))

    def test_sizes_that_disagree(self) -> None:
        with pytest.raises(ValueError, match="structure is for 4 coordinates and the space for 6"):
            HamiltonianSystem(square, structure=Canonical(4), space=PhaseSpace(Sphere(2)))

    def test_states(self) -> None:
        system = HamiltonianSystem(square, structure=Canonical(2))
        for z0, error, message in (
            (torch.tensor([[1, 2]]), TypeError, "z0 has dtype torch.int64: give floating-point"),
            ([[1.0, 2.0]], TypeError, "z0 must be a tensor"),
            (torch.zeros(2), ValueError, r"z0 has shape \(2,\).*z0\[None\]"),
            (torch.zeros(1, 3), ValueError, "z0 has 3 columns, but a state of this system has 2"),
        ):
            with pytest.raises(error, match=message):
                system.bind(z0)
        with pytest.raises(ValueError, match="3 columns"):
            HamiltonianSystem(Separable(square, square)).bind(torch.zeros(1, 3))

    def test_friction_needs_a_quadratic_kinetic_energy(self) -> None:
        relativistic = Separable(lambda p: (1 + p.square().sum(-1)).sqrt(), square)
        system = HamiltonianSystem(relativistic, noise=LangevinBath(1.0, 1.0))
        with pytest.raises(ValueError, match="use Heun or ImplicitMidpoint"):
            BAOAB().init(system, torch.zeros(1, 2))

    def test_kicks_know_nothing_of_a_magnetic_field(self) -> None:
        charged = HamiltonianSystem(Separable(square, square), structure=Magnetic(lambda q: 0 * q + 1.0))
        with pytest.raises(ValueError, match="Verlet does not fit"):
            integrate(charged, Verlet(), torch.zeros(1, 6, dtype=F64), step_size=0.1, num_steps=1)
