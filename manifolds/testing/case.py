"""What a law is checked on: a manifold, points, tangent vectors, a tolerance."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..base import Manifold

__all__ = ["Case", "Law", "everywhere", "jvp", "make_case"]

with warnings.catch_warnings():  # torch 2.14 scripts some decompositions when forward differentiation is first used
    warnings.filterwarnings("ignore", message="`torch.jit.script` is deprecated")
    with torch.autograd.forward_ad.dual_level():
        torch.autograd.forward_ad.make_dual(torch.zeros(()), torch.zeros(()))

BATCH = 6
TOLERANCE = {torch.float64: 1e-10, torch.float32: 5e-4}
TOLERANCE_BY_ODE = {torch.float64: 1e-7, torch.float32: 5e-3}


@dataclass
class Case:
    """One manifold with points x, y = move(x, u) and tangent vectors u, v, w at x, all (B, *point_shape)."""

    manifold: Manifold
    x: Tensor
    y: Tensor
    u: Tensor
    v: Tensor
    w: Tensor
    atol: float
    closed_form: bool

    def move(self, x: Tensor, u: Tensor) -> Tensor:
        """Exponential map, or the retraction where there is none."""
        return self.manifold.expmap(x, u) if self.manifold.has_exp else self.manifold.retr(x, u)

    def close(self, actual: Tensor, wanted: Tensor, what: str, slack: float = 1.0) -> None:
        """Compare within ``slack * atol * (1 + |wanted|)``, shapes and types included.

        Raises:
            AssertionError: names ``what`` and the defect.
        """
        if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
            got, want = (f"{tuple(t.shape)} {t.dtype}" for t in (actual, wanted))
            raise AssertionError(f"{what}: got {got}, wanted {want}")
        defect = ((actual - wanted).abs() / (1 + wanted.abs())).max().item()
        if not defect <= slack * self.atol:
            raise AssertionError(f"{what}: defect {defect:.2e} > {slack * self.atol:.0e}")

    def finite(self, value: Tensor, what: str) -> None:
        """Refuse NaN and infinities.

        Raises:
            AssertionError: names ``what``.
        """
        if not value.isfinite().all():
            raise AssertionError(f"{what}: not finite")


def everywhere(manifold: Manifold) -> bool:
    """A law without conditions."""
    return True


@dataclass(frozen=True)
class Law:
    """A check and the manifolds, arithmetic and kind of formula it is meant for."""

    check: Callable[[Case], None]
    needs: Callable[[Manifold], bool] = everywhere
    closed_form: bool = False
    double: bool = False

    def applies(self, manifold: Manifold, dtype: torch.dtype, closed_form: bool) -> bool:
        """Whether the law is meant for this manifold in this arithmetic."""
        fits = (closed_form or not self.closed_form) and (dtype == torch.float64 or not self.double)
        return fits and self.needs(manifold)


def jvp(function: Callable[..., Any], primals: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> tuple[Any, Any]:
    """Value and directional derivative."""
    value, slope = torch.func.jvp(function, primals, tangents)[:2]
    return value, slope


def make_case(
    manifold: Manifold,
    points: Tensor | None,
    dtype: torch.dtype,
    atol: float | None,
    seed: int,
    scale: float,
    closed_form: bool,
) -> Case:
    """Draw points and tangent vectors in float64, then cast and project them.

    Raises:
        ValueError: points are needed and missing, or not on the manifold.
    """
    generator = torch.Generator().manual_seed(seed)
    x = _points(manifold, generator) if points is None else points.detach().double()
    manifold.assert_check_point_on_manifold(x)
    x = manifold.projx(x.reshape(-1, *manifold.point_shape).to(dtype))
    x = x.expand(BATCH, *manifold.point_shape) if len(x) == 1 else x

    def tangent() -> Tensor:
        noise = torch.randn(len(x), manifold.dim, dtype=torch.float64, generator=generator)
        length = scale * (0.5 + torch.rand(len(x), 1, dtype=torch.float64, generator=generator) / 2)
        return manifold.combine(x, (length * noise / noise.norm(dim=-1, keepdim=True)).to(dtype))

    u, v, w = tangent(), tangent(), tangent()
    table = TOLERANCE if closed_form else TOLERANCE_BY_ODE
    case = Case(manifold, x, x, u, v, w, table[dtype] if atol is None else atol, closed_form)
    case.y = case.move(x, u)
    return case


def _points(manifold: Manifold, generator: torch.Generator) -> Tensor:
    size = (BATCH, *manifold.point_shape)
    if math.isfinite(manifold.log_volume):
        return manifold.random_uniform(*size, dtype=torch.float64, generator=generator)
    origin = manifold.origin(*size, dtype=torch.float64)
    noise = torch.randn(BATCH, manifold.dim, dtype=torch.float64, generator=generator)
    return manifold.expmap(origin, manifold.combine(origin, noise / 2))
