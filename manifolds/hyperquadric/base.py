r"""What spheres, hyperboloids, de Sitter and anti-de Sitter space share: exp, log and transport of a quadric.

All are $\{x\in\mathbb R^{n+1}:\langle x,x\rangle=1/\kappa\}$ with
$\langle x,x\rangle=-x_0^2-\dots-x_{k-1}^2+x_k^2+\dots+x_n^2$, k the index: k = 0 or 1 with $\kappa>0$ are the sphere
and de Sitter space, k = 1 or 2 with $\kappa<0$ the hyperboloid and anti-de Sitter space. With $\theta$ such that
$\cos\theta=\kappa\langle x,y\rangle$ (cosh where that exceeds one),

$$\exp_x v=\cos\theta\,x+\tfrac{\sin\theta}\theta v,\quad \theta^2=\kappa\langle v,v\rangle,\qquad
\log_x y=\tfrac\theta{\sin\theta}(y-\cos\theta\,x),\qquad
P_{x\to y}v=v-\tfrac{2\langle x+y,v\rangle}{\langle x+y,x+y\rangle}(x+y),$$

where $\kappa\langle x,y\rangle\le-1$ no unique geodesic exists (O'Neill, Semi-Riemannian Geometry, ch. 4). Everything
is computed from the difference y - x, so that close points lose no digits, and every step ends on the manifold.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._checked import positive_integer
from .._functions import arc_over_sin_chord, generalized_cos, generalized_sinc
from ..base import Manifold

__all__ = ["PseudoHyperquadric", "last_sum"]


def last_sum(product: Tensor) -> Tensor:
    """Sum over the last axis, kept with length one; column by column where that is short (five times faster)."""
    if product.shape[-1] > 4:
        return product.sum(-1, keepdim=True)
    first, *others = product.unbind(-1)
    return sum(others, first).unsqueeze(-1)


class PseudoHyperquadric(Manifold):
    r"""The quadric $\langle x,x\rangle=1/\kappa$, $\kappa=\pm 1/R^2$, in $\mathbb R^{n+1}$ with k minus signs.

    The constraint is kept by scaling one block of coordinates to the length that the others demand: the space-like
    block where $\kappa>0$, the time-like one where $\kappa<0$. That stays accurate far out, where $\langle x,x\rangle$
    itself is lost to cancellation.

    Args:
        n: intrinsic dimension.
        index: number k of minus signs, which come first.
        sign: +1 or -1, the sign of the curvature.
        radius: R.
    """

    name = "PseudoHyperquadric"
    has_log = True
    has_transport = True

    def __init__(self, n: int, index: int, sign: int, radius: float = 1.0) -> None:
        negative = index if sign > 0 else index - 1
        if positive_integer("n", n) < negative + (index > 0):
            raise ValueError(f"n={n} must be at least 2: {self.name} has a time and at least one space direction")
        if not (radius > 0 and math.isfinite(radius)):
            raise ValueError(f"radius={radius} must be positive and finite")
        super().__init__((n + 1,), (n - negative, negative))
        self.index = index
        self.sign = sign
        self.radius = float(radius)
        self.curvature = sign / self.radius**2

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        return f"{self.dim}" if self.radius == 1 else f"{self.dim}, radius={self.radius}"

    # --- ambient algebra

    def _flip(self, u: Tensor) -> Tensor:
        r"""$\eta u$: change the sign of the time-like coordinates."""
        return torch.cat([-u[..., : self.index], u[..., self.index :]], -1) if self.index else u

    def _dot(self, u: Tensor, v: Tensor) -> Tensor:
        r"""Ambient product $\langle u,v\rangle$ (..., 1)."""
        return last_sum(self._flip(u) * v)

    def _blocks(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The coordinates that can be scaled onto the manifold, and those that stay."""
        time, space = x[..., : self.index], x[..., self.index :]
        return (space, time) if self.sign > 0 else (time, space)

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        value = self.curvature * self._dot(x, x)[..., 0]
        defect = (value - 1).abs()
        bad = ~(defect <= atol + rtol * (x * x).sum(-1) / self.radius**2)
        if not bad.any():
            return True, None
        index = tuple(bad.nonzero()[0].tolist())
        got = value[index].item()
        return False, f"x{list(index)} has <x, x> = {got:.6g}/kappa instead of 1/kappa; apply projx to it"

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        x, u = torch.broadcast_tensors(x, u)
        product = self._dot(x, u)[..., 0]
        scale = (x * x).sum(-1).sqrt() * (u * u).sum(-1).sqrt()
        bad = ~(product.abs() <= atol + rtol * scale)
        if not bad.any():
            return True, None
        index = tuple(bad.nonzero()[0].tolist())
        return False, f"u{list(index)} has <x, u> = {product[index].item():.6g} instead of 0; apply proju to it"

    # --- geoopt's names

    def projx(self, x: Tensor) -> Tensor:
        scaled, kept = self._blocks(x)
        length = (self.radius**2 + last_sum(kept * kept)).sqrt() if self.index else self.radius
        scaled = scaled * (length * last_sum(scaled * scaled).rsqrt())
        if not self.index:
            return scaled
        return torch.cat([kept, scaled] if self.sign > 0 else [scaled, kept], -1)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return torch.addcmul(u, x, self._dot(x, u), value=-self.curvature)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        product = self._dot(u, u if v is None else v)
        product = product.expand(torch.broadcast_shapes((*x.shape[:-1], 1), product.shape))
        return product if keepdim else product.squeeze(-1)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        square = self.curvature * self._dot(u, u)
        return self.projx(generalized_cos(square) * x + generalized_sinc(square) * u)

    def geodesic_flow(self, x: Tensor, v: Tensor, t: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        time = t[..., None] if isinstance(t, Tensor) else t
        rate = self.curvature * self._dot(v, v)
        cos, sinc = generalized_cos(rate * time**2), time * generalized_sinc(rate * time**2)
        y = self.projx(cos * x + sinc * v)
        return y, self.proju(y, cos * v - rate * sinc * x)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        chord = y - x
        half_chord = self.curvature / 4 * self._dot(chord, chord)
        return arc_over_sin_chord(half_chord) * self.proju(x, chord)

    def origin(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = None,
    ) -> Tensor:
        r"""The point R on the first axis of the sign of $\kappa$, repeated.

        Args:
            size: shape of the result, point axes included.
            dtype: torch's default type if None.
            device: torch's default device if None.
            seed: ignored (geoopt's signature).
        """
        point = torch.zeros(self._size(*size), dtype=dtype, device=device)
        point[..., self.index if self.sign > 0 else 0] = self.radius
        return point

    # --- metric, transport, volume

    def lower(self, x: Tensor, v: Tensor) -> Tensor:
        return self._flip(v)

    def raise_(self, x: Tensor, p: Tensor) -> Tensor:
        return self.proju(x, self._flip(p))

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Reflection at the hyperplane orthogonal to x + y: isometric to rounding wherever the points lie."""
        middle = x + y
        square = self._dot(middle, middle)
        moved = torch.addcmul(v, middle, self._dot(middle, v) / square, value=-2)
        return moved if self.is_riemannian else torch.where(self.curvature * square > 0, moved, torch.nan)

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        r"""$(n-1)\log|\sin\theta/\theta|$ with $\theta^2=\kappa\langle v,v\rangle$, sinh for $\theta^2<0$."""
        return (self.dim - 1) * generalized_sinc(self.curvature * self.inner(x, v)).abs().log()
