"""The exact denoiser of independent tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from ..information import Profile, product_profile
from .base import ExactDenoiser, check_law

__all__ = ["ProductDenoiser"]


class ProductDenoiser(ExactDenoiser):
    """Independent tokens: $c_i$ is the marginal of token i.

    Args:
        marginals: (L, K), each row a law.
        mask_id: id of the mask; K by default.
    """

    def __init__(self, marginals: Tensor, mask_id: int | None = None) -> None:
        marginals = torch.as_tensor(marginals)
        if marginals.dim() != 2:
            raise ValueError(f"marginals have shape {tuple(marginals.shape)}, expected (L, K)")
        super().__init__(marginals.shape[1], marginals.shape[0], mask_id)
        marginals = check_law(marginals, "marginals")
        if self.mask_id < self.vocab_size and bool((marginals[:, self.mask_id] > 0).any()):
            raise ValueError(f"marginals have mass on the mask id {self.mask_id}")
        self.register_buffer("_marginals", marginals, persistent=False)

    def profile(self) -> Profile:
        """Information profile of the law."""
        entropies = torch.special.entr(self._buffer("_marginals")).sum(1)
        return product_profile(float(entropies.mean()) if self.length else 0.0, self.length)

    def log_marginal(self, tokens: Tensor) -> Tensor:
        column = torch.arange(self.length, device=tokens.device)
        log_law = self._buffer("_marginals")[column, tokens.clamp(max=self.vocab_size - 1)].log()
        return log_law.masked_fill(tokens == self.mask_id, 0.0).sum(1)

    def _conditional(self, tokens: Tensor, row: Tensor, column: Tensor) -> Tensor:
        weights = self._buffer("_marginals")[column]
        return weights.masked_fill(self.impossible(tokens)[row][:, None], 0.0)
