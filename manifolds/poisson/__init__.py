"""Poisson structures: what turns the gradient of an energy into motion, and what that motion conserves.

`docs/choose-a-manifold.md` says which one to take; `manifolds.testing.assert_poisson_laws` tests your own.
"""

from .base import PoissonStructure
from .canonical import Canonical, CotangentGroup
from .coupling import CouplingNetwork
from .dirac import Dirac
from .laws import assert_poisson_laws
from .learned import AlmostPoisson, DarbouxPoisson
from .lie_poisson import LiePoisson
from .log_canonical import LogCanonical
from .magnetic import Magnetic
from .nambu import Nambu
from .product import ProductPoisson

__all__ = [
    "AlmostPoisson",
    "Canonical",
    "CotangentGroup",
    "CouplingNetwork",
    "DarbouxPoisson",
    "Dirac",
    "LiePoisson",
    "LogCanonical",
    "Magnetic",
    "Nambu",
    "PoissonStructure",
    "ProductPoisson",
    "assert_poisson_laws",
]
