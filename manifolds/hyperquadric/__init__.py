"""Spaces of constant curvature: the sphere, hyperbolic space, de Sitter and anti-de Sitter space."""

from __future__ import annotations

from .base import PseudoHyperquadric
from .hyperboloid import Hyperboloid
from .space_times import AntiDeSitter, DeSitter
from .sphere import Sphere

__all__ = ["AntiDeSitter", "DeSitter", "Hyperboloid", "PseudoHyperquadric", "Sphere"]
