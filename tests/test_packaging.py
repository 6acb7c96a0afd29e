"""The distribution: valid metadata, whole contents, silent imports, no private paths (P01 to P03)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

PACKAGES = ("geomgen", "manifolds", "samplers", "vit_registers")
PRIVATE_PATH = re.compile(rb"(?<![\w.>/)])/(home|Users|root|work|tmp|data|mnt|scratch|opt)/[\w.]")


@pytest.fixture(scope="module")
def dist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and sdist of this checkout."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(root)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> dict[str, bytes]:
    """Contents of the wheel by name."""
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist(dist: Path) -> dict[str, bytes]:
    """Contents of the sdist by name, without its top folder."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {m.name.partition("/")[2]: archive.extractfile(m).read() for m in members}


def metadata_of(content: dict[str, bytes], suffix: str) -> Metadata:
    """The only metadata file of a distribution, validated."""
    (name,) = [name for name in content if name.endswith(suffix)]
    return Metadata.from_email(content[name])


def test_p01_metadata_is_valid(wheel: dict[str, bytes], sdist: dict[str, bytes]) -> None:
    for metadata in (metadata_of(wheel, ".dist-info/METADATA"), metadata_of(sdist, "PKG-INFO")):
        requirements = metadata.requires_dist
        assert len(requirements) > 20
        assert all(isinstance(requirement, Requirement) for requirement in requirements)
        assert metadata.license_expression == "Apache-2.0"
        lightning = next(r for r in requirements if r.name == "lightning")
        assert "2.6.3" not in lightning.specifier and "2.6.4" in lightning.specifier


def test_wheel_holds_the_packages_and_their_data_and_nothing_else(root: Path, wheel: dict[str, bytes]) -> None:
    tops = {name.partition("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    in_checkout = {
        path.relative_to(root).as_posix()
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in wheel if not name.partition("/")[0].endswith(".dist-info")} == in_checkout
    assert all(f"{package}/py.typed" in wheel for package in PACKAGES)
    assert any(name.endswith("licenses/LICENSE") for name in wheel)


def test_sdist_holds_what_a_build_and_a_test_run_need(wheel: dict[str, bytes], sdist: dict[str, bytes]) -> None:
    needed = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "tests/conftest.py"}
    assert needed <= set(sdist)
    assert {name for name in wheel if not name.partition("/")[0].endswith(".dist-info")} <= set(sdist)


def test_p02_every_module_imports_silently_without_an_accelerator(root: Path, tmp_path: Path) -> None:
    modules = [
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    ]
    code = f"import importlib\nfor name in {modules!r}:\n    importlib.import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_p03_no_private_paths(wheel: dict[str, bytes]) -> None:
    assert PRIVATE_PATH.search(b'open("/home/someone/x.npy")')
    offenders = {name: match.group() for name, text in wheel.items() if (match := PRIVATE_PATH.search(text))}
    assert offenders == {}
