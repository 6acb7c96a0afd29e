"""Figures are written whole, with their numbers, and leave no global state."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
import pytest
import torch

from geomgen.plotting import image_grid, label_axes, measured, new_figure, save_figure, theory
from geomgen.provenance import provenance


def drawing():
    figure, (left, right) = new_figure(1, 2)
    theory(left, [1, 2, 4], [1, 0.5, 0.25], "1/N")
    measured(left, [1, 2, 4], [1.1, 0.5, 0.2], "measured", half_width=[0.1, 0.1, 0.1])
    label_axes(left, "Error", "steps N", "KL", log="xy", ticks=[1, 2, 4])
    image_grid(right, list(torch.rand(5, 4, 4, generator=torch.Generator().manual_seed(0))), 3, "images", limit=1)
    return figure


def test_picture_and_numbers_lie_side_by_side(tmp_path: Path) -> None:
    path = save_figure(drawing(), tmp_path / "error.png", {"points": [1, 2], "provenance": provenance(seed=3)})
    assert path.read_bytes().startswith(b"\x89PNG")
    data = json.loads((tmp_path / "error.json").read_text())
    assert data["points"] == [1, 2]
    assert data["provenance"]["config"] == {"seed": 3}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["error.json", "error.png"]


def test_equal_figures_give_equal_bytes(tmp_path: Path) -> None:
    made = [save_figure(drawing(), tmp_path / f"{n}.png", {"provenance": {}}).read_bytes() for n in range(2)]
    assert made[0] == made[1]


def test_theory_is_dashed_grey_and_measurements_are_not() -> None:
    axis = drawing().axes[0]
    line, points = axis.lines[0], axis.containers[0].lines[0]
    assert line.get_linestyle() == "--" and line.get_marker() == "None"
    assert points.get_linestyle() == "-" and points.get_marker() == "o"
    assert line.get_color() != points.get_color()


def test_no_global_state_is_left() -> None:
    before = dict(matplotlib.rcParams)
    drawing()
    assert dict(matplotlib.rcParams) == before
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_refusals_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"does not end in \.png"):
        save_figure(drawing(), tmp_path / "error.pdf", {"provenance": {}})
    with pytest.raises(ValueError, match="provenance"):
        save_figure(drawing(), tmp_path / "error.png", {})
    with pytest.raises(ValueError, match="nan"):
        save_figure(drawing(), tmp_path / "error.png", {"provenance": {}, "kl": float("nan")})
    assert list(tmp_path.iterdir()) == []
