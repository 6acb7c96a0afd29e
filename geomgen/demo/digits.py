"""Train the absorbing diffusion model of the digits, as its shipped configuration describes it, and evaluate it."""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import torch
import yaml  # type: ignore[import-untyped]
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from tqdm import tqdm

from ..absorbing import AbsorbingDiffusion, DigitsData, marginal_baseline, nelbo, uniform_baseline
from ..averaging import ExponentialAverage
from ..statistics import Interval, mean_interval, paired_interval

__all__ = ["NATS_PER_BIT", "Likelihood", "Trained", "likelihood", "train"]

_CONFIG = "absorbing_digits.yaml"
_QUICK_STEPS = 60
NATS_PER_BIT = math.log(2)


@dataclass(frozen=True)
class Trained:
    """A model, its data, and what the training took."""

    model: AbsorbingDiffusion
    data: DigitsData
    steps: int
    seconds: float
    seed: int


def train(quick: bool, progress: bool, seed: int = 0) -> Trained:
    """Train on the digits with one CPU process; nothing is written.

    Args:
        quick: stop after 60 steps (the model is then poor) instead of the configuration's number.
        progress: show a progress bar on stderr.
        seed: of weights, order and masks.
    """
    config = yaml.safe_load((files("geomgen") / "configs" / _CONFIG).read_text(encoding="utf-8"))
    data = DigitsData(**config["data"]["init_args"], seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AbsorbingDiffusion(**config["model"]["init_args"], layout=data.layout, seed=seed)
    steps = _QUICK_STEPS if quick else config["trainer"]["max_steps"]
    average = config["trainer"]["callbacks"][0]["init_args"]
    started = time.perf_counter()
    with _quiet():
        trainer = Trainer(
            accelerator="cpu",
            devices=1,
            max_steps=steps,
            gradient_clip_val=config["trainer"]["gradient_clip_val"],
            callbacks=[ExponentialAverage(**average), _Bar(steps, progress)],
            limit_val_batches=0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(model, datamodule=data)
    return Trained(model.eval(), data, steps, time.perf_counter() - started, seed)


class _Bar(Callback):
    """One progress bar over all steps."""

    def __init__(self, steps: int, progress: bool) -> None:
        self.bar = tqdm(total=steps, desc="training on digits", unit="step", disable=not progress, leave=False)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *args: Any) -> None:
        """Advance by one step."""
        self.bar.update()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the bar."""
        self.bar.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's notes on devices and advice on loggers and workers."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@dataclass(frozen=True)
class Likelihood:
    """Bits per token on held-out images, each with a 95 % interval over images.

    Attributes:
        model: the NELBO of the model, an upper bound of its negative log-likelihood.
        marginal: exact likelihood of independent pixels with the training data's frequencies.
        gain: marginal minus model, image by image.
        uniform: log2 of the number of symbols.
        monte_carlo_error: standard error of `model` from its random masks alone.
        images: number of images.
    """

    model: Interval
    marginal: Interval
    gain: Interval
    uniform: float
    monte_carlo_error: float | None
    images: int


def likelihood(trained: Trained, images: int, num_draws: int, progress: bool) -> Likelihood:
    """Evaluate on the first test images, `num_draws` random masks each."""
    tokens = trained.data.test[:images].long()
    size = trained.data.vocab_size
    stream = torch.Generator().manual_seed(trained.seed)
    bound = nelbo(
        trained.model.denoiser(),
        tokens,
        trained.model.process,
        num_draws=num_draws,
        generator=stream,
        progress=progress,
    )
    model = _bits(bound.per_sequence, tokens)
    marginal = _bits(marginal_baseline(trained.data.train.long(), tokens, size).per_sequence, tokens)
    error = bound.monte_carlo_error
    return Likelihood(
        model=mean_interval(model),
        marginal=mean_interval(marginal),
        gain=paired_interval(marginal, model),
        uniform=uniform_baseline(tokens, size).bits_per_token,
        monte_carlo_error=None if error is None else error / tokens.shape[1] / NATS_PER_BIT,
        images=len(tokens),
    )


def _bits(nats: Tensor, tokens: Tensor) -> Tensor:
    """Nats per image as bits per token."""
    return nats / tokens.shape[1] / NATS_PER_BIT
