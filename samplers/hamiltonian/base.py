"""Integrator: what every method says of itself, and the one step that it takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from ._scalars import Number
from .equation import Equation
from .gradient import Time

__all__ = ["Integrator", "State"]


class State(NamedTuple):
    """Where a method stands.

    Attributes:
        z: states (B, n).
        t: time, a number or (B,).
        memory: what the method carries from step to step, such as forces; tensors whose first axis is B, or numbers.
    """

    z: Tensor
    t: Time = 0.0
    memory: tuple[Any, ...] = ()


class Integrator(ABC):
    """One method for `HamiltonianSystem` or `SDE`; abstract.

    Attributes:
        order: order of convergence without noise, None where noise is essential.
        strong_order: order in the mean for a given path, for noise in general; None where it takes no noise.
        weak_order: order of expectations; None where it takes no noise.
        explicit: whether no equation has to be solved.
        reversible: whether a step by -h with the same noise undoes a step by h, to rounding.
        preserves: what the method keeps: "symplectic form", "Poisson structure", "Casimirs", "quadratic invariants",
            "volume", "manifold", "mass shell".
        calculus: "ito" or "stratonovich", how it reads an `SDE`; None where it takes no noise.
    """

    order: ClassVar[int | None] = None
    strong_order: ClassVar[float | None] = None
    weak_order: ClassVar[float | None] = None
    explicit: ClassVar[bool] = True
    reversible: ClassVar[bool] = False
    preserves: ClassVar[frozenset[str]] = frozenset()
    calculus: ClassVar[str | None] = None

    def init(self, system: Equation, z0: Tensor, t0: Time = 0.0) -> State:
        """The state to start from.

        Args:
            system: what is integrated.
            z0: states (B, n).
            t0: time, a number or (B,).

        Raises:
            ValueError: the states do not fit the system.
        """
        system.bind(z0)
        return State(z0, t0)

    @abstractmethod
    def step(self, system: Equation, state: State, h: Number, noise: Tensor | None) -> State:
        """One step.

        Args:
            system: what is integrated.
            state: where to start.
            h: step, a number or one for each row (B,); negative steps go back.
            noise: standard normal numbers (B, *noise_shape), None where the shape is empty of numbers.
        """

    def noise_shape(self, system: Equation) -> tuple[int, ...]:
        """Shape of the standard normal numbers that a step takes per row; (0,) without noise."""
        return (system.noise_size,)

    def accepts(self, system: Equation, *, explain: bool = False) -> Any:
        """Whether the method makes sense for a system.

        Args:
            system: to be integrated.
            explain: return (ok, reason) instead of ok.
        """
        reason = self.refusal(system)
        return (reason is None, reason) if explain else reason is None

    @abstractmethod
    def refusal(self, system: Equation) -> str | None:
        """Why the method makes no sense for the system, or None."""

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{type(self).__name__}({settings})"
