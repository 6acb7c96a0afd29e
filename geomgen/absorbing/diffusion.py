"""The absorbing diffusion model: training with Lightning, sampling, saving and loading."""

from __future__ import annotations

import math
from typing import Any, get_args

import torch
from jaxtyping import Float, Int
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn

from samplers.absorbing import AbsorbingProcess, LogitsDenoiser, Sampler, Samples, Tweedie
from samplers.streams import derive

from ..pretrained import Pretrained
from ..specs import from_spec, to_spec
from .data import Vocabulary
from .metrics import nelbo
from .networks import Transformer
from .objectives import Objective, training_loss

__all__ = ["AbsorbingDiffusion"]

_PROCESS = {"class": "samplers.absorbing.AbsorbingProcess"}
_NETWORK = {"class": "geomgen.absorbing.Transformer"}


class AbsorbingDiffusion(Pretrained, LightningModule):
    """A network trained to predict masked tokens, with the process that masks them.

    Training draws its random times and masks from (seed, epoch, batch, rank) and so repeats after a restart; learning
    rate: linear warm-up, then a half cosine down to 0 at the last planned step (constant if the number of steps is not
    known). At the first fit the output bias starts at the log-marginals of the data module, if it has them.

    Args:
        process: the forward process, or its spec; sizes that the spec leaves out come from `layout`.
        network: a `Transformer`, or its spec; sizes that the spec leaves out come from the process.
        layout: sizes and vocabulary of the data, `DataModule.layout`: vocab_size, length and, for text, the spec of its
            `Vocabulary`, which is saved with the model.
        objective: training loss, see `geomgen.absorbing.objectives`.
        learning_rate: peak rate of AdamW.
        weight_decay: of matrices (not of embeddings, norms and biases).
        warmup_steps: steps of linear warm-up.
        seed: of times and masks.

    Raises:
        ValueError: an unknown objective; network, process, layout and vocabulary of different sizes.
    """

    structure = ("process", "network", "layout")

    def __init__(
        self,
        process: dict[str, Any] | AbsorbingProcess | None = None,
        network: dict[str, Any] | Transformer | None = None,
        layout: dict[str, Any] | None = None,
        objective: Objective = "masked_cross_entropy",
        learning_rate: float = 4e-3,
        weight_decay: float = 0.01,
        warmup_steps: int = 50,
        seed: int = 0,
    ) -> None:
        super().__init__()
        sizes = dict(layout or {})
        vocabulary = sizes.pop("vocabulary", None)
        self.process: AbsorbingProcess = _build(process, _PROCESS, AbsorbingProcess, **sizes)
        states = {name: getattr(self.process, name) for name in ("vocab_size", "length", "num_states")}
        self.network: Transformer = _build(network, _NETWORK, Transformer, **states)
        self.vocabulary: Vocabulary | None = None if vocabulary is None else _build(vocabulary, vocabulary, Vocabulary)
        self.objective, self.learning_rate, self.weight_decay = objective, learning_rate, weight_decay
        self.warmup_steps, self.seed = warmup_steps, seed
        self._planned_steps: int | float = math.inf
        self._check(sizes)
        self.save_hyperparameters(
            {
                "process": to_spec(self.process),
                "network": to_spec(self.network),
                "layout": {**sizes, "vocabulary": to_spec(self.vocabulary)} if sizes else None,
                "objective": objective,
                "learning_rate": learning_rate,
                "weight_decay": weight_decay,
                "warmup_steps": warmup_steps,
                "seed": seed,
            }
        )

    def _check(self, sizes: dict[str, Any]) -> None:
        problems = []
        for name in ("vocab_size", "length", "num_states"):
            values = {"process": getattr(self.process, name), "network": getattr(self.network, name)}
            values |= {"data": sizes[name]} if name in sizes else {}
            if len(set(values.values())) > 1:
                problems.append(f"{name} differs: " + ", ".join(f"{value} of the {of}" for of, value in values.items()))
        if self.vocabulary is not None and self.vocabulary.size != self.process.vocab_size:
            problems.append(f"the vocabulary has {self.vocabulary.size} tokens, vocab_size={self.process.vocab_size}")
        if self.objective not in get_args(Objective):
            choices = ", ".join(map(repr, get_args(Objective)))
            problems.append(f"objective={self.objective!r} must be one of {choices}")
        if not self.learning_rate > 0 or not self.weight_decay >= 0 or self.warmup_steps < 0:
            problems.append(
                f"learning_rate={self.learning_rate} must be positive, weight_decay={self.weight_decay} and "
                f"warmup_steps={self.warmup_steps} not negative"
            )
        if problems:
            raise ValueError("AbsorbingDiffusion: " + "; ".join(problems))

    def denoiser(self) -> LogitsDenoiser:
        """The network as a denoiser for `samplers.absorbing`."""
        return LogitsDenoiser(self.network)

    def sample(
        self,
        num_samples: int,
        *,
        sampler: Sampler | None = None,
        prompt: Int[Tensor, "*B L"] | None = None,
        generator: torch.Generator | None = None,
        first: int = 0,
        progress: bool = False,
    ) -> Samples:
        """Draw sequences.

        Args:
            num_samples: B.
            sampler: any of `samplers.absorbing`, made for `self.process`; by default `Tweedie` with 64 steps.
            prompt: (L,) or (B, L), with the mask id where a token is free; the other tokens are kept.
            generator: one key is drawn from it (or from torch's default generator).
            first: number of the first row, to reproduce a row of a larger batch.
            progress: show a progress bar.
        """
        sampler = Tweedie(self.process, steps=64) if sampler is None else sampler
        return sampler.sample(
            self.denoiser(), num_samples, prompt=prompt, generator=generator, first=first, progress=progress
        )

    def prompt(self, text: str) -> Int[Tensor, " L"]:
        """A prompt (L,) that begins with a text and is masked after it.

        Raises:
            ValueError: a model without vocabulary, an unknown character, or a text longer than L tokens.
        """
        if self.vocabulary is None:
            raise ValueError("prompt(text) needs a vocabulary, but this model was not trained on text")
        given = self.vocabulary.encode(text)
        if len(given) > self.process.length:
            raise ValueError(f"the prompt has {len(given)} tokens; this model has length={self.process.length}")
        tokens = torch.full((self.process.length,), self.process.mask_id)
        tokens[: len(given)] = given
        return tokens

    def setup(self, stage: str) -> None:
        """Start an untouched output bias at the data's log-marginals."""
        marginals = getattr(getattr(self.trainer, "datamodule", None), "log_marginals", None)
        if stage == "fit" and marginals is not None and not bool(self.network.bias.any()):
            self.network.set_log_marginals(marginals(per_place=self.network.fixed_layout))

    def on_fit_start(self) -> None:
        """Train in training mode, whatever mode the model came in."""
        self.train()

    def training_step(self, batch: Int[Tensor, "B L"], batch_idx: int) -> Float[Tensor, ""]:
        """Loss of a clean batch; ValueError with the batch's number if it is not finite."""
        loss = training_loss(
            self.objective, self.network, batch, self.process, generator=self._generator(self.current_epoch, batch_idx)
        )
        if not bool(loss.isfinite()):
            raise ValueError(
                f"the loss is {loss.item()} at batch {batch_idx} of epoch {self.current_epoch}; lower learning_rate="
                f"{self.learning_rate} or look at that batch"
            )
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Int[Tensor, "B L"], batch_idx: int) -> None:
        """Log ``val_bits_per_token``, a NELBO with the same random masks in every epoch."""
        self._log_bits("val", batch, batch_idx, num_draws=4)

    def test_step(self, batch: Int[Tensor, "B L"], batch_idx: int) -> None:
        """Log ``test_bits_per_token``."""
        self._log_bits("test", batch, batch_idx, num_draws=64)

    def _log_bits(self, stage: str, batch: Tensor, batch_idx: int, num_draws: int) -> None:
        bound = nelbo(
            self.denoiser(), batch, self.process, num_draws=num_draws, generator=self._generator(-1, batch_idx)
        )
        name = f"{stage}_bits_per_token"
        self.log(name, bound.bits_per_token, prog_bar=True, batch_size=len(batch), sync_dist=True)

    def _generator(self, epoch: int, batch_idx: int) -> torch.Generator:
        """Random numbers of one batch."""
        key = derive(derive(derive(self.seed, epoch + 1), batch_idx), self.global_rank)
        return torch.Generator().manual_seed(key)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """AdamW with warm-up and cosine."""
        matrices = [m.weight for m in self.network.modules() if isinstance(m, nn.Linear)]
        chosen = {id(parameter) for parameter in matrices}
        others = [parameter for parameter in self.network.parameters() if id(parameter) not in chosen]
        groups = [
            {"params": matrices, "weight_decay": self.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=self.learning_rate, betas=(0.9, 0.99), foreach=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self._rate(step))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_train_start(self) -> None:
        """Find out how many steps are planned (asked any earlier, Lightning would lose the loader's saved state)."""
        self._planned_steps = self.trainer.estimated_stepping_batches

    def _rate(self, step: int) -> float:
        """Learning rate at a step, as a fraction of its peak."""
        planned, warm = self._planned_steps, min(1.0, (step + 1) / max(self.warmup_steps, 1))
        return warm * 0.5 * (1.0 + math.cos(math.pi * min(step / planned, 1.0))) if planned < math.inf else warm


def _build(value: Any, default: dict[str, Any], kind: type, **sizes: Any) -> Any:
    """The object that `value` is or describes."""
    built = from_spec(default if value is None else value, **sizes) if not isinstance(value, kind) else value
    if not isinstance(built, kind):
        raise TypeError(f"expected {kind.__name__} or its spec, got {type(built).__name__}")
    return built
