"""Digits: the likelihood of the model that the demo trains, against the baselines it has to beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...demo.digits import likelihood, train
from ...plotting import COLOURS, THEORY, label_axes, new_figure
from ...report import Block, Table
from ..protocol import Data, Protocol, check, check_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DIGITS"]

_GAIN = 0.2  # bits per token below the per-pixel marginal


def measure(quick: bool, progress: bool) -> Data:
    """Train as the demo does (60 steps when quick) and evaluate on the test images."""
    trained = train(quick, progress)
    bits = likelihood(trained, images=50 if quick else 300, num_draws=4 if quick else 64, progress=progress)
    points = {"uniform": (bits.uniform, 0.0), "per-pixel marginal": bits.marginal, "model (NELBO)": bits.model}
    gain = {"mean": bits.gain.mean, "half_width": bits.gain.half_width}
    return {
        "config": {"steps": trained.steps, "seed": trained.seed, "images": bits.images, "quick": quick},
        "points": [{"law": law, "bits": mean, "half_width": half} for law, (mean, half) in points.items()],
        "gain": gain,
        "monte_carlo_error": bits.monte_carlo_error,
        "training_seconds": trained.seconds,
        "checks": [] if quick else [check("bits per token below the per-pixel marginal", bits.gain.mean, low=_GAIN)],
    }


def draw(data: Data) -> Figure:
    """Bits per token of the three laws."""
    figure, (axis,) = new_figure(panel=(5.0, 2.4))
    names = [p["law"] for p in data["points"]]
    values, widths = [p["bits"] for p in data["points"]], [p["half_width"] for p in data["points"]]
    axis.barh(names, values, xerr=widths, color=[THEORY, THEORY, COLOURS[0]], height=0.6)
    label_axes(axis, "Held-out digits (lower is better)", "bits per token", "")
    return figure


def tell(data: Data) -> list[Block]:
    """The three numbers, the paired gain, the checks."""
    rows = [[p["law"], p["bits"], p["half_width"]] for p in data["points"]]
    gain, config = data["gain"], data["config"]
    return [
        Table("Held-out bits per token", ("law", "bits per token", "±95 % over images"), rows),
        f"Paired gain over the per-pixel marginal: {gain['mean']:.3f} ± {gain['half_width']:.3f} bits per token on "
        f"{config['images']} images, one training seed ({config['seed']}), {config['steps']} steps in "
        f"{data['training_seconds']:.0f} s.",
        check_table(data),
    ]


DIGITS = Protocol(
    name="digits",
    title="Digits: likelihood of the trained model",
    measure=measure,
    draw=draw,
    tell=tell,
    caption="Held-out bits per token on scikit-learn's digits: every symbol equally likely, pixels independent, model.",
)
