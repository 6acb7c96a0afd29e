"""The gallery's command runs, and writes what its README says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_gallery_draws_a_manifold_and_a_space_time(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "experiments/gallery/run.py", "--out", str(tmp_path), "--only", "sphere", "de_sitter"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    checks = json.loads((tmp_path / "gallery.json").read_text(encoding="utf-8"))["checks"]
    assert [(check["figure"], check["passed"]) for check in checks] == [("sphere", True), ("de_sitter", True)]
    sphere = json.loads((tmp_path / "sphere.json").read_text(encoding="utf-8"))
    assert 0.999 < sphere["mass"] < 1.001
    assert "![" in (tmp_path / "gallery.md").read_text(encoding="utf-8")
    assert (tmp_path / "sphere.png").stat().st_size > 10_000
