"""Manifolds that geoopt has too, completed and corrected: SPD, Stiefel, PoincareBall."""

from __future__ import annotations

from .poincare_ball import PoincareBall
from .spd import SPD
from .stiefel import Stiefel

__all__ = ["SPD", "PoincareBall", "Stiefel"]
