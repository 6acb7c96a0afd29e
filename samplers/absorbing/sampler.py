"""The base of all samplers, and what they return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .._arguments import whole_number
from ..streams import draw_key
from .denoisers.base import Denoiser, check_denoiser
from .process import AbsorbingProcess
from .reveal import run_stages
from .stages import RevealFraction, Stage

__all__ = ["Sampler", "Samples"]


@dataclass(frozen=True)
class Samples:
    """Samples and what they cost.

    Attributes:
        tokens: (B, L) int64.
        network_calls: calls of the denoiser (batches).
        sequence_evaluations: rows evaluated, summed over calls, (B,): the calls each row would need alone.
        candidates: events considered, (B,): points of the dominating Poisson process where the sampler has one
            (until the last reveal if its window is unbounded; those of its start and fill are none), else the tokens
            revealed. Only accepted candidates need the network.
        impossible: rows that left the support of an exact denoiser's law (prompt included), (B,) bool.
        violations: points at which a dominating rate was exceeded; 0 for all samplers with analytic hazard.
        clips: stages whose reveal probability was cut to 1.
    """

    tokens: Int[Tensor, "B L"]
    network_calls: int
    sequence_evaluations: Int[Tensor, " B"]
    candidates: Int[Tensor, " B"]
    impossible: Bool[Tensor, " B"]
    violations: int = 0
    clips: int = 0


class Sampler(ABC):
    """A sampler of the reverse absorbing process; concrete ones say which stages they take.

    Args:
        process: the forward process.
    """

    def __init__(self, process: AbsorbingProcess) -> None:
        if not isinstance(process, AbsorbingProcess):
            raise TypeError(f"process is a {type(process).__name__}, but this sampler reverses an AbsorbingProcess")
        self.process = process

    @abstractmethod
    def stages(self) -> list[Stage]:
        """The stages from all-masked (or the prompt) to the end."""

    def sample(
        self,
        denoiser: Denoiser,
        num_samples: int,
        *,
        prompt: Int[Tensor, "*B L"] | None = None,
        generator: torch.Generator | None = None,
        first: int = 0,
        progress: bool = False,
    ) -> Samples:
        """Draw sequences.

        Args:
            denoiser: exact or a network; see `Denoiser`.
            num_samples: B.
            prompt: (L,) or (B, L) with `mask_id` where a token is free; given tokens never change, and an exact
                sampler with an exact denoiser draws from the exact conditional law.
            generator: one key is drawn from it (or from torch's default generator).
            first: number of the first row, to reproduce a row of a larger batch.
            progress: show a progress bar.

        Raises:
            ValueError, TypeError: a prompt of another shape, dtype or vocabulary; NaN or missing predictions.
        """
        tokens, stages = self._start(denoiser, num_samples, prompt), self.stages()
        key = draw_key(generator)
        chain = run_stages(self.process, stages, denoiser, tokens, key, first=first, progress=progress)
        impossible = getattr(denoiser, "impossible", None)
        flags = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
        return Samples(
            tokens=chain.tokens,
            network_calls=chain.calls,
            sequence_evaluations=chain.evaluations,
            candidates=chain.reveals if chain.dominating is None else chain.dominating,
            impossible=flags if impossible is None else impossible(chain.tokens),
            clips=sum(isinstance(stage, RevealFraction) and stage.clipped for stage in stages),
        )

    def teacher_forced(
        self,
        denoiser: Denoiser,
        tokens: Int[Tensor, "B L"],
        *,
        generator: torch.Generator | None = None,
        first: int = 0,
    ) -> Float[Tensor, " B"]:
        r"""Negative log-probability of given sequences along one draw of the reveal times, (B,) nats.

        $\sum_i -\log c_i(x_i\,|\,\text{tokens revealed in earlier stages})$. Its mean over data is the sampler's
        own N-step NELBO; with an exact denoiser, the mean of it plus $\log q_0(x)$ is the path divergence of B4.

        Args:
            denoiser: exact or a network.
            tokens: (B, L) clean tokens.
            generator: as in `sample`.
            first: as in `sample`.

        Raises:
            ValueError: a sampler that starts from the surrogate law, leaves masks, or whose reveals depend on the
                predictions.
        """
        check_denoiser(self.process, denoiser)
        self.process.check_tokens(tokens, "tokens")
        stages = self.stages()
        if any(isinstance(stage, RevealFraction) and stage.uniform for stage in stages):
            raise ValueError("start='surrogate' draws tokens without the denoiser: teacher forcing needs start='mask'")
        loss = torch.zeros(tokens.shape[0], dtype=torch.float64, device=tokens.device)

        def force(log_probs: Tensor, row: Tensor, column: Tensor) -> Tensor:
            value = tokens[row, column]
            loss.index_add_(0, row, -log_probs.gather(1, value[:, None]).squeeze(1).double())
            return value

        masked = torch.full_like(tokens, self.process.mask_id)
        run_stages(self.process, stages, denoiser, masked, draw_key(generator), first=first, choose=force)
        if bool((masked == self.process.mask_id).any()):
            raise ValueError("the sampler leaves tokens masked, so that they have no likelihood: use fill=True")
        return loss

    def _start(self, denoiser: Denoiser, num_samples: int, prompt: Tensor | None) -> Tensor:
        """The checked initial tokens (B, L), a copy."""
        check_denoiser(self.process, denoiser)
        shape = (whole_number("num_samples", num_samples, 0), self.process.length)
        if prompt is None:
            device = getattr(denoiser, "device", torch.device("cpu"))
            return torch.full(shape, self.process.mask_id, device=device)
        if not isinstance(prompt, Tensor):
            raise TypeError(f"prompt is a {type(prompt).__name__}; give a tensor of token ids, torch.tensor(prompt)")
        if prompt.shape not in {shape, shape[1:]}:
            raise ValueError(f"prompt has shape {tuple(prompt.shape)}, expected {shape[1:]} or {shape}")
        tokens = prompt.expand(shape).clone()
        self.process.check_tokens(tokens, "prompt", masks=True)
        return tokens
