"""A suite of protocols: its command, and what a run writes: one JSON, one report, a figure with its JSON for each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..cli import CommandParser
from ..provenance import provenance, write_json, write_text
from ..report import Section, picture, to_markdown
from .protocol import Data, Protocol

__all__ = ["command", "run"]


def command(
    argv: list[str], *, name: str, title: str, description: str, protocols: Callable[[], Sequence[Protocol]]
) -> int:
    """Run ``geomgen bench NAME [--quick] [--out DIR]``.

    Args:
        argv: the command's arguments.
        name: of the suite; it writes ``name.json`` and ``name.md``.
        title: of the report.
        description: for ``--help``.
        protocols: imports and returns the protocols.

    Returns:
        0 if every check passed, 1 otherwise.
    """
    parser = CommandParser(prog=f"geomgen bench {name}", description=description)
    parser.add_argument("--quick", action="store_true", help="fewer points, in less than a minute")
    parser.add_argument("--out", default="bench", help="folder to write into (default: bench)")
    arguments = parser.parse_args(argv)

    import torch

    torch.set_num_threads(1)
    started, folder = time.perf_counter(), Path(arguments.out)
    checks = run(protocols(), folder, name, title, quick=arguments.quick)
    failed = [check for check in checks if not check["passed"]]
    for check in failed:
        print(f"failed: {check['name']}: {check['value']:.6g}", file=sys.stderr)
    passed = f"{len(checks) - len(failed)} of {len(checks)} checks passed"
    print(f"{passed} in {time.perf_counter() - started:.0f} s; see {folder / f'{name}.md'}")
    return 1 if failed else 0


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
