"""Every item once per epoch, whatever is stopped and resumed, shared or prefetched."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from geomgen.resumable import ResumableLoader, ResumableSampler


class Numbers(Dataset[Tensor]):
    """Item i is the number i."""

    def __init__(self, size: int = 16) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([float(index)])


class Draws(Numbers):
    """Item i is what its worker draws for it."""

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([random.random(), np.random.random(), float(torch.rand(()))], dtype=torch.float64)


class Recorder(LightningModule):
    """Remembers the items it was trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.items: list[tuple[int, ...]] = []

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        self.items.append((self.current_epoch, batch_idx, *batch.flatten().int().tolist()))
        return self.layer(batch / 16).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 1e-2)


def fit(folder: Path, loader: DataLoader[Tensor], resume: Path | None = None) -> Recorder:
    """Three epochs, a checkpoint after every step and every epoch."""
    torch.manual_seed(0)
    model = Recorder()
    each_step = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    each_epoch = ModelCheckpoint(folder, filename="end-{epoch}", every_n_epochs=1, save_top_k=-1)
    trainer = Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[each_step, each_epoch],
    )
    trainer.fit(model, loader, ckpt_path=resume, weights_only=True)
    return model


def test_a_run_resumed_anywhere_sees_the_remaining_items_and_ends_in_the_same_weights(tmp_path: Path) -> None:
    whole = fit(tmp_path, ResumableLoader(Numbers(), 4, seed=3))
    for epoch in range(3):
        assert sorted(i for step in whole.items[4 * epoch : 4 * epoch + 4] for i in step[2:]) == list(range(16))
    stops = {f"step={step}.ckpt": step for step in (2, 4, 5, 11)} | {"end-epoch=1.ckpt": 8}
    for name, done in stops.items():
        seed = 3 if done % 4 == 0 else 99  # Lightning asks no loader for its state between epochs
        rest = fit(tmp_path, ResumableLoader(Numbers(), 4, seed=seed), tmp_path / name)
        assert rest.items == whole.items[done:], name
        assert all(torch.equal(a, b) for a, b in zip(rest.parameters(), whole.parameters(), strict=True)), name


@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended")
def test_without_it_lightning_repeats_items(tmp_path: Path) -> None:
    """The negative control: torch's own loader starts the epoch again."""
    first = fit(tmp_path, DataLoader(Numbers(), 4, shuffle=True))
    second = fit(tmp_path, DataLoader(Numbers(), 4, shuffle=True), tmp_path / "step=2.ckpt")
    seen = [i for step in first.items[:2] + second.items[:2] for i in step[2:]]
    assert sorted(seen) != list(range(16))


@pytest.mark.parametrize("workers", [0, 2])
def test_state_counts_what_was_handed_out_not_what_was_fetched(workers: int) -> None:
    loader = ResumableLoader(Numbers(), 4, num_workers=workers)
    batches = iter(loader)
    seen = [int(i) for _ in range(2) for i in next(batches)]
    state = loader.state_dict()
    del batches
    resumed = ResumableLoader(Numbers(), 4, seed=5, num_workers=workers)
    resumed.load_state_dict(state)
    assert len(resumed) == 4
    rest = [int(i) for batch in resumed for i in batch]
    assert sorted(seen + rest) == list(range(16))
    assert state == {"seed": 0, "epoch": 0, "position": 8, "size": 16}


def test_a_finished_epoch_resumes_with_the_next() -> None:
    loader, resumed = ResumableLoader(Numbers(), 5), ResumableLoader(Numbers(), 5)
    first = [int(i) for batch in loader for i in batch]
    resumed.load_state_dict(loader.state_dict())
    second = [int(i) for batch in resumed for i in batch]
    assert (sorted(first), sorted(second)) == (list(range(16)), list(range(16)))
    assert first != second
    loader.order.set_epoch(1)
    assert [int(i) for batch in loader for i in batch] == second


@pytest.mark.parametrize("position", [0, 6])
def test_ranks_share_an_epoch(position: int) -> None:
    whole = list(ResumableSampler(16, seed=1))
    ranks = [ResumableSampler(16, seed=1, num_replicas=3, rank=rank) for rank in range(3)]
    for sampler in ranks:
        sampler.position = position
    parts = [list(sampler) for sampler in ranks]
    assert [len(sampler) for sampler in ranks] == [5, 5, 5]
    assert sorted(item for part in parts for item in part) == sorted(whole[position:15])
    assert parts[1] == whole[position + 1 : 15 : 3]


def test_order_depends_on_seed_and_epoch_only() -> None:
    before = torch.get_rng_state()
    first, again, other = (list(ResumableSampler(50, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert list(ResumableSampler(50, shuffle=False)) == list(range(50))
    list(ResumableLoader(Numbers(), 4))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
def test_workers_draw_different_numbers_and_the_same_again() -> None:
    def draws(epoch: int) -> Tensor:
        loader = ResumableLoader(Draws(8), 2, num_workers=4)
        loader.order.set_epoch(epoch)
        return torch.cat(list(loader))

    first = draws(0)
    assert len(first.unique(dim=0)) == 8
    assert all(len(column.unique()) == 8 for column in first.T)
    assert torch.equal(draws(0), first)
    assert not torch.equal(draws(1), first)


@pytest.mark.usefixtures("as_user")
def test_bad_input() -> None:
    loader = ResumableLoader(Numbers(), 4)
    with pytest.raises(ValueError, match="of data with 12 items, but this data has 16"):
        loader.load_state_dict({"seed": 0, "epoch": 0, "position": 0, "size": 12})
    with pytest.raises(ValueError, match="size=2 items cannot be shared by num_replicas=3"):
        ResumableSampler(2, num_replicas=3)
    with pytest.raises(TypeError, match="without a length"):
        ResumableLoader(iter([1, 2]), 4)  # type: ignore[arg-type]
