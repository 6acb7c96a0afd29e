"""The protocols of `geomgen bench absorbing` and how a run of them is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...provenance import provenance, write_json, write_text
from ...report import Section, picture, to_markdown
from ..protocol import Data, Protocol
from .digits import DIGITS
from .initialisation import INITIALISATION
from .kappa import KAPPA
from .leaping import LEAPING
from .overhead import OVERHEAD
from .uniformization import UNIFORMIZATION

__all__ = ["PROTOCOLS", "run"]

PROTOCOLS = (LEAPING, UNIFORMIZATION, INITIALISATION, KAPPA, OVERHEAD, DIGITS)


def run(protocols: Sequence[Protocol], folder: Path, *, quick: bool, progress: bool = True) -> list[Data]:
    """Measure, and write figures, JSON and the report made from it into `folder`.

    Returns:
        The checks of all protocols.
    """
    made_by = provenance(quick=quick)
    command = made_by["command"]
    results: dict[str, Data] = {}
    sections = []
    for protocol in protocols:
        data = protocol.measure(quick, progress)
        results[protocol.name] = data
        sections.append(_section(protocol, data, folder, made_by))
    write_json(folder / "absorbing.json", {"provenance": made_by, **results})
    notes = f"Made by `{command}` with geomgen {made_by['geomgen']}, torch {made_by['versions']['torch']}, one thread."
    head = Section("How this was made", [notes + " All numbers: `absorbing.json`; those of a figure: its `.json`."])
    write_text(folder / "absorbing.md", to_markdown("Absorbing diffusion: samplers against theory", [*sections, head]))
    return [check for data in results.values() for check in data["checks"]]


def _section(protocol: Protocol, data: Data, folder: Path, made_by: dict[str, Any]) -> Section:
    """The protocol's part of the report, its figure written."""
    drawn = {**data, "provenance": made_by}
    shown = picture(
        protocol.draw(data), folder, protocol.name, drawn, caption=protocol.caption, command=made_by["command"]
    )
    return Section(protocol.title, [shown, *protocol.tell(data)])
