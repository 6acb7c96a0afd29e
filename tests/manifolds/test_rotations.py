"""SO(3), SE(3) and quaternions against scipy, closed forms and the oracles."""

from __future__ import annotations

import copy
import io
import math
import pickle
from typing import Any

import geoopt
import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.spatial.transform import Rotation
from torch import Tensor

from manifolds import SE3, SO3
from manifolds.rotations import hat, matrix_to_quaternion, quaternion_to_matrix, vee
from manifolds.testing.case import jvp

M = SO3()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def vectors(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, 3, dtype=torch.float64, generator=generator(seed))


def rotations(count: int, seed: int = 0) -> Tensor:
    return M.random_uniform(count, 3, 3, dtype=torch.float64, generator=generator(seed))


def turn(angle: float, axis: tuple[float, float, float] = (0.6, 0.0, 0.8)) -> Tensor:
    return torch.from_numpy(Rotation.from_rotvec(angle * np.array(axis)).as_matrix())


# --- hat, exp, log, quaternions


def test_hat_is_the_cross_product_and_vee_inverts_it() -> None:
    omega, v = vectors(5), vectors(5, seed=1)
    torch.testing.assert_close((hat(omega) @ v[..., None])[..., 0], torch.linalg.cross(omega, v))
    torch.testing.assert_close(vee(hat(omega)), omega)
    assert vee(torch.eye(3)).abs().max() == 0


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 10.0])
def test_exp_is_scipys(scale: float) -> None:
    omega = scale * vectors(20)
    wanted = torch.from_numpy(Rotation.from_rotvec(omega.numpy()).as_matrix())
    torch.testing.assert_close(SO3.exp(omega), wanted, atol=1e-14, rtol=0)


@pytest.mark.parametrize("angle", [1e-9, 1e-4, 0.19, 0.21, 1.0, 2.0, 3.0, math.pi - 1e-5, math.pi - 1e-9])
def test_log_is_accurate_from_the_identity_to_half_turns(angle: float) -> None:
    axis = torch.nn.functional.normalize(vectors(50), dim=-1)
    torch.testing.assert_close(SO3.log(SO3.exp(angle * axis)), angle * axis, atol=0 if angle < 1 else 2e-14, rtol=1e-7)
    x = rotations(50)
    dist = M.dist(x, M.expmap(x, M.combine(x, angle * axis)))
    torch.testing.assert_close(dist, torch.full_like(dist, angle), atol=1e-14, rtol=1e-6)


def test_half_turns_have_a_distance_but_no_logarithm() -> None:
    x = torch.eye(3, dtype=torch.float64)
    for diagonal in ((1.0, -1.0, -1.0), (-1.0, 1.0, -1.0), (-1.0, -1.0, 1.0)):
        y = torch.diag(torch.tensor(diagonal).double())
        assert M.logmap(x, y).isnan().all()
        assert M.parallel_transport(x, y, hat(vectors())).isnan().all()
        assert M.dist(x, y).item() == pytest.approx(math.pi)
        assert M.dist2(x, y).item() == pytest.approx(math.pi**2)
        with pytest.raises(ValueError, match=r"SO3.*x=\[\[1\.0.*y=.*antipode"):
            M.assert_logmap(x, y)
    half = SO3.exp(math.pi * torch.nn.functional.normalize(vectors(20), dim=-1))
    assert M.logmap(x, half).isnan().all()


def test_log_after_exp_has_the_identity_as_jacobian_at_zero() -> None:
    omega = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    assert SO3.log(SO3.exp(omega)).abs().max() == 0
    for differentiate in (torch.autograd.functional.jacobian, lambda f, w: torch.func.jacfwd(f)(w)):
        jacobian = differentiate(lambda w: SO3.log(SO3.exp(w)), omega)
        torch.testing.assert_close(jacobian, torch.eye(3, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda w: SO3.log(SO3.exp(w)), omega)
    assert torch.autograd.gradgradcheck(lambda w: SO3.log(SO3.exp(w)), omega)


def test_quaternions_are_scipys() -> None:
    q = torch.randn(100, 4, dtype=torch.float64, generator=generator())
    rotation = quaternion_to_matrix(q)
    wanted = Rotation.from_quat(q.numpy(), scalar_first=True).as_matrix()
    np.testing.assert_allclose(rotation.numpy(), wanted, atol=1e-14)
    torch.testing.assert_close(quaternion_to_matrix(-q), rotation)
    back = matrix_to_quaternion(rotation)
    assert (back[:, 0] >= 0).all()
    unit = torch.nn.functional.normalize(q, dim=-1)
    torch.testing.assert_close(back, unit * unit[:, :1].sign())
    half_turns = torch.stack([turn(math.pi, axis) for axis in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))])
    torch.testing.assert_close(matrix_to_quaternion(half_turns)[:, 1:].abs(), torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.4999, 0.5001, 0.9999, 1.0001, 3.0, 6.0])
def test_dexp_by_finite_differences(angle: float) -> None:
    omega = angle * torch.tensor([0.6, 0.0, 0.8]).double()
    step = 1e-5
    columns = []
    for direction in torch.eye(3, dtype=torch.float64):
        up, down = (SO3.exp(omega + sign * step * direction) for sign in (1, -1))
        columns.append(vee(SO3.exp(omega).mT @ (up - down)) / (2 * step))
    torch.testing.assert_close(SO3.dexp(omega), torch.stack(columns, -1), atol=1e-9, rtol=0)
    identity = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(SO3.dexp(omega) @ SO3.dexp_inverse(omega), identity, atol=1e-12, rtol=0)
    assert torch.autograd.gradcheck(SO3.dexp_inverse, omega.requires_grad_())
    assert torch.autograd.gradcheck(SO3.dexp, omega)


# --- projection


def test_projection_is_the_nearest_rotation_even_of_a_reflection() -> None:
    matrix = torch.randn(30, 3, 3, dtype=torch.float64, generator=generator())
    assert (torch.linalg.det(matrix) < 0).any()
    nearest = M.projx(matrix)
    M.assert_check_point_on_manifold(nearest, atol=1e-12, rtol=0)
    others = rotations(2000)
    best = ((others[:, None] - matrix) ** 2).sum((-1, -2)).amin(0)
    assert (((nearest - matrix) ** 2).sum((-1, -2)) <= best + 1e-12).all()


def test_projection_differentiates_where_an_svd_cannot() -> None:
    x = torch.stack([torch.eye(3).double(), turn(2.0), turn(1.0) * 3]).requires_grad_()
    assert torch.autograd.gradcheck(M.projx, x)
    assert torch.autograd.gradgradcheck(M.projx, x)
    assert M.projx(torch.full((3, 3), torch.nan)).isnan().all()


# --- metric, transport, volume


def parallel_by_ode(x: Tensor, u: Tensor, v: Tensor, steps: int = 40) -> Tensor:
    """Transport along exp_x(s u): v' = (d/ds P_s) v, with P the projection, by classical Runge-Kutta."""

    def slope(s: float, v: Tensor) -> Tensor:
        time = torch.tensor(s, dtype=x.dtype)
        return jvp(lambda s: M.proju(M.expmap(x, s * u), v), (time,), (torch.ones_like(time),))[1]

    h = 1 / steps
    for k in range(steps):
        a = slope(k * h, v)
        b = slope((k + 0.5) * h, v + h / 2 * a)
        c = slope((k + 0.5) * h, v + h / 2 * b)
        v = v + h / 6 * (a + 2 * b + 2 * c + slope((k + 1) * h, v + h * c))
    return v


def test_transport_solves_its_equation() -> None:
    x = rotations(4)
    u, v = (M.combine(x, vectors(4, seed=seed)) for seed in (1, 2))
    moved = M.parallel_transport(x, M.expmap(x, u), v)
    torch.testing.assert_close(moved, parallel_by_ode(x, u, v), atol=1e-7, rtol=0)


def test_exp_jacobian_gives_the_volume() -> None:
    identity = torch.eye(3, dtype=torch.float64)

    def shell(r: float) -> float:
        tangent = hat(torch.tensor([0.0, 0.0, r], dtype=torch.float64))
        return 4 * math.pi * r**2 * math.exp(M.exp_logdet(identity, tangent).item())

    assert integrate.quad(shell, 0, math.pi)[0] == pytest.approx(math.exp(M.log_volume), rel=1e-12)
    assert math.exp(M.log_volume) == pytest.approx(8 * math.pi**2)


def test_gradients_follow_the_metric() -> None:
    """Of f(R) = tr(A^T R): twice the projection of A, since the metric is half the Frobenius product."""
    x, a = rotations(3), torch.randn(3, 3, 3, dtype=torch.float64, generator=generator(1))
    torch.testing.assert_close(M.egrad2rgrad(x, a), x @ (x.mT @ a - a.mT @ x))


# --- laws of random rotations


def test_uniform_rotations_are_haar() -> None:
    x = rotations(20000)
    trace = torch.diagonal(x, dim1=-2, dim2=-1).sum(-1)
    assert x.mean(0).abs().max() < 5 / math.sqrt(3 * 20000)
    assert (trace**2).mean().item() == pytest.approx(1, abs=0.05)
    law = stats.kstest(M.dist(torch.eye(3).double(), x).numpy(), lambda w: (w - np.sin(w)) / math.pi)
    assert law.pvalue > 1e-4
    axes_cubed = SO3.exp(torch.rand(20000, 3, dtype=torch.float64, generator=generator()) * math.pi)
    wrong = stats.kstest(M.dist(torch.eye(3).double(), axes_cubed).numpy(), lambda w: (w - np.sin(w)) / math.pi)
    assert wrong.pvalue < 1e-10


def step_factor(h: float) -> float:
    """E R of one geodesic step is a I, 3 a = E[1 + 2 cos(sqrt(h) chi_3)] = 1 + 2 (1 - h) exp(-h / 2)."""
    return (1 + 2 * (1 - h) * math.exp(-h / 2)) / 3


def test_brownian_motion_has_the_exact_law_of_its_steps(hamiltonian_oracles: dict[str, Any]) -> None:
    steps, t, count = 20, 0.5, 20000
    x, source = torch.eye(3, dtype=torch.float64).expand(count, 3, 3), generator()
    for _ in range(steps):
        x = M.brownian_step(x, t / steps, generator=source)
    trace = torch.diagonal(x, dim1=-2, dim2=-1).sum(-1)
    wanted = 3 * step_factor(t / steps) ** steps
    band = 5 * trace.std().item() / math.sqrt(count)
    assert trace.mean().item() == pytest.approx(wanted, abs=band)
    limit = hamiltonian_oracles["SO3.E[trR](t=0.5)"]
    assert wanted == pytest.approx(limit, abs=5e-3)
    assert abs(3 * math.exp(-2 * t) - limit) > 10 * band, "a generator of Delta instead of Delta / 2 would be seen"
    angle = M.dist(torch.eye(3).double(), x)
    assert angle.mean().item() == pytest.approx(hamiltonian_oracles["SO3.E[angle](t=0.5)"], abs=0.02)


def test_step_factor_converges_to_the_oracle(hamiltonian_oracles: dict[str, Any]) -> None:
    for t in (0.1, 0.5, 1):
        assert 3 * step_factor(t / 1e5) ** 1e5 == pytest.approx(hamiltonian_oracles[f"SO3.E[trR](t={t})"], rel=1e-5)


def test_heat_kernel_has_the_oracles_moments(hamiltonian_oracles: dict[str, Any]) -> None:
    def density(w: float, t: float) -> float:
        return math.exp(M.log_heat_kernel(turn(0.4), turn(0.4) @ turn(w), t).item()) * 8 * math.pi * (1 - math.cos(w))

    key = "SO3.angle_density(w=1,t=.5) wrt dw on [0,pi]"
    assert density(1.0, 0.5) == pytest.approx(hamiltonian_oracles[key], rel=1e-12)
    for t in (0.1, 0.5, 1):
        nodes, weights = np.polynomial.legendre.leggauss(60)
        angles, weights = (nodes + 1) * math.pi / 2, weights * math.pi / 2
        mass = np.array([density(w, t) for w in angles]) * weights
        assert mass.sum() == pytest.approx(1, rel=1e-10)
        assert (mass * angles).sum() == pytest.approx(hamiltonian_oracles[f"SO3.E[angle](t={t})"], rel=1e-10)
        trace = (mass * (1 + 2 * np.cos(angles))).sum()
        assert trace == pytest.approx(hamiltonian_oracles[f"SO3.E[trR](t={t})"], rel=1e-10)


@pytest.mark.parametrize("t", [0.05, 0.5, 3.0])
def test_heat_kernel_is_curved_right_where_points_coincide(t: float) -> None:
    """log p = a + b |omega|^2 / 2 + ...: the second derivative at the peak, by differences of the kernel's values."""
    x, h = turn(1.0), 1e-2

    def log_kernel(omega: Tensor) -> Tensor:
        return M.log_heat_kernel(x, x @ SO3.exp(omega), t)

    hessian = torch.func.hessian(log_kernel)(torch.zeros(3, dtype=torch.float64))
    values = [log_kernel(torch.tensor([k * h, 0.0, 0.0], dtype=torch.float64)).item() for k in range(3)]
    curvature = (-5 * values[0] / 2 + 8 * values[1] / 3 - values[2] / 6) / h**2
    torch.testing.assert_close(hessian, curvature * torch.eye(3, dtype=torch.float64), rtol=1e-5, atol=1e-6)


# --- single precision and long runs


@pytest.mark.parametrize("step", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_float32_keeps_relative_accuracy_for_close_points(step: float) -> None:
    x = rotations(500).float()
    omega = torch.nn.functional.normalize(vectors(500), dim=-1) * step
    y = M.expmap(x.double(), M.combine(x.double(), omega)).float()
    exact_log, exact_dist = M.logmap(x.double(), y.double()), M.dist(x.double(), y.double())
    scale = exact_dist.mean()
    assert ((M.dist(x, y) - exact_dist) / exact_dist).abs().max() < 1e-6
    assert (M.logmap(x, y) - exact_log).abs().max() / scale < 1e-6


@pytest.mark.slow
def test_long_walks_stay_on_without_help() -> None:
    x, body = torch.eye(3), hat(1e-2 * vectors(1000).float())
    with torch.inference_mode():
        for k in range(100_000):
            x = M.expmap(x, x @ body[k % 1000])
    assert (x.mT @ x - torch.eye(3)).abs().max() <= 1e-5


# --- checks, copies, optimisation


def test_checks_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"x\^T x differs from the identity by 1.*use projx"):
        M.assert_check_point_on_manifold(2**0.5 * torch.eye(3))
    with pytest.raises(ValueError, match="reflection"):
        M.assert_check_point_on_manifold(-torch.eye(3))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        M.assert_check_point_on_manifold(torch.zeros(3))
    with pytest.raises(ValueError, match=r"antisymmetric.*use proju"):
        M.assert_check_vector_on_tangent(torch.eye(3), torch.eye(3))
    with pytest.raises(ValueError, match=r"float32.*float64"):
        M.assert_check_vector_on_tangent(torch.eye(3), torch.zeros(3, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="no Christoffel symbols"):
        M.christoffel(torch.eye(3))


def test_copies_of_parameters_keep_their_manifold() -> None:
    module = torch.nn.Module()
    module.rotation = geoopt.ManifoldParameter(M.origin(2, 3, 3), manifold=M)
    stream = io.BytesIO()
    torch.save(module, stream)
    stream.seek(0)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), torch.load(stream, weights_only=False)):
        assert isinstance(twin.rotation, geoopt.ManifoldParameter)
        assert type(twin.rotation.manifold) is SO3
        assert torch.equal(twin.rotation, module.rotation)


def test_riemannian_adam_finds_the_nearest_rotation() -> None:
    target = torch.randn(5, 3, 3, dtype=torch.float64, generator=generator(4))
    x = geoopt.ManifoldParameter(M.origin(5, 3, 3, dtype=torch.float64), manifold=M)
    optimiser = geoopt.optim.RiemannianAdam([x], lr=0.1)
    for _ in range(150):
        optimiser.zero_grad()
        ((x - target) ** 2).sum().backward()
        optimiser.step()
    torch.testing.assert_close(x.detach(), M.projx(target), atol=1e-2, rtol=0)
    M.assert_check_point_on_manifold(x.detach(), atol=1e-12, rtol=0)


# --- SE(3)

RIGID = SE3()


def motions(count: int, seed: int = 0) -> Tensor:
    return SE3.pack(rotations(count, seed), vectors(count, seed=seed + 1))


def test_rigid_motions_are_a_left_invariant_product() -> None:
    x, y, g = motions(6), motions(6, seed=5), motions(6, seed=9)
    u, v = (RIGID.combine(x, torch.randn(6, 6, dtype=torch.float64, generator=generator(s))) for s in (1, 2))
    RIGID.assert_check_point_on_manifold(g @ x)
    torch.testing.assert_close(RIGID.inner(g @ x, g @ u, g @ v), RIGID.inner(x, u, v))
    torch.testing.assert_close(RIGID.dist(g @ x, g @ y), RIGID.dist(x, y))
    torch.testing.assert_close(RIGID.expmap(g @ x, g @ u), g @ RIGID.expmap(x, u))
    torch.testing.assert_close(RIGID.parallel_transport(g @ x, g @ y, g @ v), g @ RIGID.parallel_transport(x, y, v))
    (turned, moved), (other, goal) = SE3.unpack(x), SE3.unpack(y)
    squares = M.dist(turned, other) ** 2 + ((moved - goal) ** 2).sum(-1)
    torch.testing.assert_close(RIGID.dist2(x, y), squares)


def test_rigid_motions_diffuse_as_a_product() -> None:
    x, y = motions(4), motions(4, seed=5)
    (turned, moved), (other, goal) = SE3.unpack(x), SE3.unpack(y)
    flat = torch.distributions.Normal(0.0, math.sqrt(0.7)).log_prob(goal - moved).sum(-1)
    torch.testing.assert_close(RIGID.log_heat_kernel(x, y, 0.7), M.log_heat_kernel(turned, other, 0.7) + flat)
    noise = torch.randn(4, 6, dtype=torch.float64, generator=generator())
    rotation, translation = SE3.unpack(RIGID.brownian_step(x, 0.3, noise=noise))
    torch.testing.assert_close(rotation, M.brownian_step(turned, 0.3, noise=noise[:, :3]))
    torch.testing.assert_close(translation, moved + math.sqrt(0.3) * (turned @ noise[:, 3:, None])[..., 0])


def test_rigid_motions_explain_themselves() -> None:
    x = motions(2)
    with pytest.raises(ValueError, match=r"last row of x is not \(0, 0, 0, 1\)"):
        RIGID.assert_check_point_on_manifold(2 * x)
    with pytest.raises(ValueError, match=r"last row of u is not zero"):
        RIGID.assert_check_vector_on_tangent(x, x)
    with pytest.raises(ValueError, match="no uniform law"):
        RIGID.random_uniform(2, 4, 4)
    torch.testing.assert_close(
        RIGID.projx(x + 0.1)[..., 3, :], torch.tensor([0.0, 0.0, 0.0, 1.0]).double().expand(2, 4)
    )
