r"""Frames along curves: horizontal lift, parallel frames, holonomy, the horizontal geodesic walk.

A frame is (..., *point_shape, k), its last axis counting the vectors. It is parallel along a curve with velocity v if
$\nabla_vE_a=0$. In a chart that is $\dot E=-\Gamma(v)E$, on a submanifold of Euclidean space
$\dot E=(D_vP)E$ with the tangent projector P: the horizontal lift of v to the frame bundle.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor
from torchdiffeq import odeint

from ._connection import ConnectionManifold
from ._forward_mode import directional_derivative
from ._functions import standard_normal
from ._runge_kutta import TOLERANCE
from .base import Manifold, UnsupportedError

__all__ = ["holonomy", "horizontal_lift", "horizontal_step", "orthonormalize", "parallel_frames", "transport_along"]


def horizontal_lift(manifold: Manifold, x: Tensor, v: Tensor, frame: Tensor) -> Tensor:
    r"""Rate $\dot E$ (..., *point_shape, k) at which a frame changes when it is carried in parallel with velocity v.

    Works in charts, on submanifolds of Euclidean space, and by differentiation wherever there is a parallel transport.

    Args:
        manifold: where.
        x: points (..., *point_shape).
        v: velocities (..., *point_shape).
        frame: tangent vectors at x (..., *point_shape, k).

    Raises:
        ValueError: the connection of the manifold is not known.
    """
    if isinstance(manifold, ConnectionManifold):
        return -manifold.connection(x, v) @ frame
    if manifold.has_chart:
        return -torch.einsum("...ijk,...j,...ka->...ia", manifold.christoffel(x), v, frame)
    vectors = frame.movedim(-1, 0)
    x, v = (tensor.contiguous() for tensor in torch.broadcast_tensors(x, v))
    if type(manifold).lower is Manifold.lower:  # covectors are vectors: the metric is that of Euclidean space
        rates = directional_derivative(lambda y: manifold.proju(y, vectors), x, v)
    elif manifold.has_transport:
        start = torch.zeros_like(x)

        def moved(s: Tensor) -> Tensor:
            return manifold.parallel_transport(x, manifold.expmap(x, s * v), vectors)

        rates = directional_derivative(moved, start, torch.ones_like(start))
    else:
        raise UnsupportedError(f"{manifold!r} has no horizontal lift: neither chart nor parallel transport is known")
    return rates.movedim(0, -1)


def parallel_frames(manifold: Manifold, curve: Callable[[Tensor], Tensor], times: Tensor, frame: Tensor) -> Tensor:
    """Frames (T, ..., *point_shape, k) carried in parallel along a smooth curve, by solving the equation of the lift.

    Args:
        manifold: where.
        curve: time (a scalar tensor) -> points (..., *point_shape), differentiable by ``torch.func``.
        times: increasing or decreasing (T,); the frame is given at the first.
        frame: tangent vectors (..., *point_shape, k) at ``curve(times[0])``.
    """

    def rate(time: Tensor, frame: Tensor) -> Tensor:
        velocity = directional_derivative(curve, time, torch.ones_like(time))
        return horizontal_lift(manifold, curve(time), velocity, frame)

    tolerance = TOLERANCE[frame.dtype]
    options = {"step_t": times[1:].to(torch.float64), "norm": lambda error: error.abs().amax()}
    frames: Tensor = odeint(rate, frame, times, rtol=tolerance, atol=tolerance, method="dopri8", options=options)
    return frames


def transport_along(manifold: Manifold, points: Tensor, frame: Tensor) -> Tensor:
    """Frames (T, ..., *point_shape, k) carried along the geodesics from each point of a path to the next.

    Args:
        manifold: one with ``has_transport``.
        points: the path (T, ..., *point_shape).
        frame: tangent vectors (..., *point_shape, k) at the first point.
    """
    vectors = [frame.movedim(-1, 0)]
    for x, y in pairwise(points.unbind(0)):
        vectors.append(manifold.parallel_transport(x, y, vectors[-1]))
    return torch.stack(vectors).movedim(1, -1)


def holonomy(manifold: Manifold, curve: Callable[[Tensor], Tensor], period: float, frame: Tensor) -> Tensor:
    r"""Matrix $h$ (..., k, k) with $E(T)=E(0)\,h$ after once round a closed curve.

    Args:
        manifold: where.
        curve: time (a scalar tensor) -> points (..., *point_shape), closed.
        period: T, the duration of one round.
        frame: orthonormal frame (..., *point_shape, k = dim) at ``curve(0)``.
    """
    times = torch.tensor([0.0, period], dtype=frame.dtype, device=frame.device)
    end = parallel_frames(manifold, curve, times, frame)[-1].movedim(-1, 0)
    start = frame.movedim(-1, 0)
    gram = manifold.inner(curve(times[0]), start[:, None], end[None]).movedim((0, 1), (-2, -1))
    return manifold.frame_signs(gram)[:, None] * gram


def orthonormalize(manifold: Manifold, x: Tensor, frame: Tensor) -> Tensor:
    r"""Gram-Schmidt: an orthonormal frame, $\langle E_a,E_b\rangle=\eta_{ab}$, from one that nearly is.

    NaN where $\langle E_a,E_a\rangle$ has not the sign that its place demands (time-like vectors come first).

    Args:
        manifold: where.
        x: points (..., *point_shape).
        frame: tangent vectors (..., *point_shape, dim).
    """
    signs = manifold.frame_signs(x)
    done: list[Tensor] = []
    for a, vector in enumerate(frame.unbind(-1)):
        for b, other in enumerate(done):
            vector = vector - signs[b] * manifold.inner(x, other, vector, keepdim=True) * other
        done.append(vector / (signs[a] * manifold.inner(x, vector, keepdim=True)).sqrt())
    return torch.stack(done, dim=-1)


def horizontal_step(
    manifold: Manifold,
    x: Tensor,
    frame: Tensor,
    dt: float | Tensor,
    *,
    noise: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    r"""One step of the geodesic walk on the frame bundle: x along $\sqrt{dt}\sum_aE_a\xi_a$, and the frame with it.

    As $dt\to0$ horizontal Brownian motion: generator $\tfrac12\Delta$ on the manifold, and in the ambient space
    $\mathbb E\,e_a(t)=e^{\mp t/2}e_a(0)$ on the unit sphere and hyperboloid.

    Args:
        manifold: a Riemannian one with parallel transport, a chart or an embedded one.
        x: points (..., *point_shape).
        frame: orthonormal frames (..., *point_shape, dim).
        dt: step, a number or (...).
        noise: standard normal components (..., dim) in ``frame``; drawn if None.
        generator: source of randomness.

    Raises:
        ValueError: the metric is indefinite, or there is no parallel transport.
    """
    if not manifold.is_riemannian:
        raise UnsupportedError(f"{manifold!r} has no Brownian motion: its signature {manifold.signature} is indefinite")
    batch = frame.shape[: frame.dim() - 1 - manifold.ndim]
    if noise is None:
        noise = standard_normal((*batch, manifold.dim), dtype=x.dtype, device=x.device, generator=generator)
    scaled = torch.as_tensor(dt, dtype=x.dtype, device=x.device).sqrt()[..., None] * noise
    u = (frame * scaled.reshape(*scaled.shape[:-1], *[1] * manifold.ndim, manifold.dim)).sum(-1)
    if isinstance(manifold, ConnectionManifold):
        return manifold.expmap_frame(x, u, frame)
    y = manifold.expmap(x, u)
    return y, manifold.parallel_transport(x, y, frame.movedim(-1, 0)).movedim(0, -1)
