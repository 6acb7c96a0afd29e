"""The parts of a report as Markdown and as one self-contained page."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest

from geomgen.page import to_html
from geomgen.report import Numbers, Picture, Section, Table, format_cell, to_markdown

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(32))
SECTIONS = [
    Section(
        "Errors & costs",
        [
            "KL < 1 when `N > 4` and **always** after.",
            Numbers([("2.10 bits", "per token")]),
            Picture("error.png", PNG, 'KL "against" N.', "geomgen demo --out 'a b'"),
            Table("Points", ("sampler", "KL", "passed"), [["a|b", 0.123456, True], ["c", None, False]], "A note."),
        ],
    ),
    Section("Second", ["text"]),
]


class Outline(HTMLParser):
    """Collects tags and checks that they are closed in order."""

    VOID = ("meta", "img", "br")

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.fixture
def page() -> str:
    return to_html("A <title>", "Lead.", SECTIONS, {"versions": {"torch": "2"}, "command": "geomgen demo"})


def test_page_is_well_formed_and_loads_nothing(page: str) -> None:
    outline = Outline()
    outline.feed(page)
    assert outline.stack == []
    links = [value for _, attributes in outline.seen for key, value in attributes.items() if key in ("src", "href")]
    assert all(link is not None and link.startswith(("#", "data:")) for link in links)
    assert not re.search(r"url\(|@import|https?://", page)
    anchors = {attributes.get("id") for _, attributes in outline.seen}
    assert all(link[1:] in anchors for link in links if link and link.startswith("#"))


def test_page_holds_pictures_numbers_and_commands(page: str) -> None:
    (source,) = re.findall(r"data:image/png;base64,([^\"]+)", page)
    assert base64.b64decode(source) == PNG
    assert "error.json" in page and "geomgen demo --out &#x27;a b&#x27;" in page
    assert "KL &lt; 1 when <code>N &gt; 4</code> and <strong>always</strong>" in page
    assert "A &lt;title&gt;" in page and "torch 2" in page
    assert "prefers-color-scheme: dark" in page
    assert '<td class="right">0.1235</td>' in page and '<td class="right">–</td>' in page


def test_markdown_has_the_same_content() -> None:
    text = to_markdown("Results", SECTIONS)
    assert text.startswith("# Results\n\n## Errors & costs\n")
    assert "| a\\|b | 0.1235 | yes |\n| c | – | no |" in text
    assert "|---|---:|---|" in text
    assert "(error.png)" in text and "`geomgen demo --out 'a b'`" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.23456, "1.235"), (3, "3"), (True, "yes"), (None, "–"), (float("nan"), "–"), ("x", "x"), (1e-9, "1e-09")],
)
def test_cells(value: str | int | float | bool | None, text: str) -> None:
    assert format_cell(value) == text


def test_a_row_that_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match=r"table 'T'.*2 cells"):
        Table("T", ("a", "b"), [[1]])
