"""The hyperboloid model of hyperbolic space, which is also the mass shell of special relativity."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._functions import safe_sqrt
from ..heat import hyperbolic_log_kernel, log_sinhc
from .base import PseudoHyperquadric, last_sum

__all__ = ["Hyperboloid", "boost_frame"]


def boost_frame(space: Tensor) -> Tensor:
    r"""Orthonormal basis of the tangent space of the unit hyperboloid: the axes of space, boosted to x.

    $E_a=(x_a,\ e_a+\vec x\,x_a/(1+x_0))$.

    Args:
        space: coordinates 1..n of the points (..., n).

    Returns:
        (..., n + 1, n), time first.
    """
    time = (1 + last_sum(space * space)).sqrt()
    identity = torch.eye(space.shape[-1], dtype=space.dtype, device=space.device)
    inside = identity + space[..., :, None] * (space / (1 + time))[..., None, :]
    return torch.cat([space[..., None, :], inside], -2)


class Hyperboloid(PseudoHyperquadric):
    r"""Upper sheet $-x_0^2+|\vec x|^2=-R^2$, $x_0>0$: hyperbolic space; momenta p with $R$ the mass (c = 1).

    The spatial part is the coordinate: times are recomputed, never trusted beyond a rounding error, and nothing is
    read off a difference of large squares. Distances, logarithms and transport are computed in the rest frame of x
    from y - x, with relative error $\epsilon\,x_0/R$, that of the stored points ($10^{-8}$ at distance 20 in float64).

    As momentum space it has ``boost(p, xi)``, ``tetrad(p)`` and ``project_shell(p)``; a Brownian step is Dudley's
    relativistic diffusion (Dudley 1966, Lorentz-invariant Markov processes; Franchi and Le Jan 2007).

    Args:
        n: intrinsic dimension; points are (..., n + 1), time first.
        radius: R.
    """

    name = "Hyperboloid"
    has_kernel = True

    def __init__(self, n: int, *, radius: float = 1.0) -> None:
        super().__init__(n, 1, -1, radius)

    # --- rest frames

    def _timely(self, x: Tensor, space: Tensor) -> Tensor:
        """Tangent vector at x of the given spatial part."""
        return torch.cat([last_sum(x[..., 1:] * space) / x[..., :1], space], -1)

    def _rest(self, x: Tensor, v: Tensor) -> Tensor:
        r"""Components $\vec v-\vec x\,v_0/(R+x_0)$ of a tangent vector in the rest frame of x, of length $|v|$."""
        time, space = x[..., :1], x[..., 1:]
        along = last_sum(space * v[..., 1:]) / (time * (self.radius + time))
        return torch.addcmul(v[..., 1:], space, along, value=-1)

    def _sight(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r"""Spatial part $\vec w$ of y in the rest frame of x, $|w|=R\sinh\theta$, and $q=4R^2\sinh^2(\theta/2)$.

        With $p=\Delta\vec x-\vec x\,\Delta x_0/(R+x_0)$, $\vec w=p-\vec x\,q/(2R(R+x_0))$, and q solves
        $\frac{q^2}{2R(R+x_0)}+q\left(1+\frac{p\cdot\vec x}{R(R+x_0)}\right)=|p|^2$.
        """
        radius, time, space = self.radius, x[..., :1], x[..., 1:]
        target = y[..., 1:]
        chord = target - space
        chord_time = last_sum(chord * (space + target)) / (time + y[..., :1])
        scale = 1 / (radius + time)
        p = torch.addcmul(chord, space, chord_time * scale, value=-1)
        half_slope = 0.5 + last_sum(p * space) * scale / (2 * radius)
        square = last_sum(p * p)
        root = (half_slope**2 + square * scale / (2 * radius)).sqrt()
        positive = half_slope > 0
        near = square / torch.where(positive, half_slope + root, 1.0)
        q = torch.where(positive, near, (root - half_slope) * (2 * radius / scale))
        return torch.addcmul(p, space, q * scale, value=-1 / (2 * radius)), q

    # --- geoopt's names

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        past = x[..., 0] <= 0
        if past.any():
            index = tuple(past.nonzero()[0].tolist())
            return False, f"x{list(index)} has x_0 = {x[..., 0][index].item():.6g} <= 0: it is not on the upper sheet"
        return super()._check_point_on_manifold(x, atol=atol, rtol=rtol)

    def projx(self, x: Tensor) -> Tensor:
        """Recompute the time from the spatial part."""
        space = x[..., 1:]
        return torch.cat([(self.radius**2 + last_sum(space * space)).sqrt(), space], -1)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        """Remove the part along x; vectors that are tangent to rounding pass unchanged, however far out."""
        time, space = x[..., :1], x[..., 1:]
        defect = time * (last_sum(space * u[..., 1:]) / time - u[..., :1])
        return self._timely(x, torch.addcmul(u[..., 1:], space, defect, value=-self.curvature))

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        """Product of tangent vectors, through their rest-frame components (the ambient product loses all digits)."""
        left = self._rest(x, u)
        product = last_sum(left * (left if v is None else self._rest(x, v)))
        return product if keepdim else product.squeeze(-1)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        rest = self._rest(x, u)
        angle = self._angle(rest)
        return self.projx(angle.cosh() * x + angle.sinh() / angle * u)

    def geodesic_flow(self, x: Tensor, v: Tensor, t: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        speed = self._angle(self._rest(x, v))
        angle = speed * (t[..., None] if isinstance(t, Tensor) else t)
        cosh, sinh = angle.cosh(), angle.sinh()
        y = self.projx(cosh * x + sinh / speed * v)
        return y, self.proju(y, sinh * speed * x + cosh * v)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        sight, _ = self._sight(x, y)
        sinh = self._angle(sight)
        return self.combine(x, sinh.asinh() / sinh * sight)

    def _angle(self, rest: Tensor) -> Tensor:
        """Length in units of R, plus a rounding unit that makes it smooth at zero."""
        return (last_sum(rest * rest) / self.radius**2 + torch.finfo(rest.dtype).eps ** 2).sqrt()

    def _separation(self, x: Tensor, y: Tensor) -> Tensor:
        """The sight of the farther point from the one nearer to the origin, where it is most accurate."""
        swap = x[..., :1] > y[..., :1]
        return self._sight(torch.where(swap, y, x), torch.where(swap, x, y))[0]

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        sight = self._separation(x, y)
        distance = self.radius * torch.asinh(safe_sqrt(last_sum(sight * sight)) / self.radius)
        return distance if keepdim else distance.squeeze(-1)

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        sight = self._separation(x, y)
        sinh = self._angle(sight)
        square = (sinh.asinh() / sinh) ** 2 * last_sum(sight * sight)
        return square if keepdim else square.squeeze(-1)

    # --- frames, transport, volume, heat

    def frame(self, x: Tensor) -> Tensor:
        return boost_frame(x[..., 1:] / self.radius)

    def combine(self, x: Tensor, components: Tensor) -> Tensor:
        time, space = x[..., :1], x[..., 1:]
        along = last_sum(space * components) / (self.radius + time)
        return self._timely(x, torch.addcmul(components, space, along, value=1 / self.radius))

    def components(self, x: Tensor, v: Tensor) -> Tensor:
        return self._rest(x, v)

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        sight, q = self._sight(x, y)
        scale = last_sum(sight * self._rest(x, v)) / (2 * self.radius**2 + q / 2)
        return self._timely(y, v[..., 1:] + (x[..., 1:] + y[..., 1:]) * scale)

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        r"""$(n-1)\log(\sinh\theta/\theta)$, $\theta=|v|/R$."""
        return (self.dim - 1) * log_sinhc(self.inner(x, v) / self.radius**2)

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: float | Tensor) -> Tensor:
        square = self.radius**2
        log_kernel = hyperbolic_log_kernel(self.dist2(x, y) / square, t / square, self.dim)
        return log_kernel - self.dim * math.log(self.radius)

    # --- momentum space

    def boost(self, p: Tensor, xi: Tensor) -> Tensor:
        r"""Tangent vector $(\vec p\cdot\xi/m,\ \xi+\vec p\,\frac{\vec p\cdot\xi}{m(m+p_0)})$: $\xi$ in the rest frame.

        Args:
            p: momenta (..., n + 1) on the shell, $m=R$.
            xi: components (..., n) in the rest frame of p.
        """
        return self.combine(p, xi)

    def tetrad(self, p: Tensor) -> Tensor:
        r"""Lorentz frame (..., n + 1, n + 1): the velocity p/m, then ``frame(p)``."""
        return torch.cat([(p / self.radius)[..., None], self.frame(p)], -1)

    def project_shell(self, p: Tensor, mass: float | None = None) -> Tensor:
        r"""Scale time-like momenta onto $\langle p,p\rangle=-m^2$, $p_0>0$ (past ones are reversed); NaN elsewhere.

        Args:
            p: vectors (..., n + 1).
            mass: m; the radius of this hyperboloid if None.

        Raises:
            ValueError: the mass is not positive.
        """
        mass = self.radius if mass is None else mass
        if not mass > 0:
            raise ValueError(f"mass={mass} must be positive: a ray of light has no shell to scale onto")
        square = -self._dot(p, p)
        scale = mass * p[..., :1].sign() / torch.where(square > 0, square, torch.nan).sqrt()
        return p * scale
