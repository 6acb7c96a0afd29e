"""Right values of dynamics, made in 34-digit arithmetic without torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor


@pytest.fixture(scope="session")
def oracle(shared: Path) -> Callable[[str], Tensor]:
    """Name -> the right value, a float64 tensor; skips where the oracles are absent."""
    content = json.loads((shared / "oracles" / "hamiltonian.json").read_text(encoding="utf-8"))

    def value(name: str) -> Tensor:
        numbers = content[name]["value"]
        numbers = [float(n) for n in numbers] if isinstance(numbers, list) else float(numbers)
        return torch.tensor(numbers, dtype=torch.float64)

    return value
