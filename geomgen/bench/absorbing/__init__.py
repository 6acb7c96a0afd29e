"""`geomgen bench absorbing`: samplers of absorbing diffusion against their theory, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol import Protocol
from ..suite import command

__all__ = ["TITLE", "main", "protocols"]

TITLE = "Absorbing diffusion: samplers against theory"


def main(argv: list[str]) -> int:
    """Run all protocols; write absorbing.json, absorbing.md and a figure with its JSON for each."""
    description = "Samplers of absorbing diffusion against theory."
    return command(argv, name="absorbing", title=TITLE, description=description, protocols=protocols)


def protocols() -> Sequence[Protocol]:
    """The protocols, in the order of the report."""
    from .digits import DIGITS
    from .initialisation import INITIALISATION
    from .kappa import KAPPA
    from .leaping import LEAPING
    from .overhead import OVERHEAD
    from .uniformization import UNIFORMIZATION

    return LEAPING, UNIFORMIZATION, INITIALISATION, KAPPA, OVERHEAD, DIGITS
