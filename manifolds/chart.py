r"""Manifolds given by a metric in coordinates: ChartManifold and Schwarzschild space-time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from ._checked import positive_integer
from ._connection import ConnectionManifold
from ._curvature import kretschmann, riemann
from ._functions import standard_normal
from .base import PseudoRiemannian

__all__ = ["Chart", "ChartManifold", "Schwarzschild"]


class Chart(PseudoRiemannian, ConnectionManifold):
    r"""Open set of $\mathbb R^d$ with a metric, Riemannian or not; abstract, see `ChartManifold`.

    Subclasses give `metric`. Christoffel symbols come from it by differentiation, geodesics by `ConnectionManifold`.
    Coordinates are plain numbers: an angle is not wrapped, and whatever leaves `_inside` becomes NaN.

    Args:
        dim: number of coordinates.
        signature: numbers of positive and negative directions.
        has_log: whether to offer the logarithm.
    """

    name = "Chart"
    has_chart = True

    def __init__(self, dim: int, signature: tuple[int, int], has_log: bool) -> None:
        super().__init__(dim, signature, has_log)

    @abstractmethod
    def metric(self, x: Tensor) -> Tensor:
        r"""Metric $g_{ij}$ (..., d, d) at coordinates x (..., d)."""

    def _guard(self, x: Tensor) -> Tensor:
        """NaN in the rows that are outside."""
        return torch.where(self._inside(x)[..., None], x, torch.nan)

    # --- checks

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        outside = ~self._inside(x)
        if outside.any():
            row = x[outside][0].tolist()
            return (
                False,
                f"x={row} (one of {int(outside.sum())} such rows) is outside the domain; move it inside",
            )
        metric = self.metric(x)
        if metric.shape != (*x.shape, self.dim) or metric.dtype != x.dtype:
            got, wanted = (tuple(metric.shape), metric.dtype), ((*x.shape, self.dim), x.dtype)
            return False, f"metric(x) has shape and dtype {got}, wanted {wanted}; let the metric work row by row"
        eigenvalues = torch.linalg.eigvalsh(torch.where(metric.isfinite(), metric, 0.0))
        wrong = (eigenvalues < 0).sum(-1) != self.signature[1]
        wrong |= (eigenvalues == 0).any(-1) | ~metric.isfinite().all(-1).all(-1)
        if wrong.any():
            row = x[wrong][0].tolist()
            return False, f"the metric at x={row} has not signature {self.signature}; correct signature= or the metric"
        return True, None

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        if u.isfinite().all():
            return True, None
        return False, f"u has {int((~u.isfinite()).sum())} entries that are not finite; drop or repair these rows"

    # --- geoopt's names

    def projx(self, x: Tensor) -> Tensor:
        """Coordinates as they are, NaN outside the domain."""
        return self._guard(x)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return u.expand(torch.broadcast_shapes(x.shape, u.shape))

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        product = self.lower(x, u) * (u if v is None else v)
        return self._sum(product, keepdim)

    # --- metric, connection, frames

    def cometric(self, x: Tensor) -> Tensor:
        inverse, info = torch.linalg.inv_ex(self.metric(x))
        return torch.where((info == 0)[..., None, None], inverse, torch.nan)

    def christoffel(self, x: Tensor) -> Tensor:
        d = self.dim
        metrics, pullback = torch.func.vjp(self.metric, x[..., None, :].expand(*x.shape[:-1], d * d, d))[:2]
        entries = torch.eye(d * d, dtype=x.dtype, device=x.device).unflatten(-1, (d, d))
        slopes = pullback(entries.expand_as(metrics))[0].unflatten(-2, (d, d))  # (..., l, k, j) = d_j g_lk
        first_kind = slopes.transpose(-1, -2) + slopes - slopes.movedim(-1, -3)
        return torch.einsum("...il,...ljk->...ijk", self.cometric(x), first_kind) / 2

    def connection(self, x: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("...ijk,...j->...ik", self.christoffel(x), v)

    def riemann(self, x: Tensor) -> Tensor:
        r"""Riemann tensor (..., i, j, k, l), $R^i{}_{jkl}=\partial_k\Gamma^i_{lj}-\partial_l\Gamma^i_{kj}+\dots$."""
        return riemann(self, x)

    def kretschmann(self, x: Tensor) -> Tensor:
        r"""Kretschmann scalar $R_{ijkl}R^{ijkl}$ (...)."""
        return kretschmann(self, x)

    def frame(self, x: Tensor) -> Tensor:
        r"""Orthonormal frame: $L^{-\mathsf T}$ of $g=LL^{\mathsf T}$, or with times that of a block $LDL^{\mathsf T}$.

        In the latter, the q coordinates with the most negative $g^{aa}$ serve as times, and the first q vectors are
        normal to the slices on which these are constant, future-directed. Where no q coordinates are times (for
        instance on null coordinates) the frame is NaN.
        """
        return _orthonormal_frame(self.metric(x), self.cometric(x), self.signature[1])

    def _directions(self, x: Tensor) -> Tensor:
        return torch.eye(self.dim, dtype=x.dtype, device=x.device).expand(*x.shape, self.dim)

    # --- randomness

    def brownian_step(
        self,
        x: Tensor,
        dt: float | Tensor,
        *,
        noise: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        r"""One Euler step of Brownian motion as an Itô equation, $dx^i=-\tfrac12g^{jk}\Gamma^i_{jk}dt+E^i_a\,dW^a$.

        Weak order one, without an ODE; NaN where the step leaves the domain.

        Args:
            x: points (..., d).
            dt: step, a number or (...).
            noise: standard normal components (..., d) in `frame(x)`; drawn if None.
            generator: source of randomness.

        Raises:
            ValueError: the metric is indefinite.
        """
        self._require_riemannian("Brownian motion")
        if noise is None:
            noise = standard_normal(x.shape, dtype=x.dtype, device=x.device, generator=generator)
        step = torch.as_tensor(dt, dtype=x.dtype, device=x.device)[..., None]
        drift = -torch.einsum("...jk,...ijk->...i", self.cometric(x), self.christoffel(x)) / 2
        return self._guard(x + step * drift + self.combine(x, step.sqrt() * noise))


class ChartManifold(Chart):
    r"""Manifold of a metric that you give as a function of coordinates.

    Hyperbolic plane: ``ChartManifold(lambda q: torch.diag_embed((q[..., 1:] ** -2).expand(q.shape)), 2,
    domain=lambda q: q[..., 1] > 0, has_log=True)``.

    Args:
        metric: $g$: (..., d) -> (..., d, d), row-wise, differentiable by ``torch.func``, in the dtype of its argument.
            A module is registered, so that its parameters can be learned.
        dim: number of coordinates d.
        signature: numbers of positive and negative directions; (d, 0) if None.
        domain: (..., d) -> (...) bool, where the metric is regular; everywhere if None.
        has_log: offer ``logmap``, ``dist`` and ``parallel_transport``, by shooting: geodesics between nearby points.

    Raises:
        TypeError: metric or domain cannot be called, dim is no integer.
        ValueError: the signature does not add up to dim.
    """

    name = "ChartManifold"

    def __init__(
        self,
        metric: Callable[[Tensor], Tensor],
        dim: int,
        *,
        signature: tuple[int, int] | None = None,
        domain: Callable[[Tensor], Tensor] | None = None,
        has_log: bool = False,
    ) -> None:
        for argument, value in (("metric", metric), ("domain", domain)):
            if value is not None and not callable(value):
                raise TypeError(f"{argument} must be a function of coordinates, got {type(value).__name__}")
        positive, negative = (positive_integer("dim", dim), 0) if signature is None else signature
        if min(positive, negative) < 0 or positive + negative != dim:
            raise ValueError(f"signature={signature} must be two counts that add up to dim={dim}")
        super().__init__(dim, (positive, negative), has_log)
        self._metric = metric
        self._domain = domain

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        return f"dim={self.dim}, signature={self.signature}"

    def _inside(self, x: Tensor) -> Tensor:
        finite = super()._inside(x)
        return finite if self._domain is None else finite & self._domain(x)

    def metric(self, x: Tensor) -> Tensor:
        return self._metric(x)


class Schwarzschild(Chart):
    r"""Space-time of a mass M, outside its horizon: coordinates $(t,r,\theta,\varphi)$, $r>2M$, $0<\theta<\pi$.

    $g=\mathrm{diag}(-f,\,1/f,\,r^2,\,r^2\sin^2\theta)$, $f=1-2M/r$, in units $G=c=1$; signature (3, 1). `frame` is the
    static tetrad $e_t=f^{-1/2}\partial_t$, $e_r=f^{1/2}\partial_r$, $e_\theta=\partial_\theta/r$,
    $e_\varphi=\partial_\varphi/(r\sin\theta)$. The Kretschmann scalar is $48M^2/r^6$. Geodesics that reach the horizon,
    where these coordinates end, give NaN.

    Args:
        mass: M, positive.

    Raises:
        ValueError: the mass is not positive.
    """

    name = "Schwarzschild"

    def __init__(self, mass: float) -> None:
        if not mass > 0:
            raise ValueError(f"mass={mass} must be positive: with none, use Minkowski(4)")
        super().__init__(4, (3, 1), has_log=False)
        self.mass = float(mass)

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        return f"mass={self.mass}"

    def _inside(self, x: Tensor) -> Tensor:
        _, r, theta, _ = x.unbind(-1)
        return super()._inside(x) & (r > 2 * self.mass) & (theta > 0) & (theta < torch.pi)

    def _diagonal(self, x: Tensor) -> Tensor:
        r, theta = x[..., 1], x[..., 2]
        f = 1 - 2 * self.mass / r
        return torch.stack([-f, 1 / f, r**2, (r * theta.sin()) ** 2], dim=-1)

    def metric(self, x: Tensor) -> Tensor:
        return torch.diag_embed(self._diagonal(x))

    def cometric(self, x: Tensor) -> Tensor:
        return torch.diag_embed(1 / self._diagonal(x))

    def frame(self, x: Tensor) -> Tensor:
        """Static tetrad (..., 4, 4), the time-like vector first; NaN from the horizon inwards, where nothing rests."""
        outside = (x[..., 1] > 2 * self.mass)[..., None]
        return torch.diag_embed(torch.where(outside, self._diagonal(x).abs().rsqrt(), torch.nan))

    def christoffel(self, x: Tensor) -> Tensor:
        r, theta = x[..., 1], x[..., 2]
        f, pull = 1 - 2 * self.mass / r, self.mass / r**2
        entries = {
            (0, 0, 1): pull / f,
            (1, 0, 0): pull * f,
            (1, 1, 1): -pull / f,
            (1, 2, 2): -r * f,
            (1, 3, 3): -r * f * theta.sin() ** 2,
            (2, 1, 2): 1 / r,
            (2, 3, 3): -theta.sin() * theta.cos(),
            (3, 1, 3): 1 / r,
            (3, 2, 3): theta.cos() / theta.sin(),
        }
        zero = torch.zeros_like(r)
        symbols = [entries.get((i, min(j, k), max(j, k)), zero) for i, j, k in product(range(4), repeat=3)]
        return torch.stack(symbols, dim=-1).unflatten(-1, (4, 4, 4))


def _cholesky(matrix: Tensor) -> Tensor:
    """Lower factor, NaN (and no exception) where the matrix is not positive definite."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    return torch.where((info == 0)[..., None, None], factor, torch.nan)


def _inverse_transpose(lower: Tensor) -> Tensor:
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device).expand_as(lower)
    return torch.linalg.solve_triangular(lower.mT, identity, upper=True)


def _orthonormal_frame(metric: Tensor, cometric: Tensor, times: int) -> Tensor:
    """Frame (..., n, n) with E^T g E = eta, as `Chart.frame` describes it."""
    if times == 0:
        return _inverse_transpose(_cholesky(metric))
    count = torch.arange(metric.shape[-1], device=metric.device)
    rank = cometric.detach().diagonal(dim1=-2, dim2=-1).argsort(-1).argsort(-1)
    order = torch.where(rank < times, rank - len(count), count).argsort(-1)  # times first, space in its own order
    reorder = (order[..., None, :] == count[:, None]).to(metric.dtype)
    g, inverse = (reorder.mT @ matrix @ reorder for matrix in (metric, cometric))
    time = -inverse[..., :times] @ _inverse_transpose(_cholesky(-inverse[..., :times, :times]))
    space = _inverse_transpose(_cholesky(g[..., times:, times:]))
    below = torch.cat([torch.zeros_like(g[..., :times, times:]), space], dim=-2)
    return reorder @ torch.cat([time, below], dim=-1)
