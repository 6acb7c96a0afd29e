"""Our manifolds and geoopt's of the same points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manifolds import SPD, Hyperboloid, Manifold, PoincareBall, Sphere

__all__ = ["PEERS", "Peer"]


@dataclass(frozen=True)
class Peer:
    """A manifold of ours and the name of geoopt's class for it.

    Attributes:
        label: how tables call it.
        ours: our manifold.
        theirs: makes geoopt's.
        transport: what geoopt's ``transp`` is there.
    """

    label: str
    ours: Manifold
    theirs: Callable[[], Any]
    transport: str


def _geoopt(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import geoopt  # after ours, which silence its import warning

        return getattr(geoopt, name)()

    return make


PEERS = (
    Peer("sphere S²", Sphere(2), _geoopt("Sphere"), "projection"),
    Peer("hyperboloid H²", Hyperboloid(2), _geoopt("Lorentz"), "parallel"),
    Peer("Poincaré disc", PoincareBall(2), _geoopt("PoincareBall"), "parallel"),
    Peer("positive matrices 3 × 3", SPD(3), _geoopt("SymmetricPositiveDefinite"), "parallel"),
)
