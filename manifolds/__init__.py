"""Geometry: manifolds that are geoopt's, and right; metrics, frames, transport, Brownian motion, heat kernels."""

from __future__ import annotations

from .base import Manifold, PseudoRiemannian, UnsupportedError
from .chart import ChartManifold, Schwarzschild
from .embedded import Embedded
from .flat import Euclidean, Minkowski, Torus
from .hyperquadric import AntiDeSitter, DeSitter, Hyperboloid, PseudoHyperquadric, Sphere
from .phase_space import PhaseSpace
from .product import Product
from .rotations import SE3, SO3
from .wrapped import SPD, PoincareBall, Stiefel

__all__ = [
    "SE3",
    "SO3",
    "SPD",
    "AntiDeSitter",
    "ChartManifold",
    "DeSitter",
    "Embedded",
    "Euclidean",
    "Hyperboloid",
    "Manifold",
    "Minkowski",
    "PhaseSpace",
    "PoincareBall",
    "Product",
    "PseudoHyperquadric",
    "PseudoRiemannian",
    "Schwarzschild",
    "Sphere",
    "Stiefel",
    "Torus",
    "UnsupportedError",
]
