"""The type checks that ``conftest.py`` installs do check, also under postponed annotations."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch
from jaxtyping import TypeCheckError, install_import_hook

from geomgen.provenance import write_text

TOY = """
from __future__ import annotations
from dataclasses import dataclass
from jaxtyping import Float
from torch import Tensor

def weighted(x: Float[Tensor, "B L"], w: Float[Tensor, " L"]) -> Float[Tensor, " B"]:
    return (x * w).sum(-1)

@dataclass(frozen=True)
class Square:
    matrix: Float[Tensor, "n n"]
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "toy_with_shapes.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with install_import_hook("toy_with_shapes", "beartype.beartype"):
        return importlib.import_module("toy_with_shapes")


def test_shapes_and_dtypes_are_checked(toy: ModuleType) -> None:
    assert toy.weighted(torch.ones(2, 3), torch.ones(3)).tolist() == [3.0, 3.0]
    with pytest.raises(TypeCheckError, match="'w'"):
        toy.weighted(torch.ones(2, 3), torch.ones(2))
    with pytest.raises(TypeCheckError, match="'x'"):
        toy.weighted(torch.ones(2, 3, dtype=torch.long), torch.ones(3))
    with pytest.raises(TypeCheckError, match="matrix"):
        toy.Square(torch.ones(2, 3))


def test_our_packages_are_checked(tmp_path: Path) -> None:
    with pytest.raises(TypeCheckError, match="'content'"):
        write_text(tmp_path / "t.txt", 3)


def test_as_user_switches_the_checks_off(tmp_path: Path, as_user: None) -> None:
    with pytest.raises(AttributeError):
        write_text(tmp_path / "t.txt", 3)
