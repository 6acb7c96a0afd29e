r"""Manifold: a geoopt manifold that also knows its metric, frames, volume and Brownian motion.

Shapes: points and tangent vectors are (..., *point_shape), scalars (...), frames (..., *point_shape, dim), Gram
matrices (..., dim, dim); everything broadcasts over leading axes and follows the input's dtype and device.

Tensor kernels never raise on *values*, so that ``torch.vmap``, ``torch.compile`` and double backward work: where no
(unique) geodesic exists they return NaN. The ``assert_*`` methods raise, with what was given, why it is wrong, and what
to do.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ._checked import CheckedManifold, UnsupportedError
from ._derived import christoffel, exp_logdet
from ._forward_mode import directional_derivative
from ._functions import safe_sqrt, standard_normal
from ._pseudo import PseudoRiemannian

__all__ = ["Manifold", "PseudoRiemannian", "UnsupportedError"]


class Manifold(CheckedManifold):
    r"""Base of all manifolds: a `geoopt.Manifold` with Riemannian or pseudo-Riemannian metric of known signature.

    Attributes:
        name: how messages call it.
        point_shape: shape of one point; ``ndim`` is its length.
        signature: numbers of positive and negative directions of the tangent metric; ``dim`` is their sum.
        has_exp: ``expmap`` (and with it Brownian motion) exists; else only ``retr`` does.
        has_log: ``logmap`` (and with it ``dist``) exists.
        has_transport: ``parallel_transport`` exists.
        has_kernel: ``log_heat_kernel`` exists.
        has_chart: points are coordinates, and ``metric``, ``cometric``, ``christoffel`` are in them.

    Orthonormal frames obey $\langle E_a, E_b\rangle = \eta_{ab}$, $\eta = \mathrm{diag}(-1,\dots,-1,+1,\dots,+1)$:
    negative directions first. Covectors pair with vectors by the plain sum over point axes. Brownian motion has
    generator $\tfrac12\Delta$. Parameters need the manifold spelled out: ``geoopt.ManifoldParameter(x, manifold=m)``.

    Args:
        point_shape: shape of one point.
        signature: numbers of positive and negative directions.
    """

    name: str = "Manifold"
    reversible = False
    has_exp = True
    has_log = False
    has_transport = False
    has_kernel = False
    has_chart = False

    @property
    def log_volume(self) -> float:
        """Logarithm of the Riemannian volume, infinite unless overridden by a compact manifold."""
        return math.inf

    def assert_logmap(self, x: Tensor, y: Tensor) -> Tensor:
        """Logarithm of y at x, or an error that names the first pair that has none.

        Args:
            x: points (..., *point_shape).
            y: points (..., *point_shape).

        Raises:
            ValueError: a point is off the manifold, shapes or dtypes do not fit, or no unique geodesic joins a pair.
        """
        for point in (x, y):
            self.assert_check_point_on_manifold(point)
        ok, reason = self._check_pair(x, y, "y")
        if not ok:
            raise ValueError(reason)
        log = self.logmap(x, y)
        bad = self._sum(log).isnan()
        if bad.any():
            index = tuple(bad.nonzero()[0].tolist())
            start, end = (torch.broadcast_to(point, log.shape)[index].tolist() for point in (x, y))
            raise ValueError(
                f"no unique geodesic of {self!r} joins x={start} and y={end} (batch index {index}): y is the antipode"
                " of x, or beyond its reach; use a pair that is closer together"
            )
        return log

    # --- geoopt's names, derived

    def norm(self, x: Tensor, u: Tensor, *, keepdim: bool = False) -> Tensor:
        r"""$\sqrt{|\langle u,u\rangle|}$, with zero gradient at the zero vector.

        Args:
            x: points (..., *point_shape).
            u: tangent vectors.
            keepdim: keep the point axes with length one.
        """
        return safe_sqrt(self.inner(x, u, keepdim=keepdim).abs())

    def geodesic_flow(self, x: Tensor, v: Tensor, t: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        """Point and velocity at time t of the geodesic that leaves x with velocity v.

        Args:
            x: points (..., *point_shape).
            v: tangent vectors (..., *point_shape).
            t: a number or (...), of either sign.
        """
        time = self._expand(torch.as_tensor(t, dtype=x.dtype, device=x.device))
        x, v, time = (tensor.contiguous() for tensor in torch.broadcast_tensors(x, v, time))
        y = self.expmap(x, time * v)
        return y, directional_derivative(lambda s: self.expmap(x, s * v), time, torch.ones_like(time))

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        """Initial velocity of the geodesic from x that is at y at time 1; NaN where there is none or no single one."""
        self._refuse("logmap", "has_log is False")

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Length of the geodesic from x to y; its gradient is zero where they coincide."""
        return self.norm(x, self.logmap(x, y), keepdim=keepdim)

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Squared length of the geodesic from x to y, in absolute value; smooth where the points coincide."""
        square = self.inner(x, self.logmap(x, y), keepdim=keepdim)
        return square if self.is_riemannian else square.abs()

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        """Retraction: the exponential map unless a cheaper one is known."""
        return self.expmap(x, u)

    def transp(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Parallel transport where the manifold has it, else the projection of v at y."""
        return self.parallel_transport(x, y, v) if self.has_transport else self.proju(y, v)

    def egrad2rgrad(self, x: Tensor, u: Tensor) -> Tensor:
        """Riemannian gradient from the gradient in the coordinates of x, as geoopt's optimisers need it.

        Raises:
            ValueError: the metric is indefinite, so that no direction of descent exists.
        """
        self._require_riemannian("Riemannian gradient")
        return self.raise_(x, u)

    def random_uniform(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Points uniform with respect to the volume; refused unless the manifold is compact and knows how.

        Args:
            size: shape of the result, point axes included.
            dtype: torch's default type if None.
            device: torch's default device if None.
            generator: source of randomness.
        """
        self._refuse("uniform law", "its volume is infinite, or no sampler is known")

    def random(self, *size: int | tuple[int, ...], **options: Any) -> Tensor:
        """Random points: uniform where that exists, else wrapped normal of unit scale about the origin.

        Args:
            size: shape of the result, point axes included.
            options: dtype, device, generator.
        """
        if math.isfinite(self.log_volume):
            return self.random_uniform(*size, **options)
        generator = options.pop("generator", None)
        return self.wrapped_normal(self.origin(*size, **options), generator=generator)

    def origin(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = None,
    ) -> Tensor:
        """A distinguished point, repeated; refused where there is none.

        Args:
            size: shape of the result, point axes included.
            dtype: torch's default type if None.
            device: torch's default device if None.
            seed: ignored (geoopt's signature).
        """
        self._refuse("origin", "no point is distinguished; give one")

    # --- metric and frames

    def frame(self, x: Tensor) -> Tensor:
        r"""Orthonormal frame (..., *point_shape, dim), $\langle E_a,E_b\rangle=\eta_{ab}$, negative ones first."""
        self._refuse("frame", "none is known")

    def frame_signs(self, x: Tensor) -> Tensor:
        r"""Diagonal of $\eta$ (dim,), in the dtype and on the device of x."""
        positive, negative = self.signature
        return torch.tensor([-1.0] * negative + [1.0] * positive, dtype=x.dtype, device=x.device)

    def combine(self, x: Tensor, components: Tensor) -> Tensor:
        r"""Tangent vector $\sum_a E_a c_a$ of components (..., dim) in `frame(x)`."""
        spread = components.reshape(*components.shape[:-1], *[1] * self.ndim, self.dim)
        return (self.frame(x) * spread).sum(-1)

    def components(self, x: Tensor, v: Tensor) -> Tensor:
        r"""Components $c_a=\eta_{aa}\langle E_a,v\rangle$ (..., dim) of tangent vectors in `frame(x)`."""
        x, v = torch.broadcast_tensors(x, v)
        inner = self.inner(x, self.frame(x).movedim(-1, 0), v)
        return inner.movedim(0, -1) * self.frame_signs(x)

    def metric(self, x: Tensor) -> Tensor:
        r"""Gram matrix (..., dim, dim): in coordinates for a chart manifold, else of `frame(x)`, where it is $\eta$."""
        frame = self.frame(x).movedim(-1, 0)
        return self.inner(x, frame[:, None], frame[None]).movedim((0, 1), (-2, -1))

    def cometric(self, x: Tensor) -> Tensor:
        """Inverse of `metric`."""
        return torch.linalg.inv(self.metric(x))

    def christoffel(self, x: Tensor) -> Tensor:
        r"""Christoffel symbols $\Gamma^i_{jk}$ (..., i, j, k) of a chart manifold, by differentiating `metric`."""
        if not self.has_chart:
            self._refuse("Christoffel symbols", "its points are not coordinates (has_chart is False)")
        return christoffel(self, x)

    def lower(self, x: Tensor, v: Tensor) -> Tensor:
        r"""Covector $\langle v,\cdot\rangle$, paired with vectors by the plain sum over point axes."""
        return (self.metric(x) @ v[..., None])[..., 0] if self.has_chart else v

    def raise_(self, x: Tensor, p: Tensor) -> Tensor:
        r"""Tangent vector $v$ with $\langle v,u\rangle=\sum p\,u$ for all tangent u; the inverse of `lower`."""
        return (self.cometric(x) @ p[..., None])[..., 0] if self.has_chart else self.proju(x, p)

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """Isometric transport of v from x to y along their geodesic; NaN where there is no single one."""
        self._refuse("parallel transport", "has_transport is False; transp offers the projection")

    # --- volume, randomness, heat

    def log_volume_density(self, x: Tensor) -> Tensor:
        r"""$\tfrac12\log|\det g|$ (...) in the coordinates of a chart manifold, else 0: the volume's own density."""
        if self.has_chart:
            return torch.linalg.slogdet(self.metric(x)).logabsdet / 2
        return x.new_zeros(self._batch(x))

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        r"""$\log|\det d(\exp_x)_v|$ (...) between orthonormal frames, by differentiation unless overridden."""
        return exp_logdet(self, x, v)

    def random_tangent(self, x: Tensor, std: float | Tensor = 1.0, generator: torch.Generator | None = None) -> Tensor:
        r"""Isotropic normal tangent vectors, std $\sum_a E_a\xi_a$.

        Args:
            x: points (..., *point_shape).
            std: standard deviation per direction, a number or (...).
            generator: source of randomness.

        Raises:
            ValueError: the metric is indefinite.
        """
        self._require_riemannian("isotropic normal law")
        shape = (*self._batch(x), self.dim)
        noise = standard_normal(shape, dtype=x.dtype, device=x.device, generator=generator)
        return self.combine(x, torch.as_tensor(std, dtype=x.dtype, device=x.device)[..., None] * noise)

    def wrapped_normal(
        self, mean: Tensor, std: float | Tensor = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Points $\exp_m(u)$, m the mean and u a normal tangent vector (`random_tangent`).

        Args:
            mean: points (..., *point_shape).
            std: standard deviation per direction, a number or (...).
            generator: source of randomness.
        """
        return self.expmap(mean, self.random_tangent(mean, std, generator))

    def brownian_step(
        self,
        x: Tensor,
        dt: float | Tensor,
        *,
        noise: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        r"""One geodesic random step $\exp_x(\sqrt{dt}\sum_a E_a\xi_a)$; its generator is $\tfrac12\Delta$ as $dt\to0$.

        Args:
            x: points (..., *point_shape).
            dt: step, a number or (...).
            noise: standard normal components (..., dim) in `frame(x)`; drawn if None.
            generator: source of randomness.

        Raises:
            ValueError: the metric is indefinite.
        """
        self._require_riemannian("Brownian motion")
        if noise is None:
            shape = (*self._batch(x), self.dim)
            noise = standard_normal(shape, dtype=x.dtype, device=x.device, generator=generator)
        scale = torch.as_tensor(dt, dtype=x.dtype, device=x.device).sqrt()
        return self.expmap(x, self.combine(x, scale[..., None] * noise))

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: float | Tensor) -> Tensor:
        r"""Log density (...) at y, w.r.t. the volume, of Brownian motion ($\tfrac12\Delta$) from x at time t."""
        self._refuse("heat kernel", "has_kernel is False")
