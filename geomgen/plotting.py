"""One figure style for all reports: colour-blind-safe measurements, grey theory, the numbers beside the picture.

Figures are made without pyplot, so nothing is registered globally and nothing needs closing.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .provenance import write_bytes, write_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "figure_png",
    "image_grid",
    "label_axes",
    "measured",
    "new_figure",
    "save_figure",
    "shared_legend",
    "style",
    "theory",
]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, told apart under every common kind of colour blindness."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
THEORY = "#7a7a7a"
DPI = 144

_STYLE: Any = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@contextmanager
def style() -> Iterator[None]:
    """The rc settings of geomgen's figures; texts and axes take theirs while they are made."""
    from matplotlib import rc_context

    with rc_context(_STYLE):
        yield


def new_figure(
    rows: int = 1, columns: int = 1, *, panel: tuple[float, float] = (4.0, 3.1)
) -> tuple[Figure, list[Axes]]:
    """An empty figure and its axes, row by row.

    Args:
        rows: number of rows of panels.
        columns: number of columns of panels.
        panel: width and height of one panel in inches.

    Returns:
        The figure (drawn by Agg, no display needed) and a flat list of rows * columns axes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(panel[0] * columns, panel[1] * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def theory(
    axis: Axes,
    x: Sequence[float | int],
    y: Sequence[float | int],
    label: str,
    *,
    dashes: str | tuple[int, tuple[int, int]] = "--",
) -> None:
    """Draw what a formula says: a grey line without markers; vary ``dashes`` when an axis holds several."""
    axis.plot(x, y, linestyle=dashes, color=THEORY, label=label, zorder=1)


def measured(
    axis: Axes,
    x: Sequence[float | int],
    y: Sequence[float | int],
    label: str,
    *,
    half_width: Sequence[float | int] | None = None,
    index: int = 0,
    line: bool = True,
    hollow: bool = False,
) -> None:
    """Draw what was measured: coloured points, joined unless ``line=False``, with 95 % intervals when given.

    Args:
        axis: where to draw.
        x: (n,) abscissae.
        y: (n,) measured values or means.
        label: the legend's text.
        half_width: (n,) half-widths of 95 % intervals; None for values that are exact.
        index: which colour and marker of the palette.
        line: whether neighbouring points are joined.
        hollow: larger, unfilled markers, to be seen around the points of an equal curve.
    """
    markers: dict[str, Any] = {"markersize": 8, "markerfacecolor": "none"} if hollow else {}
    axis.errorbar(
        x,
        y,
        yerr=half_width,
        label=label,
        color=COLOURS[index % len(COLOURS)],
        marker=MARKERS[index % len(MARKERS)],
        linestyle="-" if line else "none",
        capsize=2.5,
        zorder=3,
        **markers,
    )


def label_axes(
    axis: Axes,
    title: str,
    x: str,
    y: str,
    *,
    log: str = "",
    ticks: Sequence[float | int] | None = None,
    legend: bool = True,
) -> None:
    """Title, axis labels and legend; ``log`` names the logarithmic axes ("", "x", "y" or "xy")."""
    with style():
        axis.set_title(title)
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        if "x" in log:
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_formatter("{x:g}")
        if "y" in log:
            axis.set_yscale("log")
        if ticks is not None:
            axis.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
        if legend and axis.get_legend_handles_labels()[0]:
            axis.legend()


def shared_legend(figure: Figure, columns: int = 4) -> None:
    """One legend below all panels, each label once; the panels are then labelled with ``legend=False``."""
    entries: dict[str, Any] = {}
    for axis in figure.axes:
        entries.update((label, handle) for handle, label in zip(*axis.get_legend_handles_labels(), strict=True))
    with style():
        figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)


def image_grid(axis: Axes, images: Sequence[Any], columns: int, title: str, *, limit: float | int) -> None:
    """Draw (n, height, width) grey images in rows of ``columns``, dark on white, with values in 0..limit."""
    import numpy

    rows = -(-len(images) // columns)
    height, width = images[0].shape
    canvas = numpy.full((rows * (height + 1) - 1, columns * (width + 1) - 1), numpy.nan)
    for number, image in enumerate(images):
        top, left = number // columns * (height + 1), number % columns * (width + 1)
        canvas[top : top + height, left : left + width] = image
    with style():
        axis.imshow(canvas, cmap="gray_r", vmin=0, vmax=limit, interpolation="nearest")
        axis.set_title(title)
        axis.set_axis_off()


def figure_png(figure: Figure) -> bytes:
    """The figure as a PNG file's bytes, without a time stamp (equal figures give equal bytes)."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def save_figure(figure: Figure, path: str | Path, data: Mapping[str, Any]) -> Path:
    """Write a figure and the numbers behind it: ``path`` (PNG) and the same name ending in .json.

    Each file is written under a temporary name and renamed, the JSON first, so no picture lies there without
    its numbers.

    Args:
        figure: the drawn figure.
        path: the picture's path; it must end in .png.
        data: everything drawn, plus its provenance (``geomgen.provenance.provenance``).

    Returns:
        The picture's path.

    Raises:
        ValueError: ``path`` does not end in .png, or ``data`` holds no "provenance".
    """
    target = Path(path)
    if target.suffix != ".png":
        raise ValueError(f"path={str(path)!r} does not end in .png: figures are written as PNG with a JSON beside them")
    if "provenance" not in data:
        raise ValueError('data has no "provenance": add provenance=geomgen.provenance.provenance(...)')
    write_json(target.with_suffix(".json"), dict(data))
    write_bytes(target, figure_png(figure))
    return target
