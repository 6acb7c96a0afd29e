"""A small data set and trainers for the tests of the learned models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer

from geomgen.absorbing import AbsorbingDiffusion, TokenData

MakeData = Callable[..., TokenData]
MakeModel = Callable[..., AbsorbingDiffusion]


class CopyData(TokenData):
    """Sequences of 6 tokens out of 4: three random ones, then the same three again."""

    def __init__(self, batch_size: int = 4, seed: int = 0, num_workers: int = 0) -> None:
        half = torch.randint(0, 4, (24, 3), generator=torch.Generator().manual_seed(6))
        tokens = torch.cat([half, half], 1)
        super().__init__(
            tokens[:16],
            tokens[16:20],
            tokens[20:],
            vocab_size=4,
            vocabulary=None,
            batch_size=batch_size,
            seed=seed,
            num_workers=num_workers,
        )


@pytest.fixture
def make_data() -> MakeData:
    """Builds `CopyData(batch_size, seed, num_workers)`."""
    return CopyData


@pytest.fixture
def make_model(make_data: MakeData) -> MakeModel:
    """Builds a tiny model of that data."""
    args = {"width": 8, "depth": 1, "heads": 2, "fixed_layout": True}

    def build(**options: Any) -> AbsorbingDiffusion:
        torch.manual_seed(0)
        network = {"class": "geomgen.absorbing.Transformer", "args": args}
        return AbsorbingDiffusion(**{"network": network, "layout": make_data().layout, "warmup_steps": 2, **options})

    return build


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Trainer]:
    """Builds a quiet trainer on the CPU that writes below the test's folder."""

    def build(**options: Any) -> Trainer:
        quiet: dict[str, Any] = {
            "accelerator": "cpu",
            "logger": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "num_sanity_val_steps": 0,
            "default_root_dir": tmp_path,
        }
        if "callbacks" not in options:
            quiet["enable_checkpointing"] = False
        return Trainer(**{**quiet, **options})

    return build
