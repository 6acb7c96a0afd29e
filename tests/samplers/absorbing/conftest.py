"""Small target laws for the tests of the samplers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from samplers.absorbing.testing import small_targets


@pytest.fixture(scope="session")
def targets() -> dict[str, Tensor]:
    """The six small target laws."""
    return small_targets()


@pytest.fixture
def generator() -> torch.Generator:
    """A seeded generator."""
    return torch.Generator().manual_seed(2026)
