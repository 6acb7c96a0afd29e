"""Learned absorbing diffusion: network, losses, data, training, evaluation.

The samplers, processes and exact laws are in `samplers.absorbing`.
"""

from .data import DigitsData, TextData, TokenData, Vocabulary
from .diffusion import AbsorbingDiffusion
from .metrics import (
    NELBO,
    log_frequencies,
    marginal_baseline,
    nelbo,
    nelbo_any_order,
    nelbo_steps,
    uniform_baseline,
)
from .networks import Transformer
from .objectives import (
    any_order,
    lambda_dce,
    masked_cross_entropy,
    masked_nll,
    score_entropy,
    stratified_times,
    t_dce,
    training_loss,
)

__all__ = [
    "NELBO",
    "AbsorbingDiffusion",
    "DigitsData",
    "TextData",
    "TokenData",
    "Transformer",
    "Vocabulary",
    "any_order",
    "lambda_dce",
    "log_frequencies",
    "marginal_baseline",
    "masked_cross_entropy",
    "masked_nll",
    "nelbo",
    "nelbo_any_order",
    "nelbo_steps",
    "score_entropy",
    "stratified_times",
    "t_dce",
    "training_loss",
    "uniform_baseline",
]
