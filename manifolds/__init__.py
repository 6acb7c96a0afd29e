"""Geometry and Poisson structures. Nothing is here yet: the package reserves its place in the layout."""

from __future__ import annotations

__all__: list[str] = []
