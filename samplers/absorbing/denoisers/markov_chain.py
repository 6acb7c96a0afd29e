"""The exact denoiser of a Markov chain."""

from __future__ import annotations

import torch
from torch import Tensor

from ..information import Profile, markov_chain_profile
from .base import ExactDenoiser, check_law

__all__ = ["MarkovChainDenoiser"]


class MarkovChainDenoiser(ExactDenoiser):
    r"""A Markov chain along the sequence.

    Given the nearest revealed token b at distance l to the left and c at distance r to the right,
    $c_i(a) \propto P^l(b, a) P^r(a, c)$; a missing left side is replaced by the marginal of token i, a missing right
    side by 1. Powers of P are tabulated once, O(L K^2) numbers.

    Args:
        initial: law of the first token, (K,).
        transition: $P(a, b) = P(X_{i+1} = b\,|\,X_i = a)$, (K, K), each row a law.
        length: L.
        mask_id: id of the mask; K by default.
    """

    def __init__(self, initial: Tensor, transition: Tensor, length: int, mask_id: int | None = None) -> None:
        initial = check_law(initial, "initial")
        transition = check_law(transition, "transition")
        if transition.shape != (initial.shape[0], initial.shape[0]):
            raise ValueError(
                f"initial of shape {tuple(initial.shape)} needs a transition of shape {2 * tuple(initial.shape)}, "
                f"got {tuple(transition.shape)}"
            )
        super().__init__(initial.shape[0], length, mask_id)
        powers = [torch.eye(self.vocab_size, dtype=torch.float64)]
        for _ in range(1, length):
            powers.append(powers[-1] @ transition)
        self._initial, self._transition = initial, transition
        stacked = torch.stack(powers)
        self.register_buffer("_powers", stacked, persistent=False)
        self.register_buffer("_marginals", initial @ stacked, persistent=False)
        if self.mask_id < self.vocab_size and bool((self._buffer("_marginals")[:, self.mask_id] > 0).any()):
            raise ValueError(f"the chain reaches the mask id {self.mask_id}")

    def profile(self) -> Profile:
        """Information profile of the law; ValueError unless `initial` is the stationary law."""
        return markov_chain_profile(self._initial, self._transition, self.length)

    def log_marginal(self, tokens: Tensor) -> Tensor:
        revealed, here = tokens != self.mask_id, tokens.clamp(max=self.vocab_size - 1)
        column = torch.arange(self.length, device=tokens.device).expand_as(tokens)
        before = torch.cat([torch.full_like(column[:, :1], -1), self._nearest_left(tokens)[:, :-1]], 1)
        step = self._buffer("_powers")[(column - before.clamp(min=0)), here.gather(1, before.clamp(min=0)), here]
        first = self._buffer("_marginals")[column, here]
        return torch.where(before < 0, first, step).log().masked_fill(~revealed, 0.0).sum(1)

    def _conditional(self, tokens: Tensor, row: Tensor, column: Tensor) -> Tensor:
        left, right = self._nearest_left(tokens)[row, column], self._nearest_right(tokens)[row, column]
        powers = self._buffer("_powers")
        b, c = tokens[row, left.clamp(min=0)], tokens[row, right.clamp(max=self.length - 1)]
        last = self.vocab_size - 1
        forward = powers[(column - left).clamp(max=self.length - 1), b.clamp(max=last)]
        forward = torch.where((left < 0)[:, None], self._buffer("_marginals")[column], forward)
        backward = powers[(right - column).clamp(max=self.length - 1), :, c.clamp(max=last)]
        backward = torch.where((right >= self.length)[:, None], torch.ones_like(backward), backward)
        weights = forward * backward
        return weights.masked_fill(self.impossible(tokens)[row][:, None], 0.0)

    def _nearest_left(self, tokens: Tensor) -> Tensor:
        """Column of the nearest revealed token at or left of each place, -1 if there is none, (B, L)."""
        column = torch.arange(self.length, device=tokens.device).expand_as(tokens)
        return column.masked_fill(tokens == self.mask_id, -1).cummax(1).values

    def _nearest_right(self, tokens: Tensor) -> Tensor:
        """Column of the nearest revealed token at or right of each place, L if there is none, (B, L)."""
        column = torch.arange(self.length, device=tokens.device).expand_as(tokens)
        return column.masked_fill(tokens == self.mask_id, self.length).flip(1).cummin(1).values.flip(1)
