"""The exact law of what a sampler returns, by propagation through its stages; divergences between laws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .denoisers.base import Denoiser, check_denoiser, clean_log_probs
from .sampler import Sampler
from .stages import RevealCount, RevealEvents, RevealFraction, Stage, TokenLaw

__all__ = ["exact_law", "kl_divergence", "total_variation"]

_MOST_STATES = 1 << 22


def exact_law(
    sampler: Sampler, denoiser: Denoiser, prompt: Int[Tensor, " L"] | None = None
) -> Float[Tensor, "*states"]:
    """Exact law of the sampler's output, without sampling.

    The law over all states (masks included) is pushed through every stage the sampler takes, which costs about
    $(2K+1)^d$ per stage. States in which the sampler does not ask the network never ask it here either.

    Args:
        sampler: any sampler with stages.
        denoiser: exact or a network; its random state, if any, is its own.
        prompt: (L,), `mask_id` where free.

    Returns:
        (K,) * L float64 over token ids; of a sampler that may leave masks (``fill=False``), `(num_states,) * L`.

    Raises:
        ValueError: more than 2^22 states, or event stages with a denoiser that depends on time.
    """
    check_denoiser(sampler.process, denoiser)
    if not sampler.process.length:
        return torch.ones((), dtype=torch.float64)
    propagation = _Propagation(sampler, denoiser)
    law = propagation.initial(prompt)
    for stage in sampler.stages():
        law = propagation.push(law, stage)
    return propagation.over_ids(law)


def kl_divergence(p: Float[Tensor, "*states"], q: Float[Tensor, "*states"]) -> float:
    r"""$KL(p\|q)$ in nats; infinite where q lacks mass that p has. Both of one shape, nonnegative."""
    if p.shape != q.shape:
        raise ValueError(f"p has shape {tuple(p.shape)}, q has shape {tuple(q.shape)}: they must agree")
    p, q = p.double(), q.double()
    inside = p > 0
    return float((p[inside] * (p[inside] / q[inside]).log()).sum())


def total_variation(p: Float[Tensor, "*states"], q: Float[Tensor, "*states"]) -> float:
    r"""$\frac12\sum|p - q|$. Both of one shape."""
    if p.shape != q.shape:
        raise ValueError(f"p has shape {tuple(p.shape)}, q has shape {tuple(q.shape)}: they must agree")
    return float((p.double() - q.double()).abs().sum() / 2)


class _Propagation:
    """Laws are tensors (C + 1,) * d over the C clean tokens in the order of their ids, then the mask.

    They are pushed one mask pattern at a time: with the places M masked and the rest clean, a stage gives every
    masked place its own law over (C tokens, stay), and the new law is the outer product of these.
    """

    def __init__(self, sampler: Sampler, denoiser: Denoiser) -> None:
        self.process, self.denoiser, self.fill = sampler.process, denoiser, getattr(sampler, "fill", True)
        self.length, self.clean = self.process.length, len(self.process.clean_ids)
        if (self.clean + 1) ** self.length > _MOST_STATES:
            raise ValueError(
                f"{self.process} has {(self.clean + 1) ** self.length} states, over {_MOST_STATES}: "
                "an exact law is for small vocabularies and lengths"
            )
        self.ids = torch.cat([self.process.clean_ids, torch.tensor([self.process.mask_id])])
        self._remembered: dict[tuple[int, ...], Tensor] = {}

    def initial(self, prompt: Tensor | None) -> Tensor:
        """All mass on the prompt."""
        if prompt is None:
            prompt = torch.full((self.length,), self.process.mask_id)
        self.process.check_tokens(prompt[None], "prompt", masks=True)
        law = torch.zeros((self.clean + 1,) * self.length, dtype=torch.float64)
        law[tuple(int((self.ids == token).nonzero()) for token in prompt)] = 1.0
        return law

    def over_ids(self, law: Tensor) -> Tensor:
        """The law over token ids, without the masked states if none is left."""
        masked = not self.fill or any(bool(law.select(axis, self.clean).any()) for axis in range(self.length))
        size = self.process.num_states if masked else self.process.vocab_size
        ids = self.ids if masked else self.process.clean_ids
        axes = torch.meshgrid(*[ids] * self.length, indexing="ij")
        result = torch.zeros((size,) * self.length, dtype=torch.float64)
        result[axes] = law[(slice(0, len(ids)),) * self.length]
        return result

    def push(self, law: Tensor, stage: Stage) -> Tensor:
        """The law after a stage."""
        if isinstance(stage, RevealFraction):
            uniform = stage.uniform
            return self._push_tokens(law, lambda places: self._reveal(places, stage.time, stage.probability, uniform))
        if isinstance(stage, TokenLaw):
            return self._push_tokens(law, lambda places: self._token_law(places, stage))
        if self.depends_on_time():
            raise ValueError("the law of random reveal times with a denoiser that depends on time is not computable")
        if isinstance(stage, RevealCount):
            return self._push_count(law, stage.count)
        return self._push_events(law, stage)

    def depends_on_time(self) -> bool:
        """What `takes_time` says, or else what two different times show on the masked state."""
        declared = getattr(self.denoiser, "takes_time", None)
        if declared is not None:
            return bool(declared)
        places, horizon = tuple(range(self.length)), self.process.schedule.horizon
        early, late = (self._log_probs(places, share * horizon) for share in (0.25, 0.75))
        return not torch.equal(early, late)

    def _push_tokens(self, law: Tensor, kernel: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
        """Push through independent laws (states, m, C + 1) of the masked places of each pattern."""
        pushed = torch.zeros_like(law)
        for places in self._patterns():
            mass = law[self._block(places)].reshape(-1)
            if bool(mass.any()):
                self._add_product(pushed, places, mass, kernel(places))
        return pushed

    def _push_count(self, law: Tensor, count: int) -> Tensor:
        """Push through the average over all sets of `count` masked places."""
        pushed = torch.zeros_like(law)
        for places in self._patterns():
            mass = law[self._block(places)].reshape(-1)
            if not bool(mass.any()):
                continue
            shown, hidden = self._reveal(places, None, 1.0), self._reveal(places, None, 0.0)
            chosen = list(itertools.combinations(range(len(places)), min(count, len(places))))
            for subset in chosen:
                kernel = hidden.clone()
                kernel[:, list(subset)] = shown[:, list(subset)]
                self._add_product(pushed, places, mass / len(chosen), kernel)
        return pushed

    def _push_events(self, law: Tensor, stage: RevealEvents) -> Tensor:
        """Push through single reveals; their number is binomial in the number of masked places."""
        pushed = torch.zeros_like(law)
        for masks in range(self.length + 1):
            part = torch.zeros_like(law)
            for places in self._patterns():
                if len(places) == masks:
                    block = self._block(places)
                    part[block] = law[block]
            if not bool(part.any()):
                continue
            for events in range(masks + 1):
                part = self._push_count(part, 1) if events else part
                u = stage.probability
                pushed += math.comb(masks, events) * u**events * (1 - u) ** (masks - events) * part
        return pushed

    def _add_product(self, pushed: Tensor, places: tuple[int, ...], mass: Tensor, kernel: Tensor) -> None:
        """Add mass (states,) times the product of kernel (states, m, C + 1) over the masked places."""
        joint = mass
        for place in range(len(places)):
            joint = joint[..., None] * kernel[:, place].view(-1, *[1] * place, self.clean + 1)
        others = [axis for axis in range(self.length) if axis not in places]
        joint = joint.reshape((self.clean,) * len(others) + (self.clean + 1,) * len(places))
        order = [*others, *places]
        joint = joint.permute([order.index(axis) for axis in range(self.length)])
        pushed[tuple(slice(0, size) for size in joint.shape)] += joint

    def _reveal(
        self, places: tuple[int, ...], time: float | Tensor | None, u: float | Tensor, uniform: bool = False
    ) -> Tensor:
        """Laws (states, m, C + 1): reveal with probability u, else stay."""
        if uniform:
            shape = (self.clean ** (self.length - len(places)), len(places), self.clean)
            law = torch.full(shape, 1.0 / self.clean, dtype=torch.float64)
        else:
            law = self._log_probs(places, time).exp()
        return torch.cat([float(u) * law, torch.full_like(law[..., :1], 1.0 - float(u))], -1)

    def _token_law(self, places: tuple[int, ...], stage: TokenLaw) -> Tensor:
        """Laws (states, m, C + 1) of a stage that depends on the predictions."""
        log_probs = self._log_probs(places, stage.time)
        jump = stage.law(log_probs.reshape(-1, self.clean)).view_as(log_probs)
        return torch.cat([jump, (1.0 - jump.sum(-1, keepdim=True)).clamp(min=0.0)], -1)

    def _log_probs(self, places: tuple[int, ...], time: float | Tensor | None) -> Tensor:
        """The denoiser's conditionals (states, m, C) of a pattern: one state per value of the clean places."""
        if places not in self._remembered or getattr(self.denoiser, "takes_time", True):
            tokens = self._states(places)
            count, masks = len(tokens), len(places)
            if not masks:
                return torch.zeros(count, 0, self.clean, dtype=torch.float64)
            row = torch.arange(count).repeat_interleave(masks)
            positions = torch.stack([row, torch.tensor(places).repeat(count)], 1)
            t = None if time is None else torch.full((count,), float(time), dtype=torch.float64)
            with torch.no_grad():
                log_probs = clean_log_probs(self.process, self.denoiser, tokens, t, positions).double()
            log_probs = log_probs[:, self.process.clean_ids].view(count, masks, self.clean)
            self._remembered[places] = log_probs.log_softmax(-1)
        return self._remembered[places]

    def _states(self, places: tuple[int, ...]) -> Tensor:
        """Tokens (states, L) of a pattern, in the order of the block of the law."""
        axes = [self.ids[-1:] if axis in places else self.process.clean_ids for axis in range(self.length)]
        return torch.stack([axis.reshape(-1) for axis in torch.meshgrid(*axes, indexing="ij")], 1)

    def _patterns(self) -> list[tuple[int, ...]]:
        """All sets of masked places."""
        return [s for m in range(self.length + 1) for s in itertools.combinations(range(self.length), m)]

    def _block(self, places: tuple[int, ...]) -> tuple[slice | int, ...]:
        """Index of the states in which exactly these places are masked."""
        return tuple(self.clean if axis in places else slice(0, self.clean) for axis in range(self.length))
