"""Hamiltonian systems with and without noise, and integrators that keep their structure."""

from .base import Integrator, State
from .errors import ConvergenceError, IntegrationError, NonFiniteError, StepLimitError
from .gradient import gradient
from .hamiltonians import Mechanical, Separable, Split
from .integrate import Trajectory, integrate
from .langevin import ABOBA, BAOAB, OABAO, OBABO, LangevinSplitting
from .noises import HamiltonianNoise, LangevinBath, LiePoissonBath
from .system import HamiltonianSystem, Noise
from .verlet import SymplecticEuler, Verlet

__all__ = [
    "ABOBA",
    "BAOAB",
    "OABAO",
    "OBABO",
    "ConvergenceError",
    "HamiltonianNoise",
    "HamiltonianSystem",
    "IntegrationError",
    "Integrator",
    "LangevinBath",
    "LangevinSplitting",
    "LiePoissonBath",
    "Mechanical",
    "Noise",
    "NonFiniteError",
    "Separable",
    "Split",
    "State",
    "StepLimitError",
    "SymplecticEuler",
    "Trajectory",
    "Verlet",
    "gradient",
    "integrate",
]
