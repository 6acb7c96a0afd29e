"""SPD, Stiefel and the Poincaré ball against scipy, geoopt where it is right, closed forms and the oracles."""

from __future__ import annotations

import math
from typing import Any

import geoopt
import numpy as np
import pytest
import scipy.linalg
import torch
from scipy import integrate, special, stats
from torch import Tensor

from manifolds import SPD, Hyperboloid, PoincareBall, Stiefel
from manifolds._matrices import log_spd, sym, sym_basis
from manifolds.testing.case import jvp


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, dtype=torch.float64, generator=generator(seed))


def spd(count: int, n: int = 3, seed: int = 0) -> Tensor:
    a = normal(count, n, n, seed=seed)
    return a @ a.mT + 0.2 * torch.eye(n, dtype=torch.float64)


def minimise(manifold: Any, start: Tensor, loss: Any, steps: int = 200, lr: float = 0.05) -> Tensor:
    x = geoopt.ManifoldParameter(start.clone(), manifold=manifold)
    optimiser = geoopt.optim.RiemannianAdam([x], lr=lr)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = lr * (1 - step / steps)
        optimiser.zero_grad()
        loss(x).backward()
        optimiser.step()
    manifold.assert_check_point_on_manifold(x.detach())
    return x.detach()


# --- SPD


def test_spd_exp_and_log_are_scipys() -> None:
    x, y = spd(5), spd(5, seed=1)
    for a, b, log in zip(x, y, SPD(3).logmap(x, y), strict=True):
        root = scipy.linalg.sqrtm(a.numpy())
        inverse = np.linalg.inv(root)
        wanted = root @ scipy.linalg.logm(inverse @ b.numpy() @ inverse) @ root
        np.testing.assert_allclose(log.numpy(), wanted, atol=1e-10)
        back = root @ scipy.linalg.expm(inverse @ wanted @ inverse) @ root
        np.testing.assert_allclose(SPD(3).expmap(a, log).numpy(), back, atol=1e-10)


def test_spd_distance_is_that_of_the_generalised_eigenvalues_and_invariant() -> None:
    x, y, g = spd(5), spd(5, seed=1), normal(5, 3, 3, seed=2)
    wanted = [
        np.linalg.norm(np.log(scipy.linalg.eigh(b.numpy(), a.numpy(), eigvals_only=True)))
        for a, b in zip(x, y, strict=True)
    ]
    np.testing.assert_allclose(SPD(3).dist(x, y).numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(SPD(3).dist(g @ x @ g.mT, g @ y @ g.mT).numpy(), wanted, rtol=1e-9)
    torch.testing.assert_close(SPD(3).dist(torch.linalg.inv(x), torch.linalg.inv(y)), SPD(3).dist(x, y))


def test_spd_of_size_one_is_the_logarithmic_line() -> None:
    m, p = SPD(1), torch.tensor([[2.0]], dtype=torch.float64)
    assert m.egrad2rgrad(p, torch.ones_like(p)).item() == 4.0
    assert m.dist(p, 3 * p).item() == pytest.approx(math.log(3))
    assert m.expmap(p, p).item() == pytest.approx(2 * math.e)


def test_spd_gradients_at_coincident_points() -> None:
    x = torch.diag(torch.tensor([1.0, 2.0, 3.0])).requires_grad_()
    y = x.detach().clone()
    assert (torch.autograd.grad(SPD(3).dist2(x, y), x)[0] == 0).all()
    assert (torch.autograd.grad(SPD(3).dist(x, y), x)[0] == 0).all()


def test_spd_keeps_digits_of_near_and_far_points() -> None:
    m, x, u = SPD(3), spd(5), sym(normal(5, 3, 3, seed=1))
    y = x + 1e-9 * u
    torch.testing.assert_close(m.logmap(x, y) * 1e9, (y - x) * 1e9, rtol=0, atol=1e-7)
    assert (m.logmap(x, x) == 0).all()
    for scale in (1e-12, 1e12):
        wanted = torch.full((5,), math.sqrt(3) * abs(math.log(scale)), dtype=torch.float64)
        torch.testing.assert_close(m.dist(x, scale * x), wanted)


def test_logarithm_has_three_derivatives_at_repeated_eigenvalues() -> None:
    a = torch.stack([2 * torch.eye(3), torch.diag(torch.tensor([1.0, 1.0, 3.0])), torch.eye(3)]).double()
    identity, direction = torch.eye(3, dtype=torch.float64), sym(normal(3, 3, 3))

    def log(a: Tensor) -> Tensor:
        return log_spd(sym(a), sym(a) - identity)

    assert torch.autograd.gradcheck(log, a.clone().requires_grad_())
    assert torch.autograd.gradgradcheck(log, a.clone().requires_grad_())

    def second(t: Tensor) -> Tensor:
        def first(t: Tensor) -> Tensor:
            return jvp(lambda t: log(a + t * direction), (t,), (torch.ones_like(t),))[1]

        return jvp(first, (t,), (torch.ones_like(t),))[1]

    zero, h = torch.zeros((), dtype=torch.float64), 1e-4
    third = jvp(second, (zero,), (torch.ones_like(zero),))[1]
    torch.testing.assert_close(third, (second(zero + h) - second(zero - h)) / (2 * h), atol=1e-5, rtol=1e-5)


def test_spd_transport_from_the_identity_is_congruence() -> None:
    y, v = spd(5), sym(normal(5, 3, 3, seed=1))
    roots = torch.stack([torch.from_numpy(scipy.linalg.sqrtm(a.numpy())) for a in y])
    moved = SPD(3).parallel_transport(torch.eye(3, dtype=torch.float64), y, v)
    torch.testing.assert_close(moved, roots @ v @ roots)


def test_spd_exp_jacobian_is_smooth_at_zero() -> None:
    """Second order: the volume grows like 1 - Ric(v, v) / 6, with Ric = -(n tr s^2 - (tr s)^2) / 4 at the identity."""
    m, identity = SPD(3), torch.eye(3, dtype=torch.float64)
    s = sym(normal(3, 3))
    hessian = torch.func.hessian(lambda v: m.exp_logdet(identity, v))(torch.zeros_like(s))
    ricci = -(3 * (s * s).sum() - s.trace() ** 2) / 4
    torch.testing.assert_close(torch.einsum("ij,ijkl,kl->", s, hessian, s) / 2, -ricci / 6)
    values = torch.linalg.eigvalsh(s)
    gaps = [(values[i] - values[j]) / 2 for i in range(3) for j in range(i)]
    wanted = sum(math.log(math.sinh(gap) / gap) for gap in gaps)
    assert m.exp_logdet(identity, s).item() == pytest.approx(wanted, rel=1e-12)


def test_spd_lebesgue_density_is_the_determinant_of_the_metric() -> None:
    x, m = spd(4), SPD(3)
    basis = sym_basis(3, x).movedim(-1, 0)[:, None]
    gram = m.inner(x, basis[:, None], basis[None]).movedim(-1, 0)
    torch.testing.assert_close(m.log_lebesgue_density(x), torch.linalg.slogdet(gram).logabsdet / 2)


def test_spd_off_the_manifold_is_nan_or_explained() -> None:
    m, bad = SPD(2), torch.diag(torch.tensor([1.0, -2.0]))
    assert m.logmap(torch.eye(2), bad).isnan().any()
    assert m.expmap(bad, torch.eye(2)).isnan().all()
    assert m.dist(torch.full((2, 2), torch.nan), torch.eye(2)).isnan()
    with pytest.raises(ValueError, match=r"1 of x's matrices have an eigenvalue <= 0, e.g. -2; use projx"):
        m.assert_check_point_on_manifold(torch.stack([torch.eye(2), bad]))
    with pytest.raises(ValueError, match="x is not symmetric"):
        m.assert_check_point_on_manifold(torch.tensor([[1.0, 0.5], [0.0, 1.0]]))
    torch.testing.assert_close(m.projx(bad), torch.diag(torch.tensor([1.0, 2.0])))
    with pytest.raises(ValueError, match="n=0"):
        SPD(0)


def test_riemannian_adam_finds_the_geometric_mean() -> None:
    m, a, b = SPD(3), spd(1)[0], spd(1, seed=1)[0]
    middle = m.expmap(a, m.logmap(a, b) / 2)
    found = minimise(m, torch.eye(3, dtype=torch.float64), lambda x: m.dist2(x, a) + m.dist2(x, b))
    torch.testing.assert_close(found, middle, atol=1e-3, rtol=0)


# --- Stiefel


def test_stiefel_exp_is_the_group_exponential_when_square() -> None:
    m = Stiefel(4, 4)
    x = m.random_uniform(3, 4, 4, dtype=torch.float64, generator=generator())
    a = normal(3, 4, 4, seed=1)
    a = a - a.mT
    wanted = np.stack([r.numpy() @ scipy.linalg.expm(w.numpy()) for r, w in zip(x, a, strict=True)])
    np.testing.assert_allclose(m.expmap(x, x @ a).numpy(), wanted, atol=1e-12)


def test_stiefel_with_one_column_is_the_sphere() -> None:
    m, e = Stiefel(3, 1), torch.eye(3, dtype=torch.float64)[..., None]
    torch.testing.assert_close(m.expmap(e[0], 0.7 * e[1]), math.cos(0.7) * e[0] + math.sin(0.7) * e[1])
    assert math.exp(m.log_volume) == pytest.approx(4 * math.pi)


def test_stiefel_volumes() -> None:
    """O(2) is two circles of length 2 sqrt(2) pi; SO(3) has 8 pi^2 for |omega|, here it is 2^(3/2) larger, twice."""
    assert math.exp(Stiefel(2, 2).log_volume) == pytest.approx(4 * math.sqrt(2) * math.pi)
    assert math.exp(Stiefel(3, 3).log_volume) == pytest.approx(2 * 2**1.5 * 8 * math.pi**2)
    assert math.exp(Stiefel(3, 2).log_volume) == pytest.approx(2**0.5 * 8 * math.pi**2)


def test_stiefel_uniform_is_uniform() -> None:
    """An entry squared is Beta(1/2, (n - 1)/2), and both signs are equally likely, unlike with geoopt's QR."""
    x = Stiefel(5, 2).random_uniform(20000, 5, 2, dtype=torch.float64, generator=generator())
    for entry in (x[:, 0, 0], x[:, 4, 1]):
        assert stats.kstest((entry**2).numpy(), stats.beta(0.5, 2.0).cdf).pvalue > 1e-4
        assert abs(entry.mean().item()) < 5 / math.sqrt(5 * 20000)
    with pytest.raises(ValueError, match=r"size.*\(3, 2, 5\)"):
        Stiefel(5, 2).random_uniform(3, 2, 5)


def test_stiefel_projection_differentiates() -> None:
    m, x = Stiefel(4, 2), normal(2, 4, 2)
    left, _, right = torch.linalg.svd(x, full_matrices=False)
    torch.testing.assert_close(m.projx(x), left @ right)
    assert torch.autograd.gradcheck(m.projx, m.projx(x).requires_grad_())
    assert torch.autograd.gradgradcheck(m.projx, m.projx(x).requires_grad_())


def test_stiefel_refuses_what_has_no_closed_form() -> None:
    m = Stiefel(5, 2)
    x = m.origin(5, 2)
    for call in (lambda: m.logmap(x, x), lambda: m.parallel_transport(x, x, x), lambda: m.log_heat_kernel(x, x, 1.0)):
        with pytest.raises(ValueError, match=r"Stiefel\(5, 2\)"):
            call()
    with pytest.raises(ValueError, match="p=5 exceeds n=2"):
        Stiefel(2, 5)
    with pytest.raises(ValueError, match="two points"):
        Stiefel(1, 1)


@pytest.mark.slow
def test_stiefel_long_walks_stay_on_without_help() -> None:
    m, noise = Stiefel(5, 2), 1e-2 * normal(1000, 5, 2).float()
    x = m.origin(5, 2)
    with torch.inference_mode():
        for k in range(100_000):
            x = m.expmap(x, m.proju(x, noise[k % 1000]))
    assert (x.mT @ x - torch.eye(2)).abs().max() <= 1e-5


def test_riemannian_adam_finds_the_top_eigenspace() -> None:
    m, a = Stiefel(5, 2), torch.diag(torch.tensor([1.0, 5.0, 2.0, 4.0, 0.5], dtype=torch.float64))
    start = m.random_uniform(5, 2, dtype=torch.float64, generator=generator())
    found = minimise(m, start, lambda x: -torch.einsum("ip,ij,jp->", x, a, x))
    wanted = torch.diag(torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64))
    torch.testing.assert_close(found @ found.mT, wanted, atol=1e-3, rtol=0)


# --- Poincaré ball


def ball_points(count: int, n: int, seed: int = 0, radius: float = 0.9) -> Tensor:
    v = normal(count, n, seed=seed)
    return v / v.norm(dim=-1, keepdim=True) * radius * torch.linspace(0, 1, count, dtype=torch.float64)[:, None]


@pytest.mark.parametrize("curvature", [1.0, 2.5])
def test_ball_is_geoopts_well_inside(curvature: float) -> None:
    ours, theirs = PoincareBall(3, curvature=curvature), geoopt.PoincareBall(torch.tensor(curvature).double())
    x, y = (ball_points(20, 3, seed, 0.8 / math.sqrt(curvature)) for seed in (0, 1))
    u, v = 0.3 * normal(20, 3, seed=2), normal(20, 3, seed=3)
    torch.testing.assert_close(ours.expmap(x, u), theirs.expmap(x, u))
    torch.testing.assert_close(ours.logmap(x, y), theirs.logmap(x, y))
    torch.testing.assert_close(ours.dist(x, y), theirs.dist(x, y))
    torch.testing.assert_close(ours.inner(x, u, v, keepdim=True), theirs.inner(x, u, v, keepdim=True))
    torch.testing.assert_close(ours.parallel_transport(x, y, v), theirs.transp(x, y, v))


def test_ball_gradient_and_distance_follow_the_metric() -> None:
    m, zero = PoincareBall(2), torch.zeros(2)
    assert m.egrad2rgrad(zero, torch.tensor([1.0, 0.0])).tolist() == [0.25, 0.0]
    x = torch.tensor([0.1, 0.2], requires_grad=True)
    y = x.detach().clone()
    assert (torch.autograd.grad(m.dist2(x, y), x)[0] == 0).all()
    assert (torch.autograd.grad(m.dist(x, y), x)[0] == 0).all()


def test_ball_keeps_points_next_to_the_rim() -> None:
    m, x = PoincareBall(2), torch.tensor([0.99999, 0.0])
    assert m.dist(x, -x).item() == pytest.approx(4 * math.atanh(0.99999), rel=1e-3)
    assert m.dist(x, -x).item() == pytest.approx(4 * math.atanh(x[0].item()), rel=1e-6)
    assert torch.equal(m.projx(x), x)
    assert m.logmap(x, -x).isfinite().all()
    rim = torch.tensor([[1.0, 0.0], [0.0, 1.5]])
    assert m.dist(rim, torch.zeros(2)).isnan().all()
    assert m.logmap(torch.zeros(2), rim).isnan().all()
    m.assert_check_point_on_manifold(m.projx(rim))
    with pytest.raises(ValueError, match=r"\|x\| reaches 1\.5, the rim is at 1; use projx or Hyperboloid"):
        m.assert_check_point_on_manifold(rim)
    with pytest.raises(ValueError, match=r"curvature=-1"):
        PoincareBall(2, curvature=-1)


def test_ball_exp_runs_to_the_rim_without_overflow() -> None:
    m, x = PoincareBall(2), torch.tensor([0.3, 0.4])
    u = torch.tensor([2e3, 0.0]).requires_grad_()
    y = m.expmap(x, u)
    assert y.norm().item() == pytest.approx(1, abs=1e-6)
    assert torch.autograd.grad(y.sum(), u)[0].isfinite().all()
    assert m.exp_logdet(x, u).item() == pytest.approx(2e3 * 2 / 0.75 - math.log(4e3 * 2 / 0.75), rel=1e-6)


def test_ball_is_isometric_to_the_hyperboloid() -> None:
    """Stereographic projection from (-R, 0): x = y / (1 + y_0 / R), R = 1 / sqrt(c)."""
    ball, shell = PoincareBall(2, curvature=0.25), Hyperboloid(2, radius=2.0)
    x, y = (shell.wrapped_normal(shell.origin(8, 3, dtype=torch.float64), 1.0, generator(s)) for s in (0, 1))

    def project(p: Tensor) -> Tensor:
        return p[..., 1:] / (1 + p[..., :1] / 2)

    torch.testing.assert_close(ball.dist(project(x), project(y)), shell.dist(x, y))
    log = jvp(project, (x,), (shell.logmap(x, y),))[1]
    torch.testing.assert_close(ball.logmap(project(x), project(y)), log)
    torch.testing.assert_close(ball.log_heat_kernel(project(x), project(y), 0.6), shell.log_heat_kernel(x, y, 0.6))


@pytest.mark.parametrize("n", [2, 3])
def test_ball_heat_kernel_has_the_oracles_moments(n: int, hamiltonian_oracles: dict[str, Any]) -> None:
    m, centre = PoincareBall(n, curvature=1.0), torch.zeros(n, dtype=torch.float64)

    def integrand(radius: float, moment: int) -> float:
        x = torch.zeros(n, dtype=torch.float64)
        x[0] = radius
        density = math.exp((m.log_heat_kernel(centre, x, 0.5) + m.log_volume_density(x)).item())
        return density * 2 * math.pi ** (n / 2) / special.gamma(n / 2) * radius ** (n - 1) * m.dist(centre, x) ** moment

    assert integrate.quad(integrand, 0, 1, args=(0,))[0] == pytest.approx(1, rel=1e-7)
    wanted = hamiltonian_oracles[f"H{n}.E[d](t=0.5)"]
    assert integrate.quad(integrand, 0, 1, args=(1,))[0] == pytest.approx(wanted, rel=1e-7)


def test_ball_brownian_motion_has_the_exact_law_of_its_steps(hamiltonian_oracles: dict[str, Any]) -> None:
    """E cosh d multiplies by E cosh(sqrt(h) chi_3) = (1 + h) exp(h / 2) with every step, by the law of cosines."""
    m, steps, t, count = PoincareBall(3), 20, 0.5, 20000
    x, source = torch.zeros(count, 3, dtype=torch.float64), generator()
    for _ in range(steps):
        x = m.brownian_step(x, t / steps, generator=source)
    cosh = m.dist(torch.zeros(3).double(), x).cosh()
    wanted = ((1 + t / steps) * math.exp(t / steps / 2)) ** steps
    band = 5 * cosh.std().item() / math.sqrt(count)
    assert cosh.mean().item() == pytest.approx(wanted, abs=band)
    limit = hamiltonian_oracles["H3.E[cosh d](t=0.5)"]
    assert wanted == pytest.approx(limit, rel=0.02)
    assert abs(math.exp(3 * t) - limit) > 10 * band, "a generator of Delta instead of Delta / 2 would be seen"


@pytest.mark.parametrize("step", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_ball_float32_keeps_relative_accuracy_for_close_points(step: float) -> None:
    m, x = PoincareBall(2), ball_points(500, 2, radius=0.46).float()  # distance up to 1 from the centre
    u = m.combine(x.double(), torch.nn.functional.normalize(normal(500, 2, seed=1), dim=-1) * step)
    y = m.expmap(x.double(), u).float()
    wide = x.double(), y.double()
    moved = (x != y).any(-1)
    error = (m.dist(x, y) - m.dist(*wide)) / m.dist(*wide)
    assert error[moved].abs().max() < 1e-6
    log, exact = m.logmap(x, y), m.logmap(*wide)
    assert ((log - exact).norm(dim=-1) / exact.norm(dim=-1))[moved].max() < 1e-6


def test_riemannian_adam_finds_a_point_of_the_ball() -> None:
    m, target = PoincareBall(2), torch.tensor([0.6, -0.7], dtype=torch.float64)
    found = minimise(m, torch.zeros(2, dtype=torch.float64), lambda x: m.dist2(x, target), steps=300, lr=0.1)
    torch.testing.assert_close(found, target, atol=1e-3, rtol=0)
