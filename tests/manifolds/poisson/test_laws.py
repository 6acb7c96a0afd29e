"""Every structure obeys every law it declares, and the laws notice structures that do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from manifolds.poisson import (
    Canonical,
    LiePoisson,
    LogCanonical,
    Magnetic,
    PoissonStructure,
    ProductPoisson,
    assert_poisson_laws,
)

Case = tuple[PoissonStructure, Tensor]


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


def test_laws_in_double_precision(case: Case) -> None:
    structure, points = case
    assert_poisson_laws(structure, points)


def test_laws_in_single_precision(case: Case) -> None:
    structure, points = case
    assert_poisson_laws(structure.float(), points.float(), atol=2e-4)


def test_jacobiator_vanishes_where_it_is_guaranteed(case: Case) -> None:
    structure, points = case
    defect = structure.jacobiator(points).abs().max()
    assert (defect <= 1e-12) == structure.guarantees_jacobi


def test_contraction_equals_the_jacobiator() -> None:
    structure = LiePoisson("so3")
    skewed = Magnetic(lambda q: q * q.roll(1, -1))  # with divergence: a jacobiator that is not zero
    a, b, c = normal(3, 6)
    points = normal(5, 6)
    expected = torch.einsum("...ijk,i,j,k->...", skewed.jacobiator(points), a, b, c)
    assert expected.abs().min() > 1e-3
    torch.testing.assert_close(skewed.contracted_jacobiator(points, a, b, c), expected)
    assert structure.contracted_jacobiator(points[:, :3], *normal(3, 3)).abs().max() < 1e-13


class Broken(PoissonStructure):
    """so(3)* with one part replaced by a wrong one."""

    def __init__(self, dim: int = 3, rank: int = 2, **wrong: Callable[[Tensor], Tensor]) -> None:
        super().__init__(dim, rank)
        self.wrong = wrong
        self.right = LiePoisson("so3")

    def bivector(self, z: Tensor) -> Tensor:
        return self.wrong.get("bivector", self.right.bivector)(z)

    def sharp(self, z: Tensor, dH: Tensor) -> Tensor:
        sign = -1.0 if "sharp" in self.wrong else 1.0
        return sign * super().sharp(z, dH)

    def casimirs(self, z: Tensor) -> Tensor:
        return self.wrong.get("casimirs", self.right.casimirs)(z)

    def reference_log_density(self, z: Tensor) -> Tensor:
        return self.wrong.get("density", self.right.reference_log_density)(z)

    def bracket(self, f: Callable, g: Callable) -> Callable:
        right = super().bracket(f, g)
        return (lambda z: right(z) + f(z) * g(z)) if "bracket" in self.wrong else right


SO3 = LiePoisson("so3")
FAULTS: dict[str, Broken] = {
    "skewness J": Broken(bivector=lambda z: SO3.bivector(z) + 1e-9 * torch.eye(3).to(z)),
    "Jacobi": Broken(bivector=lambda z: SO3.bivector(z.roll(1, -1) * z)),
    "sharp": Broken(sharp=torch.neg),
    "J grad C": Broken(casimirs=lambda z: z[..., :1]),
    "independence": Broken(casimirs=lambda z: SO3.casimirs(z).expand(*z.shape[:-1], 2)),
    "rank J = 0": Broken(rank=0),
    "rank J = 3": Broken(rank=3, casimirs=lambda z: z[..., :0]),
    "unimodularity": Broken(density=lambda z: z[..., 0]),
    "dtype": Broken(bivector=lambda z: SO3.bivector(z).float()),
    "batches": Broken(bivector=lambda z: SO3.bivector(z) * (1.0 + 0.1 * (z.dim() > 2))),
    "single": Broken(bivector=lambda z: SO3.bivector(z) * (1.0 + 0.1 * (z.dim() < 2))),
    "brackets of coordinates": Broken(bracket=torch.neg),
    "shape": Broken(casimirs=lambda z: SO3.casimirs(z)[..., 0]),
    "at most": Broken(rank=2, casimirs=lambda z: torch.cat([SO3.casimirs(z), torch.zeros_like(z)], -1)),
}


def test_the_unbroken_structure_passes() -> None:
    assert_poisson_laws(Broken(), normal(4, 3))


@pytest.mark.parametrize("law", FAULTS)
def test_each_fault_is_noticed(law: str) -> None:
    with pytest.raises(AssertionError, match="Broken") as failure:
        assert_poisson_laws(FAULTS[law], normal(4, 3))
    if law != "at most":  # the extra Casimirs are dependent as well
        assert law in str(failure.value)


class Leaky(PoissonStructure):
    """A skew matrix of 20 coordinates that is no Poisson structure."""

    def __init__(self) -> None:
        super().__init__(20, 20)
        self.canonical = Canonical(20)

    def bivector(self, z: Tensor) -> Tensor:
        return (1.0 + 0.1 * z.square().sum(-1))[..., None, None] * self.canonical.bivector(z)


def test_faults_are_noticed_in_large_dimensions() -> None:
    with pytest.raises(AssertionError, match="Jacobi"):
        assert_poisson_laws(Leaky(), normal(2, 20))


def test_false_claim_of_no_divergence_is_noticed() -> None:
    honest = Magnetic(lambda q: q)
    assert not honest.guarantees_jacobi
    assert_poisson_laws(honest, normal(4, 6))
    with pytest.raises(AssertionError, match="Jacobi"):
        assert_poisson_laws(Magnetic(lambda q: q, divergence_free=True), normal(4, 6))


def test_uniform_density_of_lotka_volterra_is_noticed() -> None:
    class Uniform(LogCanonical):
        def reference_log_density(self, z: Tensor) -> Tensor:
            return 0.0 * z.sum(-1)

    with pytest.raises(AssertionError, match="unimodularity"):
        assert_poisson_laws(Uniform(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])), normal(4, 2).exp())


@pytest.mark.parametrize("points", [torch.zeros(3, 4), torch.zeros(0, 3), torch.tensor(1.0)])
def test_points_are_checked(points: Tensor) -> None:
    with pytest.raises(ValueError, match="points has shape"):
        assert_poisson_laws(SO3, points)


def test_points_may_have_any_leading_shape() -> None:
    assert_poisson_laws(ProductPoisson([SO3, SO3]), normal(2, 2, 6))
    assert_poisson_laws(SO3, normal(3))
