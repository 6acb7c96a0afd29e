"""Pictures of digits: samples beside real ones, and the lower half filled in given the upper half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from samplers.absorbing import Tweedie, Uniformization

from ..plotting import image_grid, new_figure
from .digits import Trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["infilling_figure", "sample_figure"]

_LARGEST = 16.0  # grey levels 0..16


def sample_figure(trained: Trained, quick: bool) -> tuple[Figure, dict[str, Any]]:
    """Real digits, samples of the exact sampler, of few steps and of one; and what each cost."""
    columns, count = 10, 10 if quick else 30
    process = trained.model.process
    runs = {
        "Uniformization: exact, 64 calls": Uniformization(process),
        "Tweedie, 8 calls": Tweedie(process, steps=8),
        "Tweedie, 1 call: pixels independent": Tweedie(process, steps=1),
    }
    figure, axes = new_figure(2, 2, panel=(4.4, 0.35 + 4.4 * count / columns**2))
    image_grid(axes[0], _images(trained.data.test[:count]), columns, "Real digits (held out)", limit=_LARGEST)
    data: dict[str, Any] = {"real": trained.data.test[:count], "samples": {}}
    for axis, (title, sampler) in zip(axes[1:], runs.items(), strict=True):
        stream = torch.Generator().manual_seed(trained.seed)
        made = trained.model.sample(count, sampler=sampler, generator=stream)
        image_grid(axis, _images(made.tokens), columns, title, limit=_LARGEST)
        data["samples"][title] = {"network_calls": made.network_calls, "tokens": made.tokens}
    return figure, data


def infilling_figure(trained: Trained, quick: bool) -> tuple[Figure, dict[str, Any]]:
    """Test images, their upper half, and completions drawn by the exact sampler; one row of images for each."""
    images, completions = (6, 2) if quick else (12, 4)
    truth = trained.data.test[-images:].long()
    given = truth.clone()
    given[:, truth.shape[1] // 2 :] = trained.model.process.mask_id
    made = trained.model.sample(
        images * completions,
        sampler=Uniformization(trained.model.process),
        prompt=given.repeat(completions, 1),
        generator=torch.Generator().manual_seed(trained.seed),
    )
    shown = torch.cat([truth, given, made.tokens])
    figure, (axis,) = new_figure(panel=(7.2, 0.62 * (completions + 2) + 0.3))
    title = "Rows: the image, what is given, completions"
    image_grid(
        axis, _images(shown.masked_fill(shown == trained.model.process.mask_id, 0)), images, title, limit=_LARGEST
    )
    return figure, {"truth": truth, "completions": made.tokens, "network_calls": made.network_calls}


def _images(tokens: Tensor) -> list[Any]:
    """Tokens (n, 64) as n arrays (8, 8)."""
    return list(tokens.reshape(-1, 8, 8).float().numpy())
