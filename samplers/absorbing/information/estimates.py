"""Information profile of a network from data: its cross-entropy given m visible tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...streams import draw_key, uniform
from ..schedules import Schedule
from .profiles import Profile

__all__ = ["ProfileEstimate", "cyclic_stride", "estimate_profile"]


@dataclass(frozen=True)
class ProfileEstimate:
    r"""Monte-Carlo estimate of a denoiser's profile $\hat h_m = E[-\log\hat p_i(X_i|X_A)]$, $|A| = m$.

    Attributes:
        increments: one row per sequence, unbiased for $\hat h_0..\hat h_{d-1}$, shape (B, d), nats. Sequences
            are independent, so the error of any linear functional (`nelbo`, a path bound) is that of a mean
            over rows.
    """

    increments: Tensor

    @property
    def profile(self) -> Profile:
        r"""$\hat h$ as a profile: $\hat g$, $\hat F$ and every function of `bounds` apply."""
        return Profile.from_increments(self.increments.mean(0))

    @property
    def standard_errors(self) -> Tensor:
        r"""Standard error of each $\hat h_m$, shape (d,); infinite with a single sequence."""
        return _standard_error(self.increments)

    @property
    def nelbo(self) -> float:
        r"""$\int_0^1\hat g = \sum_m\hat h_m$ in nats per sequence, at least the data's entropy."""
        return float(self.increments.sum(1).mean())

    @property
    def nelbo_error(self) -> float:
        """Standard error of `nelbo`; infinite with a single sequence."""
        return float(_standard_error(self.increments.sum(1)))


def _standard_error(rows: Tensor) -> Tensor:
    if len(rows) == 1:
        return torch.full_like(rows[0], math.inf)
    return rows.std(0) / math.sqrt(len(rows))


@torch.no_grad()
def estimate_profile(
    denoiser: Callable[..., Tensor],
    tokens: Tensor,
    *,
    mask_id: int,
    draws_per_count: int = 1,
    schedule: Schedule | None = None,
    batch_size: int = 256,
    generator: torch.Generator | None = None,
    first: int = 0,
    progress: bool = False,
) -> ProfileEstimate:
    r"""Estimate a denoiser's information profile and NELBO on data.

    Per sequence and draw one random order is drawn; for every m = 0..d-1 the m tokens that follow a place of this
    order are shown and all the others are scored. Each m is unbiased; the places spread around the cycle, so that
    every token is scored about equally often, and the sum over m varies little. Costs `B * d * draws_per_count`
    sequence evaluations.

    Args:
        denoiser: any `Denoiser` (tokens, t, positions) with normalised predictions.
        tokens: clean data, (B, d) int64.
        mask_id: id of the mask.
        draws_per_count: random orders per sequence.
        schedule: for a network that takes the time: the time is then the one at which a fraction (d - m)/d is
            masked.
        batch_size: rows per network call.
        generator: one key is drawn from it; the orders depend on it and on the row number alone.
        first: number of the first row.
        progress: show a progress bar.

    Raises:
        TypeError, ValueError: tokens of another dtype or shape, or with masks; no draw; or a log-probability
            that is NaN or infinite.

    Source: absorbing diffusion's NELBO as an any-order likelihood, Ou et al. 2024, arXiv 2406.03736.
    """
    _check_arguments(tokens, mask_id, draws_per_count, batch_size)
    key, (rows, length) = draw_key(generator), tokens.shape
    losses = torch.zeros(rows * length, dtype=torch.float64, device=tokens.device)
    numbers, stride = torch.arange(first, first + rows, device=tokens.device)[:, None], cyclic_stride(length)
    for draw in range(draws_per_count):
        ranks = uniform(key, numbers, draw, torch.arange(length, device=tokens.device)).argsort(1).argsort(1)
        for part in _parts(rows * length, batch_size, progress):
            row, count = part.to(tokens.device) // length, part.to(tokens.device) % length
            hidden = (ranks[row] + stride * count[:, None]) % length >= count[:, None]
            t = None if schedule is None else schedule.time_at(1.0 - count.double() / length)
            losses[row * length + count] += _mean_loss(denoiser, tokens[row], hidden, mask_id, t)
    increments = (losses / draws_per_count).reshape(rows, length).cpu()
    _check_finite(increments)
    return ProfileEstimate(increments)


def cyclic_stride(length: int) -> int:
    """A step around a cycle that visits all `length` places and leaves successive ones far apart (golden section)."""
    step = max(round(0.618 * length), 1)
    while math.gcd(step, length) > 1:
        step += 1
    return step


def _mean_loss(
    denoiser: Callable[..., Tensor], tokens: Tensor, hidden: Tensor, mask_id: int, t: Tensor | None
) -> Tensor:
    r"""Mean of $-\log\hat p_i(x_i)$ over the hidden tokens of each row, (B,) float64."""
    positions = hidden.nonzero()
    log_probs = denoiser(tokens.masked_fill(hidden, mask_id), t, positions).double()
    if log_probs.shape[1] > mask_id:  # the mask has a column: it is never predicted
        column = torch.tensor(mask_id, device=log_probs.device)
        log_probs = log_probs.index_fill(1, column, -math.inf).log_softmax(1)
    if int(tokens.max()) >= log_probs.shape[1]:
        raise ValueError(f"tokens holds id {int(tokens.max())}, but the denoiser predicts {log_probs.shape[1]} ids")
    truth = log_probs.gather(1, tokens[hidden][:, None]).squeeze(1)
    totals = torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)
    return -totals.index_add(0, positions[:, 0], truth) / hidden.sum(1)


def _parts(total: int, size: int, progress: bool) -> Iterator[Tensor]:
    """The numbers 0..total - 1 in pieces, with a progress bar on request."""
    parts = torch.arange(total).split(size)
    if not progress:
        yield from parts
        return
    from tqdm import tqdm

    yield from tqdm(parts, desc="profile", unit="batch")


def _check_arguments(tokens: Tensor, mask_id: int, draws_per_count: int, batch_size: int) -> None:
    if not isinstance(tokens, Tensor) or tokens.dtype != torch.int64:
        kind = getattr(tokens, "dtype", type(tokens).__name__)
        raise TypeError(f"tokens must be an int64 tensor of token ids, got {kind}; use tokens.long()")
    if tokens.dim() != 2 or not tokens.numel():
        raise ValueError(f"tokens has shape {tuple(tokens.shape)}; give (B, d), at least one sequence of one token")
    if int(tokens.min()) < 0:
        raise ValueError(f"tokens holds id {int(tokens.min())}; ids start at 0")
    if bool((tokens == mask_id).any()):
        raise ValueError(f"tokens holds the mask id {mask_id}, but clean data must not hold it")
    for name, value in [("draws_per_count", draws_per_count), ("batch_size", batch_size)]:
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")


def _check_finite(increments: Tensor) -> None:
    bad = (~torch.isfinite(increments)).nonzero()
    if len(bad):
        row, count = bad[0].tolist()
        raise ValueError(
            f"the denoiser gives the true tokens of row {row}, with {count} of {increments.shape[1]} shown, "
            f"a mean log-probability of {-float(increments[row, count])}; it must be finite for all data"
        )
