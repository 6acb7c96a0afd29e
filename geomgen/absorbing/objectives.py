r"""Training losses of absorbing diffusion, and the random times and masks they are averaged over.

With $\hat p_i(a|x)$ the prediction at a masked place and $S = \sum_{i\,masked} -\log\hat p_i(x_{0,i}|x_t)$, the
negative evidence lower bound (NELBO, nats per sequence) is the mean of each of

- t-DCE: $T\,r(t)\,S$ with t uniform on (0, T) and the reverse hazard $r = \beta\alpha/\mu$,
- $\lambda$-DCE: $S/\lambda$ with every token masked with probability $\lambda$, uniform on (0, 1),
- any-order: $\frac{d}{k} S$ with exactly k of d tokens masked, k uniform on 1..d.

They differ in variance only. The unweighted cross-entropy per masked token is no bound, but has the same minimiser
among all predictions and the least variance: small networks train best on it.

Sources: Sahoo et al. 2024, arXiv 2406.07524 (MDLM); Ou et al. 2024, arXiv 2406.03736 (RADD, the three forms);
Lou et al. 2024, arXiv 2310.16834 (SEDD, score entropy).
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from samplers.absorbing import AbsorbingProcess
from samplers.streams import derive, draw_key, uniform

__all__ = [
    "Objective",
    "any_order",
    "lambda_dce",
    "masked_cross_entropy",
    "masked_nll",
    "score_entropy",
    "stratified_times",
    "t_dce",
    "training_loss",
]

Objective = Literal["masked_cross_entropy", "t_dce", "lambda_dce", "any_order"]
_TIME, _ORDER, _MASK = range(3)  # purposes of the random streams


def stratified_times(count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, " count"]:
    """Draw times in (0, 1), one in each interval [i/count, (i+1)/count), in random order; float64.

    Each is uniform on (0, 1), and their mean over a batch varies far less than that of independent times.
    """
    return _stratified(count, draw_key(generator), torch.device("cpu"))


def _stratified(count: int, key: int, device: torch.device) -> Tensor:
    index = torch.arange(count, device=device)
    order = uniform(derive(key, _ORDER), index).argsort()
    upper = torch.nextafter((index.double() + 1) / count, index.new_zeros((), dtype=torch.float64))
    return torch.minimum((index + uniform(derive(key, _TIME), index)) / count, upper)[order]


def masked_nll(
    logits: Float[Tensor, "*places columns"],
    tokens: Int[Tensor, "B L"],
    corrupted: Int[Tensor, "B L"],
    process: AbsorbingProcess,
) -> Float[Tensor, " B"]:
    """Negative log-probability of the clean tokens at the masked places, S of the module's docstring.

    Args:
        logits: (B, L, K), or (N, K) at the N masked places in row-major order; unnormalised, of any float dtype.
            A column of the mask counts as probability zero. Not changed.
        tokens: clean tokens.
        corrupted: the same with masks.
        process: says which id is the mask.

    Returns:
        Nats per sequence, at least float32; 0 where nothing is masked.

    Raises:
        ValueError: an empty batch, the mask among the clean tokens, ids out of range, logits of another shape.
    """
    log_probs, positions = _log_probs(logits, tokens, corrupted, process)
    target = tokens[positions[:, 0], positions[:, 1]]
    nll = -log_probs.gather(1, target[:, None]).squeeze(1)
    return nll.new_zeros(len(tokens)).index_add(0, positions[:, 0], nll)


def masked_cross_entropy(
    logits: Float[Tensor, "*places columns"],
    tokens: Int[Tensor, "B L"],
    corrupted: Int[Tensor, "B L"],
    process: AbsorbingProcess,
) -> Float[Tensor, ""]:
    """Mean negative log-probability per masked token of the batch, nats; 0 if none is masked. See `masked_nll`."""
    count = (corrupted == process.mask_id).sum().clamp(min=1)
    return masked_nll(logits, tokens, corrupted, process).sum() / count


def t_dce(
    logits: Float[Tensor, "*places columns"],
    tokens: Int[Tensor, "B L"],
    corrupted: Int[Tensor, "B L"],
    t: Float[Tensor, " B"],
    process: AbsorbingProcess,
) -> Float[Tensor, " B"]:
    r"""$T\,r(t)\,S$ in nats per sequence, for `corrupted` drawn at times t uniform on (0, horizon).

    A row without masks has loss 0 at any time; a masked place at a time without noise is impossible: +inf.
    Other arguments, and errors, as in `masked_nll`.
    """
    weight = process.schedule.horizon * process.schedule.hazard(t)
    return _weighted(masked_nll(logits, tokens, corrupted, process), corrupted == process.mask_id, weight)


def lambda_dce(
    logits: Float[Tensor, "*places columns"],
    tokens: Int[Tensor, "B L"],
    corrupted: Int[Tensor, "B L"],
    mask_probability: Float[Tensor, " B"],
    process: AbsorbingProcess,
) -> Float[Tensor, " B"]:
    r"""$S/\lambda$ in nats per sequence, for tokens masked with probabilities $\lambda$ uniform on (0, 1).

    A row without masks has loss 0; a masked place at $\lambda = 0$ is impossible: +inf.
    Other arguments, and errors, as in `masked_nll`.
    """
    weight = 1.0 / mask_probability.double()
    return _weighted(masked_nll(logits, tokens, corrupted, process), corrupted == process.mask_id, weight)


def any_order(
    logits: Float[Tensor, "*places columns"],
    tokens: Int[Tensor, "B L"],
    corrupted: Int[Tensor, "B L"],
    process: AbsorbingProcess,
) -> Float[Tensor, " B"]:
    r"""$\frac{d}{k} S$ in nats per sequence, for a number k of masks uniform on 1..d. See `masked_nll`."""
    masked = corrupted == process.mask_id
    weight = tokens.shape[1] / masked.sum(1).clamp(min=1).double()
    return _weighted(masked_nll(logits, tokens, corrupted, process), masked, weight)


def score_entropy(
    log_scores: Float[Tensor, "*places columns"],
    tokens: Int[Tensor, "B L"],
    corrupted: Int[Tensor, "B L"],
    t: Float[Tensor, " B"],
    process: AbsorbingProcess,
) -> Float[Tensor, " B"]:
    r"""Denoising score entropy (SEDD), for reference: equals t-DCE when the scores are normalised.

    $T\beta\sum_{i\,masked}\left[\sum_a \hat s_a - w\log\hat s_{x_0} + w(\log w - 1)\right]$ with
    $w = \alpha/\mu = 1/(e^\sigma - 1)$ and $\hat s_a = w\,\hat p_a$ in the normalised case.

    Args:
        log_scores: logarithms of the concrete scores, shaped as `logits` of `masked_nll`.
        tokens: clean tokens.
        corrupted: drawn at times `t`.
        t: uniform on (0, horizon); must leave some noise where a place is masked, else the loss is +inf.
        process: gives $\beta$ and $w$.

    Returns:
        Nats per sequence.
    """
    scores, positions = _log_probs(log_scores, tokens, corrupted, process, normalise=False)
    row, column = positions.unbind(1)
    ratio = process.schedule.hazard(t) / process.schedule.rate(t)
    log_ratio = ratio.log()[row]
    own = scores.gather(1, tokens[row, column][:, None]).squeeze(1)
    scale = (scores.double() - log_ratio[:, None]).exp().sum(1)
    terms = scale - (own - log_ratio) - 1.0
    total = terms.new_zeros(len(tokens)).index_add(0, row, terms.nan_to_num(nan=torch.inf))
    weight = process.schedule.horizon * process.schedule.hazard(t)
    return _weighted(total, corrupted == process.mask_id, weight).to(scores.dtype)


def training_loss(
    objective: Objective,
    network: nn.Module,
    tokens: Int[Tensor, "B L"],
    process: AbsorbingProcess,
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, ""]:
    """Mask a clean batch at stratified times, ask the network at the masked places, and return the mean loss.

    Args:
        objective: which loss.
        network: called as ``network(corrupted, positions)`` for logits (N, K).
        tokens: clean tokens.
        process: mask id and, for t-DCE, the schedule.
        generator: one key is drawn from it.

    Returns:
        Nats per token (per masked token for the unweighted cross-entropy), averaged over the batch.

    Raises:
        ValueError: an unknown objective, or bad tokens as in `masked_nll`.
    """
    if objective not in get_args(Objective):
        raise ValueError(f"objective={objective!r} must be one of {', '.join(map(repr, get_args(Objective)))}")
    _check_batch(tokens, process)
    key = draw_key(generator)
    level = _stratified(len(tokens), key, tokens.device)
    corrupted = tokens.masked_fill(_masks(objective, level, tokens, process, derive(key, _MASK)), process.mask_id)
    logits = network(corrupted, (corrupted == process.mask_id).nonzero())
    if objective == "masked_cross_entropy":
        return masked_cross_entropy(logits, tokens, corrupted, process)
    if objective == "t_dce":
        losses = t_dce(logits, tokens, corrupted, level * process.schedule.horizon, process)
    elif objective == "lambda_dce":
        losses = lambda_dce(logits, tokens, corrupted, level, process)
    else:
        losses = any_order(logits, tokens, corrupted, process)
    return losses.mean() / max(tokens.shape[1], 1)


def _masks(objective: Objective, level: Tensor, tokens: Tensor, process: AbsorbingProcess, key: int) -> Tensor:
    """Which places to mask, (B, L) bool, for levels (B,) in (0, 1)."""
    rows, columns = (torch.arange(size, device=tokens.device) for size in tokens.shape)
    noise = uniform(key, rows[:, None], columns)
    if objective == "any_order":
        count = (level * tokens.shape[1]).long() + 1
        return noise.argsort(1).argsort(1) < count[:, None]
    if objective == "t_dce":
        level = process.schedule.mask_probability(level * process.schedule.horizon)
    return noise < level[:, None]


def _check_batch(tokens: Tensor, process: AbsorbingProcess) -> None:
    process.check_tokens(tokens, "tokens")
    if not len(tokens):
        raise ValueError("tokens is an empty batch of shape (0, L): a loss needs at least one sequence")


def _log_probs(
    logits: Tensor, tokens: Tensor, corrupted: Tensor, process: AbsorbingProcess, normalise: bool = True
) -> tuple[Tensor, Tensor]:
    """Log-probabilities (N, columns) at the masked places, in at least float32, and these places (N, 2)."""
    _check_batch(tokens, process)
    process.check_tokens(corrupted, "corrupted", masks=True)
    positions = (corrupted == process.mask_id).nonzero()
    if logits.dim() == 3 and logits.shape[:2] == tokens.shape:
        logits = logits[positions[:, 0], positions[:, 1]]
    if logits.dim() != 2 or len(logits) != len(positions) or logits.shape[1] < process.vocab_size:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)}, expected {(*tokens.shape, process.vocab_size)}, or "
            f"{(len(positions), process.vocab_size)} at the masked places"
        )
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    if logits.shape[1] > process.mask_id:
        logits = logits.index_fill(1, torch.tensor(process.mask_id, device=logits.device), -torch.inf)
    return logits.log_softmax(1) if normalise else logits, positions


def _weighted(loss: Tensor, masked: Tensor, weight: Tensor) -> Tensor:
    """``weight * loss`` per row: 0 where nothing is masked, +inf (never NaN) where the weight is infinite."""
    any_masked = masked.any(1)
    infinite = weight.isinf() & any_masked
    finite = torch.where(any_masked & ~infinite, weight, 0.0).to(loss.dtype)
    return (finite * torch.where(infinite, 0.0, loss)).masked_fill(infinite, torch.inf)
