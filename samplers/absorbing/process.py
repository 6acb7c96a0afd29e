"""The forward processes: tokens are absorbed by the mask, or replaced uniformly (for comparison).

Convention: a rate or transition matrix has the state it leaves as row and the state it enters as column. Tokens
move independently. Clean tokens are 0..K-1; the mask is one more id, or one of them (then it never occurs in data).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .._arguments import whole_number
from ..streams import draw_key, uniform
from .schedules import LogLinear, Schedule

__all__ = ["AbsorbingProcess", "UniformProcess"]


def _check_schedule(schedule: Schedule | None) -> Schedule:
    if schedule is None:
        return LogLinear()
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule={schedule!r} must be a Schedule, such as LogLinear()")
    return schedule


def _check_times(schedule: Schedule, **times: float | Tensor) -> None:
    """Raise ValueError unless all times lie in [0, horizon] (NaN does not)."""
    for name, time in times.items():
        values = torch.as_tensor(time, dtype=torch.float64)
        outside = ~((values >= 0) & (values <= schedule.horizon))
        if bool(outside.any()):
            value = float(values[outside].flatten()[0])
            raise ValueError(f"{name} holds the time {value}, outside [0, {schedule.horizon}], the range of {schedule}")


def _check_step(schedule: Schedule, t: float | Tensor, s: float | Tensor) -> None:
    """Raise ValueError unless 0 <= s <= t <= horizon and something is masked at t."""
    _check_times(schedule, t=t, s=s)
    if bool((torch.as_tensor(s) > torch.as_tensor(t)).any() | (schedule.mask_probability(t) == 0).any()):
        raise ValueError("a reverse step runs from a time t > 0 down to s <= t")


def _per_row(t: float | Tensor, tokens: Tensor, schedule: Schedule) -> Tensor:
    """Times as a float64 column (B, 1) beside tokens (B, L)."""
    t = torch.as_tensor(t, dtype=torch.float64, device=tokens.device)
    if t.dim() > 1 or (t.dim() == 1 and t.shape[0] != tokens.shape[0]):
        raise ValueError(f"t has shape {tuple(t.shape)}; give one time, or one per row: ({tokens.shape[0]},)")
    _check_times(schedule, t=t)
    return t.reshape(-1, 1)


def _check_tokens(tokens: Tensor, name: str, length: int, num_states: int) -> None:
    """Raise unless `tokens` is an int64 batch (B, length) of ids in 0..num_states - 1."""
    if not isinstance(tokens, Tensor) or tokens.dtype != torch.int64:
        kind = getattr(tokens, "dtype", type(tokens).__name__)
        raise TypeError(f"{name} must be an int64 tensor of token ids, got {kind}; use {name}.long()")
    if tokens.dim() != 2 or tokens.shape[1] != length:
        raise ValueError(f"{name} has shape {tuple(tokens.shape)}, expected (B, {length})")
    if tokens.numel():
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= num_states:
            raise ValueError(f"{name} holds id {low if low < 0 else high}, but ids lie in 0..{num_states - 1}")


class AbsorbingProcess:
    r"""The absorbing process on sequences of `length` tokens: rate $\beta(t)$ from any token to the mask.

    Args:
        vocab_size: K, the size of the last axis of predictions; clean ids lie in 0..K-1.
        length: L, tokens per sequence.
        schedule: the noise schedule.
        mask_id: id of the mask; K (default, one row more in the embedding table) or any id in 0..K-1, which then
            never occurs in clean data and is predicted with probability zero.

    Attributes:
        num_states: number of ids, mask included: K + 1, or K when the mask lies inside.
        clean_ids: the ids of clean tokens in increasing order.

    Source: Liang et al. 2025, arXiv 2506.02318, section 2; Lou et al. 2024, arXiv 2310.16834.
    """

    def __init__(
        self, vocab_size: int, length: int, schedule: Schedule | None = None, mask_id: int | None = None
    ) -> None:
        vocab_size, length = whole_number("vocab_size", vocab_size, 1), whole_number("length", length, 0)
        mask_id = vocab_size if mask_id is None else mask_id
        if not 0 <= mask_id <= vocab_size:
            raise ValueError(f"mask_id={mask_id} is no id of the embedding table: it must lie in 0..{vocab_size}")
        self.vocab_size = vocab_size
        self.length = length
        self.schedule = _check_schedule(schedule)
        self.mask_id = mask_id
        self.num_states = max(vocab_size, mask_id + 1)
        self.clean_ids = torch.tensor([i for i in range(self.num_states) if i != mask_id])
        if not len(self.clean_ids):
            raise ValueError(f"vocab_size={vocab_size}, mask_id={mask_id} leave no clean token")

    def __repr__(self) -> str:
        return f"AbsorbingProcess({self.vocab_size}, {self.length}, {self.schedule}, mask_id={self.mask_id})"

    def rate_matrix(self, t: float | None = None) -> Float[Tensor, "S S"]:
        r"""Rates $Q_{ab}$ of one token, (S, S) float64; per unit of $\sigma$, or at time `t`, times $\beta(t)$."""
        rates = -torch.eye(self.num_states, dtype=torch.float64)
        rates[:, self.mask_id] += 1.0
        return rates if t is None else rates * self.schedule.rate(t)

    def transition(self, t: float) -> Float[Tensor, "S S"]:
        r"""Probabilities $q_{t|0}(b\,|\,a)$ of one token, (S, S) float64."""
        _check_times(self.schedule, t=t)
        kernel = torch.eye(self.num_states, dtype=torch.float64) * self.schedule.alpha(t)
        kernel[:, self.mask_id] += self.schedule.mask_probability(t)
        return kernel

    def reveal_probability(self, t: float | Tensor, s: float | Tensor) -> Tensor:
        r"""Probability that a token masked at time t is revealed by time s < t in reverse: $1 - \mu_s/\mu_t$."""
        _check_step(self.schedule, t, s)
        masked = self.schedule.mask_probability(t)
        return (masked - self.schedule.mask_probability(s)) / masked

    def remasking(self, t: float | Tensor, s: float | Tensor, strength: float = 1.0) -> tuple[Tensor, Tensor]:
        r"""Probabilities (remask, reveal) of a reverse step from t down to s that also masks tokens again.

        A revealed token is masked again with probability $\sigma = $ `strength` $\cdot\min(1, \mu_s/\alpha_t)$, a
        masked one is revealed with $(\alpha_s - (1-\sigma)\alpha_t)/\mu_t$: the marginals stay $q_s$. Both lie in
        [0, 1] for any step size. `strength` in [0, 1]; 0 is `reveal_probability`.

        Source: Wang et al. 2025, arXiv 2503.00307 (ReMDM).
        """
        if not 0.0 <= strength <= 1.0:
            raise ValueError(f"strength={strength} must lie in [0, 1]")
        schedule = self.schedule
        _check_step(schedule, t, s)
        remask = strength * (schedule.mask_probability(s) / schedule.alpha(t)).clamp(max=1.0)
        reveal = (schedule.alpha(s) - (1.0 - remask) * schedule.alpha(t)) / schedule.mask_probability(t)
        return remask, reveal.clamp(0.0, 1.0)

    def corrupt(
        self,
        tokens: Int[Tensor, "B L"],
        t: float | Tensor,
        *,
        generator: torch.Generator | None = None,
        first: int = 0,
    ) -> Int[Tensor, "B L"]:
        r"""Sample $x_t \sim q_{t|0}(\cdot\,|\,x_0)$: each token is masked with probability $\mu_t$.

        Args:
            tokens: (B, L) clean tokens.
            t: one time, or one per row (B,).
            generator: one key is drawn from it.
            first: the number of the first row, to reproduce a row of a larger batch.

        Raises:
            TypeError, ValueError: tokens of another dtype, length or range, or with the mask among them.
        """
        self.check_tokens(tokens, "tokens")
        level = self.schedule.mask_probability(_per_row(t, tokens, self.schedule))
        return tokens.masked_fill(_uniform_like(tokens, generator, first) < level, self.mask_id)

    def check_tokens(self, tokens: Tensor, name: str, *, masks: bool = False) -> None:
        """Raise unless `tokens` is an int64 batch (B, L) of ids of this process (with masks only if `masks`)."""
        _check_tokens(tokens, name, self.length, self.num_states)
        if not masks and bool((tokens == self.mask_id).any()):
            raise ValueError(f"{name} holds the mask id {self.mask_id}, but clean data must not hold it")


class UniformProcess:
    r"""Uniform-rate process, for comparison: $Q = \frac1K 11^T - I$, at rate $\beta(t)$ per token.

    Args:
        vocab_size: K, number of states of a token.
        length: L, tokens per sequence.
        schedule: the noise schedule.

    Source: Lou et al. 2024, arXiv 2310.16834; Chen & Ying 2024, arXiv 2402.08095.
    """

    def __init__(self, vocab_size: int, length: int, schedule: Schedule | None = None) -> None:
        self.vocab_size = whole_number("vocab_size", vocab_size, 1)
        self.length = whole_number("length", length, 0)
        self.schedule = _check_schedule(schedule)

    def rate_matrix(self, t: float | None = None) -> Float[Tensor, "S S"]:
        r"""Rates of one token, (K, K) float64; per unit of $\sigma$, or at time `t`, times $\beta(t)$."""
        rates = 1.0 / self.vocab_size - torch.eye(self.vocab_size, dtype=torch.float64)
        return rates if t is None else rates * self.schedule.rate(t)

    def transition(self, t: float) -> Float[Tensor, "S S"]:
        r"""Probabilities $q_{t|0}(b\,|\,a) = \alpha_t 1\{a=b\} + \mu_t/K$ of one token, (K, K) float64."""
        _check_times(self.schedule, t=t)
        kernel = torch.eye(self.vocab_size, dtype=torch.float64) * self.schedule.alpha(t)
        return kernel + self.schedule.mask_probability(t) / self.vocab_size

    def corrupt(
        self,
        tokens: Int[Tensor, "B L"],
        t: float | Tensor,
        *,
        generator: torch.Generator | None = None,
        first: int = 0,
    ) -> Int[Tensor, "B L"]:
        r"""Sample $x_t$: each token (B, L) is redrawn uniformly with probability $\mu_t$ (t: one time, or (B,))."""
        _check_tokens(tokens, "tokens", self.length, self.vocab_size)
        level = self.schedule.mask_probability(_per_row(t, tokens, self.schedule))
        draw = _uniform_like(tokens, generator, first)
        fresh = (draw / level * self.vocab_size).long().clamp(0, self.vocab_size - 1)
        return torch.where(draw < level, fresh, tokens)


def _uniform_like(tokens: Tensor, generator: torch.Generator | None, first: int) -> Tensor:
    """One keyed uniform number per token, (B, L)."""
    rows = torch.arange(first, first + tokens.shape[0], device=tokens.device)
    columns = torch.arange(tokens.shape[1], device=tokens.device)
    return uniform(draw_key(generator), rows[:, None], columns)
