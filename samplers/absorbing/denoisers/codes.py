"""Exact denoisers of laws with hard constraints: a parity check, and permutations."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..information import Profile, parity_profile, permutation_profile
from .base import ExactDenoiser

__all__ = ["ParityDenoiser", "PermutationDenoiser"]


class ParityDenoiser(ExactDenoiser):
    """Uniform law on sequences whose tokens sum to 0 modulo K: free until the last token, which is determined.

    Args:
        length: L, at least 1.
        K: vocabulary size; all ids 0..K-1 carry values, so the mask is K.
    """

    def __init__(self, length: int, K: int) -> None:
        if length < 1:
            raise ValueError(f"length={length} must be at least 1")
        super().__init__(K, length)

    def profile(self) -> Profile:
        """Information profile of the law."""
        return parity_profile(self.length, self.vocab_size)

    def log_marginal(self, tokens: Tensor) -> Tensor:
        masked = tokens == self.mask_id
        free = masked.sum(1).clamp(min=1)
        value = (free - self.length).double() * math.log(self.vocab_size)
        broken = ~masked.any(1) & (tokens.sum(1) % self.vocab_size != 0)
        return value.masked_fill(broken, -torch.inf)

    def _conditional(self, tokens: Tensor, row: Tensor, column: Tensor) -> Tensor:
        masked = tokens == self.mask_id
        check = -tokens.masked_fill(masked, 0).sum(1) % self.vocab_size
        determined = torch.nn.functional.one_hot(check, self.vocab_size).double()
        return torch.where((masked.sum(1) == 1)[:, None], determined, torch.ones_like(determined))[row]


class PermutationDenoiser(ExactDenoiser):
    """Uniform law on permutations of 0..L-1 (K = L): uniform over the ids that are not used yet.

    Args:
        length: L, at least 1.
    """

    def __init__(self, length: int) -> None:
        if length < 1:
            raise ValueError(f"length={length} must be at least 1")
        super().__init__(length, length)

    def profile(self) -> Profile:
        """Information profile of the law."""
        return permutation_profile(self.length)

    def log_marginal(self, tokens: Tensor) -> Tensor:
        revealed = (tokens != self.mask_id).sum(1)
        count = torch.tensor(float(self.length + 1), dtype=torch.float64, device=tokens.device)
        value = torch.lgamma(count - revealed) - torch.lgamma(count)
        return value.masked_fill((self._uses(tokens) > 1).any(1), -torch.inf)

    def _conditional(self, tokens: Tensor, row: Tensor, column: Tensor) -> Tensor:
        uses = self._uses(tokens)
        return ((uses == 0) & (uses <= 1).all(1, keepdim=True)).double()[row]

    def _uses(self, tokens: Tensor) -> Tensor:
        """How often each id stands in each context, (B, K)."""
        counts = tokens.new_zeros(tokens.shape[0], self.vocab_size + 1)
        return counts.scatter_add_(1, tokens, torch.ones_like(tokens))[:, : self.vocab_size]
