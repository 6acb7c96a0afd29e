"""`geomgen bench manifolds`: what it writes, what it finds wrong in geoopt, and that it notices such faults of ours."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from geomgen.bench.manifolds import accuracy, main, speed
from geomgen.bench.manifolds.peers import PEERS


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches: the protocol is under test, not the machine."""
    monkeypatch.setattr(speed, "_BATCH", 16)
    monkeypatch.setattr(speed, "_CALLS", 1)
    monkeypatch.setattr(accuracy, "_PAIRS", 2000)


def test_it_writes_a_report_with_its_numbers(tmp_path: Path) -> None:
    main(["--quick", "--out", str(tmp_path)])
    written = json.loads((tmp_path / "manifolds.json").read_text(encoding="utf-8"))
    assert {"provenance", "accuracy", "speed"} == set(written)
    assert all(check["passed"] for check in written["accuracy"]["checks"])
    report = (tmp_path / "manifolds.md").read_text(encoding="utf-8")
    assert "| sphere S² | 1e-06 |" in report
    assert {path.name for path in tmp_path.iterdir()} == {
        *("manifolds.json", "manifolds.md"),
        *("accuracy.json", "accuracy.png", "speed.json", "speed.png"),
    }


def test_it_finds_the_faults_of_geoopt() -> None:
    points = accuracy.measure(quick=True, progress=False)["points"]
    sphere = [p["geoopt_distance"] for p in points if p["manifold"] == PEERS[0].label]
    assert sphere[1] > 0.3  # steps of 1e-2 are 40 % wrong
    assert sphere[-1] > 1e3


def test_it_would_notice_such_a_fault_in_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = [dataclasses.replace(PEERS[0], ours=Rounded(2)), PEERS[1]]
    monkeypatch.setattr(accuracy, "PEERS", coarse)
    checks = accuracy.measure(quick=True, progress=False)["checks"]
    assert [check["passed"] for check in checks] == [False, True, True, True]


class Rounded(type(PEERS[0].ours)):
    """The sphere with the arc cosine that everybody writes first."""

    def dist(self, x, y, *, keepdim=False):
        return (x * y).sum(-1).clamp(-1 + 1e-7, 1 - 1e-7).acos() if x.dtype.itemsize == 4 else super().dist(x, y)
