"""Spin rings of any vocabulary: local laws of full support whose samplers' output can be enumerated."""

from __future__ import annotations

import torch

__all__ = ["spin_ring"]


def spin_ring(length: int, vocab_size: int = 2, coupling: float = 0.4, field: float = 0.1) -> torch.Tensor:
    """Ring of spins with law ∝ exp(coupling Σ s_i s_{i+1} + field Σ s_i), s evenly spaced in [-1, 1]; shape (K,) * d.

    With two states this is the Ising ring.
    """
    spins = torch.linspace(-1.0, 1.0, vocab_size, dtype=torch.float64)
    grids = torch.meshgrid(*[spins] * length, indexing="ij")
    neighbours = [grids[i] * grids[(i + 1) % length] for i in range(length)]
    energy = coupling * torch.stack(neighbours).sum(0) + field * torch.stack(grids).sum(0)
    return (energy - energy.logsumexp(list(range(length)))).exp()
