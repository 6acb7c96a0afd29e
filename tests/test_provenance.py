"""Provenance records and atomic writers."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from geomgen.provenance import atomic_path, provenance, write_bytes, write_json, write_text


@dataclass(frozen=True)
class Point:
    """A dataclass in a record."""

    x: float
    where: Path


def test_record_names_what_a_repetition_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/geomgen", "demo", "--out", "a b"])
    record = provenance(seed=3, steps=[1, 2])
    assert record["config"] == {"seed": 3, "steps": [1, 2]}
    assert record["command"] == "geomgen demo --out 'a b'"
    assert record["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert record["threads"] == torch.get_num_threads() == 1
    assert record["device"] and record["processor"] and record["python"]


def test_json_knows_our_types(tmp_path: Path) -> None:
    content = {
        "tensor": torch.tensor([[1.5, 2.0]]),
        "array": np.arange(3),
        "scalar": np.float64(0.5),
        "point": Point(1.0, Path("a/b")),
        "tuple": (1, None, True, "x"),
        4: "key",
    }
    write_json(tmp_path / "new" / "r.json", content)
    assert json.loads((tmp_path / "new" / "r.json").read_text(encoding="utf-8")) == {
        "tensor": [[1.5, 2.0]],
        "array": [0, 1, 2],
        "scalar": 0.5,
        "point": {"x": 1.0, "where": "a/b"},
        "tuple": [1, None, True, "x"],
        "4": "key",
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), torch.tensor([0.0, -torch.inf])])
def test_json_refuses_what_is_not_finite_and_says_where(tmp_path: Path, value: object) -> None:
    with pytest.raises(ValueError, match=r"content\['runs'\]\[1\].*None"):
        write_json(tmp_path / "r.json", {"runs": [0.0, value]})
    assert list(tmp_path.iterdir()) == []


def test_json_refuses_other_types(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"content\['f'\] is a builtin_function_or_method"):
        write_json(tmp_path / "r.json", {"f": len})


def test_text_keeps_its_characters_and_line_ends(tmp_path: Path) -> None:
    write_text(tmp_path / "t.txt", "ε ≤ 1\r\n")
    assert (tmp_path / "t.txt").read_bytes() == "ε ≤ 1\r\n".encode()


def test_an_interrupted_write_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "weights.bin"
    write_bytes(target, b"old")

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(target, b"new and longer")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_atomic_path_keeps_the_suffix_and_renames_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "figure.png"
    with atomic_path(target) as temporary:
        assert temporary.parent == tmp_path and temporary.suffix == ".png"
        temporary.write_bytes(b"x")
        assert not target.exists()
    assert list(tmp_path.iterdir()) == [target]
