"""Shuffled data whose order survives a restart: after a resume in the middle of an epoch no item is seen twice.

Lightning saves and restores the state of any loader that has ``state_dict`` and ``load_state_dict``; torch's own
`DataLoader` has none, and starts the interrupted epoch again from its first item.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from samplers.streams import derive, uniform

__all__ = ["ResumableLoader", "ResumableSampler"]


class ResumableSampler(DistributedSampler[int]):
    """Item numbers in an order that is a pure function of (seed, epoch), from any position on.

    Ranks take turns: rank r of R sees every R-th item from `position` + r on. Each item is seen once per epoch over
    all ranks; the last items of the order that do not fill a turn are left out of that epoch.
    (It is a `DistributedSampler` so that Lightning leaves it in place and calls `set_epoch`.)

    Args:
        size: number of items.
        shuffle: a random order per epoch, else 0, 1, 2, ...
        seed: of the orders.
        num_replicas: R, number of processes that share the epoch.
        rank: number r of this process.

    Attributes:
        epoch: number of the epoch.
        position: items of the epoch that were seen before, over all ranks.
    """

    def __init__(self, size: int, *, shuffle: bool = True, seed: int = 0, num_replicas: int = 1, rank: int = 0) -> None:
        if size < num_replicas:
            raise ValueError(f"size={size} items cannot be shared by num_replicas={num_replicas} processes")
        super().__init__(range(size), num_replicas, rank, shuffle, seed, drop_last=True)  # type: ignore[arg-type]
        self.size = size
        self.position = 0

    def __len__(self) -> int:
        """Items of a whole epoch on this rank."""
        return self.size // self.num_replicas

    def __iter__(self) -> Iterator[int]:
        """Item numbers from `position` on."""
        order = torch.arange(self.size)
        if self.shuffle:
            order = uniform(derive(self.seed, self.epoch), order).argsort()
        order = order[: len(self) * self.num_replicas]
        yield from order[self.position + self.rank :: self.num_replicas].tolist()

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch; another one than now starts at its first item."""
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0


class ResumableLoader(DataLoader[Any]):
    """A `DataLoader` that can stop after any batch and go on from there, with any number of workers.

    The state counts the batches handed out, not those that workers have fetched ahead. Worker seeds come from
    (seed, epoch) and leave the global random state alone.

    Args:
        dataset: map-style data.
        batch_size: items per batch on each rank; the last batch of an epoch may be smaller.
        shuffle, seed: see `ResumableSampler`.
        num_workers: worker processes.
        num_replicas, rank: the processes of a distributed run; by default those of `torch.distributed`.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        num_workers: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        if not isinstance(dataset, Sized):
            raise TypeError(f"dataset is a {type(dataset).__name__} without a length; give a map-style dataset")
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        if num_replicas is None:
            num_replicas = torch.distributed.get_world_size() if distributed else 1
        if rank is None:
            rank = torch.distributed.get_rank() if distributed else 0
        self.order = ResumableSampler(len(dataset), shuffle=shuffle, seed=seed, num_replicas=num_replicas, rank=rank)
        self.delivered = 0
        self.items_per_turn = batch_size * num_replicas
        super().__init__(dataset, batch_size, sampler=self.order, num_workers=num_workers, generator=torch.Generator())

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """The batches of the epoch that are left."""
        order = self.order
        self.delivered = order.position
        self.generator.manual_seed(derive(derive(order.seed, order.epoch), order.position))
        for batch in super().__iter__():
            self.delivered = min(self.delivered + self.items_per_turn, order.size)
            yield batch
        order.position = 0

    def state_dict(self) -> dict[str, int]:
        """Where the epoch stands: plain numbers, the same on every rank."""
        order = self.order
        return {"seed": order.seed, "epoch": order.epoch, "position": self.delivered, "size": order.size}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a state; its seed replaces this loader's own.

        Raises:
            ValueError: the data had another number of items.
        """
        order = self.order
        if state["size"] != order.size:
            raise ValueError(
                f"the saved state is of data with {state['size']} items, but this data has {order.size}; resume with "
                "the same data and split"
            )
        finished = state["position"] >= len(order) * order.num_replicas
        order.seed, order.epoch = state["seed"], state["epoch"] + finished
        order.position = self.delivered = 0 if finished else state["position"]
