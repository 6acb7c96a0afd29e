r"""Hamiltonians that know their kinetic and potential part, so that explicit splittings apply."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manifolds import Embedded, Euclidean, Manifold, Minkowski, PhaseSpace, Sphere, Torus
from manifolds.poisson import Canonical, Dirac, PoissonStructure

from ._scalars import Number, setting, spread
from .gradient import Energy, Time, evaluate, gradient, takes_time

__all__ = ["Mechanical", "Separable", "Split"]


class Split(nn.Module):
    r"""$H(q,p,t)=K(q,p)+V(q,t)$ where the flow of K is known in closed form; abstract.

    Integrators compose two flows: *drifts* (of K) and *kicks* (of V). Positions and momenta are (B, *point); a state
    is (B, n), positions first.

    Args:
        potential: V, row-wise: (B, *point) -> (B,), or (q, t) -> (B,).
        event_dim: number of axes of one position.
    """

    def __init__(self, potential: Energy, event_dim: int = 1) -> None:
        super().__init__()
        if not callable(potential):
            raise TypeError(f"potential={potential!r} must be a function of positions")
        self.potential = potential
        self._potential_takes_time = takes_time(potential)
        self._event_dim = event_dim

    def forward(self, z: Float[Tensor, "B n"], t: Time | None = None) -> Float[Tensor, " B"]:
        """The energy H."""
        q, p = self.unpack(z)
        return self.kinetic_energy(q, p) + evaluate(self.potential, q, self._time(t))

    def _time(self, t: Time | None) -> Time | None:
        """The time as the potential wants it."""
        if not self._potential_takes_time:
            return None
        return 0.0 if t is None else t

    def kick(self, q: Tensor, t: Time | None = None) -> Tensor:
        r"""Rate of change $-\partial V/\partial q$ of the momentum, cotangent at q."""
        return -gradient(self.potential, q, self._time(t), event_dim=self._event_dim)

    @abstractmethod
    def unpack(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Positions and momenta of states (B, n)."""

    @abstractmethod
    def pack(self, q: Tensor, p: Tensor) -> Tensor:
        """States (B, n) of positions and momenta."""

    @abstractmethod
    def kinetic_energy(self, q: Tensor, p: Tensor) -> Tensor:
        """K (B,)."""

    @abstractmethod
    def velocity(self, q: Tensor, p: Tensor) -> Tensor:
        r"""$\partial K/\partial p$, tangent at q."""

    @abstractmethod
    def drift(self, q: Tensor, p: Tensor, h: Number) -> tuple[Tensor, Tensor]:
        """Exact flow of K for a time h of either sign."""

    @abstractmethod
    def masses(self) -> Number | None:
        r"""M in $K=\tfrac1{2m}g^{ij}p_ip_j$, one for all or one for each coordinate; None if K is not of this form."""

    @abstractmethod
    def momentum_size(self, dim: int) -> int:
        """How many normal numbers `momentum_noise` takes, for states of length dim."""

    @abstractmethod
    def momentum_noise(self, q: Tensor, xi: Tensor) -> Tensor:
        r"""Covectors of covariance $g(q)$.

        Args:
            q: positions (B, *point).
            xi: standard normal numbers (B, `momentum_size`).
        """

    def bind(self, z: Tensor) -> None:
        """Learn what only a state can tell, once before a run."""


class Separable(Split):
    r"""$H(q,p,t)=K(p)+V(q,t)$ on $\mathbb R^{2d}$, with the canonical structure.

    Friction and temperature of a bath need masses: they are found by probing a kinetic energy
    $\sum_ip_i^2/2m_i$; for any other, such as $\sqrt{m^2+|p|^2}$, friction acts as $-\gamma\,\partial K/\partial p$.
    Masses that are learned belong into `Mechanical`.

    Args:
        kinetic: K, row-wise: (B, d) -> (B,).
        potential: V, row-wise: (B, d) -> (B,), or (q, t) -> (B,).
    """

    def __init__(self, kinetic: Energy, potential: Energy) -> None:
        super().__init__(potential)
        if not callable(kinetic):
            raise TypeError(f"kinetic={kinetic!r} must be a function of momenta")
        self.kinetic = kinetic
        self._masses: Tensor | None = None

    def bind(self, z: Tensor) -> None:
        """Find the masses of a quadratic kinetic energy, by probing it."""
        size = z.shape[-1] // 2
        one, probe = z.new_ones(1, size), torch.linspace(-2.0, 3.0, size, dtype=z.dtype, device=z.device)[None]
        with torch.no_grad():
            inverse, slope = self.velocity(one, one), self.velocity(probe, probe)
        linear = torch.allclose(slope, inverse * probe, rtol=1e-4, atol=1e-6) and bool((inverse > 0).all())
        self._masses = 1 / inverse[0] if linear else None

    def unpack(self, z: Tensor) -> tuple[Tensor, Tensor]:
        q, p = z.chunk(2, dim=-1)
        return q, p

    def pack(self, q: Tensor, p: Tensor) -> Tensor:
        return torch.cat([q, p], dim=-1)

    def kinetic_energy(self, q: Tensor, p: Tensor) -> Tensor:
        return evaluate(self.kinetic, p, None)

    def velocity(self, q: Tensor, p: Tensor) -> Tensor:
        return gradient(self.kinetic, p)

    def drift(self, q: Tensor, p: Tensor, h: Number) -> tuple[Tensor, Tensor]:
        return q + spread(h, q) * gradient(self.kinetic, p), p

    def momentum_size(self, dim: int) -> int:
        return dim // 2

    def momentum_noise(self, q: Tensor, xi: Tensor) -> Tensor:
        return xi

    def masses(self) -> Number | None:
        return self._masses


class Mechanical(Split):
    r"""$H(q,p,t)=\tfrac1{2m}g^{ij}(q)p_ip_j+V(q,t)$ on the phase space $T^*Q$ of a manifold.

    Carries its own ``space``, `manifolds.PhaseSpace`, whose docstring says how momenta are stored: as covectors, which
    on a submanifold of Euclidean space are tangent. Drifts are geodesics of Q; on an `Embedded` manifold, whose
    geodesics would need an ODE solver, they are constrained (RATTLE) steps of second order. Kicks are projected to the
    cotangent space.

    Args:
        manifold: Q.
        potential: V, row-wise: (B, *Q.point_shape) -> (B,), or (q, t) -> (B,).
        mass: m, a number, or on flat manifolds one for each coordinate (d,).

    Raises:
        TypeError: Q is no manifold, or the mass no number.
        ValueError: the mass is not positive, or is not a single number where Q is curved.
    """

    mass: Number

    def __init__(self, manifold: Manifold, potential: Energy, mass: Number = 1.0) -> None:
        space = PhaseSpace(manifold)
        super().__init__(potential, event_dim=manifold.ndim)
        self.manifold = manifold
        self.space = space
        self.is_flat = is_flat(manifold)
        self._wraps = isinstance(manifold, Torus)
        setting(self, "mass", mass)
        masses = torch.as_tensor(mass)
        if not (masses > 0).all():
            raise ValueError(f"mass={mass} must be positive")
        if masses.dim() and not self.is_flat:
            raise ValueError(f"mass has shape {tuple(masses.shape)}, but {manifold!r} is curved: give one number")
        self._vectors_are_covectors = type(manifold).lower is Manifold.lower and not manifold.has_chart

    @property
    def structure(self) -> PoissonStructure | None:
        """Canonical in a chart, the Dirac bracket on a constrained manifold, None where it isn't known."""
        size = math.prod(self.manifold.point_shape)
        if self.manifold.has_chart:
            return Canonical(2 * size)
        constraints = holonomic_constraints(self.manifold)
        return None if constraints is None else Dirac.holonomic(constraints, size)

    def unpack(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self.space.unpack(z)

    def pack(self, q: Tensor, p: Tensor) -> Tensor:
        return self.space.pack(q, p)

    def kinetic_energy(self, q: Tensor, p: Tensor) -> Tensor:
        return self.manifold._sum(p * self.velocity(q, p)) / 2

    def velocity(self, q: Tensor, p: Tensor) -> Tensor:
        indefinite = not self.manifold.is_riemannian
        return (p if self.is_flat and not indefinite else self.manifold.raise_(q, p)) / self.mass

    def kick(self, q: Tensor, t: Time | None = None) -> Tensor:
        force = super().kick(q, t)
        return force if self.manifold.has_chart else self.cotangent(q, force)

    def cotangent(self, q: Tensor, covector: Tensor) -> Tensor:
        """Cotangent part of an ambient covector."""
        return self.manifold.lower(q, self.manifold.raise_(q, covector))

    def drift(self, q: Tensor, p: Tensor, h: Number) -> tuple[Tensor, Tensor]:
        if self.is_flat:
            q = q + spread(h, q) * self.velocity(q, p)
            return (self.manifold.projx(q) if self._wraps else q), p
        y, velocity = self.manifold.geodesic_flow(q, self.velocity(q, p), h)
        return y, self.manifold.lower(y, velocity) * self.mass

    def momentum_size(self, dim: int) -> int:
        return dim // 2 if self._vectors_are_covectors or self.is_flat else self.manifold.dim

    def momentum_noise(self, q: Tensor, xi: Tensor) -> Tensor:
        if self.is_flat:
            return xi
        if self._vectors_are_covectors:
            return self.manifold.proju(q, xi.unflatten(-1, self.manifold.point_shape))
        return self.manifold.lower(q, self.manifold.combine(q, xi))

    def masses(self) -> Number | None:
        return self.mass


def is_flat(manifold: Manifold) -> bool:
    """Whether points are coordinates in which the metric is constant and geodesics are straight."""
    return isinstance(manifold, Euclidean | Minkowski | Torus)


def holonomic_constraints(manifold: Manifold) -> list[Energy] | None:
    """Functions g of flat ambient positions, (..., N) -> (...), with Q = {g = 0}; None where none are known."""
    if isinstance(manifold, Sphere):
        return [lambda q: q.square().sum(-1) - manifold.radius**2]
    if isinstance(manifold, Embedded):
        return [lambda q, k=k: manifold.constraint(q)[..., k] for k in range(manifold.num_constraints)]
    return None
