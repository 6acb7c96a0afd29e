r"""Störmer-Verlet and symplectic Euler: kicks and drifts of a split Hamiltonian, with or without Hamiltonian noise."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ._scalars import Number, spread, wiener_scale
from .base import Integrator, State
from .equation import Equation
from .gradient import Time
from .hamiltonians import Split
from .noises import HamiltonianNoise
from .system import HamiltonianSystem

__all__ = ["SymplecticEuler", "Verlet"]


class SymplecticEuler(Integrator):
    r"""Kick, then drift: $p'=p-h\nabla V(q)$, $q'=q+h\nabla K(p')$.

    With `HamiltonianNoise` of split Hamiltonians the increments $\Delta W^k$ stand beside h.

    Source: Hairer, Lubich & Wanner, "Geometric Numerical Integration", 2006, section VI.3.
    """

    order = 1
    preserves = frozenset({"symplectic form", "volume", "manifold"})

    def refusal(self, system: Equation) -> str | None:
        reason = split_refusal(system)
        if reason is None and isinstance(system, HamiltonianSystem) and system.noise is not None:
            return "its one-sided kicks do not converge to the Stratonovich solution: use Verlet for HamiltonianNoise"
        return reason

    def step(self, system: Equation, state: State, h: Number, noise: Tensor | None) -> State:
        parts, weights = _parts(system), [h]
        q, p = parts[0].unpack(state.z)
        p = _kick(p, _forces(parts, q, state.t), weights)
        q, p = _drift(parts, q, p, weights)
        return State(parts[0].pack(q, p), state.t + h)


class Verlet(Integrator):
    r"""Half a kick, a drift, half a kick ("KDK"), or half a drift, a kick, half a drift ("DKD").

    Symplectic, reversible, of second order, one force per step. Needs a split Hamiltonian (`Separable`, `Mechanical`);
    on a curved manifold the drift is its geodesic flow, so positions stay on it. With `HamiltonianNoise` of split
    Hamiltonians $H_k$ the increments $\Delta W^k$ stand beside h (stochastic Verlet): symplectic for every path,
    strong order 1 for one noise or commuting ones, else 1/2.

    Args:
        letters: "KDK" or "DKD".

    Raises:
        ValueError: other letters.

    Source: Hairer, Lubich & Wanner, "Geometric Numerical Integration", 2006, section VI.3; Milstein, Repin &
    Tretyakov, SIAM J. Numer. Anal. 40, 2002.
    """

    order = 2
    strong_order = 0.5
    weak_order = 1
    reversible = True
    preserves = frozenset({"symplectic form", "volume", "manifold"})
    calculus = "stratonovich"

    def __init__(self, letters: str = "KDK") -> None:
        if letters not in ("KDK", "DKD"):
            raise ValueError(f"letters={letters!r} must be 'KDK' or 'DKD'")
        self.letters = letters

    def refusal(self, system: Equation) -> str | None:
        return split_refusal(system)

    def init(self, system: Equation, z0: Tensor, t0: Time = 0.0) -> State:
        state = super().init(system, z0, t0)
        if self.letters == "DKD":
            return state
        parts = _parts(system)
        return state._replace(memory=_forces(parts, parts[0].unpack(z0)[0], t0))

    def step(self, system: Equation, state: State, h: Number, noise: Tensor | None) -> State:
        parts, weights = _parts(system), _weights(h, noise)
        halves = [weight / 2 for weight in weights]
        q, p = parts[0].unpack(state.z)
        end = state.t + h
        if self.letters == "DKD":
            q, p = _drift(parts, q, p, halves)
            p = _kick(p, _forces(parts, q, state.t + h / 2), weights)
            q, p = _drift(parts, q, p, halves)
            return State(parts[0].pack(q, p), end)
        p = _kick(p, state.memory, halves)
        q, p = _drift(parts, q, p, weights)
        forces = _forces(parts, q, end)
        return State(parts[0].pack(q, _kick(p, forces, halves)), end, forces)


def split_refusal(system: Equation) -> str | None:
    """Why a system has no kicks and drifts, or None."""
    if not isinstance(system, HamiltonianSystem):
        return "it is for Hamiltonian systems"
    if system.split is None:
        return "its Hamiltonian is not split: give Separable(kinetic, potential) or Mechanical(manifold, potential)"
    if not system.is_canonical:
        return f"kicks and drifts know nothing of its structure {system.structure!r}"
    if system.noise is None:
        return None
    if not isinstance(system.noise, HamiltonianNoise):
        return f"it takes no noise but HamiltonianNoise, not {type(system.noise).__name__}"
    if not all(isinstance(h, Split) for h in system.noise.hamiltonians):
        return "its noise has a Hamiltonian that is not split: give Separable or Mechanical ones"
    return None


def _parts(system: Equation) -> list[Split]:
    """The split Hamiltonians: that of the system, then those of the noise."""
    noises = system.noise.hamiltonians if isinstance(system.noise, HamiltonianNoise) else []
    return [system.hamiltonian, *noises]  # type: ignore[list-item]


def _weights(h: Number, noise: Tensor | None) -> list[Number]:
    """The step, and the increments (B,) of the Brownian motions."""
    if noise is None:
        return [h]
    return [h, *(wiener_scale(h, noise) * noise).unbind(-1)]


def _forces(parts: Sequence[Split], q: Tensor, t: Time) -> tuple[Tensor, ...]:
    return tuple(part.kick(q, t) for part in parts)


def _kick(p: Tensor, forces: Sequence[Tensor], weights: Sequence[Number]) -> Tensor:
    for force, weight in zip(forces, weights, strict=True):
        p = p + spread(weight, force) * force
    return p


def _drift(parts: Sequence[Split], q: Tensor, p: Tensor, weights: Sequence[Number]) -> tuple[Tensor, Tensor]:
    for part, weight in zip(parts, weights, strict=True):
        q, p = part.drift(q, p, weight)
    return q, p
