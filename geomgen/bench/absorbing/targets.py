"""Small target laws whose samplers' output can be enumerated: a full-support one, a spin ring, a code, permutations."""

from __future__ import annotations

import itertools

import torch


def dense(length: int, vocab_size: int) -> torch.Tensor:
    """Full-support law with weights 1 + ((7 i² + 3 i + 2) mod 11), i the index in C order; shape (K,) * d."""
    index = torch.arange(vocab_size**length, dtype=torch.float64)
    weights = 1 + (7 * index**2 + 3 * index + 2).remainder(11)
    return (weights / weights.sum()).reshape((vocab_size,) * length)


def spin_ring(length: int, vocab_size: int = 2, coupling: float = 0.4, field: float = 0.1) -> torch.Tensor:
    """Ring of spins with law ∝ exp(coupling Σ s_i s_{i+1} + field Σ s_i), s evenly spaced in [-1, 1]; shape (K,) * d.

    With two states this is the Ising ring.
    """
    spins = torch.linspace(-1.0, 1.0, vocab_size, dtype=torch.float64)
    grids = torch.meshgrid(*[spins] * length, indexing="ij")
    neighbours = [grids[i] * grids[(i + 1) % length] for i in range(length)]
    energy = coupling * torch.stack(neighbours).sum(0) + field * torch.stack(grids).sum(0)
    weights = energy.exp()
    return weights / weights.sum()


def parity(length: int, vocab_size: int = 2) -> torch.Tensor:
    """Uniform law on the strings whose sum is 0 modulo K; shape (K,) * d."""
    symbols = [torch.arange(vocab_size)] * length
    total = torch.stack(torch.meshgrid(*symbols, indexing="ij")).sum(0)
    weights = (total % vocab_size == 0).to(torch.float64)
    return weights / weights.sum()


def permutations(length: int) -> torch.Tensor:
    """Uniform law on the permutations of d symbols; shape (d,) * d."""
    law = torch.zeros((length,) * length, dtype=torch.float64)
    for order in itertools.permutations(range(length)):
        law[order] = 1.0
    return law / law.sum()


TARGETS = {
    "dense_d3K2": lambda: dense(3, 2),
    "ising_ring_d4": lambda: spin_ring(4),
    "parity_d4": lambda: parity(4),
    "perm_d4": lambda: permutations(4),
}
"""The laws of protocol P1, by the names of the oracle file."""
