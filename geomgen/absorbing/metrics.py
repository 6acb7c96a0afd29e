"""How well a denoiser models data: evidence bounds in nats and bits per token, and the baselines to beat.

All numbers are bounds or exact likelihoods of held-out data, never of samples: a sampler plays no role, except in
`nelbo_steps`, whose whole point it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor
from tqdm import tqdm

from samplers.absorbing import AbsorbingProcess, Denoiser, Sampler
from samplers.absorbing.denoisers import clean_log_probs
from samplers.absorbing.information import cyclic_stride
from samplers.streams import derive, draw_key, uniform

__all__ = [
    "NELBO",
    "log_frequencies",
    "marginal_baseline",
    "nelbo",
    "nelbo_any_order",
    "nelbo_steps",
    "uniform_baseline",
]

_PLACES, _COUNTS, _TIMES = range(3)  # purposes of the random streams


@dataclass(frozen=True)
class NELBO:
    """A negative log-likelihood, or an upper bound of it, on data.

    Attributes:
        per_sequence: (B,) float64, nats; unbiased for each sequence.
        tokens_scored: number of tokens that each sequence's value is about, (B,).
        monte_carlo_error: standard error of `mean` from the random masks alone, the data being fixed; None where
            one draw leaves it unknown. What is stratified is counted as independent, so it is rather too large.
    """

    per_sequence: Float[Tensor, " B"]
    tokens_scored: Int[Tensor, " B"]
    monte_carlo_error: float | None = None

    @property
    def mean(self) -> float:
        """Nats per sequence."""
        return float(self.per_sequence.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of `mean` as an estimate for new data (masks included); infinite for one sequence."""
        count = len(self.per_sequence)
        return float(self.per_sequence.std()) / math.sqrt(count) if count > 1 else math.inf

    @property
    def bits_per_token(self) -> float:
        """Bits per scored token; 0 if there are none."""
        return float(self.per_sequence.sum()) / max(int(self.tokens_scored.sum()), 1) / math.log(2)

    @property
    def bits_error(self) -> float:
        """`standard_error` on the scale of `bits_per_token`."""
        scored = float(self.tokens_scored.double().mean())
        return self.standard_error / max(scored, 1.0) / math.log(2)


def nelbo(
    denoiser: Denoiser,
    tokens: Int[Tensor, "B L"],
    process: AbsorbingProcess,
    *,
    num_draws: int = 16,
    given: Bool[Tensor, "B L"] | Bool[Tensor, " L"] | None = None,
    generator: torch.Generator | None = None,
    first: int = 0,
    batch_size: int = 256,
    progress: bool = False,
) -> NELBO:
    """Estimate the NELBO of continuous time (infinitely many steps) of every sequence.

    Each draw masks k of d places, k uniform on 1..d, and weights them by d/k (any-order form). To lower the variance
    k is stratified over the draws of a sequence, and the masked places are windows that move around a random cyclic
    order, so that d draws of one k mask every place equally often. Denoisers that take the time get a draw of it
    given k: the mask probability is then distributed as the k-th smallest of d uniform numbers.

    Args:
        denoiser: exact or a network.
        tokens: clean data.
        process: mask id, vocabulary, schedule.
        num_draws: draws per sequence; one is enough for an unbiased value.
        given: places (of all rows, or per row) that are shown and not scored: bounds the conditional likelihood.
        generator: one key is drawn from it.
        first: number of the first row, to reproduce a row of a larger batch.
        batch_size: masked sequences per call of the denoiser.
        progress: show a progress bar.

    Returns:
        `NELBO` with the Monte-Carlo error; a sequence without places to score has value 0.

    Raises:
        ValueError, TypeError: an empty batch, num_draws < 1, bad tokens or `given`; NaN from the denoiser.
    """
    free = _check(tokens, process, given)
    if num_draws < 1:
        raise ValueError(f"num_draws={num_draws} must be at least 1")
    key = draw_key(generator)
    rows = torch.arange(first, first + len(tokens), device=tokens.device)
    values = torch.zeros(len(tokens), num_draws, dtype=torch.float64, device=tokens.device)
    strides = torch.tensor([cyclic_stride(int(count)) for count in free.sum(1)], device=tokens.device)
    for row, draw in _chunks(len(tokens), num_draws, batch_size, progress, tokens.device):
        total = free[row].sum(1)
        count = ((draw + uniform(derive(key, _COUNTS), rows[row], draw)) / num_draws * total).long() + 1
        block, turn = draw // total.clamp(min=1), draw % total.clamp(min=1) * strides[row]
        noise = uniform(derive(key, _PLACES), rows[row][:, None], block[:, None], _columns(tokens))
        rank = noise.masked_fill(~free[row], torch.inf).argsort(1).argsort(1)
        masked = free[row] & ((rank - turn[:, None]) % total.clamp(min=1)[:, None] < count[:, None])
        time = process.schedule.time_at(_beta(derive(key, _TIMES), rows[row], draw, count, total))
        values[row, draw] = total / count * _score(denoiser, tokens[row], masked, masked, time, process)
    error = float(values.var(1).sum().div(num_draws).sqrt()) / len(tokens) if num_draws > 1 else None
    return NELBO(values.mean(1), free.sum(1), error)


def nelbo_any_order(
    denoiser: Denoiser,
    tokens: Int[Tensor, "B L"],
    process: AbsorbingProcess,
    *,
    given: Bool[Tensor, "B L"] | Bool[Tensor, " L"] | None = None,
    generator: torch.Generator | None = None,
    first: int = 0,
    batch_size: int = 256,
    progress: bool = False,
) -> NELBO:
    """Estimate the same NELBO by passing once over every mask count: reveal one place at a time in a random order.

    Every place is scored exactly once, so that the value is exact (no Monte-Carlo error) for independent tokens.
    Costs L evaluations per sequence. Arguments, returns and errors as in `nelbo`, without the Monte-Carlo error.
    """
    free = _check(tokens, process, given)
    key = draw_key(generator)
    rows = torch.arange(first, first + len(tokens), device=tokens.device)
    values = torch.zeros(len(tokens), tokens.shape[1], dtype=torch.float64, device=tokens.device)
    for row, step in _chunks(len(tokens), tokens.shape[1], batch_size, progress, tokens.device):
        noise = uniform(derive(key, _PLACES), rows[row][:, None], _columns(tokens)).masked_fill(~free[row], -1.0)
        own = noise.sort(1, descending=True).values.gather(1, step[:, None])
        time = process.schedule.time_at(own.squeeze(1).clamp(min=0.0))
        values[row, step] = _score(
            denoiser, tokens[row], free[row] & (noise <= own), free[row] & (noise == own), time, process
        )
    return NELBO(values.sum(1), free.sum(1))


def nelbo_steps(
    sampler: Sampler,
    denoiser: Denoiser,
    tokens: Int[Tensor, "B L"],
    *,
    num_draws: int = 1,
    generator: torch.Generator | None = None,
    first: int = 0,
) -> NELBO:
    """Estimate the N-step NELBO on a sampler's own grid: what its samples cost in likelihood.

    An upper bound of the negative log-likelihood of the law that the sampler draws from with this denoiser; its
    excess over `nelbo` is the discretisation error in path divergence.

    Args:
        sampler: a value-independent sampler (`Tweedie`, `TauLeaping`, `Euler`, `FirstHitting`, ...).
        denoiser: exact or a network.
        tokens: clean data.
        num_draws: draws of the reveal times per sequence.
        generator: one key is drawn from it.
        first: number of the first row.
    """
    free = _check(tokens, sampler.process, None)
    if num_draws < 1:
        raise ValueError(f"num_draws={num_draws} must be at least 1")
    key = draw_key(generator)
    draws = []
    for draw in range(num_draws):
        stream = torch.Generator().manual_seed(derive(key, draw))
        draws.append(sampler.teacher_forced(denoiser, tokens, generator=stream, first=first))
    values = torch.stack(draws, 1)
    error = float(values.var(1).sum().div(num_draws).sqrt()) / len(tokens) if num_draws > 1 else None
    return NELBO(values.mean(1), free.sum(1), error)


def log_frequencies(
    tokens: Integer[Tensor, "B L"], vocab_size: int, *, per_place: bool, pseudo_count: float = 1.0
) -> Float[Tensor, "*L K"]:
    """Log-frequencies of the tokens, smoothed by a pseudo-count per token (Laplace's rule at 1).

    Args:
        tokens: clean data, ids in 0..K-1.
        vocab_size: K.
        per_place: one law per place, (L, K), instead of one for all, (K,).
        pseudo_count: added to every count.

    Returns:
        float64 nats, (L, K) or (K,).

    Raises:
        ValueError: an empty batch, or an id outside 0..K-1.
    """
    if not tokens.numel():
        raise ValueError(f"tokens has shape {tuple(tokens.shape)}: frequencies need at least one token")
    if int(tokens.min()) < 0 or int(tokens.max()) >= vocab_size:
        raise ValueError(f"tokens holds ids {int(tokens.min())}..{int(tokens.max())}, outside 0..{vocab_size - 1}")
    columns = tokens.T if per_place else tokens.reshape(1, -1)
    counts = torch.stack([column.bincount(minlength=vocab_size) for column in columns]).double() + pseudo_count
    frequencies = (counts / counts.sum(1, keepdim=True)).log()
    return frequencies if per_place else frequencies[0]


def marginal_baseline(train: Integer[Tensor, "A L"], tokens: Int[Tensor, "B L"], vocab_size: int) -> NELBO:
    """Exact likelihood of `tokens` if places were independent, with add-one frequencies of `train` at every place."""
    log_law = log_frequencies(train, vocab_size, per_place=True)
    per_sequence = -log_law[_columns(tokens), tokens].sum(1)
    return NELBO(per_sequence, torch.full_like(tokens[:, 0], tokens.shape[1]), 0.0)


def uniform_baseline(tokens: Int[Tensor, "B L"], vocab_size: int) -> NELBO:
    """Likelihood if all tokens were equally likely: log2(K) bits per token."""
    nats = tokens.shape[1] * math.log(vocab_size)
    per_sequence = torch.full((len(tokens),), nats, dtype=torch.float64)
    return NELBO(per_sequence, torch.full_like(tokens[:, 0], tokens.shape[1]), 0.0)


def _columns(tokens: Tensor) -> Tensor:
    return torch.arange(tokens.shape[1], device=tokens.device)


def _check(tokens: Tensor, process: AbsorbingProcess, given: Tensor | None) -> Tensor:
    """Refuse bad data and return which places are scored, (B, L) bool."""
    process.check_tokens(tokens, "tokens")
    if not len(tokens):
        raise ValueError("tokens is an empty batch of shape (0, L): a mean needs at least one sequence")
    if given is None:
        return torch.ones_like(tokens, dtype=torch.bool)
    if given.dtype != torch.bool or given.shape not in {tokens.shape, tokens.shape[1:]}:
        raise ValueError(
            f"given is {given.dtype} of shape {tuple(given.shape)}, expected bool of shape {tuple(tokens.shape)} or "
            f"{tuple(tokens.shape[1:])}: True where a token is shown and not scored"
        )
    return ~given.expand_as(tokens)


def _beta(key: int, rows: Tensor, draw: Tensor, count: Tensor, total: Tensor) -> Tensor:
    """The `count`-th smallest of `total` uniform numbers, (B,)."""
    columns = torch.arange(max(int(total.max()), 1), device=rows.device)
    noise = uniform(key, rows[:, None], draw[:, None], columns).masked_fill(columns >= total[:, None], 1.0)
    return noise.sort(1).values.gather(1, (count[:, None] - 1).clamp(max=len(columns) - 1)).squeeze(1)


def _chunks(
    rows: int, draws: int, batch_size: int, progress: bool, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """All pairs (row, draw) in pieces of at most `batch_size`, as two index tensors."""
    starts = range(0, rows * draws, batch_size)
    for start in tqdm(starts, disable=not progress, desc="likelihood", unit="batch"):
        index = torch.arange(start, min(start + batch_size, rows * draws), device=device)
        yield index // draws, index % draws


def _score(
    denoiser: Denoiser, tokens: Tensor, masked: Tensor, scored: Tensor, time: Tensor, process: AbsorbingProcess
) -> Tensor:
    """Negative log-probability of the places `scored` when those of `masked` are hidden, (B,) nats."""
    positions = scored.nonzero()
    nats = torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)
    if not len(positions):
        return nats
    with torch.no_grad():
        corrupted = tokens.masked_fill(masked, process.mask_id)
        log_probs = clean_log_probs(process, denoiser, corrupted, time, positions).double()
    target = tokens[positions[:, 0], positions[:, 1]]
    return nats.index_add(0, positions[:, 0], -log_probs.gather(1, target[:, None]).squeeze(1))
