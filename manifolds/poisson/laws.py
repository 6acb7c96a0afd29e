r"""The laws a Poisson structure has to obey, checked at given points: for our structures and for a user's own."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .base import PoissonStructure, derivative, gradient

__all__ = ["assert_poisson_laws"]

_LARGE = 16  # above this dimension tensors are contracted with random covectors
_CONTRACTIONS = 3

Law = tuple[str, Tensor]
"""A sentence and its defect at each point, (N, ...)."""


def assert_poisson_laws(structure: PoissonStructure, points: Tensor, *, atol: float = 1e-12, seed: int = 0) -> None:
    r"""Check every law that `structure` declares at `points`.

    Skewness; $\sharp$ = bivector times covector; brackets of coordinates = J; bracket skew and Leibniz; the
    Hamiltonian field; Jacobi where `guarantees_jacobi`; $J\nabla C = 0$ and independence of the Casimirs; the rank;
    $\sum_i\partial_i(\mu J_{ij}) = 0$ where `has_reference_density`; batches = rows; dtypes kept. Above 16 dimensions
    the tensors are contracted with three random covectors.

    Args:
        structure: the structure under test.
        points: (..., n) floating point, in general position inside the structure's domain and of size about one.
        atol: the largest defect allowed (about 1e-12 in float64, 1e-5 in float32).
        seed: of the random covectors.

    Raises:
        AssertionError: a law fails; names the structure, the law, the defect and the point.
        ValueError: `points` is empty or does not end in n coordinates.
    """
    if not points.dim() or points.shape[-1] != structure.dim or not points.numel():
        raise ValueError(f"points has shape {tuple(points.shape)}: give at least one point (..., {structure.dim})")
    points = points.detach().reshape(-1, structure.dim)
    generator = torch.Generator().manual_seed(seed)
    covectors = torch.randn(_CONTRACTIONS, structure.dim, dtype=torch.float64, generator=generator).to(points)
    for law, defect in _laws(structure, points, covectors):
        worst = defect.detach().abs().reshape(len(points), -1).amax(-1)
        row = int(worst.nan_to_num(nan=float("inf")).argmax())
        if not worst[row] <= atol:
            name = f"{type(structure).__name__}({structure.extra_repr()})"
            size, place = f"{float(worst[row]):.3g} (allowed {atol:.3g})", points[row].tolist()
            raise AssertionError(f"{name}: {law} fails by {size} at z = {place}")


def _laws(structure: PoissonStructure, points: Tensor, covectors: Tensor) -> Iterator[Law]:
    matrix = structure.bivector(points)
    yield "the dtype of the bivector is that of z", _flag(points, matrix.dtype == points.dtype)
    yield "skewness J + J^T = 0", matrix + matrix.mT
    yield from _batch_laws(structure, points, matrix)
    yield from _bracket_laws(structure, points, matrix, covectors)
    if structure.guarantees_jacobi:
        yield "the Jacobi identity", _jacobi_defect(structure, points, covectors)
    yield from _casimir_laws(structure, points, matrix)
    yield f"rank J = {structure.rank}", _rank_defect(points, matrix, structure.rank)
    if structure.has_reference_density:
        yield "unimodularity div(mu J) = 0", _divergence(structure, points, matrix)


def _batch_laws(structure: PoissonStructure, points: Tensor, matrix: Tensor) -> Iterator[Law]:
    folded = structure.bivector(points.reshape(1, -1, 1, structure.dim))
    yield "batches equal rows", folded.reshape(matrix.shape) - matrix
    single = torch.stack([structure.bivector(point) for point in points])
    yield "a single state equals a row", single - matrix


def _bracket_laws(structure: PoissonStructure, points: Tensor, matrix: Tensor, covectors: Tensor) -> Iterator[Law]:
    for covector in covectors:
        expected = torch.einsum("...ij,j->...i", matrix, covector)
        yield "sharp = bivector times covector", structure.sharp(points, covector.expand_as(points)) - expected
    basis = _covectors(covectors)
    for a in basis:
        field = structure.hamiltonian_field(_Linear(a))(points)
        yield "the Hamiltonian field J grad H", field - torch.einsum("...ij,j->...i", matrix, a)
    columns = [torch.stack([structure.bracket(_Linear(a), _Linear(b))(points) for b in basis], -1) for a in basis]
    expected = torch.einsum("ai,...ij,bj->...ab", basis, matrix, basis)
    yield "brackets of coordinates {z_i, z_j} = J_ij", torch.stack(columns, -2) - expected
    f, g, h = (_Wave(covector) for covector in covectors)
    yield "skewness of the bracket", structure.bracket(f, g)(points) + structure.bracket(g, f)(points)
    product = structure.bracket(lambda z: f(z) * g(z), h)(points)
    leibniz = f(points) * structure.bracket(g, h)(points) + g(points) * structure.bracket(f, h)(points)
    yield "the Leibniz rule", product - leibniz


def _jacobi_defect(structure: PoissonStructure, points: Tensor, covectors: Tensor) -> Tensor:
    if structure.dim <= _LARGE:
        return structure.jacobiator(points)
    return structure.contracted_jacobiator(points, *covectors)


def _casimir_laws(structure: PoissonStructure, points: Tensor, matrix: Tensor) -> Iterator[Law]:
    values = structure.casimirs(points)
    count = values.shape[-1]
    yield "the shape (..., k) of the Casimirs", _flag(points, values.shape == (len(points), count))
    if not count:
        return
    slopes = torch.stack([gradient(_Casimir(structure, k), points) for k in range(count)], dim=-1)
    yield "J grad C = 0", matrix @ slopes
    yield f"independence of the {count} Casimirs", _rank_defect(points, slopes, count)
    allowed = structure.dim - structure.rank
    yield f"at most n - rank = {allowed} Casimirs", _flag(points, count <= allowed)


def _rank_defect(points: Tensor, matrices: Tensor, rank: int) -> Tensor:
    """Points of lower rank are legal if one has the declared rank and none a higher one."""
    values = torch.linalg.svdvals(matrices.detach())
    limit = torch.finfo(values.dtype).eps ** 0.6 * values[..., :1]
    ranks = (values > limit).sum(-1)
    return torch.where(ranks > rank, ranks - rank, ranks.max() - rank).to(points.dtype)


def _divergence(structure: PoissonStructure, points: Tensor, matrix: Tensor) -> Tensor:
    r"""$\sum_i\partial_i J_{ij} + \sum_i\partial_i\log\mu\,J_{ij}$, (N, n)."""
    divergence = torch.einsum("...iji->...j", derivative(structure.bivector, points))
    return divergence + torch.einsum("...i,...ij->...j", gradient(structure.reference_log_density, points), matrix)


def _covectors(covectors: Tensor) -> Tensor:
    """All coordinates in small dimensions, else the random covectors."""
    size = covectors.shape[-1]
    return torch.eye(size, dtype=covectors.dtype, device=covectors.device) if size <= _LARGE else covectors


def _flag(points: Tensor, holds: bool) -> Tensor:
    """Defect 0 if a statement holds, else infinite."""
    return points.new_full((len(points),), 0.0 if holds else float("inf"))


class _Linear:
    """z -> a . z."""

    def __init__(self, covector: Tensor) -> None:
        self.covector = covector

    def __call__(self, z: Tensor) -> Tensor:
        return (z * self.covector).sum(-1)


class _Wave(_Linear):
    """z -> sin(a . z)."""

    def __call__(self, z: Tensor) -> Tensor:
        return super().__call__(z).sin()


class _Casimir:
    """z -> C_k(z)."""

    def __init__(self, structure: PoissonStructure, index: int) -> None:
        self.structure, self.index = structure, index

    def __call__(self, z: Tensor) -> Tensor:
        return self.structure.casimirs(z)[..., self.index]
