"""The exact denoiser of a law given as a table."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import ExactDenoiser, check_law

__all__ = ["TabularDenoiser"]


class TabularDenoiser(ExactDenoiser):
    r"""Any law on $\{0..K-1\}^L$, from its table.

    All $(K+1)^L$ marginals $q_0(x_U)$ are summed once; a conditional is then the ratio of two of them.

    Args:
        pmf: probabilities, one axis of size K per token, (K,) * L.
        mask_id: id of the mask; K by default. If it lies in 0..K-1 the table must be zero there.

    Raises:
        ValueError: axes of unequal size, probabilities that are negative or do not sum to 1, a table too large
            (more than 2^26 marginals), or mass on the mask.
    """

    def __init__(self, pmf: Tensor, mask_id: int | None = None) -> None:
        pmf = torch.as_tensor(pmf)
        sizes = set(pmf.shape)
        if len(sizes) != 1:
            raise ValueError(f"pmf has shape {tuple(pmf.shape)}; it needs one axis of the same size K per token")
        size = sizes.pop()
        if (size + 1) ** pmf.dim() > 1 << 26:
            raise ValueError(f"pmf of shape {tuple(pmf.shape)} needs {(size + 1) ** pmf.dim()} marginals, over 2^26")
        super().__init__(size, pmf.dim(), mask_id)
        pmf = check_law(pmf.flatten(), "pmf").view(pmf.shape)
        for axis in range(pmf.dim()):
            if self.mask_id < size and bool((pmf.select(axis, self.mask_id) > 0).any()):
                raise ValueError(f"pmf has mass on the mask id {self.mask_id}")
            pmf = torch.cat([pmf, pmf.sum(axis, keepdim=True)], axis)
        self.register_buffer("_marginals", pmf.flatten(), persistent=False)
        powers = (size + 1) ** torch.arange(pmf.dim() - 1, -1, -1)
        self.register_buffer("_strides", powers, persistent=False)

    def log_marginal(self, tokens: Tensor) -> Tensor:
        return self._buffer("_marginals")[self._index(tokens)].log()

    def _index(self, tokens: Tensor) -> Tensor:
        """Flat index of each context in the table of marginals, in which a mask has index K."""
        return (tokens.masked_fill(tokens == self.mask_id, self.vocab_size) * self._buffer("_strides")).sum(1)

    def _conditional(self, tokens: Tensor, row: Tensor, column: Tensor) -> Tensor:
        change = torch.arange(self.vocab_size, device=tokens.device) - self.vocab_size
        index = self._index(tokens)[row][:, None] + change * self._buffer("_strides")[column][:, None]
        return self._buffer("_marginals")[index.clamp(min=0)]
