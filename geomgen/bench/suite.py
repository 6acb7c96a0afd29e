"""How a run of protocols is written: one JSON, one Markdown report, and a figure with its JSON for each protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..provenance import provenance, write_json, write_text
from ..report import Section, picture, to_markdown
from .protocol import Data, Protocol

__all__ = ["run"]


def run(
    protocols: Sequence[Protocol], folder: Path, name: str, title: str, *, quick: bool, progress: bool = True
) -> list[Data]:
    """Measure, and write figures, ``name.json`` and the report ``name.md`` made from it into `folder`.

    Returns:
        The checks of all protocols.
    """
    made_by = provenance(quick=quick)
    results: dict[str, Data] = {}
    sections = []
    for protocol in protocols:
        data = protocol.measure(quick, progress)
        results[protocol.name] = data
        sections.append(_section(protocol, data, folder, made_by))
    write_json(folder / f"{name}.json", {"provenance": made_by, **results})
    versions = f"geomgen {made_by['geomgen']}, torch {made_by['versions']['torch']}"
    how = f"Made by `{made_by['command']}` with {versions}, one thread."
    sections.append(
        Section("How this was made", [f"{how} All numbers: `{name}.json`; those of a figure: its `.json`."])
    )
    write_text(folder / f"{name}.md", to_markdown(title, sections))
    return [check for data in results.values() for check in data["checks"]]


def _section(protocol: Protocol, data: Data, folder: Path, made_by: dict[str, Any]) -> Section:
    """The protocol's part of the report, its figure written."""
    drawn = {**data, "provenance": made_by}
    shown = picture(
        protocol.draw(data), folder, protocol.name, drawn, caption=protocol.caption, command=made_by["command"]
    )
    return Section(protocol.title, [shown, *protocol.tell(data)])
