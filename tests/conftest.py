"""For all tests: runtime type checks, one torch thread, fixed seeds, the oracles beside the checkout."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from jaxtyping import config, install_import_hook

# Shapes and types of every call into these packages are checked: installed before the first is imported.
install_import_hook(["samplers", "geomgen"], "beartype.beartype")

torch.set_num_threads(1)
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked ``gpu`` where there is none."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Start every test from the same random state, whatever ran before."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch the runtime type checks off: bad input meets our own errors, as it does at a user's."""
    monkeypatch.setattr(config, "jaxtyping_disable", True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout's folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data and oracles beside the checkout; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the shared folder beside the checkout is absent")
    return SHARED


@pytest.fixture(scope="session")
def oracles(shared: Path) -> dict[str, Any]:
    """Right values of absorbing diffusion, made by an independent enumeration."""
    content: dict[str, Any] = json.loads((shared / "oracles" / "absorbing.json").read_text(encoding="utf-8"))
    return content
