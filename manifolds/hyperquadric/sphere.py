"""The sphere, with operations fused for speed: one projection, one square root, one arctangent."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._functions import safe_sqrt, standard_normal
from ..heat import sphere_log_kernel
from .base import PseudoHyperquadric, last_sum

__all__ = ["Sphere", "reflection_frame"]


def reflection_frame(x: Tensor) -> Tensor:
    r"""Orthonormal basis of the tangent space of the unit sphere: axes 1..n, reflected so that axis 0 becomes $\pm x$.

    $E_a=e_a-\frac{x_a}{1+|x_0|}(x+\operatorname{sign}(x_0)\,e_0)$; it jumps across $x_0=0$, as some basis must.

    Args:
        x: unit vectors (..., n + 1).

    Returns:
        (..., n + 1, n).
    """
    sign = torch.where(x[..., :1] < 0, -1.0, 1.0).to(x)
    space = x[..., 1:]
    identity = torch.eye(space.shape[-1], dtype=x.dtype, device=x.device)
    inside = identity - space[..., :, None] * (space / (1 + x[..., :1].abs()))[..., None, :]
    return torch.cat([-(sign * space)[..., None, :], inside], -2)


class Sphere(PseudoHyperquadric):
    r"""Sphere of radius R in $\mathbb R^{n+1}$ (geoopt's, whose distance and transport are wrong, has R = 1).

    Angles are arctangents of the part of y - x orthogonal to x, so that distances and logarithms keep all digits, from
    coincident points (distance exactly 0) to the antipode (distance $\pi R$; ``logmap`` is NaN within 16 rounding
    units of it). Points off by rounding are fine: only directions count.

    Args:
        n: intrinsic dimension; points are (..., n + 1).
        radius: R.
    """

    name = "Sphere"
    has_kernel = True

    def __init__(self, n: int, *, radius: float = 1.0) -> None:
        super().__init__(n, 0, 1, radius)

    @property
    def log_volume(self) -> float:
        r"""$\log\frac{2\pi^{(n+1)/2}}{\Gamma((n+1)/2)}R^n$."""
        half = (self.dim + 1) / 2
        return math.log(2) + half * math.log(math.pi) - math.lgamma(half) + self.dim * math.log(self.radius)

    def _leave(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Part w of y - x orthogonal to x, $\kappa|w|^2=\sin^2\theta$ and $\cos\theta$ (..., 1)."""
        chord = y - x
        along = last_sum(x * chord)
        across = torch.addcmul(chord, x, along, value=-self.curvature)
        return across, self.curvature * last_sum(across * across), 1 + self.curvature * along

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        angle = _root(self.curvature * last_sum(u * u))
        y = torch.addcmul(x * angle.cos(), u, angle.sin() / angle)
        return y * (self.radius * last_sum(y * y).rsqrt())

    def geodesic_flow(self, x: Tensor, v: Tensor, t: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        time = t[..., None] if isinstance(t, Tensor) else t
        speed = _root(self.curvature * last_sum(v * v))
        angle = speed * time
        cos, sin = angle.cos(), angle.sin()
        y = self.projx(torch.addcmul(x * cos, v, sin / speed))
        return y, self.proju(y, torch.addcmul(v * cos, x, sin * speed, value=-1))

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        """Projection of x + u, a second-order retraction."""
        return self.projx(x + u)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        across, sin2, cos = self._leave(x, y)
        sin = _root(sin2)
        blind = (sin + cos.clamp(min=0)) < 16 * torch.finfo(x.dtype).eps
        return across * (torch.atan2(sin, cos) / sin).masked_fill(blind, torch.nan)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        r"""Length of the shorter arc, $\pi R$ for antipodes; exactly 0 with zero gradient where the points coincide."""
        _, sin2, cos = self._leave(x, y)
        distance = self.radius * torch.atan2(safe_sqrt(sin2), cos)
        return distance if keepdim else distance.squeeze(-1)

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Squared length of the shorter arc; smooth where the points coincide."""
        _, sin2, cos = self._leave(x, y)
        sin = _root(sin2)
        angle = torch.atan2(sin, cos)
        square = self.radius**2 * torch.where(cos > 0, (angle / sin) ** 2 * sin2, angle**2)
        return square if keepdim else square.squeeze(-1)

    def frame(self, x: Tensor) -> Tensor:
        return reflection_frame(x / self.radius)

    def combine(self, x: Tensor, components: Tensor) -> Tensor:
        space, scale = self._reflection(x)
        first = last_sum(space * components) / self.radius
        return torch.cat([-scale.sign() * first, components - space * (scale.abs() * first)], -1)

    def components(self, x: Tensor, v: Tensor) -> Tensor:
        space, scale = self._reflection(x)
        return v[..., 1:] - space * (scale * v[..., :1])

    def _reflection(self, x: Tensor) -> tuple[Tensor, Tensor]:
        r"""Coordinates 1..n of x, and $\operatorname{sign}(x_0)/(R+|x_0|)$."""
        scale = 1 / (self.radius + x[..., :1].abs())
        return x[..., 1:], torch.where(x[..., :1] < 0, -scale, scale)

    def random_uniform(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        shape = self._size(*size)
        target = torch.empty(0, dtype=dtype, device=device)
        return self.projx(standard_normal(shape, dtype=target.dtype, device=target.device, generator=generator))

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: float | Tensor) -> Tensor:
        square = self.radius**2
        log_kernel = sphere_log_kernel(self.dist2(x, y) / square, t / square, self.dim)
        return log_kernel - self.dim * math.log(self.radius)


def _root(square: Tensor) -> Tensor:
    """Square root of square + one squared rounding unit: harmless in value, and smooth at zero."""
    return (square + torch.finfo(square.dtype).eps ** 2).sqrt()
