"""The house itself: which way imports point, what each package exports, and what stays unloaded."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PACKAGES = ("geomgen", "manifolds", "samplers", "vit_registers")
MAY_IMPORT = {
    "manifolds": set(),
    "samplers": {"manifolds"},
    "vit_registers": set(),
    "geomgen": {"manifolds", "samplers", "vit_registers"},
}
ROOT = Path(__file__).resolve().parents[1]


def imported_roots(source: str) -> set[str]:
    """Top-level names of every absolute import in ``source``, at any depth."""
    roots = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            roots.add(node.module.partition(".")[0])
    return roots


def forbidden_imports(package: str, source: str) -> set[str]:
    """Imports of ours that point up or sideways; a package names itself only relatively."""
    ours = {*PACKAGES, "experiments", "tests"}
    return (imported_roots(source) & ours) - MAY_IMPORT[package]


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_downwards(package: str) -> None:
    offenders = {
        str(path.relative_to(ROOT)): names
        for path in (ROOT / package).rglob("*.py")
        if (names := forbidden_imports(package, path.read_text(encoding="utf-8")))
    }
    assert offenders == {}


def test_the_direction_test_would_notice() -> None:
    upward = "def f():\n    from geomgen.absorbing import data\n    import manifolds.base\n"
    assert forbidden_imports("samplers", upward) == {"geomgen"}
    assert forbidden_imports("manifolds", upward) == {"geomgen", "manifolds"}
    assert forbidden_imports("geomgen", "from .absorbing import data\nimport samplers") == set()


def test_experiments_import_no_tests() -> None:
    for path in (ROOT / "experiments").rglob("*.py"):
        assert "tests" not in imported_roots(path.read_text(encoding="utf-8")), path


def modules_of(package: str) -> list[ModuleType]:
    """Every module of a package, imported."""
    paths = sorted((ROOT / package).rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return [importlib.import_module(name.removesuffix(".__init__")) for name in names]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_it_exports(package: str) -> None:
    for module in modules_of(package):
        assert module.__doc__, module
        assert isinstance(module.__all__, list), module
        assert [name for name in module.__all__ if not hasattr(module, name)] == [], module


@pytest.mark.parametrize("package", PACKAGES)
def test_public_methods_are_documented(package: str) -> None:
    missing = [
        f"{module.__name__}.{name}.{attribute}"
        for module in modules_of(package)
        for name in module.__all__
        if inspect.isclass(public := getattr(module, name))
        for attribute, value in vars(public).items()
        if not attribute.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
        if not inspect.getdoc(getattr(public, attribute))
    ]
    assert missing == []


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_tests_are_not_a_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import manifolds", {"lightning", "pytorch_lightning", "timm", "matplotlib"}),
        ("import samplers.absorbing", {"lightning", "pytorch_lightning", "timm", "matplotlib", "geomgen"}),
        ("import geomgen", {"torch", "lightning", "timm", "matplotlib"}),
    ],
)
def test_import_stays_light(statement: str, unwanted: set[str]) -> None:
    code = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(loaded.split()) & unwanted == set()
