"""A time-free bidirectional transformer that predicts the clean tokens behind masks.

Axis names: B sequences, L places, D width, H heads, E = D / H, K clean tokens, N chosen places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Transformer"]


def rotary_angles(length: int, head_width: int, grid: tuple[int, int] | None) -> Tensor:
    """Rotation angles of every place (Su et al. 2021, arXiv 2104.09864, eq. 15).

    Args:
        length: number of places L.
        head_width: width E of one head, even (a multiple of 4 with `grid`).
        grid: (rows, columns) when the places are the cells of an image in row-major order: half of the
            frequencies then turn with the row and half with the column.

    Returns:
        Float tensor (L, E / 2), in radians.
    """
    places = torch.arange(length, dtype=torch.float64)
    axes = [places] if grid is None else [places // grid[1], places % grid[1]]
    count = head_width // 2 // len(axes)
    base = 10_000.0 if grid is None else 100.0
    frequencies = base ** (-torch.arange(count, dtype=torch.float64) / count)
    return torch.cat([torch.outer(axis, frequencies) for axis in axes], dim=1).float()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn the pairs (x_e, x_{e + E/2}) of the last axis; `sine` is negative on its first half."""
    return torch.addcmul(x * cosine, x.roll(x.shape[-1] // 2, -1), sine)


class Block(nn.Module):
    """One pre-norm transformer block: attention over all places, then a two-layer perceptron."""

    def __init__(self, width: int, heads: int, expansion: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.attention_out = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp_in = nn.Linear(width, expansion * width)
        self.mlp_out = nn.Linear(expansion * width, width)

    def forward(self, x_BLD: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Map (B, L, D) to (B, L, D)."""
        batch, length, width = x_BLD.shape
        qkv = self.qkv(self.attention_norm(x_BLD)).view(batch, length, 3, self.heads, -1)
        query, key = rotate(qkv[:, :, :2], cosine, sine).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, qkv[:, :, 2].transpose(1, 2))
        x_BLD = x_BLD + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x_BLD + self.mlp_out(F.silu(self.mlp_in(self.mlp_norm(x_BLD))))


class Transformer(nn.Module):
    """Logits of the clean tokens given a partly masked sequence, for the wrapper `LogitsDenoiser`.

    No time enters: the conditional law of the clean tokens given the unmasked ones does not depend on it
    (Ou et al. 2024, arXiv 2406.03736, Theorem 1).

    Args:
        vocab_size: number K of predicted tokens.
        length: longest sequence accepted.
        num_states: rows of the embedding table, masks included; `process.num_states`. Default K + 1.
        width: D, a multiple of `heads`.
        depth: number of blocks.
        heads: attention heads H.
        expansion: hidden width of the perceptrons, as a multiple of D.
        tied: use the embedding table as output matrix as well.
        fixed_layout: every place has a meaning of its own (the pixels of an image): adds a learned vector per
            place and gives every place its own output bias. False for text, which may be shifted.
        grid: (rows, columns) of an image in row-major order; rotary positions then run along both axes.

    Raises:
        ValueError: a size below one, a head width that rotary positions cannot pair up, or a grid that does
            not have `length` cells.
    """

    cosine: Tensor
    sine: Tensor

    def __init__(
        self,
        vocab_size: int,
        length: int,
        *,
        num_states: int | None = None,
        width: int = 64,
        depth: int = 3,
        heads: int = 4,
        expansion: int = 4,
        tied: bool = False,
        fixed_layout: bool = False,
        grid: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        num_states = vocab_size + 1 if num_states is None else num_states
        grid = None if grid is None else (int(grid[0]), int(grid[1]))
        self.vocab_size, self.length, self.num_states = vocab_size, length, num_states
        self.width, self.depth, self.heads, self.expansion = width, depth, heads, expansion
        self.tied, self.fixed_layout, self.grid = tied, fixed_layout, grid
        self._check_sizes()
        self.embedding = nn.Embedding(num_states, width)
        self.place = nn.Parameter(torch.zeros(length, width)) if fixed_layout else None
        self.blocks = nn.ModuleList(Block(width, heads, expansion) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = None if tied else nn.Linear(width, vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(length, vocab_size) if fixed_layout else torch.zeros(vocab_size))
        angles = rotary_angles(length, width // heads, grid)
        cosine, sine = angles.cos()[:, None, None], angles.sin()[:, None, None]
        self.register_buffer("cosine", torch.cat((cosine, cosine), dim=-1), persistent=False)
        self.register_buffer("sine", torch.cat((-sine, sine), dim=-1), persistent=False)
        self.reset_parameters()

    def _check_sizes(self) -> None:
        """Raise one ValueError that lists everything wrong with the sizes."""
        names = ("vocab_size", "length", "width", "depth", "heads", "expansion")
        sizes = {name: getattr(self, name) for name in names}
        problems = [f"{name}={value} must be at least 1" for name, value in sizes.items() if value < 1]
        if self.num_states < self.vocab_size:
            problems.append(f"num_states={self.num_states} must be at least vocab_size={self.vocab_size}")
        unit = (2 if self.grid is None else 4) * self.heads
        if min(self.width, self.heads) >= 1 and self.width % unit:
            problems.append(
                f"width={self.width} must be a multiple of {unit // self.heads} * heads={unit} (rotary positions)"
            )
        if self.grid is not None and math.prod(self.grid) != self.length:
            problems.append(f"grid={self.grid} has {math.prod(self.grid)} cells and must have length={self.length}")
        if problems:
            raise ValueError("Transformer: " + "; ".join(problems))

    def reset_parameters(self) -> None:
        """Draw the weights (from torch's global generator); residual branches start small, an untied head at zero."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2 or name in ("bias", "place", "head.weight"):
                continue
            fan_in = parameter.shape[1]
            std = fan_in**-0.5
            if name.endswith(("attention_out.weight", "mlp_out.weight")):
                std /= (2 * len(self.blocks)) ** 0.5
            nn.init.normal_(parameter, std=std)
        if self.place is not None:
            nn.init.normal_(self.place, std=self.place.shape[1] ** -0.5)
        if self.head is not None:
            nn.init.zeros_(self.head.weight)

    @torch.no_grad()
    def set_log_marginals(self, log_marginals: Tensor) -> None:
        """Start the output bias at the data's log-frequencies, so that training begins at the marginal law.

        Args:
            log_marginals: (K,), or (L, K) when every place has its own bias (`fixed_layout`); nats.

        Raises:
            ValueError: another shape, or a value that is not finite (smooth the counts first).
        """
        if log_marginals.shape != self.bias.shape:
            raise ValueError(
                f"log_marginals has shape {tuple(log_marginals.shape)}; this network's output bias has shape "
                f"{tuple(self.bias.shape)}"
            )
        if not bool(log_marginals.isfinite().all()):
            raise ValueError("log_marginals holds values that are not finite; add one to every count before the log")
        self.bias.copy_(log_marginals)

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """Predict the clean token of every place, or of chosen places only.

        Args:
            tokens: (B, l) long, l <= `length`, masks included.
            positions: (N, 2) long, pairs (row, place); the head then runs on these places alone.

        Returns:
            Logits (B, l, K), or (N, K) when `positions` is given.

        Raises:
            ValueError: a sequence longer than `length`.
        """
        length = tokens.shape[1]
        if length > self.length:
            raise ValueError(f"tokens have length {length}; this network accepts at most {self.length}")
        x_BLD = self.embedding(tokens)
        if self.place is not None:
            x_BLD = x_BLD + self.place[:length]
        cosine, sine = self.cosine[:length].to(x_BLD.dtype), self.sine[:length].to(x_BLD.dtype)
        for block in self.blocks:
            x_BLD = block(x_BLD, cosine, sine)
        bias = self.bias if self.place is None else self.bias[:length]
        if positions is None:
            return self.project(x_BLD) + bias
        rows, places = positions.unbind(dim=1)
        return self.project(x_BLD[rows, places]) + (bias if self.place is None else bias[places])

    def project(self, x: Tensor) -> Tensor:
        """Hidden states (..., D) to logits (..., K), bias apart."""
        weight = self.embedding.weight[: self.vocab_size] if self.head is None else self.head.weight
        return F.linear(self.norm(x), weight)
