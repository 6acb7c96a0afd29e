r"""Networks as denoisers, and how scores, predictions and logits convert into one another.

With $x_i$ masked, the score is $s_t(x)_{i\leftarrow a} = \frac{\alpha_t}{\mu_t} c_i(a\,|\,x)$, a ratio of
probabilities $q_t(y)/q_t(x)$; in terms of the total noise, $\alpha/\mu = 1/(e^\sigma - 1)$.

Sources: Lou et al. 2024, arXiv 2310.16834 (score); Ou et al. 2024, arXiv 2406.03736 (factorisation).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..schedules import Schedule
from .base import Denoiser

__all__ = ["LogitsDenoiser", "NucleusDenoiser", "ScoreDenoiser", "nucleus", "score_from_x0", "x0_from_score"]


def score_from_x0(log_probs: Float[Tensor, "*places K"], sigma: float | Tensor) -> Float[Tensor, "*out K"]:
    r"""Concrete scores $q_t(y)/q_t(x) = c/(e^\sigma - 1)$ of a masked place.

    Args:
        log_probs: log-probabilities of the clean tokens, (..., K).
        sigma: total noise, a number or a tensor that broadcasts with (...), the axes before the last.
    """
    sigma = torch.as_tensor(sigma, dtype=log_probs.dtype, device=log_probs.device)
    law = log_probs.exp()
    return torch.where(law == 0, 0.0, law / torch.expm1(sigma)[..., None])


def x0_from_score(score: Float[Tensor, "*places K"], sigma: float | Tensor) -> Float[Tensor, "*out K"]:
    """Log-probabilities of the clean tokens from concrete scores: the inverse of `score_from_x0`.

    A network's scores need not be normalised; then neither is the result (see `ScoreDenoiser`).
    """
    sigma = torch.as_tensor(sigma, dtype=score.dtype, device=score.device)
    return score.log() + torch.expm1(sigma).log()[..., None]


def nucleus(log_probs: Float[Tensor, "*places K"], mass: float) -> Float[Tensor, "*places K"]:
    """Keep the smallest set of most likely tokens whose probability reaches `mass`, and renormalise.

    Args:
        log_probs: (..., K); not changed.
        mass: 0 < mass <= 1; a tiny mass keeps the most likely token alone (greedy).

    Source: Holtzman et al. 2020, arXiv 1904.09751.
    """
    if not 0.0 < mass <= 1.0:
        raise ValueError(f"mass={mass} must lie in (0, 1]")
    if mass == 1.0:
        return log_probs.log_softmax(-1)
    ordered, order = log_probs.sort(dim=-1, descending=True, stable=True)
    law = ordered.double().softmax(-1)
    kept = law.cumsum(-1) - law < mass * (1 - 1e-12)
    dropped = torch.zeros_like(kept).scatter(-1, order, ~kept)
    return log_probs.masked_fill(dropped, -torch.inf).log_softmax(-1)


class NucleusDenoiser:
    """Another denoiser with nucleus filtering: sharper samples of a law that is no longer the model's.

    Args:
        denoiser: any denoiser.
        mass: see `nucleus`.
        mask_id: id of the mask, if the denoiser's predictions have a column for it; it is left out of the nucleus.
    """

    def __init__(self, denoiser: Denoiser, mass: float, mask_id: int | None = None) -> None:
        self.denoiser, self.mass, self.mask_id = denoiser, mass, mask_id
        self.takes_time = getattr(denoiser, "takes_time", True)
        self.device = getattr(denoiser, "device", torch.device("cpu"))
        nucleus(torch.zeros(1), mass)  # refuse a bad mass now

    def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """Filtered log-probabilities, shaped like the inner denoiser's."""
        log_probs = self.denoiser(tokens, t, positions)
        if self.mask_id is not None:
            mask = torch.tensor(self.mask_id, device=log_probs.device)
            log_probs = log_probs.index_fill(-1, mask, -torch.inf)
        return nucleus(log_probs, self.mass)

    def impossible(self, tokens: Tensor) -> Tensor:
        """Whether each context (B, L) is impossible under the inner denoiser's law, if that is exact; (B,) bool."""
        inner = getattr(self.denoiser, "impossible", None)
        return torch.zeros_like(tokens[:, 0], dtype=torch.bool) if inner is None else inner(tokens)


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Every part of the module in eval mode; afterwards each as it was."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


class _NetworkDenoiser:
    """Runs a module without gradients, in eval mode, and leaves its mode as it was."""

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(
                f"module is a {type(module).__name__}, not a torch.nn.Module; a plain function is a denoiser"
            )
        self.module = module
        self._chooses = "positions" in inspect.signature(module.forward).parameters

    @property
    def device(self) -> torch.device:
        """Where the module's parameters live."""
        parameter = next(self.module.parameters(), None)
        return torch.device("cpu") if parameter is None else parameter.device

    def _run(self, tokens: Tensor, noise: Tensor | None, positions: Tensor | None) -> Tensor:
        """Output of the module in at least float32, at `positions` if given; the noise takes the module's dtype."""
        kind = next((p.dtype for p in self.module.parameters() if p.is_floating_point()), torch.get_default_dtype())
        inputs = (tokens,) if noise is None else (tokens, noise.to(kind))
        with _evaluating(self.module), torch.no_grad():
            if self._chooses:
                output = self.module(*inputs, positions=positions)
            else:
                output = self.module(*inputs)
                output = output if positions is None else output[positions[:, 0], positions[:, 1]]
        return output.float() if output.dtype in (torch.float16, torch.bfloat16) else output


class LogitsDenoiser(_NetworkDenoiser):
    """A network that returns logits of the clean tokens.

    The last axis may have K columns, or one more for the mask (the sampler gives the mask probability zero either
    way). A module whose `forward` has a parameter `positions` is asked for those places only.

    Args:
        module: called as ``module(tokens)`` or, with `takes_time`, ``module(tokens, t)``.
        takes_time: whether the module wants the time (B,).
    """

    def __init__(self, module: nn.Module, takes_time: bool = False) -> None:
        super().__init__(module)
        self.takes_time = takes_time

    def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """Log-probabilities (B, L, K), or (N, K) at `positions`, in at least float32."""
        return self._run(tokens, t if self.takes_time else None, positions).log_softmax(-1)


class ScoreDenoiser(_NetworkDenoiser):
    r"""A score network (SEDD): returns log-scores of the tokens.

    The scores of a place are normalised, so that its total rate is the exact one of the process.

    Args:
        module: called as ``module(tokens, noise)`` with noise of shape (B,).
        schedule: if given, the noise is the total noise $\sigma(t)$, as SEDD's networks want it; else the time t.
    """

    takes_time = True

    def __init__(self, module: nn.Module, schedule: Schedule | None = None) -> None:
        super().__init__(module)
        self.schedule = schedule

    def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """Log-probabilities (B, L, K), or (N, K) at `positions`."""
        if t is None:
            raise ValueError("t is None, but a score network needs the time of every row")
        noise = t if self.schedule is None else self.schedule.sigma(t)
        return self._run(tokens, noise, positions).log_softmax(-1)
