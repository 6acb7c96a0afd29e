r"""What a denoiser is, and the base of those that are exact.

For a context $x$ with revealed set $U$, a denoiser gives $c_i(a\,|\,x) = q_0(X_i = a\,|\,X_U = x_U)$. It needs no
time: the absorbing score factorises into a function of time and this conditional (Ou et al. 2024, arXiv 2406.03736).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..process import AbsorbingProcess

__all__ = ["Denoiser", "ExactDenoiser", "check_denoiser", "check_law", "clean_log_probs"]


@runtime_checkable
class Denoiser(Protocol):
    """A callable that gives log-probabilities of the clean tokens.

    Called as ``denoiser(tokens, t, positions)`` with tokens (B, L) int64, t (B,) float64 or None, and positions
    (N, 2) int64 of (row, column) or None. It returns (B, L, K), or (N, K) when positions are given.
    An attribute ``takes_time = False`` says that t is ignored (then unchanged rows are not evaluated again); a method
    ``impossible(tokens) -> (B,) bool`` lets samplers flag rows that left the support of the law.
    """

    def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor: ...


def check_denoiser(process: AbsorbingProcess, denoiser: Denoiser) -> None:
    """Raise ValueError if an exact denoiser is of another vocabulary, length or mask than the process."""
    if isinstance(denoiser, ExactDenoiser):
        own, wanted = denoiser.process, process
        if (own.vocab_size, own.length, own.mask_id) != (wanted.vocab_size, wanted.length, wanted.mask_id):
            raise ValueError(
                f"the denoiser has vocab_size={own.vocab_size}, length={own.length}, mask_id={own.mask_id}, but the "
                f"process has {wanted.vocab_size}, {wanted.length}, {wanted.mask_id}: they must agree"
            )


def clean_log_probs(
    process: AbsorbingProcess,
    denoiser: Denoiser,
    tokens: Tensor,
    t: Tensor | None,
    positions: Tensor,
    rows: Tensor | None = None,
) -> Tensor:
    """Ask a denoiser for the given positions and return (N, K) normalised log-probabilities, -inf at a mask in 0..K-1.

    Args:
        process: says which ids are clean.
        denoiser: what to ask.
        tokens: contexts (B, L).
        t: times (B,) or None.
        positions: (N, 2) of (row, column).
        rows: numbers of the contexts in messages, (B,); 0..B-1 by default.

    Raises:
        ValueError: another vocabulary, NaN, or no mass at all, naming the row and column.
    """
    log_probs = denoiser(tokens, t, positions)
    count, width = positions.shape[0], process.vocab_size
    if log_probs.shape not in {(count, width), (count, process.num_states)}:
        raise ValueError(
            f"the denoiser returned shape {tuple(log_probs.shape)} for {count} positions, but the process has "
            f"vocab_size={width}: the vocabularies of denoiser and process must agree"
        )
    if log_probs.dtype in (torch.float16, torch.bfloat16):
        log_probs = log_probs.float()
    if log_probs.shape[1] > process.mask_id:  # the mask has a column: it is never predicted
        log_probs = log_probs.index_fill(1, torch.tensor(process.mask_id, device=log_probs.device), -torch.inf)
    log_probs = log_probs.log_softmax(1)[:, :width]
    bad = log_probs.amax(dim=1).isnan()
    if bool(bad.any()):
        row, column = positions[int(bad.nonzero()[0, 0])].tolist()
        row = row if rows is None else int(rows[row])
        raise ValueError(
            f"the denoiser returned NaN, infinite or no probability at row {row}, column {column}; check its logits"
        )
    return log_probs


class ExactDenoiser(nn.Module):
    """Base of the exact denoisers: float64, time-free, with the log-marginal of every context.

    A context of probability zero (reachable after an error, or through a prompt) gets the uniform law over the clean
    tokens at its masked places, and is reported by `impossible`.

    Args:
        vocab_size: K.
        length: L.
        mask_id: id of the mask; K by default.
    """

    takes_time = False

    def __init__(self, vocab_size: int, length: int, mask_id: int | None = None) -> None:
        super().__init__()
        self.process = AbsorbingProcess(vocab_size, length, mask_id=mask_id)
        fallback = torch.full((vocab_size,), -torch.inf, dtype=torch.float64)
        fallback[self.process.clean_ids] = -torch.tensor(float(len(self.process.clean_ids))).double().log()
        self.register_buffer("_fallback", fallback, persistent=False)

    @property
    def vocab_size(self) -> int:
        """K, the size of the last axis."""
        return self.process.vocab_size

    @property
    def length(self) -> int:
        """L, tokens per sequence."""
        return self.process.length

    @property
    def mask_id(self) -> int:
        """Id of the mask."""
        return self.process.mask_id

    @property
    def device(self) -> torch.device:
        """Where the tables live."""
        return self._buffer("_fallback").device

    @abstractmethod
    def log_marginal(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, " B"]:
        r"""$\log q_0(X_U = x_U)$ of every context (B, L), shape (B,); -inf where it is impossible."""

    @abstractmethod
    def _conditional(self, tokens: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Weights (N, K) proportional to $c_i(a|x)$ at masked places; all zero where the context is impossible."""

    def impossible(self, tokens: Int[Tensor, "B L"]) -> Bool[Tensor, " B"]:
        """Whether each context (B, L) has probability zero, (B,) bool."""
        return torch.isneginf(self.log_marginal(tokens))

    def forward(
        self,
        tokens: Int[Tensor, "B L"],
        t: Float[Tensor, " B"] | None = None,
        positions: Int[Tensor, "N 2"] | None = None,
    ) -> Float[Tensor, "*places K"]:
        """Log-probabilities (B, L, K), or (N, K) at `positions`; a revealed place has its own token for certain."""
        if tokens.dim() != 2 or tokens.shape[1] != self.length:
            raise ValueError(f"tokens have shape {tuple(tokens.shape)}, this law has length {self.length}")
        if positions is None:
            row, column = torch.ones_like(tokens).nonzero(as_tuple=True)
        else:
            row, column = positions.unbind(1)
        weights = self._conditional(tokens, row, column)
        total = weights.sum(1, keepdim=True)
        law = torch.where(total > 0, (weights / total).log(), self._buffer("_fallback"))
        here = tokens[row, column]
        copied = torch.full_like(law, -torch.inf).scatter_(1, here.clamp(max=self.vocab_size - 1)[:, None], 0.0)
        law = torch.where((here == self.mask_id)[:, None], law, copied)
        return law if positions is not None else law.view(*tokens.shape, self.vocab_size)

    def _buffer(self, name: str) -> Tensor:
        return cast(Tensor, getattr(self, name))


def check_law(probabilities: Tensor, name: str) -> Tensor:
    """Return float64 probabilities over the last axis, normalised.

    Raises:
        ValueError: a negative or NaN entry, or a sum away from 1 by more than rounding (1e-9; 1e-5 in float32).
    """
    given = torch.as_tensor(probabilities).detach()
    law, tolerance = given.double(), 1e-9 if given.dtype == torch.float64 else 1e-5
    total = law.sum(-1)
    if not bool((law >= 0).all()):
        raise ValueError(f"{name} holds the entry {float(law[~(law >= 0)][0]):g}; probabilities must not be negative")
    off = (total - 1.0).abs() > tolerance
    if bool(off.any()):
        raise ValueError(f"{name} sums to {float(total[off].flatten()[0]):.9g}, not to 1; divide it by its sum")
    return law / total[..., None]
