r"""Flat manifolds: Euclidean space, Minkowski space-time, the torus of angles.

Their points are coordinates, their metric is the constant $\eta$, geodesics are straight lines.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._checked import positive_integer
from .base import Manifold, PseudoRiemannian
from .heat import log_wrapped_normal

__all__ = ["Euclidean", "Minkowski", "Torus"]


class _Flat(Manifold):
    r"""Straight lines in $\mathbb R^n$ with metric $\eta$; not for direct use."""

    reversible = True
    has_log = True
    has_transport = True
    has_chart = True

    def __init__(self, n: int, negative: int = 0) -> None:
        super().__init__((positive_integer("n", n),), (n - negative, negative))

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        return str(self.dim)

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        if x.isfinite().all():
            return True, None
        return False, f"x has {int((~x.isfinite()).sum())} entries that are not finite; drop or repair these rows"

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        if u.isfinite().all():
            return True, None
        return False, f"u has {int((~u.isfinite()).sum())} entries that are not finite; drop or repair these rows"

    def projx(self, x: Tensor) -> Tensor:
        return x

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return u.expand(torch.broadcast_shapes(x.shape, u.shape))

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        product = u * (u if v is None else v)
        if not self.is_riemannian:
            product = product * self.frame_signs(product)
        return self._sum(product.expand(torch.broadcast_shapes(x.shape, product.shape)), keepdim)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return self.projx(x + u)

    def geodesic_flow(self, x: Tensor, v: Tensor, t: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        return self.projx(x + (t[..., None] if isinstance(t, Tensor) else t) * v), v

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        return y - x

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        return v.expand(torch.broadcast_shapes(x.shape, y.shape, v.shape))

    def frame(self, x: Tensor) -> Tensor:
        return torch.eye(self.dim, dtype=x.dtype, device=x.device).expand(*x.shape, self.dim)

    def metric(self, x: Tensor) -> Tensor:
        return torch.diag(self.frame_signs(x)).expand(*x.shape, self.dim)

    def cometric(self, x: Tensor) -> Tensor:
        return self.metric(x)

    def christoffel(self, x: Tensor) -> Tensor:
        return x.new_zeros(*x.shape, self.dim, self.dim)

    def lower(self, x: Tensor, v: Tensor) -> Tensor:
        return self.proju(x, v if self.is_riemannian else v * self.frame_signs(v))

    def raise_(self, x: Tensor, p: Tensor) -> Tensor:
        return self.lower(x, p)

    def log_volume_density(self, x: Tensor) -> Tensor:
        return x.new_zeros(self._batch(x))

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        return x.new_zeros(torch.broadcast_shapes(self._batch(x), self._batch(v)))

    def origin(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = None,
    ) -> Tensor:
        return torch.zeros(self._size(*size), dtype=dtype, device=device)


class Euclidean(_Flat):
    r"""$\mathbb R^n$ with its usual metric. Its heat kernel is the normal law of variance t per axis.

    Args:
        n: dimension.
    """

    name = "Euclidean"
    has_kernel = True

    def __init__(self, n: int) -> None:
        super().__init__(n)

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: float | Tensor) -> Tensor:
        time = torch.as_tensor(t, dtype=x.dtype, device=x.device)
        return -self.dist2(x, y) / (2 * time) - self.dim / 2 * torch.log(2 * math.pi * time)


class Minkowski(PseudoRiemannian, _Flat):
    r"""Space-time $\mathbb R^n$ with $\eta=\mathrm{diag}(-1, 1, \dots, 1)$, time first.

    Boosts and mass shells need no point here: ``boost(p, xi)``, ``project_shell(p, mass)``.

    Args:
        n: dimension, time included; at least 2.
    """

    name = "Minkowski"

    def __init__(self, n: int) -> None:
        if positive_integer("n", n) == 1:
            raise ValueError("n=1 must be at least 2: space-time has one time and at least one space axis")
        super().__init__(n, negative=1)

    def _foot(self, p: Tensor, x: Tensor | None) -> Tensor:
        return p if x is None else x


class Torus(_Flat):
    r"""Flat torus of n angles in $[-\pi, \pi)$; any angle is accepted, results are wrapped.

    ``logmap`` takes values in $[-\pi,\pi)$: of the two shortest ways to the opposite angle, the negative one. The heat
    kernel is the wrapped normal law of variance t per angle.

    Args:
        n: number of angles.
    """

    name = "Torus"
    has_kernel = True

    def __init__(self, n: int) -> None:
        super().__init__(n)

    @property
    def log_volume(self) -> float:
        r"""$n\log 2\pi$."""
        return self.dim * math.log(2 * math.pi)

    def projx(self, x: Tensor) -> Tensor:
        r"""Wrap angles into $[-\pi,\pi)$; those inside are returned as they are, to the last bit."""
        wrapped = x - 2 * math.pi * torch.floor(x / (2 * math.pi) + 0.5)
        wrapped = torch.where(wrapped < -math.pi, wrapped + 2 * math.pi, wrapped)  # x/(2 pi) was rounded up to 1/2
        return torch.where(wrapped >= math.pi, wrapped - 2 * math.pi, wrapped)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        return self.projx(y - x)

    def random_uniform(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        source = device if generator is None else generator.device
        unit = torch.rand(self._size(*size), dtype=torch.float64, device=source, generator=generator)
        angles = (2 * unit - 1) * math.pi
        return self.projx(angles.to(device=device, dtype=dtype or torch.get_default_dtype()))

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: float | Tensor) -> Tensor:
        time = torch.as_tensor(t, dtype=x.dtype, device=x.device)[..., None]
        return log_wrapped_normal(self.logmap(x, y), time).sum(-1)
