r"""Manifolds known by their connection: exponential map, logarithm and transport by solving the geodesic equation."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ._geodesics import ROUGHLY, geodesic_rate, jacobi_rate, newton_step, shoot
from ._runge_kutta import solve
from .base import Manifold

__all__ = ["ConnectionManifold"]


class ConnectionManifold(Manifold):
    r"""Manifold with vector points whose geodesics solve $\dot x=v$, $\dot v=-A(x,v)v$; abstract.

    Subclasses give `connection`. Geodesics are accurate to about 1e-10 in float64 and 1e-5 in float32, and NaN where
    they leave the manifold's domain. Where ``has_log``, the logarithm is found by Newton's method from the chord: of
    several geodesics it finds one, the shortest if the points are close together, and NaN if it finds none. It has
    correct first and second derivatives.

    Args:
        n: length of a point.
        signature: numbers of positive and negative directions.
        has_log: whether to offer the logarithm, and with it distance and transport between points.
    """

    def __init__(self, n: int, signature: tuple[int, int], has_log: bool) -> None:
        super().__init__((n,), signature)
        self.has_log = self.has_transport = has_log

    @abstractmethod
    def connection(self, x: Tensor, v: Tensor) -> Tensor:
        r"""Matrix $A$ (..., n, n): vectors w parallel along a curve at x with velocity v obey $\dot w=-A\,w$.

        Args:
            x: points (..., n).
            v: tangent vectors (..., n).
        """

    def _inside(self, x: Tensor) -> Tensor:
        """Whether points (..., n) lie in the domain of the equation, (...) bool."""
        return x.isfinite().all(-1)

    def _directions(self, x: Tensor) -> Tensor:
        """A basis (..., dim, n) of the tangent spaces."""
        return self.frame(x).mT

    def _flow(self, x: Tensor, u: Tensor, carried: Tensor | None = None) -> Tensor:
        """Point, velocity and parallel vectors (..., 2 + k, n) at the end of a geodesic that carries (..., k, n)."""
        state = torch.stack(torch.broadcast_tensors(x, u), dim=-2)
        if carried is not None:
            batch = torch.broadcast_shapes(state.shape[:-2], carried.shape[:-2])
            state = torch.cat([part.expand(*batch, *part.shape[-2:]) for part in (state, carried)], dim=-2)
        return solve(geodesic_rate(self.connection), self._inside, state)

    def _slopes(self, x: Tensor, u: Tensor, directions: Tensor, looser: float = 1.0) -> tuple[Tensor, Tensor]:
        r"""$\exp_x u$ and its derivatives along directions (..., k, n) of u."""
        batch = torch.broadcast_shapes(x.shape[:-1], u.shape[:-1], directions.shape[:-2])
        rows = [x[..., None, :], u[..., None, :], torch.zeros_like(directions), directions]
        state = torch.cat([part.expand(*batch, *part.shape[-2:]) for part in rows], dim=-2)
        end = solve(jacobi_rate(self.connection), self._inside, state, looser)
        return end[..., 0, :], end[..., 2:, :].chunk(2, dim=-2)[0]

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return self.projx(self._flow(x, u)[..., 0, :])

    def expmap_frame(self, x: Tensor, u: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:
        """Exponential map of u, and a frame transported in parallel along its geodesic; needs no logarithm.

        Args:
            x: points (..., n).
            u: tangent vectors (..., n).
            frame: tangent vectors (..., n, k).
        """
        end = self._flow(x, u, frame.mT)
        y = self.projx(end[..., 0, :])
        return y, self.proju(y[..., None, :], end[..., 2:, :]).mT

    def expmap_transp(self, x: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Exponential map of u, and v transported in parallel along its geodesic; needs no logarithm."""
        y, frame = self.expmap_frame(x, u, v[..., None])
        return y, frame[..., 0]

    def geodesic_flow(self, x: Tensor, v: Tensor, t: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        time = torch.as_tensor(t, dtype=x.dtype, device=x.device)[..., None]
        return self.expmap_transp(x, time * v, v)

    def transp_follow_expmap(self, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """Vector v transported in parallel along the geodesic of u."""
        return self.expmap_transp(x, u, v)[1]

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        """Second-order retraction: the geodesic's Taylor polynomial, projected."""
        bend = (self.connection(x, u) @ u[..., None])[..., 0]
        return self.projx(x + u - bend / 2)

    def retr_transp(self, x: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Retraction of u, and v carried along to first order (not isometric)."""
        y = self.retr(x, u)
        return y, self.proju(y, v - (self.connection(x, u) @ v[..., None])[..., 0])

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.has_log:
            self._refuse("logmap", "has_log is False; ChartManifold and Embedded offer it by shooting, has_log=True")
        x, y = torch.broadcast_tensors(x, y)
        foot, target = x.detach(), y.detach()
        with torch.no_grad():
            basis = self._directions(foot)
            chord = self.proju(foot, target - foot)
            bend = (self.connection(foot, chord) @ chord[..., None])[..., 0]
            small = bend.norm(dim=-1, keepdim=True) < chord.norm(dim=-1, keepdim=True)
            guess = torch.where(small, self.proju(foot, chord + bend / 2), chord)
            log, slopes = shoot(lambda u: self._slopes(foot, u, basis, ROUGHLY), foot, target, guess, basis)
        directions = self._directions(x)
        for _ in range(2):  # each step adds six digits and makes one more order of derivatives right
            log = self.proju(x, log)
            log = log + newton_step(slopes, y - self._flow(x, log)[..., 0, :], directions)
        return log

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        if not self.has_transport:
            self._refuse("parallel transport", "has_log=False; expmap_transp transports along a known geodesic")
        return self.expmap_transp(x, self.logmap(x, y), v)[1]

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        y, slopes = self._slopes(x, v, self.frame(x).mT)
        y = self.projx(y)
        targets = self.frame(y).mT
        gram = self.inner(y[..., None, None, :], targets[..., :, None, :], slopes[..., None, :, :])
        return torch.linalg.slogdet(gram).logabsdet
