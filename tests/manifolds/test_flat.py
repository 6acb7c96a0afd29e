"""Right values of flat spaces: wrapping, intervals, boosts, random walks, the wrapped normal law."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from scipy import stats
from torch import Tensor

from manifolds import Euclidean, Minkowski, Torus

Oracles = dict[str, float]
f64 = partial(torch.tensor, dtype=torch.float64)


def test_angles_are_wrapped_and_kept_when_inside() -> None:
    torus = Torus(1)
    inside = f64([[-math.pi], [math.nextafter(math.pi, 0)], [-1e-30], [0.0], [1e-17], [3.0]])
    assert torch.equal(torus.projx(inside), inside)
    outside = f64([[math.pi], [3 * math.pi], [-3 * math.pi], [6.0], [100.0], [-1e9]])
    wrapped = torus.projx(outside)
    assert ((wrapped >= -math.pi) & (wrapped < math.pi)).all()
    torch.testing.assert_close(torch.exp(1j * wrapped), torch.exp(1j * outside), atol=2e-7, rtol=0)
    torch.testing.assert_close(wrapped[:5, 0], f64([-math.pi] * 3 + [6 - 2 * math.pi, 100 - 32 * math.pi]))


def test_random_angles_are_wrapped_in_single_precision() -> None:
    angles = 50 * torch.randn(100_000, 1)
    wrapped = Torus(1).projx(angles)
    assert ((wrapped >= -math.pi) & (wrapped < torch.tensor(math.pi))).all()
    torch.testing.assert_close(torch.cos(wrapped), torch.cos(angles), atol=3e-5, rtol=0)


def test_the_torus_knows_the_short_way() -> None:
    torus = Torus(2)
    x, y = torch.tensor([3.0, 1.0]), torch.tensor([-3.0, 6.0])
    torch.testing.assert_close(torus.logmap(x, y), torch.tensor([2 * math.pi - 6, 5 - 2 * math.pi]))
    torch.testing.assert_close(torus.dist(x, x + 2 * math.pi), torch.tensor(0.0), atol=1e-6, rtol=0)
    opposite = torus.logmap(torch.zeros(2).double(), f64([math.pi, math.pi]))
    assert opposite.tolist() == [-math.pi, -math.pi]
    assert torus.log_volume == pytest.approx(2 * math.log(2 * math.pi))


def test_small_steps_on_the_torus_lose_no_digits() -> None:
    torus = Torus(1)
    x = torch.tensor([0.0])
    for step in (1e-1, 1e-4, 1e-12):
        y = torus.expmap(x, torch.tensor([step]))
        assert torus.logmap(x, y).item() == pytest.approx(step, rel=1e-6)


def test_uniform_angles_are_uniform() -> None:
    angles = Torus(2).random_uniform(20_000, 2, generator=torch.Generator().manual_seed(0))
    assert angles.dtype == torch.float32
    for column in angles.T:
        assert stats.kstest(column.double(), stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > 1e-4
    assert not stats.kstest(angles[:, 0].double(), stats.uniform(-3, 6).cdf).pvalue > 1e-4  # the test has power


def test_wrapped_normal_has_the_right_density(hamiltonian_oracles: Oracles) -> None:
    wanted = hamiltonian_oracles["S1.wrapped_normal_density(x=1,var=2)"]
    x, y = f64([0.5]), f64([1.5 + 4 * math.pi])
    assert Torus(1).log_heat_kernel(x, y, 2.0).exp().item() == pytest.approx(wanted, rel=1e-12)
    both = Torus(2).log_heat_kernel(x.expand(2), y.expand(2), 2.0)
    assert both.exp().item() == pytest.approx(wanted**2, rel=1e-12)


def test_euclidean_heat_kernel_is_the_normal_law() -> None:
    x, y, t = torch.randn(5, 3).double(), torch.randn(5, 3).double(), torch.rand(5).double() + 0.1
    wanted = [stats.multivariate_normal(a, float(s) * torch.eye(3)).logpdf(b) for a, b, s in zip(x, y, t, strict=True)]
    torch.testing.assert_close(Euclidean(3).log_heat_kernel(x, y, t), f64(wanted))


@pytest.mark.parametrize("steps", [10, 100])
def test_random_walk_has_the_law_of_brownian_motion(steps: int) -> None:
    """M10."""
    plane, generator = Euclidean(2), torch.Generator().manual_seed(1)
    x = torch.zeros(40_000, 2)
    for _ in range(steps):
        x = plane.brownian_step(x, 1 / steps, generator=generator)
    assert x.mean(0).abs().max() < 0.02
    assert (x.var(0) - 1).abs().max() < 0.03


@pytest.mark.parametrize("t", [0.1, 0.5, 1.0])
def test_brownian_motion_on_the_circle_has_the_right_mean(t: float, hamiltonian_oracles: Oracles) -> None:
    """The step is exact in law, so one step is enough; five standard errors of 10^5 draws."""
    x = torch.full((100_000, 1), 3.0).double()
    y = Torus(1).brownian_step(x, t, generator=torch.Generator().manual_seed(2))
    cosine = torch.cos(y - x)
    error = abs(cosine.mean().item() - hamiltonian_oracles[f"S1.E[cos](t={t:g})"])
    assert error < 5 * cosine.std().item() / math.sqrt(len(x))
    assert abs(cosine.mean().item() - math.exp(-t)) > 10 * error  # generator Delta instead of Delta / 2


def test_intervals_and_causal_types() -> None:
    space_time = Minkowski(4)
    x = torch.zeros(3, 4).double()
    v = f64([[2.0, 1, 0, 0], [5.0, 3, 4, 0], [1.0, 2, 0, 0]])
    assert space_time.inner(x, v).tolist() == [-3, 0, 3]
    assert space_time.causal_type(x, v).tolist() == [-1, 0, 1]
    assert space_time.dist2(x, v).tolist() == [3, 0, 3]
    assert space_time.causal_type(x.float(), (v * (1 + 1e-7)).float()).tolist() == [-1, 0, 1]
    assert space_time.lower(x, v)[0].tolist() == [-2, 1, 0, 0]


def test_boosts_add_velocities() -> None:
    """Two collinear boosts: (u + v)/(1 + u v)."""
    space_time = Minkowski(4)

    def momentum(velocity: float) -> Tensor:
        gamma = 1 / math.sqrt(1 - velocity**2)
        return f64([gamma, gamma * velocity, 0, 0])

    p, gamma = momentum(0.5), momentum(0.6)
    boosted = p * gamma[0] + space_time.boost(3 * p, gamma[1:])  # energy along p, momentum in its rest frame
    assert (boosted[1] / boosted[0]).item() == pytest.approx((0.5 + 0.6) / (1 + 0.5 * 0.6), rel=1e-14)


def test_mass_shells() -> None:
    space_time = Minkowski(2)
    p = f64([[5.0, 3.0], [-5.0, 3.0], [3.0, 5.0], [1.0, 1.0]])
    shell = space_time.project_shell(p, 2.0)
    torch.testing.assert_close(shell[:2], f64([[2.5, 1.5], [2.5, -1.5]]))
    assert shell[2:].isnan().all()
    with pytest.raises(ValueError, match="mass=0"):
        space_time.project_shell(p, 0)
    with pytest.raises(ValueError, match="n=1 must be at least 2"):
        Minkowski(1)
