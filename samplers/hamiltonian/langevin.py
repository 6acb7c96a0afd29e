r"""Langevin splittings: drifts A, kicks B and exact friction and noise O, in any symmetric order."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from ._scalars import Number, exp, expm1, spread, sqrt
from .base import Integrator, State
from .equation import Equation
from .gradient import Time
from .hamiltonians import Split
from .noises import LangevinBath
from .system import HamiltonianSystem

__all__ = ["ABOBA", "BAOAB", "OABAO", "OBABO", "LangevinSplitting"]


class LangevinSplitting(Integrator):
    r"""Composition of A (drift along a geodesic), B (kick) and O (friction and noise, exactly) by a palindrome.

    A letter that occurs k times acts for h/k each time. On a curved Q these are the geodesic integrators (g-BAOAB);
    positions stay on Q. One force per step. O acts at fixed q on the momentum:
    $p\leftarrow cp+\sqrt{kT(1-c^2)}\,M^{1/2}\xi$, $c=e^{-\gamma h}$. The states returned hold position and momentum at
    the same time, after the last letter.

    For a harmonic force of frequency $\omega$ the stationary variances are known exactly, whatever $\gamma$:

    | letters | $\langle q^2\rangle\omega^2/kT$ | $\langle p^2\rangle/kT$ |
    |---|---|---|
    | BAOAB | $1$ | $1-h^2\omega^2/4$ |
    | ABOBA | $1$ | $1/(1-h^2\omega^2/4)$ |
    | OBABO | $1/(1-h^2\omega^2/4)$ | $1$ |
    | OABAO | $1-h^2\omega^2/4$ | $1$ |

    So take BAOAB for positions and OBABO for momenta.

    Args:
        letters: a palindrome of A, B and O, each at least once.

    Raises:
        ValueError: anything else.

    Source: Leimkuhler & Matthews, Appl. Math. Res. Express 2013; on manifolds, Proc. R. Soc. A 472, 2016.
    """

    weak_order = 2
    strong_order = 1
    order = 2
    reversible = True
    preserves = frozenset({"manifold"})
    calculus = "stratonovich"

    def __init__(self, letters: str) -> None:
        if not isinstance(letters, str) or set(letters) != set("ABO") or letters != letters[::-1]:
            raise ValueError(f"letters={letters!r} must be a palindrome of A, B and O, such as 'BAOAB'")
        self.letters = letters

    def refusal(self, system: Equation) -> str | None:
        if not isinstance(system, HamiltonianSystem) or system.split is None:
            return "it needs a split Hamiltonian: Separable(kinetic, potential) or Mechanical(manifold, potential)"
        if not system.is_canonical:
            return f"kicks and drifts know nothing of its structure {system.structure!r}"
        if not isinstance(system.noise, LangevinBath):
            return "it needs noise=LangevinBath(friction, temperature); without a bath use Verlet"
        return None

    def init(self, system: Equation, z0: Tensor, t0: Time = 0.0) -> State:
        state = super().init(system, z0, t0)
        split = cast(Split, system.hamiltonian)
        masses = split.masses()
        if masses is None:
            raise ValueError(
                "the kinetic energy is not sum p_i^2/2m_i, so that friction has no exact flow: use Heun or"
                " ImplicitMidpoint, which take any kinetic energy, or Mechanical on a ChartManifold for a mass matrix"
            )
        force = split.kick(split.unpack(z0)[0], t0) if self._ends_with_force else None
        return state._replace(memory=(masses**0.5, force))

    @property
    def _ends_with_force(self) -> bool:
        """Whether the last force of a step is the first of the next: B comes after the last A."""
        return self.letters.rindex("B") > self.letters.rindex("A")

    def noise_shape(self, system: Equation) -> tuple[int, ...]:
        """Numbers for each O; (2, m) where there are two."""
        count = self.letters.count("O")
        return (system.noise_size,) if count == 1 else (count, system.noise_size)

    def step(self, system: Equation, state: State, h: Number, noise: Tensor | None) -> State:
        split, bath = cast(Split, system.hamiltonian), cast(LangevinBath, system.noise)
        root_mass, force = state.memory
        q, p = split.unpack(state.z)
        t = state.t
        draws = self._draws(cast(Tensor, noise), h)
        for letter in self.letters:
            part = h / self.letters.count(letter)
            if letter == "A":
                q, p = split.drift(q, p, part)
                t, force = t + part, None
            elif letter == "B":
                force = split.kick(q, t) if force is None else force
                p = p + spread(part, p) * force
            else:
                damping = spread(part, p) * bath.friction
                strength = sqrt(-bath.temperature * expm1(-2 * damping))
                p = exp(-damping) * p + strength * (root_mass * split.momentum_noise(q, draws.pop()))
        return State(split.pack(q, p), t, (root_mass, force if self._ends_with_force else None))

    def _draws(self, noise: Tensor, h: Number) -> list[Tensor]:
        """The numbers of each O, last first; a step back takes them in the other order, to undo a step forth."""
        if self.letters.count("O") == 1:
            return [noise]
        backwards = bool((h < 0).all()) if isinstance(h, Tensor) else h < 0
        return list(noise.unbind(1) if backwards else noise.unbind(1)[::-1])


def BAOAB() -> LangevinSplitting:
    """`LangevinSplitting` with the best positions: exact for harmonic forces."""
    return LangevinSplitting("BAOAB")


def ABOBA() -> LangevinSplitting:
    """`LangevinSplitting` whose transition density is a closed form; exact positions for harmonic forces."""
    return LangevinSplitting("ABOBA")


def OBABO() -> LangevinSplitting:
    """`LangevinSplitting` with exact momenta for harmonic forces; Verlet between two half steps of the bath."""
    return LangevinSplitting("OBABO")


def OABAO() -> LangevinSplitting:
    """`LangevinSplitting` with exact momenta for harmonic forces, positions first."""
    return LangevinSplitting("OABAO")
