r"""The engine: every absorbing sampler is a binning of the same reveal times.

Each free token i of row b has a clock $E_{b,i} \sim \mathrm{Exp}(1)$, a keyed random number, and is revealed when
the accumulated hazard of the sampler's stages passes it. What is revealed when is thus known before the network is
asked: the network sees only rows in which something is revealed, and only the places to be revealed. Samplers with
different grids share clocks and token draws (common random numbers), and a row does not depend on its batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from ..streams import derive, exponential, poisson, uniform
from .denoisers.base import Denoiser, clean_log_probs
from .process import AbsorbingProcess
from .stages import RevealCount, RevealEvents, RevealFraction, Stage, TokenLaw

__all__ = ["Chain", "draw_categories", "run_stages"]

_CLOCK, _TOKEN, _CANDIDATE = range(3)  # purposes of the random streams


def run_stages(
    process: AbsorbingProcess,
    stages: Sequence[Stage],
    denoiser: Denoiser,
    tokens: Tensor,
    key: int,
    *,
    first: int = 0,
    progress: bool = False,
    choose: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
) -> Chain:
    """Run stages on tokens (B, L), which are changed in place, and return the chain at its end.

    Args:
        process: the forward process.
        stages: what to run.
        denoiser: what to ask.
        tokens: the state to start from; `mask_id` where a token is free.
        key: key of all random numbers.
        first: number of the first row.
        progress: show a progress bar that counts revealed tokens.
        choose: replaces the draw of tokens, (log_probs (N, K), row (N,), column (N,)) -> tokens (N,).
    """
    chain = Chain(process, denoiser, tokens, key, first, choose, progress)
    with torch.no_grad(), chain.bar:
        for stage in stages:
            if chain.is_done():
                break
            chain.apply(stage)
    return chain


class Chain:
    """State of a run: tokens, the clocks that have not rung yet, and the bill. Made by `run_stages`."""

    def __init__(
        self,
        process: AbsorbingProcess,
        denoiser: Denoiser,
        tokens: Tensor,
        key: int,
        first: int,
        choose: Callable[[Tensor, Tensor, Tensor], Tensor] | None,
        progress: bool,
    ) -> None:
        self.process, self.denoiser, self.tokens = process, denoiser, tokens
        self.choose = self._draw if choose is None else choose
        self.candidate_key = derive(key, _CANDIDATE)
        self.rows = torch.arange(first, first + tokens.shape[0], device=tokens.device)
        columns = torch.arange(tokens.shape[1], device=tokens.device)
        self.calls = 0
        self.evaluations = torch.zeros_like(self.rows)
        self.reveals = torch.zeros_like(self.rows)
        self.dominating: Tensor | None = None
        self.remembers = not getattr(denoiser, "takes_time", True)
        self.memory: Tensor | None = None
        self.changed = torch.ones_like(self.rows, dtype=torch.bool)
        self.levels = uniform(derive(key, _TOKEN), self.rows[:, None], columns)
        self.elapsed = torch.zeros_like(self.rows, dtype=torch.float64)
        self._sort(exponential(derive(key, _CLOCK), self.rows[:, None], columns))
        self.bar = tqdm(total=int(self.free.sum()), disable=not progress, desc="sampling", unit="token")

    def apply(self, stage: Stage) -> None:
        """Run one stage."""
        if isinstance(stage, RevealFraction):
            self.elapsed = self.elapsed + _hazard(stage.probability, self.tokens.device)
            self._reveal_until(self._rung(), stage.time, uniform=stage.uniform)
        elif isinstance(stage, RevealCount):
            self._reveal_next(stage.count, self.free, stage.masked, torch.zeros_like(self.elapsed))
        elif isinstance(stage, RevealEvents):
            self._reveal_events(stage)
        else:
            self._token_law(stage)

    def is_done(self) -> bool:
        """Whether no token is masked any more."""
        return not bool((self.revealed < self.free).any())

    def _sort(self, clocks: Tensor) -> None:
        """Start anew from clocks (B, L) of the masked tokens; nothing has elapsed since."""
        masked = self.tokens == self.process.mask_id
        self.clocks, self.order = clocks.masked_fill(~masked, torch.inf).sort(dim=1)
        self.free = masked.sum(1)
        self.revealed = torch.zeros_like(self.free)
        self.elapsed = torch.zeros_like(self.rows, dtype=torch.float64)

    def _rung(self) -> Tensor:
        """How many clocks of each row have rung by now, (B,)."""
        rung = torch.searchsorted(self.clocks, self.elapsed[:, None], right=True).squeeze(1)
        return torch.minimum(rung, self.free)

    def _reveal_next(self, count: int, limit: Tensor, masked: float, origin: Tensor) -> None:
        """Reveal the next tokens of each row, at most `count` and not beyond number `limit`.

        The network's time is that of the first of them: the mask probability is `masked` at elapsed hazard `origin`.
        """
        target = torch.minimum(self.revealed + count, limit)
        if not bool((target > self.revealed).any()):
            return
        event = self._clock(self.revealed)
        self.elapsed = torch.where(target > self.revealed, self._clock(target - 1), self.elapsed)
        self._reveal_until(target, self.process.schedule.time_at(masked * torch.exp(origin - event)))

    def _clock(self, rank: Tensor) -> Tensor:
        """The clock of given rank in each row, (B,)."""
        return self.clocks.gather(1, rank.clamp(0, self.clocks.shape[1] - 1)[:, None]).squeeze(1)

    def _reveal_events(self, stage: RevealEvents) -> None:
        start, before = self.elapsed, self.revealed
        end = start + _hazard(stage.probability, self.tokens.device)
        self.elapsed = end
        target = self._rung()
        for _ in range(int((target - before).max()) if len(target) else 0):
            self._reveal_next(1, target, stage.masked, start)
        if stage.dominating:
            last = torch.where(target > before, self.elapsed, start)
            end = torch.where(end.isinf(), last, end)
            alive = (end[:, None] - self.clocks.maximum(start[:, None])).clamp(min=0.0).sum(1)
            rejected = poisson(self.candidate_key, alive, self.rows)
            self.dominating = target - before + rejected
        self.elapsed = end

    def _reveal_until(self, target: Tensor, time: float | Tensor, uniform: bool = False) -> None:
        """Reveal tokens in the order of their clocks until row b has revealed `target[b]` of them."""
        count = target - self.revealed
        active = count.nonzero().squeeze(1)
        if len(active):
            count, done = count[active], self.revealed[active]
            local = torch.arange(len(active), device=count.device).repeat_interleave(count)
            rank = torch.arange(len(local), device=count.device) + (done - count.cumsum(0) + count)[local]
            row = active[local]
            column = self.order[row, rank]
            self.tokens[row, column] = (
                self._surrogate(row, column) if uniform else self._predict(active, local, column, time)
            )
            self.changed[active] = True
            self.reveals[active] += count
            self.bar.update(len(local))
        self.revealed = target

    def _predict(self, active: Tensor, local: Tensor, column: Tensor, time: float | Tensor) -> Tensor:
        """Tokens of the places (active[local], column), from one call of the network on the active rows."""
        log_probs = self._ask(active, torch.stack([local, column], 1), time)
        return self.choose(log_probs, active[local], column)

    def _ask(self, active: Tensor, positions: Tensor, time: float | Tensor) -> Tensor:
        time = torch.as_tensor(time, dtype=torch.float64, device=active.device)
        time = time.expand(len(self.rows))[active]
        self.calls += 1
        self.evaluations[active] += 1
        return clean_log_probs(self.process, self.denoiser, self.tokens[active], time, positions, self.rows[active])

    def _draw(self, log_probs: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return draw_categories(log_probs.exp(), self.levels[row, column])

    def _surrogate(self, row: Tensor, column: Tensor) -> Tensor:
        clean = self.process.clean_ids.to(row.device)
        level = self.levels[row, column]
        return clean[(level * len(clean)).long()]

    def _token_law(self, stage: TokenLaw) -> None:
        """All masked places are asked; a token is revealed when its own hazard passes its clock."""
        if self.choose != self._draw:
            raise ValueError("teacher forcing needs reveals that do not depend on the predictions")
        clocks = torch.empty_like(self.clocks).scatter_(1, self.order, self.clocks) - self.elapsed[:, None]
        row, column = (self.tokens == self.process.mask_id).nonzero(as_tuple=True)
        if not len(row):
            return
        jump = stage.law(self._masked_log_probs(row, column, stage.time))
        clocks[row, column] -= _hazard(jump.sum(1), row.device)
        rung = clocks[row, column] <= 0
        row, column = row[rung], column[rung]
        level = self.levels[row, column]
        self.tokens[row, column] = draw_categories(jump[rung], level)
        self.reveals.index_add_(0, row, torch.ones_like(row))
        self.bar.update(len(row))
        self._sort(clocks)
        self.changed[row] = True

    def _masked_log_probs(self, row: Tensor, column: Tensor, time: float) -> Tensor:
        """Predictions (N, K) at all masked places; those of unchanged rows are remembered if time does not matter."""
        if self.memory is None:
            size = (*self.tokens.shape, self.process.vocab_size)
            self.memory = torch.zeros(size, dtype=torch.float64, device=row.device)
        asked = self.changed[row]
        if bool(asked.any()):
            active, local = row[asked].unique(return_inverse=True)
            positions = torch.stack([local, column[asked]], 1)
            self.memory[row[asked], column[asked]] = self._ask(active, positions, time).double()
            self.changed[active] = not self.remembers
        return self.memory[row, column]


def draw_categories(weights: Float[Tensor, "N K"], level: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    r"""Draw from unnormalised laws by inverse distribution function, summed in float64.

    The function is searched in two steps, blocks of $\sqrt K$ tokens and then tokens, so that only one block per law
    is accumulated token by token.

    Args:
        weights: (N, K), nonnegative, each row with some mass.
        level: (N,) in (0, 1).
    """
    block = max(1, math.isqrt(weights.shape[1]))
    blocks = torch.nn.functional.pad(weights.double(), (0, -weights.shape[1] % block)).unflatten(1, (-1, block))
    coarse = blocks.sum(2).cumsum(1)
    target = level[:, None] * coarse[:, -1:]
    chosen = _first_above(coarse, target)
    before = torch.where(chosen > 0, coarse.gather(1, (chosen - 1).clamp(min=0)), 0.0)
    fine = blocks.take_along_dim(chosen[:, :, None], 1).squeeze(1).cumsum(1)
    return (chosen * block + _first_above(fine, target - before)).squeeze(1)


def _first_above(mass: Tensor, target: Tensor) -> Tensor:
    """First index at which accumulated mass (N, K) exceeds target (N, 1), at most the last with mass of its own."""
    total = mass[:, -1:].contiguous()
    return torch.minimum(torch.searchsorted(mass, target, right=True), torch.searchsorted(mass, total))


def _hazard(probability: float | Tensor, device: torch.device) -> Tensor:
    r"""Accumulated hazard $-\log(1 - u)$ of a reveal probability; infinite at 1."""
    return -torch.log1p(-torch.as_tensor(probability, dtype=torch.float64, device=device).clamp(max=1.0))
