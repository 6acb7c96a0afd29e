r"""Hyperbolic space as the open ball of Poincaré."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._checked import positive_integer
from ._functions import arc_over_sin_chord, generalized_cos, generalized_sinc, safe_norm, safe_sqrt
from .base import Manifold
from .heat import hyperbolic_log_kernel, log_sinhc

__all__ = ["PoincareBall"]

_SMALL = 0.25


def _tanhc_and_sech2(s: Tensor) -> tuple[Tensor, Tensor]:
    r"""$\tanh\theta/\theta$ and $1/\cosh^2\theta$ of $s=\theta^2\ge0$, smooth at 0, without overflow."""
    small = s < _SMALL
    near, root = s.masked_fill(~small, 0.0), s.masked_fill(small, 1.0).sqrt()
    cosh, decay = generalized_cos(-near), (-2 * root).exp()
    ratio = torch.where(small, generalized_sinc(-near) / cosh, root.tanh() / root)
    return ratio, torch.where(small, 1 / cosh**2, 4 * decay / (1 + decay) ** 2)


class PoincareBall(Manifold):
    r"""Ball $c|x|^2<1$ in $\mathbb R^n$, $c$ the ``curvature`` (sectional curvature $-c$), metric $\lambda^2\delta$.

    $\lambda=2/(1-c|x|^2)$. All formulas are written in differences $\delta=y-x$, and the gap $1-c|x|^2$ is taken in
    float64, so that stored points are never moved and distances lose no digits next to the rim. Limits: a number type
    holds points up to a distance of about $17/\sqrt c$ (float32) or $37/\sqrt c$ (float64) from the centre; a geodesic
    that runs further ends on the rim, where the check fails and distances are NaN. `Hyperboloid` reaches further.
    Nothing but ``projx`` pulls points inwards.

    Args:
        n: dimension.
        curvature: c, positive.
    """

    name = "PoincareBall"
    reversible = True
    has_log = True
    has_transport = True
    has_kernel = True
    has_chart = True

    def __init__(self, n: int, *, curvature: float = 1.0) -> None:
        super().__init__((positive_integer("n", n),), (n, 0))
        if not 0 < curvature < math.inf:
            raise ValueError(f"curvature={curvature!r} must be positive: the ball has sectional curvature -curvature")
        self.curvature = float(curvature)

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        return f"{self.dim}, curvature={self.curvature:g}"

    # --- the gap to the rim

    def _gap(self, x: Tensor) -> Tensor:
        """1 - c|x|^2 (..., 1), to full relative accuracy for the stored x."""
        wide = x.double()
        return (1 - self.curvature * (wide * wide).sum(-1, keepdim=True)).to(x.dtype)

    def conformal_factor(self, x: Tensor) -> Tensor:
        r"""$\lambda=2/(1-c|x|^2)$ (..., 1)."""
        return 2 / self._gap(x)

    def _square(self, u: Tensor) -> Tensor:
        """c|u|^2 (..., 1)."""
        return self.curvature * (u * u).sum(-1, keepdim=True)

    def _chord2(self, x: Tensor, y: Tensor) -> Tensor:
        r"""$q=c|\delta|^2/((1-c|x|^2)(1-c|y|^2))=\sinh^2(\sqrt c\,d/2)$ (..., 1); NaN unless both are inside."""
        gap_x, gap_y = self._gap(x), self._gap(y)
        return torch.where((gap_x > 0) & (gap_y > 0), self._square(y - x) / gap_x / gap_y, torch.nan)

    # --- geoopt's names

    def projx(self, x: Tensor) -> Tensor:
        """Points inside as they are, to the last bit; others moved to just inside the rim, which changes distances."""
        outside = ~(self._gap(x) > 0)
        norm = safe_norm(x, keepdim=True).masked_fill(~outside, 1.0)
        radius = (1 - 4 * torch.finfo(x.dtype).eps) / math.sqrt(self.curvature)
        return torch.where(outside, x * (radius / norm), x)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return u.expand(torch.broadcast_shapes(x.shape, u.shape))

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        return self._sum(self.lower(x, u) * (u if v is None else v), keepdim)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        r"""Möbius sum $x\oplus w$, $w=\tanh(\theta)u/(\sqrt c|u|)$, $\theta=\sqrt c\lambda|u|/2$, as a step from x."""
        gap = self._gap(x)
        ratio, sech2 = _tanhc_and_sech2(self._square(u / gap))
        step = ratio * u / gap
        return x + gap * (step + self._square(step) * x) / (self._square(x + step) + gap * sech2)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        delta = y - x
        direction = self._gap(x) * delta - self._square(delta) * x
        return arc_over_sin_chord(-self._chord2(x, y)) * direction / self._gap(y)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        r"""$\frac2{\sqrt c}\,\mathrm{arsinh}\sqrt q$, with zero gradient where x and y coincide."""
        dist = 2 / math.sqrt(self.curvature) * torch.asinh(safe_sqrt(self._chord2(x, y)))
        return dist if keepdim else dist[..., 0]

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Squared distance, smooth where x and y coincide."""
        chord2 = self._chord2(x, y)
        dist2 = 4 / self.curvature * chord2 * (1 + chord2) * arc_over_sin_chord(-chord2) ** 2
        return dist2 if keepdim else dist2[..., 0]

    def origin(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = None,
    ) -> Tensor:
        """The centre, repeated to shape ``size`` = (..., n)."""
        return torch.zeros(self._size(*size), dtype=dtype, device=device)

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        if (self._gap(x) > 0).all():
            return True, None
        largest = float(torch.linalg.vector_norm(x.double(), dim=-1).max())
        return False, f"|x| reaches {largest:.9g}, the rim is at {self.curvature**-0.5:.9g}; use projx or Hyperboloid"

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        if u.isfinite().all():
            return True, None
        return False, f"u has {int((~u.isfinite()).sum())} entries that are not finite; drop or repair these rows"

    # --- metric, frames, transport, volume

    def metric(self, x: Tensor) -> Tensor:
        return torch.diag_embed((self.conformal_factor(x) ** 2).expand(x.shape))

    def cometric(self, x: Tensor) -> Tensor:
        return torch.diag_embed((self._gap(x) ** 2 / 4).expand(x.shape))

    def christoffel(self, x: Tensor) -> Tensor:
        r"""$\Gamma^i_{jk}=\delta^i_j\phi_k+\delta^i_k\phi_j-\delta_{jk}\phi_i$, $\phi=\nabla\log\lambda=c\lambda x$."""
        slope = self.curvature * self.conformal_factor(x) * x
        identity = torch.eye(self.dim, dtype=x.dtype, device=x.device)
        first = identity[:, :, None] * slope[..., None, None, :]
        return first + first.transpose(-1, -2) - identity * slope[..., :, None, None]

    def lower(self, x: Tensor, v: Tensor) -> Tensor:
        return v * self.conformal_factor(x) ** 2

    def raise_(self, x: Tensor, p: Tensor) -> Tensor:
        return p * self._gap(x) ** 2 / 4

    def frame(self, x: Tensor) -> Tensor:
        return torch.diag_embed((self._gap(x) / 2).expand(x.shape))

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        r"""$\frac{\lambda_x}{\lambda_y}\mathrm{gyr}[y,-x]v$ (Ungar), with the rotation expanded in $\delta=y-x$."""
        c, delta = self.curvature, y - x
        gap_x, gap_y = self._gap(x), self._gap(y)
        along_x, along_delta = (x * v).sum(-1, keepdim=True), (delta * v).sum(-1, keepdim=True)
        mixed = (x * delta).sum(-1, keepdim=True)
        first = c * gap_x * along_delta - c * self._square(delta) * along_x
        second = 2 * c**2 * mixed * along_x - c * gap_x * along_x - c * self._square(x) * along_delta
        scale = 2 / (gap_x * gap_y * (1 + self._chord2(x, y)))
        return (v + scale * (first * x + second * delta)) * (gap_y / gap_x)

    def log_volume_density(self, x: Tensor) -> Tensor:
        r"""$n\log\lambda$."""
        return self.dim * self.conformal_factor(x)[..., 0].log()

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        r"""$(n-1)\log(\sinh r/r)$ with $r=\sqrt c\,|v|_x$."""
        return (self.dim - 1) * log_sinhc(self.curvature * self.inner(x, v))

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: float | Tensor) -> Tensor:
        r"""That of curvature -1, `manifolds.heat.hyperbolic_log_kernel`, at distance $\sqrt c\,d$ and time $ct$."""
        unit = hyperbolic_log_kernel(self.curvature * self.dist2(x, y), self.curvature * t, self.dim)
        return unit + self.dim / 2 * math.log(self.curvature)
