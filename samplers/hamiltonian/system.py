r"""HamiltonianSystem: one description of $dz=J\nabla H\,dt+$ noise, for every integrator."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from manifolds import Manifold
from manifolds.poisson import Canonical, Dirac, Magnetic, PoissonStructure

from .equation import Equation, check_states
from .gradient import Energy, Time, evaluate, gradient, takes_time
from .hamiltonians import Mechanical, Separable, Split

__all__ = ["HamiltonianSystem", "Noise"]


class Noise(nn.Module, ABC):
    """What a noise adds to a system; abstract."""

    @abstractmethod
    def size(self, system: HamiltonianSystem) -> int:
        """Number of Brownian motions."""

    @abstractmethod
    def drift(self, system: HamiltonianSystem, z: Tensor, dH: Tensor, t: Time | None) -> Tensor:
        r"""The (Stratonovich) drift b (B, n) beside $J\nabla H$.

        Args:
            system: whose noise it is.
            z: states (B, n).
            dH: $\nabla H$ there (B, n).
            t: time.
        """

    @abstractmethod
    def diffuse(self, system: HamiltonianSystem, z: Tensor, w: Tensor, t: Time | None) -> Tensor:
        """The change G(z) w (B, n) for increments w (B, size)."""

    def states(self, space: Manifold | None) -> Manifold | None:
        """Where the states of a system with this noise live: on its space, unless the noise carries more along."""
        return space

    def seen(self, system: HamiltonianSystem, z: Tensor) -> Tensor:
        """The first columns of states, which the Hamiltonian sees: all, unless the noise carries more along."""
        return z

    def total_drift(self, system: HamiltonianSystem, z: Tensor, t: Time | None) -> Tensor:
        r"""The Stratonovich drift $J\nabla H+b$ (B, n); a noise that carries more along says how that moves."""
        dH = system.gradient(z, t)
        return system.sharp(z, dH) + self.drift(system, z, dH, t)

    def refusal(self, system: HamiltonianSystem) -> str | None:
        """Why this noise makes no sense for the system, or None."""
        return None


class HamiltonianSystem(Equation):
    r"""$dz=\big(J(z)\nabla H(z,t)+b(z)\big)dt+\sum_kG_k(z)\circ dW^k$ (Stratonovich), with b and G from the noise.

    States are (B, n), rows independent. `Separable` and `Mechanical` carry their own space and canonical structure; a
    general H needs its ``structure``.

    Args:
        hamiltonian: H, row-wise: (B, n) -> (B,), or (z, t) -> (B,). A module is registered.
        structure: the Poisson structure J.
        space: manifold on which the states live; states are checked once at the start of a run, and some integrators
            project onto it.
        noise: a `Noise`, or None for the deterministic flow.

    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a general Hamiltonian without structure, a structure that does not fit, or a noise that makes no
            sense for this system.
    """

    def __init__(
        self,
        hamiltonian: Energy,
        *,
        structure: PoissonStructure | None = None,
        space: Manifold | None = None,
        noise: Noise | None = None,
    ) -> None:
        super().__init__()
        _check_kinds(hamiltonian, structure, space, noise)
        if isinstance(hamiltonian, Mechanical):
            structure = hamiltonian.structure if structure is None else structure
            space = hamiltonian.space if space is None else space
        elif structure is None and not isinstance(hamiltonian, Separable):
            raise ValueError(
                "structure is None, but this Hamiltonian does not say which of its variables are momenta: give "
                "structure=manifolds.poisson.Canonical(n) for states z = (q, p) of length n, or another structure"
            )
        self.hamiltonian = hamiltonian
        self._takes_time = takes_time(hamiltonian)
        self.structure = structure
        self.noise = noise
        size = _known_size(structure, space)
        self.space = space if noise is None else noise.states(space)
        self._given_size = size if self.space is space else _known_size(None, self.space)
        self._state_size = self._given_size
        reason = None if noise is None else noise.refusal(self)
        if reason is not None:
            raise ValueError(f"noise={type(noise).__name__} does not fit this system: {reason}")

    # --- what is known about it

    @property
    def split(self) -> Split | None:
        """The Hamiltonian, if it is split into kinetic and potential part."""
        return self.hamiltonian if isinstance(self.hamiltonian, Split) else None

    @property
    def is_canonical(self) -> bool:
        """Whether states are (q, p) with canonical momenta, constrained ones included."""
        base = self.structure.base if isinstance(self.structure, Dirac) else self.structure
        return isinstance(base, Canonical) or (base is None and self.split is not None)

    @property
    def has_momenta(self) -> bool:
        """Whether states are (q, p) with canonical or (in a magnetic field) kinetic momenta."""
        return self.is_canonical or isinstance(self.structure, Magnetic)

    @property
    def state_size(self) -> int:
        """n, the length of a state.

        Raises:
            ValueError: not known before a state has been seen (`bind`).
        """
        if self._state_size is None:
            raise ValueError("the length of a state is not known yet: call integrator.init(system, z0) first")
        return self._state_size

    @property
    def noise_size(self) -> int:
        return 0 if self.noise is None else self.noise.size(self)

    def bind(self, z0: Tensor) -> None:
        check_states(z0, self._given_size)
        if self.split is not None and self._given_size is None and z0.shape[-1] % 2:
            raise ValueError(f"z0 has {z0.shape[-1]} columns; states (q, p) have as many momenta as positions")
        self._state_size = z0.shape[-1]
        if self.split is not None:
            self.split.bind(z0)

    # --- the equation

    def energy(self, z: Float[Tensor, "B n"], t: Time | None = None) -> Float[Tensor, " B"]:
        """H (B,)."""
        return evaluate(self.hamiltonian, self._seen(z), self._time(t))

    def gradient(self, z: Float[Tensor, "B n"], t: Time | None = None) -> Float[Tensor, "B n"]:
        r"""$\nabla H$ (B, n); zero along what a noise carries with the state."""
        slope = gradient(self.hamiltonian, self._seen(z), self._time(t))
        carried = z.shape[-1] - slope.shape[-1]
        return pad(slope, (0, carried)) if carried else slope

    def _seen(self, z: Tensor) -> Tensor:
        return z if self.noise is None else self.noise.seen(self, z)

    def sharp(self, z: Float[Tensor, "B n"], dH: Float[Tensor, "B n"]) -> Float[Tensor, "B n"]:
        """The vector J(z) dH.

        Raises:
            ValueError: the structure is not known.
        """
        if self.structure is not None:
            return self.structure.sharp(z, dH)
        if isinstance(self.hamiltonian, Separable):
            by_position, by_momentum = dH.chunk(2, dim=-1)
            return torch.cat([by_momentum, -by_position], dim=-1)
        raise ValueError(f"no Poisson structure is known for {self.space!r}: give structure=, or use a splitting")

    def drift(self, z: Float[Tensor, "B n"], t: Time | None = None) -> Float[Tensor, "B n"]:
        r"""The Stratonovich drift $J\nabla H+b$ (B, n)."""
        if self.noise is None:
            return self.sharp(z, self.gradient(z, t))
        return self.noise.total_drift(self, z, t)

    def diffuse(self, z: Float[Tensor, "B n"], w: Float[Tensor, "B m"], t: Time | None = None) -> Float[Tensor, "B n"]:
        return torch.zeros_like(z) if self.noise is None else self.noise.diffuse(self, z, w, t)

    def is_differentiable(self, z: Tensor, t: Time | None = None) -> bool:
        with torch.enable_grad():
            return self.energy(z.detach(), t).requires_grad

    @property
    def calculus(self) -> str:
        return "stratonovich"

    def _time(self, t: Time | None) -> Time | None:
        if not self._takes_time:
            return None
        return 0.0 if t is None else t


def _check_kinds(hamiltonian: object, structure: object, space: object, noise: object) -> None:
    if not callable(hamiltonian):
        raise TypeError(f"hamiltonian={hamiltonian!r} must be a function of states, or a module")
    for name, value, kind in (
        ("structure", structure, PoissonStructure),
        ("space", space, Manifold),
        ("noise", noise, Noise),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name}={value!r} must be a {kind.__name__}, got {type(value).__name__}")


def _known_size(structure: PoissonStructure | None, space: Manifold | None) -> int | None:
    """Length of a state, from whatever knows it.

    Raises:
        ValueError: structure and space disagree.
    """
    sizes = {}
    if structure is not None:
        sizes["structure"] = structure.dim
    if space is not None:
        if space.ndim != 1:
            raise ValueError(f"space={space!r} has points of shape {space.point_shape}; states are flat vectors")
        sizes["space"] = space.point_shape[0]
    if len(set(sizes.values())) > 1:
        raise ValueError(f"the structure is for {sizes['structure']} coordinates and the space for {sizes['space']}")
    return next(iter(sizes.values()), None)
