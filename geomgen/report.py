"""What a report is made of (text, numbers, tables, pictures in sections) and how it reads as Markdown.

The same sections become the demo's page through ``geomgen.page``.
Text may hold `code`, **bold** and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .plotting import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Block",
    "Cell",
    "Numbers",
    "Picture",
    "Section",
    "Table",
    "format_cell",
    "is_number",
    "picture",
    "to_markdown",
]

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Table:
    """A table: a title, the header's texts, rows of cells and an optional note below."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse rows that do not fit the header."""
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"table {self.title!r}: row {tuple(row)} does not have {len(self.header)} cells")


@dataclass(frozen=True)
class Picture:
    """A figure: the PNG's file name and bytes, what it shows, and the command that draws it again."""

    name: str
    png: bytes = field(repr=False)
    caption: str
    command: str


@dataclass(frozen=True)
class Numbers:
    """A few headline numbers, each a value and what it counts."""

    items: Sequence[tuple[str, str]]


Block = str | Table | Picture | Numbers


@dataclass(frozen=True)
class Section:
    """A part of a report: a title and its blocks; a plain string is a paragraph."""

    title: str
    blocks: Sequence[Block]


def picture(figure: Figure, folder: Path, name: str, data: Mapping[str, Any], *, caption: str, command: str) -> Picture:
    """Write a figure and its numbers as ``name.png`` and ``name.json`` (`save_figure`) and return it for a report."""
    path = save_figure(figure, folder / f"{name}.png", data)
    return Picture(path.name, path.read_bytes(), caption, command)


def format_cell(value: Cell) -> str:
    """Text of a cell: four significant digits, "yes"/"no", an en dash for what does not exist."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def is_number(value: Cell) -> bool:
    """Whether a cell is set flush right."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def to_markdown(title: str, sections: Sequence[Section]) -> str:
    """A Markdown page of the sections; pictures are linked by name and must lie beside it."""
    parts = [f"# {title}"]
    for section in sections:
        parts.append(f"## {section.title}")
        parts.extend(_markdown_block(block) for block in section.blocks)
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Block) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Numbers):
        return "\n".join(f"- **{value}** {label}" for value, label in block.items)
    if isinstance(block, Picture):
        return f"![{block.caption}]({block.name})\n\n{block.caption} Command: `{block.command}`."
    return _markdown_table(block)


def _markdown_table(table: Table) -> str:
    numeric = [all(is_number(row[j]) or row[j] is None for row in table.rows) for j in range(len(table.header))]
    lines = [
        f"**{table.title}**",
        "",
        _markdown_row(table.header),
        "|" + "|".join("---:" if right else "---" for right in numeric) + "|",
        *(_markdown_row([format_cell(cell) for cell in row]) for row in table.rows),
    ]
    return "\n".join(lines + (["", table.note] if table.note else []))


def _markdown_row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
