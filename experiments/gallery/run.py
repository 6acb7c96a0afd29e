"""Draw the gallery: one figure per manifold, each with the numbers behind it, and the page that shows them.

Command: ``python experiments/gallery/run.py [--out FOLDER] [--only NAME ...]``
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
from panels import measure, portrait_figure
from phase_space import phase_space
from portraits import PORTRAITS
from space_times import SPACE_TIMES

from geomgen.provenance import provenance, write_json, write_text
from geomgen.report import Section, Table, picture, to_markdown

COLUMNS = ("figure", "law", "distance", "allowed", "passed")


def main(argv: list[str]) -> int:
    """Write figures, gallery.json and gallery.md; 1 if a law fails."""
    parser = argparse.ArgumentParser(description="One figure per manifold.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder to write into")
    parser.add_argument("--only", nargs="*", help="names of figures (all by default)")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    made_by, started = provenance(seeds=[1, 2]), time.process_time()
    made_by["command"] = "python experiments/gallery/run.py"
    rows, sections = [], []
    for name, title, data, figure in _figures(arguments.only):
        caption = f"{title}. Right: {data['law']}."
        shown = picture(
            figure, arguments.out, name, {**data, "provenance": made_by}, caption=caption, command=made_by["command"]
        )
        sections.append(Section(title, [shown]))
        rows.append([name, data["law"], data["kolmogorov"], data["allowed"], data["kolmogorov"] <= data["allowed"]])
    note = "Distance: Kolmogorov's between samples and law, or the largest deviation from a closed form."
    table = Table("Laws", COLUMNS, rows, note=note)
    checks = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    write_json(arguments.out / "gallery.json", {"provenance": made_by, "checks": checks})
    write_text(
        arguments.out / "gallery.md", to_markdown("Gallery of manifolds", [Section("Checks", [table]), *sections])
    )
    failed = [row[0] for row in rows if not row[-1]]
    print(f"{len(rows)} figures in {time.process_time() - started:.0f} CPU-s; failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


def _figures(only: list[str] | None) -> Any:
    """Name, title, numbers and figure of every manifold that is wanted."""
    for make in PORTRAITS:
        portrait = make()
        if only is None or portrait.name in only:
            data = measure(portrait)
            yield portrait.name, portrait.title, data, portrait_figure(portrait, data)
    others = {**SPACE_TIMES, "phase_space": ("PhaseSpace(Sphere(2))", phase_space)}
    for name, (title, draw) in others.items():
        if only is None or name in only:
            data, figure = draw()
            yield name, title, data, figure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
