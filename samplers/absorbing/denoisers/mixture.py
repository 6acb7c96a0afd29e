"""The exact denoiser of a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from .base import ExactDenoiser, check_law
from .product import ProductDenoiser

__all__ = ["MixtureDenoiser"]


class MixtureDenoiser(ExactDenoiser):
    r"""A mixture of laws: responsibilities $\propto w_z q_z(x_U)$, then $\sum_z$ responsibility $\cdot\, c_{z,i}$.

    Args:
        weights: (Z,), a law.
        components: Z exact denoisers of the same size, or marginals (Z, L, K) of products.
        mask_id: id of the mask when `components` is a tensor; K by default.

    Raises:
        ValueError: components of different sizes, or another number of them than weights.
    """

    def __init__(
        self, weights: Tensor, components: Sequence[ExactDenoiser] | Tensor, mask_id: int | None = None
    ) -> None:
        if isinstance(components, Tensor):
            components = [ProductDenoiser(marginals, mask_id) for marginals in components]
        weights = check_law(weights, "weights")
        sizes = {(c.vocab_size, c.length, c.mask_id) for c in components}
        if len(sizes) != 1 or weights.shape != (len(components),):
            raise ValueError(
                f"{len(components)} components of (K, L, mask_id) in {sorted(sizes)} with weights of shape "
                f"{tuple(weights.shape)}: give one weight per component, all components of one size"
            )
        super().__init__(*sizes.pop())
        self.components = nn.ModuleList(components)
        self.register_buffer("_log_weights", weights.log(), persistent=False)

    def log_marginal(self, tokens: Tensor) -> Tensor:
        return self._joint(tokens).logsumexp(1)

    def _joint(self, tokens: Tensor) -> Tensor:
        r"""$\log w_z + \log q_z(x_U)$, (B, Z)."""
        parts = [cast(ExactDenoiser, c).log_marginal(tokens) for c in self.components]
        return torch.stack(parts, 1) + self._buffer("_log_weights")

    def _conditional(self, tokens: Tensor, row: Tensor, column: Tensor) -> Tensor:
        joint = self._joint(tokens)
        best = joint.amax(1, keepdim=True)
        responsibility = (joint - best.clamp(min=-1e300)).exp()[row]
        positions = torch.stack([row, column], 1)
        laws = torch.stack([c(tokens, None, positions).exp() for c in self.components], 1)
        return (responsibility[:, :, None] * laws).sum(1)
