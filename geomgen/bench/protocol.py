"""What a benchmark protocol is: it measures into plain data, and draws and tells from that data alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..report import Block, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Data", "Protocol", "bar", "check", "check_table"]

Data = dict[str, Any]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Protocol:
    """One protocol of a suite.

    Attributes:
        name: file name of its figure and JSON, without suffix.
        title: heading in the report.
        measure: (quick, progress) -> plain data with "config", "points" and "checks".
        draw: data -> figure.
        tell: data -> paragraphs and tables of the report.
        caption: one sentence below the figure.
    """

    name: str
    title: str
    measure: Callable[[bool, bool], Data]
    draw: Callable[[Data], Figure]
    tell: Callable[[Data], Sequence[Block]]
    caption: str


def check(name: str, value: float, low: float | None = None, high: float | None = None) -> Data:
    """A measured value and the window it has to lie in; None leaves a side open."""
    passed = (low is None or low <= value) and (high is None or value <= high)
    return {"name": name, "value": value, "low": low, "high": high, "passed": passed}


def check_table(data: Data) -> Table:
    """The checks of a protocol as a table."""
    rows = [[c["name"], c["value"], _window(c["low"], c["high"]), c["passed"]] for c in data["checks"]]
    return Table("Checks", ("what", "measured", "has to be", "passed"), rows)


def _window(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"at most {high:.4g}" if low is None else f"at least {low:.4g}"
    return f"{low:.4g} to {high:.4g}"


def bar(items: Sequence[Item], name: str, progress: bool) -> Iterable[Item]:
    """Iterate with a progress bar on stderr."""
    from tqdm import tqdm

    return tqdm(items, desc=name, disable=not progress, leave=False)
