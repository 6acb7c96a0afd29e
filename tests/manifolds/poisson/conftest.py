"""Structures of every kind with points in general position, for cases × laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor, nn

from manifolds.poisson import (
    AlmostPoisson,
    Canonical,
    CotangentGroup,
    DarbouxPoisson,
    Dirac,
    LiePoisson,
    LogCanonical,
    Magnetic,
    Nambu,
    PoissonStructure,
    ProductPoisson,
)

Case = tuple[PoissonStructure, Tensor]


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers, float64."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def beltrami(q: Tensor) -> Tensor:
    """A field without divergence (Arnold, Beltrami, Childress)."""
    x, y, z = q.unbind(-1)
    return torch.stack([z.sin() + y.cos(), x.sin() + z.cos(), y.sin() + x.cos()], -1)


def ellipsoid(q: Tensor) -> Tensor:
    """Zero on an ellipsoid."""
    return (q.square() * torch.tensor([1.0, 2.0, 0.5]).to(q)).sum(-1) - 1.0


def positive(n: int) -> Tensor:
    """Points of the positive orthant of size about one."""
    return (0.3 * normal(6, n)).exp()


def heisenberg() -> Tensor:
    """Structure constants of the Heisenberg algebra: [e_0, e_1] = e_2."""
    constants = torch.zeros(3, 3, 3)
    constants[0, 1, 2], constants[1, 0, 2] = 1.0, -1.0
    return constants


def affine() -> Tensor:
    """Structure constants of the affine group of the line, which is not unimodular: [e_0, e_1] = e_1."""
    constants = torch.zeros(2, 2, 2)
    constants[0, 1, 1], constants[1, 0, 1] = 1.0, -1.0
    return constants


def food_chain() -> Tensor:
    """Three species in a cycle; the kernel is spanned by (1, 1, 1)."""
    return torch.tensor([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])


def _network(n: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n, 8), nn.Tanh(), nn.Linear(8, n * n)).double()


def _product() -> Case:
    parts = [LiePoisson("so3"), Canonical(2), LogCanonical(food_chain())]
    return ProductPoisson(parts), torch.cat([normal(6, 3), normal(6, 2), positive(3)], -1)


def _dirac_on_se3() -> Case:
    """Two components of the angular momentum, whose bracket is the third: away from its zeros."""
    points = normal(6, 6)
    points[:, 2] = 1.0 + points[:, 2].abs()
    return Dirac(LiePoisson("se3"), [lambda z: z[..., 0], lambda z: z[..., 1]]), points


CASES: dict[str, Callable[[], Case]] = {
    "canonical": lambda: (Canonical(4), normal(6, 4)),
    "large canonical": lambda: (Canonical(20), normal(6, 20)),
    "T*SO(3)": lambda: (CotangentGroup("so3"), normal(6, 12)),
    "T*SU(2)": lambda: (CotangentGroup("su2"), normal(6, 7)),
    "T*SE(3)": lambda: (CotangentGroup("se3"), normal(6, 18)),
    "so(3)*": lambda: (LiePoisson("so3"), normal(6, 3)),
    "se(3)*": lambda: (LiePoisson("se3"), normal(6, 6)),
    "Heisenberg": lambda: (LiePoisson(heisenberg(), casimirs=lambda z: z[..., 2:]), normal(6, 3)),
    "affine group": lambda: (LiePoisson(affine()), normal(6, 2)),
    "magnetic": lambda: (Magnetic(beltrami, divergence_free=True), normal(6, 6)),
    "Nambu": lambda: (Nambu(ellipsoid, lambda z: 1.0 + z.square().sum(-1)), 0.5 * normal(6, 3)),
    "Lotka-Volterra": lambda: (LogCanonical(food_chain()), positive(3)),
    "T*S^2": lambda: (Dirac.holonomic([lambda q: q.square().sum(-1) - 1.0], 3), normal(6, 6)),
    "T* of an ellipsoid": lambda: (Dirac.holonomic([ellipsoid], 3), normal(6, 6)),
    "Dirac on se(3)*": _dirac_on_se3,
    "Darboux": lambda: (DarbouxPoisson(5, 4, hidden=8).double(), normal(6, 5)),
    "almost": lambda: (AlmostPoisson(_network(4)), normal(6, 4)),
    "product": _product,
    "spins": lambda: (ProductPoisson([LiePoisson("so3")] * 6), normal(6, 18)),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """A structure and six points, float64."""
    return CASES[request.param]()


@pytest.fixture(scope="session")
def flow() -> Callable[..., Tensor]:
    """The state at time t of dz/dt = field(z), by an independent integrator (DOP853, tolerance 1e-12)."""

    def solve(field: Callable[[Tensor], Tensor], start: Any, t: float) -> Tensor:
        def slope(_: float, z: np.ndarray) -> np.ndarray:
            return field(torch.from_numpy(z)).numpy()

        start = np.asarray(start, dtype=np.float64)
        solution = solve_ivp(slope, (0.0, t), start, method="DOP853", rtol=1e-12, atol=1e-12)
        return torch.from_numpy(solution.y[:, -1])

    return solve
