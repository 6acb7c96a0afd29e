"""Cotangent bundles: layout, projections, Gibbs momenta, the Sasaki metric and what is wrong with its block form."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from manifolds import (
    SE3,
    SO3,
    SPD,
    ChartManifold,
    DeSitter,
    Embedded,
    Euclidean,
    Hyperboloid,
    Manifold,
    Minkowski,
    PhaseSpace,
    PoincareBall,
    Product,
    Schwarzschild,
    Sphere,
    Stiefel,
    Torus,
    UnsupportedError,
)


def unit(x: Tensor) -> Tensor:
    return (x * x).sum(-1) - 1


def polar_metric(q: Tensor) -> Tensor:
    return torch.diag_embed(torch.stack([torch.ones_like(q[..., 0]), q[..., 0] ** 2], dim=-1))


def round_sphere(q: Tensor) -> Tensor:
    return torch.diag_embed(torch.stack([torch.ones_like(q[..., 0]), q[..., 0].sin() ** 2], dim=-1))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


BASES: dict[str, Manifold] = {
    "Euclidean": Euclidean(2),
    "Minkowski": Minkowski(3),
    "Torus": Torus(2),
    "Sphere": Sphere(2),
    "Hyperboloid": Hyperboloid(2),
    "DeSitter": DeSitter(2),
    "PoincareBall": PoincareBall(2),
    "SO3": SO3(),
    "SE3": SE3(),
    "SPD": SPD(2),
    "Stiefel": Stiefel(3, 2),
    "Product": Product([Sphere(2), Torus(1)]),
    "Embedded": Embedded(unit, 3),
    "ChartManifold": ChartManifold(polar_metric, 2, domain=lambda q: q[..., 0] > 0),
    "Schwarzschild": Schwarzschild(1.0),
}


def state(base: Manifold, batch: int = 3) -> Tensor:
    """Random states over a manifold."""
    generator = torch.Generator().manual_seed(0)
    if isinstance(base, Schwarzschild):
        q = torch.tensor([0.0, 7.0, 1.2, 0.3], dtype=torch.float64) + normal(batch, 4) / 4
    elif isinstance(base, ChartManifold):
        q = torch.tensor([2.0, 0.3], dtype=torch.float64) + normal(batch, 2) / 4
    elif isinstance(base, Embedded):
        q = base.projx(normal(batch, 3))
    elif math.isfinite(base.log_volume):
        q = base.random_uniform(batch, *base.point_shape, dtype=torch.float64, generator=generator)
    else:
        origin = base.origin(batch, *base.point_shape, dtype=torch.float64)
        q = base.expmap(origin, base.combine(origin, normal(batch, base.dim) / 3))
    return PhaseSpace(base).pack(q, base.lower(q, base.combine(q, normal(batch, base.dim, seed=1))))


@pytest.fixture(params=BASES, ids=str)
def base(request: pytest.FixtureRequest) -> Manifold:
    return BASES[request.param]


def test_pack_and_unpack_are_inverse(base: Manifold) -> None:
    phase, z = PhaseSpace(base), state(base)
    q, p = phase.unpack(z)
    assert q.shape == p.shape == (3, *base.point_shape)
    assert torch.equal(phase.pack(q, p), z)
    assert torch.equal(z, torch.cat([q.reshape(3, -1), p.reshape(3, -1)], dim=-1))
    assert phase.pack(q[:1], p).shape == z.shape
    assert phase.dim == 2 * base.dim
    ok, reason = phase.check_point_on_manifold(z, explain=True)
    assert ok, reason


def test_projections_and_frame(base: Manifold) -> None:
    phase, z = PhaseSpace(base), state(base)
    torch.testing.assert_close(phase.projx(z), z, rtol=1e-12, atol=1e-12)
    u, v = (phase.proju(z, normal(*z.shape, seed=seed)) for seed in (2, 3))
    torch.testing.assert_close(phase.proju(z, u), u, rtol=1e-12, atol=1e-12)
    assert phase.check_vector_on_tangent(z, u)
    frame = phase.frame(z).movedim(-1, 0)
    gram = phase.inner(z, frame[:, None], frame[None])
    eta = torch.diag(phase.frame_signs(z))[..., None].expand_as(gram)
    torch.testing.assert_close(gram, eta, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(phase.combine(z, phase.components(z, u)), u, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close((phase.lower(z, u) * v).sum(-1), phase.inner(z, u, v), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(phase.raise_(z, phase.lower(z, u)), u, rtol=1e-11, atol=1e-11)
    assert phase.inner(z, u, keepdim=True).shape == (3, 1)
    identity = torch.eye(phase.metric(z).shape[-1], dtype=torch.float64).expand_as(phase.metric(z))
    torch.testing.assert_close(phase.metric(z) @ phase.cometric(z), identity, rtol=1e-10, atol=1e-10)


def test_momenta_of_curves_stay_tangent(base: Manifold) -> None:
    """A retraction of u stays on T*Q and leaves z with velocity u."""
    phase, z = PhaseSpace(base), state(base)
    u, h = phase.proju(z, normal(*z.shape, seed=2)), 1e-5
    ahead, behind = phase.retr(z, h * u), phase.retr(z, -h * u)
    torch.testing.assert_close((ahead - behind) / (2 * h), u, rtol=0, atol=1e-6)
    far = phase.retr(z, 0.1 * u)
    torch.testing.assert_close(phase.projx(far), far, rtol=1e-10, atol=1e-10)


def test_inference_mode_changes_nothing(base: Manifold) -> None:
    phase, z = PhaseSpace(base), state(base)
    u = phase.proju(z, normal(*z.shape, seed=2))
    with torch.inference_mode():
        quiet = phase.retr(z, 0.1 * u), phase.inner(z, u), phase.frame(z)
    torch.testing.assert_close(quiet, (phase.retr(z, 0.1 * u), phase.inner(z, u), phase.frame(z)))


# --- the Sasaki metric


def chart_change(z: Tensor) -> Tensor:
    """Polar to Cartesian states of the plane: q by the map, p by the inverse transpose of its Jacobian."""
    (r, angle), (p_r, p_angle) = z[..., :2].unbind(-1), z[..., 2:].unbind(-1)
    cos, sin = angle.cos(), angle.sin()
    momentum = [cos * p_r - sin / r * p_angle, sin * p_r + cos / r * p_angle]
    return torch.stack([r * cos, r * sin, *momentum], dim=-1)


def jacobian(z: Tensor) -> Tensor:
    slopes: Tensor = torch.func.vmap(torch.func.jacrev(chart_change))(z)
    return slopes


def test_sasaki_metric_does_not_depend_on_the_chart_but_the_block_metric_does() -> None:
    polar, cartesian = BASES["ChartManifold"], Euclidean(2)
    z = state(polar)
    y, slopes = chart_change(z), jacobian(z)
    torch.testing.assert_close(
        PhaseSpace(polar).metric(z), slopes.mT @ PhaseSpace(cartesian).metric(y) @ slopes, rtol=1e-12, atol=1e-12
    )
    ours, theirs = (PhaseSpace(m, paper_metric=True).metric(at) for m, at in ((polar, z), (cartesian, y)))
    assert (ours - slopes.mT @ theirs @ slopes).abs().amax((-1, -2)).min() > 0.01


def test_sasaki_metric_of_the_sphere_in_a_chart_and_embedded() -> None:
    """Same inner products of pushed vectors, by the map of states that the embedding induces."""

    def lift(z: Tensor) -> Tensor:
        (theta, phi), (p_theta, p_phi) = z[..., :2].unbind(-1), z[..., 2:].unbind(-1)
        south = torch.stack([theta.cos() * phi.cos(), theta.cos() * phi.sin(), -theta.sin()], dim=-1)
        east = torch.stack([-phi.sin(), phi.cos(), 0 * phi], dim=-1)
        x = torch.stack([theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos()], dim=-1)
        return torch.cat([x, p_theta[..., None] * south + (p_phi / theta.sin())[..., None] * east], dim=-1)

    z = torch.tensor([[1.0, 0.3, 0.7, -0.4], [2.0, -1.0, 0.2, 1.5]], dtype=torch.float64)
    slopes = torch.func.vmap(torch.func.jacrev(lift))(z)
    wanted = PhaseSpace(ChartManifold(round_sphere, 2)).metric(z)
    for sphere in (Sphere(2), Embedded(unit, 3)):
        phase, at = PhaseSpace(sphere), lift(z)
        assert phase.check_point_on_manifold(at)
        columns = slopes.movedim(-1, 0)
        gram = phase.inner(at, columns[:, None], columns[None]).movedim(-1, 0)
        torch.testing.assert_close(gram, wanted, rtol=1e-11, atol=1e-11)


def test_volume_is_that_of_liouville(base: Manifold) -> None:
    phase, z = PhaseSpace(base), state(base)
    assert torch.equal(phase.log_volume_density(z), torch.zeros(3, dtype=torch.float64))
    if phase.has_chart:
        determinant = torch.linalg.slogdet(phase.metric(z)).logabsdet
        torch.testing.assert_close(determinant, torch.zeros_like(determinant), rtol=0, atol=1e-12)
        u, v = (normal(*z.shape, seed=seed) for seed in (2, 3))
        found = torch.einsum("bi,bij,bj->b", u, phase.metric(z), v)
        torch.testing.assert_close(found, phase.inner(z, u, v), rtol=1e-12, atol=1e-12)


def test_block_metric_is_what_the_paper_writes() -> None:
    phase = PhaseSpace(BASES["ChartManifold"], paper_metric=True)
    z = state(BASES["ChartManifold"])
    r = z[:, 0]
    one = torch.ones_like(r)
    torch.testing.assert_close(phase.metric(z), torch.diag_embed(torch.stack([one, r**2, one, r**-2], dim=-1)))
    torch.testing.assert_close(
        phase.inner(z, normal(3, 4)), torch.einsum("bi,bij,bj->b", normal(3, 4), phase.metric(z), normal(3, 4))
    )
    assert "paper_metric=True" in repr(phase)


# --- momenta


def test_gibbs_momenta_have_covariance_kT_g() -> None:
    chart = BASES["ChartManifold"]
    q = torch.tensor([2.0, 0.3], dtype=torch.float64).expand(20000, 2)
    p = PhaseSpace(chart).gibbs_momentum(q, 0.7, generator=torch.Generator().manual_seed(0))
    covariance = torch.cov(p.mT)
    deviation = (covariance / 0.7 - torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64))).abs()
    assert (deviation < 5 * 4 * math.sqrt(2 / 20000)).all()
    assert (covariance[1, 1] / 0.7 - 1 / 4).abs() > 1  # the inverse metric would be noticed


@pytest.mark.parametrize(
    "name", ["Sphere", "Hyperboloid", "SO3", "SPD", "Torus", "Embedded", "PoincareBall", "Stiefel"]
)
def test_equipartition(name: str) -> None:
    """Mean of g^ij p_i p_j is kT times the intrinsic dimension; a chi-square law, five standard deviations."""
    base, count, kT = BASES[name], 4000, 1.5
    q = PhaseSpace(base).unpack(state(base, 1))[0].expand(count, *base.point_shape)
    phase = PhaseSpace(base)
    z = phase.pack(q, phase.gibbs_momentum(q, kT, generator=torch.Generator().manual_seed(1)))
    assert phase.check_point_on_manifold(z, atol=1e-9, rtol=1e-9)
    energies = 2 * phase.kinetic_energy(z) / kT
    assert energies.mean().item() == pytest.approx(base.dim, abs=5 * math.sqrt(2 * base.dim / count))


def test_momenta_on_the_sphere_have_two_degrees_of_freedom() -> None:
    x = Sphere(2).random_uniform(40000, 3, generator=torch.Generator().manual_seed(0))
    p = PhaseSpace(Sphere(2)).gibbs_momentum(x, 1.0, generator=torch.Generator().manual_seed(1))
    assert p.dtype == torch.float32
    assert (x * p).sum(-1).abs().max() < 1e-6
    assert p.square().sum(-1).mean().item() == pytest.approx(2, abs=0.03)


def test_temperature_per_row_and_seeds() -> None:
    phase, q = PhaseSpace(Torus(2)), torch.zeros(2, 2, dtype=torch.float64)
    kT = torch.tensor([0.0, 4.0], dtype=torch.float64)
    p, again = (phase.gibbs_momentum(q, kT, generator=torch.Generator().manual_seed(2)) for _ in range(2))
    assert torch.equal(p, again)
    assert torch.equal(p[0], torch.zeros(2, dtype=torch.float64))
    assert (p[1] != 0).all()


def test_mass_shell() -> None:
    phase = PhaseSpace(Schwarzschild(1.0))
    q = torch.tensor([0.0, 4.0, 1.0, 0.0], dtype=torch.float64)
    timelike = torch.tensor([-2.0, 0.1, 0.0, 0.3], dtype=torch.float64)
    spacelike = torch.tensor([-0.1, 2.0, 0.0, 0.3], dtype=torch.float64)
    z = phase.pack(q, torch.stack([timelike, spacelike]))
    shell = phase.project_shell(z, 1.5)
    assert phase.kinetic_energy(shell)[0].item() == pytest.approx(-(1.5**2) / 2)
    assert shell[1].isnan().any()
    phase.assert_on_shell(shell[:1], 1.5)
    with pytest.raises(ValueError, match=r"momentum \[-0.1, 2.0, 0.0, 0.3\] in row \(1,\) of z is space-like"):
        phase.assert_on_shell(torch.cat([shell[:1], z[1:]]), 1.5)
    with pytest.raises(ValueError, match=r"row \(0,\) of z is off the mass shell.*instead of -1"):
        phase.assert_on_shell(shell[:1], 1.0)
    with pytest.raises(UnsupportedError, match=r"PhaseSpace\(Sphere.*mass shell"):
        PhaseSpace(Sphere(2)).project_shell(state(Sphere(2)), 1.0)


# --- bad input


def test_bad_input_is_refused_by_name() -> None:
    phase = PhaseSpace(Sphere(2))
    q = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    with pytest.raises(TypeError, match=r"q is torch.float64 and p is torch.float32: convert one of them"):
        phase.pack(q, q.float())
    with pytest.raises(ValueError, match=r"p has shape \(2,\), but Sphere"):
        phase.pack(q, q[:2])
    with pytest.raises(ValueError, match=r"q has shape \(2, 3\) and p \(4, 3\): these do not broadcast"):
        phase.pack(q.expand(2, 3), q.expand(4, 3))
    with pytest.raises(ValueError, match=r"z has shape \(5,\).*wants \(..., 6\)"):
        phase.unpack(torch.zeros(5))
    with pytest.raises(ValueError, match="position q is not on Sphere"):
        phase.assert_check_point_on_manifold(torch.ones(6, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"momentum p has 2 at \(2,\), its projection 0"):
        phase.assert_check_point_on_manifold(phase.pack(q, 2 * q))
    with pytest.raises(ValueError, match="u is no tangent vector"):
        phase.assert_check_vector_on_tangent(phase.pack(q, 0 * q), phase.pack(q, q))
    with pytest.raises(ValueError, match="kT=-1 must not be negative"):
        phase.gibbs_momentum(q, -1)
    with pytest.raises(ValueError, match=r"Minkowski.*indefinite"):
        PhaseSpace(Minkowski(3)).gibbs_momentum(q, 1.0)
    with pytest.raises(ValueError, match=r"paper_metric=True needs coordinates, but Sphere"):
        PhaseSpace(Sphere(2), paper_metric=True)
    with pytest.raises(TypeError, match="got int"):
        PhaseSpace(3)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"PhaseSpace\(Sphere"):
        phase.expmap(phase.pack(q, q), phase.pack(q, q))
