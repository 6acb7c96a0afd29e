"""A report as one self-contained HTML page: styles and pictures are inside it, light and dark follow the reader."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from .report import Block, Numbers, Picture, Section, Table, format_cell, is_number

__all__ = ["to_html"]


def to_html(title: str, lead: str, sections: Sequence[Section], made_by: Mapping[str, Any]) -> str:
    """The page of a report.

    Args:
        title: the page's heading.
        lead: one or two sentences below it.
        sections: the report's parts, in order; each gets an entry in the list of contents.
        made_by: what is told about the run at the foot of the page (versions, seed, command).

    Returns:
        HTML that needs no other file and loads nothing.
    """
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    contents = "".join(f'<li><a href="#part-{n}">{_inline(s.title)}</a></li>' for n, s in enumerate(sections, 1))
    body = "\n".join(_section(number, section) for number, section in enumerate(sections, 1))
    facts = "".join(f"<dt>{html.escape(str(k))}</dt><dd>{html.escape(_fact(v))}</dd>" for k, v in made_by.items())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header><h1>{_inline(title)}</h1><p class="lead">{_inline(lead)}</p><nav><ol>{contents}</ol></nav></header>\n'
        f"<main>\n{body}\n</main>\n<footer>How this page was made<dl>{facts}</dl></footer>\n</body>\n</html>\n"
    )


def _section(number: int, section: Section) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    return f'<section id="part-{number}">\n<h2>{_inline(section.title)}</h2>\n{blocks}\n</section>'


def _block(block: Block) -> str:
    if isinstance(block, str):
        return f"<p>{_inline(block)}</p>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Picture):
        return _picture(block)
    return _numbers(block)


def _numbers(block: Numbers) -> str:
    tiles = (
        f'<div class="number"><div class="value">{_inline(value)}</div><div class="label">{_inline(label)}</div></div>'
        for value, label in block.items
    )
    return f'<div class="numbers">{"".join(tiles)}</div>'


def _picture(block: Picture) -> str:
    source = base64.b64encode(block.png).decode("ascii")
    data = block.name.removesuffix(".png") + ".json"
    return (
        f'<figure><img alt="{html.escape(block.caption, quote=True)}" src="data:image/png;base64,{source}">'
        f"<figcaption>{_inline(block.caption)} Numbers: <code>{html.escape(data)}</code>."
        f"<pre><code>{html.escape(block.command)}</code></pre></figcaption></figure>"
    )


def _table(table: Table) -> str:
    sides = [
        ' class="right"' if all(row[j] is None or is_number(row[j]) for row in table.rows) else ""
        for j in range(len(table.header))
    ]
    head = "".join(f"<th{side}>{_inline(text)}</th>" for side, text in zip(sides, table.header, strict=True))
    rows = "".join(
        "<tr>"
        + "".join(f"<td{side}>{_inline(format_cell(cell))}</td>" for side, cell in zip(sides, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{_inline(table.note)}</p>' if table.note else ""
    return (
        f'<div class="table"><table><caption>{_inline(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}</div>"
    )


def _inline(text: str) -> str:
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_fact(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(str(item) for item in value)
    return str(value)
