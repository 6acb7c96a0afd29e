"""Power of the laws: each catches a manifold that breaks it, many of them with a fault that libraries really had.

That the same laws pass on the sound parents (Sphere, Torus, Minkowski) is shown by test_laws.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from manifolds import Minkowski, Sphere, Torus
from manifolds.testing import LAWS, applicable_laws, assert_manifold_laws


class NoCheck(Sphere):
    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        return True, None


class HalfProjection(Sphere):
    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return u - 0.99 * (x * u).sum(-1, keepdim=True) * x


class LongFrame(Sphere):
    def frame(self, x: Tensor) -> Tensor:
        return 1.001 * super().frame(x)


class WrongMetric(Torus):
    def metric(self, x: Tensor) -> Tensor:
        return 2 * super().metric(x)


class DoubleGradient(Sphere):
    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        return 2 * super().egrad2rgrad(x, u)


class UnturnedVelocity(Sphere):
    def geodesic_flow(self, x: Tensor, v: Tensor, t: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        return super().geodesic_flow(x, v, t)[0], v


class FlatJacobian(Sphere):
    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        return x.new_zeros(x.shape[:-1])


class WrongVolume(Torus):
    def log_volume_density(self, x: Tensor) -> Tensor:
        return super().log_volume_density(x) + 0.1


class WrongChristoffel(Torus):
    def christoffel(self, x: Tensor) -> Tensor:
        return super().christoffel(x) + 0.1


class FastExponential(Sphere):
    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return super().expmap(x, 1.01 * u)


class ShortRetraction(Sphere):
    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        return super().retr(x, 0.99 * u)


class ClampedLogarithm(Sphere):
    """geoopt's: the angle from a clamped cosine, here already at larger angles."""

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        log = super().logmap(x, y)
        angle = (x * y).sum(-1, keepdim=True).clamp(max=0.7).acos()
        return log / log.norm(dim=-1, keepdim=True) * angle


class ProjectedTransport(Sphere):
    """geoopt's: a projection under the name of transport."""

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        return self.proju(y, v)


class ForgetfulTransport(Sphere):
    has_transport = False

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        return v


class RetractionAsExponential(Sphere):
    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return self.projx(x + u)


class NaNGradient(Sphere):
    """geoopt's: a norm at the zero vector inside a where."""

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        angle = u.norm(dim=-1, keepdim=True)
        return torch.where(angle > 1e-5, x * angle.cos() + u * angle.sin() / angle, x + u)


class MixedRows(Sphere):
    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        distance = super().dist(x, y, keepdim=keepdim)
        return distance - 0.001 * (distance.max() - distance)


class BranchingExponential(Sphere):
    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return super().expmap(x, u) if u.abs().max() < 10 else x


class BranchingRetraction(Sphere):
    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        return super().retr(x, u) if bool((u.abs() < 10).all()) else x


class DetachedNorm(Sphere):
    def projx(self, x: Tensor) -> Tensor:
        return x / x.detach().norm(dim=-1, keepdim=True)


class GlobalNoise(Sphere):
    def random_tangent(self, x: Tensor, std: Any = 1.0, generator: torch.Generator | None = None) -> Tensor:
        return super().random_tangent(x, std)


class DoubleTime(Sphere):
    """Generator Delta instead of half of it."""

    def brownian_step(self, x: Tensor, dt: Any, **options: Any) -> Tensor:
        return super().brownian_step(x, 2 * dt, **options)

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: Any) -> Tensor:
        return super().log_heat_kernel(x, y, 2 * t)


class Unnormalised(Torus):
    def log_heat_kernel(self, x: Tensor, y: Tensor, t: Any) -> Tensor:
        return super().log_heat_kernel(x, y, t) + 0.01


class NoBoost(Minkowski):
    def boost(self, p: Tensor, xi: Tensor, *, x: Tensor | None = None) -> Tensor:
        return torch.nn.functional.pad(xi, (1, 0))


class UndeclaredKernel(Torus):
    has_kernel = False


class Unpicklable(Sphere):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.hook = lambda x: x


BROKEN = {
    "points": NoCheck(2),
    "projections": HalfProjection(2),
    "frame": LongFrame(2),
    "metric": WrongMetric(2),
    "covectors": DoubleGradient(2),
    "volume": WrongVolume(2),
    "exp jacobian": FlatJacobian(2),
    "christoffel": WrongChristoffel(2),
    "exponential": FastExponential(2),
    "retraction": ShortRetraction(2),
    "logarithm": ClampedLogarithm(2),
    "transport": ProjectedTransport(2),
    "vector transport": ForgetfulTransport(2),
    "geodesic": RetractionAsExponential(2),
    "geodesic flow": UnturnedVelocity(2),
    "gradients": NaNGradient(2),
    "broadcast": MixedRows(2),
    "vmap": BranchingExponential(2),
    "compile": BranchingRetraction(2),
    "double backward": DetachedNorm(2),
    "randomness": GlobalNoise(2),
    "brownian": DoubleTime(2),
    "heat kernel": Unnormalised(2),
    "heat equation": DoubleTime(2),
    "causal structure": NoBoost(3),
    "refusals": UndeclaredKernel(2),
    "module": Unpicklable(2),
}


def test_every_law_has_its_breaker() -> None:
    assert set(BROKEN) == set(LAWS)


@pytest.mark.parametrize("law", BROKEN)
def test_law_catches_a_broken_manifold(law: str) -> None:
    manifold = BROKEN[law]
    assert law in applicable_laws(manifold)
    with pytest.raises(AssertionError, match=rf"^{manifold.name}\(\d\).* breaks 1 law\(s\):\n  {law}: "):
        assert_manifold_laws(manifold, laws=[law])


def test_the_report_lists_every_broken_law_and_its_defect() -> None:
    with pytest.raises(AssertionError) as report:
        assert_manifold_laws(FastExponential(2), laws=["frame", "exponential", "logarithm"])
    lines = str(report.value).splitlines()
    assert "breaks 2 law(s)" in lines[0]
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["exponential", "logarithm"]
    assert "d/ds expmap(x, s u) = u at s = 0: defect " in lines[1]


def test_exceptions_of_the_manifold_are_reported_as_broken_laws() -> None:
    class Raising(Sphere):
        def inner(self, *arguments: Any, **options: Any) -> Tensor:
            raise RuntimeError("no metric today")

    with pytest.raises(AssertionError, match="metric: RuntimeError: no metric today"):
        assert_manifold_laws(Raising(2), laws=["metric"])


def test_unknown_laws_and_missing_points_are_named() -> None:
    with pytest.raises(ValueError, match=r"laws=\['gravity'\] are unknown"):
        assert_manifold_laws(Sphere(2), laws=["gravity"])
    with pytest.raises(ValueError, match="not lying on Sphere"):
        assert_manifold_laws(Sphere(2), torch.ones(4, 3))
