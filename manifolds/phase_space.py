r"""PhaseSpace: the cotangent bundle T*Q as a space of flat state vectors z = (q, p)."""

from __future__ import annotations

import math
from typing import NoReturn

import torch
from torch import Tensor

from ._forward_mode import directional_derivative
from .base import Manifold
from .frames import horizontal_lift

__all__ = ["PhaseSpace"]


class PhaseSpace(Manifold):
    r"""Cotangent bundle of a manifold Q: states z (..., 2n), positions q first, then momenta p.

    n is the number of entries of a point of Q; matrix points are flattened row by row. `pack` and `unpack` are the only
    place that knows this layout. Momenta are covectors, paired with velocities by the plain sum: the coordinates $p_i$
    of a chart, and $p=\eta v$ in ambient space, so that on a submanifold of Euclidean space momenta are tangent.

    The metric is that of Sasaki, $g_{ij}\,dq^idq^j+g^{ij}Dp_iDp_j$ with $Dp_i=dp_i-\Gamma^k_{ij}p_k\,dq^j$. It does not
    depend on coordinates, has determinant one in canonical coordinates (its volume is Liouville's, so
    ``log_volume_density`` is 0), and signature twice that of Q. Its geodesics are not offered: ``retr`` moves q by the
    retraction of Q and takes p along.

    Args:
        manifold: Q.
        paper_metric: use $g\oplus g^{-1}$ in the coordinates of a chart, as in Neural Hamiltonian Diffusions (2025,
            definition 2.3). That is no metric on T*Q: another chart of the same Q gives other lengths.

    Raises:
        TypeError: Q is no manifold.
        ValueError: ``paper_metric`` without a chart.
    """

    name = "PhaseSpace"
    has_exp = False

    def __init__(self, manifold: Manifold, *, paper_metric: bool = False) -> None:
        if not isinstance(manifold, Manifold):
            raise TypeError(f"manifold={manifold!r} must be a manifolds.Manifold, got {type(manifold).__name__}")
        if paper_metric and not manifold.has_chart:
            raise ValueError(f"paper_metric=True needs coordinates, but {manifold!r} has none; leave it out")
        positive, negative = manifold.signature
        super().__init__((2 * math.prod(manifold.point_shape),), (2 * positive, 2 * negative))
        self.manifold = manifold
        self.paper_metric = paper_metric
        self.has_chart = manifold.has_chart

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        inner = f"{self.manifold.name}({self.manifold.extra_repr()})"
        return inner + (", paper_metric=True" if self.paper_metric else "")

    # --- states

    def pack(self, q: Tensor, p: Tensor) -> Tensor:
        """States (..., 2n) of positions and momenta, or their changes; batch shapes are broadcast.

        Args:
            q: positions (..., *Q.point_shape).
            p: momenta (..., *Q.point_shape).

        Raises:
            ValueError: a shape does not fit.
            TypeError: q and p differ in dtype.
        """
        for name, part in (("q", q), ("p", p)):
            self.manifold._assert_check_shape(part.shape, name)
        if q.dtype != p.dtype:
            raise TypeError(f"q is {q.dtype} and p is {p.dtype}: convert one of them with .to(...)")
        if q.shape != p.shape:
            try:
                q, p = torch.broadcast_tensors(q, p)
            except RuntimeError as error:
                shapes = f"q has shape {tuple(q.shape)} and p {tuple(p.shape)}"
                raise ValueError(f"{shapes}: these do not broadcast") from error
        return torch.cat([q, p] if self.manifold.ndim == 1 else [q.flatten(-2), p.flatten(-2)], dim=-1)

    def unpack(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Positions and momenta (..., *Q.point_shape), or their changes.

        Args:
            z: states, or tangent vectors (..., 2n).

        Raises:
            ValueError: the last axis is not 2n long.
        """
        self._assert_check_shape(z.shape, "z")
        shape = self.manifold.point_shape
        q, p = z.chunk(2, dim=-1)
        return (q, p) if len(shape) == 1 else (q.unflatten(-1, shape), p.unflatten(-1, shape))

    def kinetic_energy(self, z: Tensor) -> Tensor:
        r"""$\tfrac12g^{ij}(q)p_ip_j$ (...), for unit mass.

        Args:
            z: states (..., 2n).
        """
        q, p = self.unpack(z)
        return self.manifold._sum(p * self.manifold.raise_(q, p)) / 2

    def gibbs_momentum(self, q: Tensor, kT: float | Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        r"""Momenta (..., *Q.point_shape) in equilibrium at unit mass: normal, with covariance $kT\,g(q)$.

        The mean of $g^{ij}p_ip_j$ is $kT$ times the intrinsic dimension. For a mass m pass ``m * kT``.

        Args:
            q: positions (..., *Q.point_shape).
            kT: temperature times Boltzmann's constant, a number or (...).
            generator: source of randomness.

        Raises:
            ValueError: the temperature is negative, a shape does not fit, or the metric of Q is indefinite, when
                $e^{-H/kT}$ has no finite integral.
        """
        self.manifold._assert_check_shape(q.shape, "q")
        temperature = torch.as_tensor(kT, dtype=q.dtype, device=q.device)
        if not (temperature >= 0).all():
            raise ValueError(f"kT={kT} must not be negative")
        return self.manifold.lower(q, self.manifold.random_tangent(q, temperature.sqrt(), generator))

    # --- mass shells

    def project_shell(self, z: Tensor, mass: float) -> Tensor:
        r"""Scale momenta onto the future shell $g^{ij}p_ip_j=-m^2$ of a Lorentzian Q; NaN where p is not time-like.

        Args:
            z: states (..., 2n).
            mass: m, positive.

        Raises:
            ValueError: Q is not Lorentzian, or the mass is not positive.
        """
        q, p = self.unpack(z)
        if not hasattr(self.manifold, "project_shell"):
            self._refuse("mass shell", f"the metric of its positions has signature {self.manifold.signature}")
        velocity = self.manifold.project_shell(self.manifold.raise_(q, p), mass, x=q)
        return self.pack(q, self.manifold.lower(q, velocity))

    def assert_on_shell(self, z: Tensor, mass: float, *, atol: float = 1e-5) -> None:
        r"""Raise unless $|g^{ij}p_ip_j+m^2|\le$ atol $(1+m^2)$ in all rows.

        Args:
            z: states (..., 2n).
            mass: m.
            atol: tolerance.

        Raises:
            ValueError: names the first row off the shell, and its momentum.
        """
        square = 2 * self.kinetic_energy(z)
        wrong = ~((square + mass**2).abs() <= atol * (1 + mass**2))
        if wrong.any():
            index = tuple(wrong.nonzero()[0].tolist())
            kind = "space-like" if square[index] > 0 else "off the mass shell"
            raise ValueError(
                f"the momentum {self.unpack(z)[1][index].tolist()} in row {index} of z is {kind}: g^ij p_i p_j ="
                f" {square[index].item():.6g} instead of {-(mass**2):.6g}; apply project_shell to time-like momenta"
            )

    # --- checks

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        q, p = self.unpack(x)
        ok, reason = self.manifold._check_point_on_manifold(q, atol=atol, rtol=rtol)
        if not ok:
            return False, f"its position q is not on {self.manifold!r}: {reason}"
        return self._compare(p, self._cotangent(q, p), "its momentum p", atol, rtol)

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return self._compare(u, self.proju(x, u), "u", atol, rtol)

    def _compare(self, given: Tensor, wanted: Tensor, name: str, atol: float, rtol: float) -> tuple[bool, str | None]:
        given, wanted = torch.broadcast_tensors(given, wanted)
        wrong = ~torch.isclose(given, wanted, atol=atol, rtol=rtol)
        if not wrong.any():
            return True, None
        index = tuple(wrong.nonzero()[0].tolist())
        return False, f"{name} has {given[index].item():.6g} at {index}, its projection {wanted[index].item():.6g}"

    # --- geoopt's names

    def _cotangent(self, q: Tensor, p: Tensor) -> Tensor:
        """Cotangent part of p at q."""
        return self.manifold.lower(q, self.manifold.proju(q, self.manifold.raise_(q, p)))

    def _horizontal(self, q: Tensor, p: Tensor, dq: Tensor) -> Tensor:
        r"""Change of p when it is carried in parallel with dq; $\Gamma^k_{ij}p_kdq^j$ in a chart."""
        if self.paper_metric:
            return torch.zeros_like(p)
        if self.manifold.has_chart:
            return torch.einsum("...kij,...k,...j->...i", self.manifold.christoffel(q), p, dq)
        q, p, dq = torch.broadcast_tensors(q, p, dq)
        velocity = self.manifold.raise_(q, p)
        rate = horizontal_lift(self.manifold, q, dq, velocity[..., None])[..., 0]

        def along(s: Tensor) -> Tensor:
            return self.manifold.lower(q + s * dq, velocity + s * rate)

        return directional_derivative(along, torch.zeros_like(q), torch.ones_like(q))

    def projx(self, x: Tensor) -> Tensor:
        """State whose position is on Q and whose momentum is cotangent there."""
        q, p = self.unpack(x)
        q = self.manifold.projx(q)
        return self.pack(q, self._cotangent(q, p))

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        (q, p), (dq, dp) = self.unpack(x), self.unpack(u)
        dq = self.manifold.proju(q, dq)
        carried = self._horizontal(q, p, dq)
        return self.pack(dq, carried + self._cotangent(q, dp - carried))

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        (q, p), (dq, dp) = self.unpack(x), self.unpack(u)
        (other_dq, other_dp) = (dq, dp) if v is None else self.unpack(v)
        left, right = (b - self._horizontal(q, p, a) for a, b in ((dq, dp), (other_dq, other_dp)))
        vertical = self.manifold._sum(left * self.manifold.raise_(q, right))
        total = self.manifold.inner(q, dq, other_dq) + vertical
        return total[..., None] if keepdim else total

    def expmap(self, x: Tensor, u: Tensor) -> NoReturn:
        """Refused: geodesics of the Sasaki metric are no motions of a system; see ``retr``."""
        self._refuse("exponential map", "geodesics of its metric are not offered; use retr, or integrate a Hamiltonian")

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        """Retraction of Q for q; p, changed by the vertical part of u, is taken along."""
        (q, p), (dq, dp) = self.unpack(x), self.unpack(u)
        covector = p + dp - self._horizontal(q, p, dq)
        y, velocity = self.manifold.retr_transp(q, dq, self.manifold.raise_(q, covector))
        return self.pack(y, self.manifold.lower(y, velocity))

    # --- metric

    def metric(self, x: Tensor) -> Tensor:
        r"""Metric in the coordinates (q, p) of a chart, else $\eta$, in ``frame``.

        $\begin{pmatrix}g+A^{\mathsf T}g^{-1}A&-A^{\mathsf T}g^{-1}\\-g^{-1}A&g^{-1}\end{pmatrix}$,
        $A_{ij}=\Gamma^k_{ij}p_k$; with ``paper_metric`` A = 0.
        """
        if not self.has_chart:
            return super().metric(x)
        q, p = self.unpack(x)
        metric, cometric = self.manifold.metric(q), self.manifold.cometric(q)
        if self.paper_metric:
            slope = torch.zeros_like(metric)
        else:
            slope = torch.einsum("...kij,...k->...ij", self.manifold.christoffel(q), p)
        corner = -cometric @ slope
        upper = torch.cat([metric - slope.mT @ corner, corner.mT], dim=-1)
        return torch.cat([upper, torch.cat([corner, cometric], dim=-1)], dim=-2)

    def frame(self, x: Tensor) -> Tensor:
        """Orthonormal frame: horizontal lifts of the frame of Q, and its covectors as vertical changes of p."""
        q, p = self.unpack(x)
        vectors = self.manifold.frame(q).movedim(-1, 0)
        lifts = self.pack(vectors, self._horizontal(q, p, vectors))
        fibres = self.pack(torch.zeros_like(vectors), self.manifold.lower(q, vectors))
        times = self.manifold.signature[1]
        parts = [lifts[:times], fibres[:times], lifts[times:], fibres[times:]]
        return torch.cat(parts).movedim(0, -1)

    def lower(self, x: Tensor, v: Tensor) -> Tensor:
        (q, p), (dq, dp) = self.unpack(x), self.unpack(v)
        vertical = self.manifold.raise_(q, dp - self._horizontal(q, p, dq))
        pullback = torch.func.vjp(lambda a: self._horizontal(q, p, a), torch.zeros_like(dq + q))[1]
        return self.pack(self.manifold.lower(q, dq) - pullback(vertical)[0], vertical)

    def raise_(self, x: Tensor, p: Tensor) -> Tensor:
        frame = self.frame(x)
        components = self.frame_signs(x) * (p[..., None] * frame).sum(-2)
        return (frame * components[..., None, :]).sum(-1)

    def cometric(self, x: Tensor) -> Tensor:
        if not self.has_chart:
            return super().cometric(x)
        frame = self.frame(x)
        return frame * self.frame_signs(x) @ frame.mT

    def log_volume_density(self, x: Tensor) -> Tensor:
        return x.new_zeros(self._batch(x))
