"""Exponential averages of the weights: Lightning's callback, with the textbook start."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import WeightAveraging
from torch.optim.swa_utils import get_ema_multi_avg_fn

__all__ = ["ExponentialAverage"]


class ExponentialAverage(WeightAveraging):
    r"""Validate with, checkpoint and finally keep an exponential average of the weights.

    $\bar w_n = \gamma \bar w_{n-1} + (1-\gamma) w_n$ after step n, from $\bar w_0 = w_0$;
    Lightning's `EMAWeightAveraging` starts from the weights after the first step instead. Parameters are averaged;
    buffers, integer or float, are copied from the model. A checkpoint holds the average as its ``state_dict``, so
    that it loads without a trainer, and the current weights beside it for resuming.

    Args:
        decay: $\gamma$ in [0, 1); the average reaches back about 1 / (1 - decay) steps.

    Raises:
        ValueError: `decay` outside [0, 1).
    """

    def __init__(self, decay: float = 0.99) -> None:
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"decay={decay} must lie in [0, 1)")
        super().__init__(use_buffers=False, multi_avg_fn=get_ema_multi_avg_fn(decay))
        self.decay = decay

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        """Start the average at the weights that training starts from, unless it goes on from a checkpoint."""
        average = self._average_model
        if average is not None and int(average.n_averaged) == 0:
            average.update_parameters(pl_module)
