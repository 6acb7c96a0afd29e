"""`geomgen bench manifolds`: accuracy in single precision and speed of our manifolds beside geoopt's."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol import Protocol
from ..suite import command

__all__ = ["main", "protocols"]


def main(argv: list[str]) -> int:
    """Run both protocols; write manifolds.json, manifolds.md and a figure with its JSON for each."""
    title = "Manifolds beside geoopt's"
    return command(argv, name="manifolds", title=title, description=f"{title}.", protocols=protocols)


def protocols() -> Sequence[Protocol]:
    """The protocols, in the order of the report."""
    from .accuracy import ACCURACY
    from .speed import SPEED

    return ACCURACY, SPEED
