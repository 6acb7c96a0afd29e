"""All integrators that can be made without arguments, for advice in error messages."""

from __future__ import annotations

from collections.abc import Callable

from .base import Integrator
from .equation import Equation
from .langevin import ABOBA, BAOAB, OABAO, OBABO
from .verlet import SymplecticEuler, Verlet

__all__ = ["INTEGRATORS", "alternatives"]

INTEGRATORS: dict[str, Callable[[], Integrator]] = {
    "BAOAB": BAOAB,
    "ABOBA": ABOBA,
    "OBABO": OBABO,
    "OABAO": OABAO,
    "Verlet": Verlet,
    "SymplecticEuler": SymplecticEuler,
}


def alternatives(system: Equation) -> list[str]:
    """Names of the integrators that accept a system."""
    return [name for name, make in INTEGRATORS.items() if make().refusal(system) is None]
