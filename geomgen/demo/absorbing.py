"""The demo's part on absorbing diffusion: a trained model of digits, its samplers, and their error against theory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..bench.absorbing.leaping import draw_steps, errors, slope_table
from ..plotting import new_figure, shared_legend
from ..report import Block, Cell, Numbers, Picture, Section, Table, picture
from .curves import call_figure, step_figure
from .digits import Likelihood, Trained, likelihood, train
from .images import infilling_figure, sample_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["absorbing_part"]

_TARGETS = ["ising_ring_d4", "parity_d4"]


@dataclass(frozen=True)
class Folder:
    """Where the demo writes, and what it writes beside every figure."""

    path: Path
    made_by: dict[str, Any]
    results: dict[str, Any]

    def keep(self, name: str, drawn: tuple[Figure, dict[str, Any]], caption: str, command: str = "") -> Picture:
        """Write a figure with its numbers, note the numbers for results.json, and return the figure for the page."""
        figure, data = drawn
        self.results[name] = data
        record = {**data, "provenance": self.made_by}
        return picture(figure, self.path, name, record, caption=caption, command=command or self.made_by["command"])


def absorbing_part(
    path: Path, made_by: dict[str, Any], *, quick: bool, progress: bool
) -> tuple[list[Section], dict[str, Any]]:
    """Train, sample, measure; write the model and the figures into `path`.

    Returns:
        The page's sections and the numbers for results.json.
    """
    folder = Folder(path, made_by, {})
    trained = train(quick, progress)
    trained.model.save_pretrained(path / "model")
    makers: list[Callable[..., Section]] = [_digits, _steps, _calls, _infilling]
    sections = [maker(folder, trained, quick, progress) for maker in makers]
    sections.append(_errors(folder, quick, progress))
    return sections, folder.results


def _digits(folder: Folder, trained: Trained, quick: bool, progress: bool) -> Section:
    bits = likelihood(trained, images=50 if quick else 300, num_draws=4 if quick else 32, progress=progress)
    folder.results["likelihood"] = {
        **{key: value._asdict() if hasattr(value, "_asdict") else value for key, value in vars(bits).items()},
        "steps": trained.steps,
        "seconds": trained.seconds,
        "seed": trained.seed,
    }
    samples = folder.keep(
        "digits_samples",
        sample_figure(trained, quick),
        "Held-out digits beside samples of the model. One call draws every pixel independently and shows what is lost; "
        "with eight calls most of it is back; the exact sampler has no error but the model's.",
        f"geomgen sample {folder.path / 'model'} --sampler uniformization --num 30 --out samples.npy",
    )
    blocks: list[Block] = [
        "An image of 8×8 pixels is a sequence of 64 tokens, each one of 17 grey levels. Noise replaces tokens by a "
        "mask, one after another, until only masks are left; a small transformer learns the way back, the law of a "
        "hidden pixel given those that can be seen. It has been trained on this machine, just now, on scikit-learn's "
        "digits.",
        _headline(bits, trained),
        samples,
        _likelihood_table(bits),
    ]
    return Section("A model of handwritten digits", blocks)


def _headline(bits: Likelihood, trained: Trained) -> Numbers:
    return Numbers(
        [
            (f"{bits.model.mean:.2f} bits", "per pixel on held-out digits (an upper bound, ± below)"),
            (f"{bits.gain.mean:.2f} bits", "per pixel better than independent pixels"),
            (f"{trained.seconds:.0f} s", f"of training, {trained.steps:,} steps, one CPU thread"),
            (f"{sum(p.numel() for p in trained.model.parameters()):,}", "parameters"),
        ]
    )


def _likelihood_table(bits: Likelihood) -> Table:
    rows: list[list[Cell]] = [
        ["every grey level equally likely", bits.uniform, None],
        ["independent pixels, each with its own frequencies", *bits.marginal],
        ["this model (NELBO, an upper bound)", *bits.model],
        ["gain over independent pixels, image by image", *bits.gain],
    ]
    error = "" if bits.monte_carlo_error is None else f" Random masks alone: ± {bits.monte_carlo_error:.4f} (1 s.e.)."
    note = f"Intervals over {bits.images} held-out images, one training run.{error}"
    return Table("Bits per token on held-out digits", ("law", "bits", "±95 %"), rows, note)


def _steps(folder: Folder, trained: Trained, quick: bool, progress: bool) -> Section:
    shown = folder.keep(
        "digits_steps",
        step_figure(trained, quick, progress),
        "What the samples of N steps cost in likelihood: the N-step evidence bound of two samplers on held-out digits. "
        "The grey lines are no fit: they follow from the model's information profile.",
    )
    blocks: list[Block] = [
        "A leaping sampler reveals many pixels from one look at the network, as if they were independent. The price is "
        "known exactly: it is the error of a left Riemann sum. With g(p) the summed uncertainty of the pixels when a "
        "fraction p of the others is known, N steps cost Σ Δp g(p) instead of ∫ g dp.",
        shown,
    ]
    return Section("How many steps are enough?", blocks)


def _calls(folder: Folder, trained: Trained, quick: bool, progress: bool) -> Section:
    shown = folder.keep(
        "digits_calls",
        call_figure(trained, quick),
        "Candidates of the Poisson process and network calls per image, counted (with 95 % intervals) and by formula.",
    )
    blocks: list[Block] = [
        "Uniformization turns the reverse process into a Poisson process of candidates that are accepted or rejected, "
        "and makes no error at all. Its reputation is that candidates pile up as the sampler gets close to the data. "
        "They do, but rejecting one needs no network: of 64 pixels at most 64 calls can come.",
        shown,
    ]
    return Section("Exact sampling costs one call per pixel", blocks)


def _infilling(folder: Folder, trained: Trained, quick: bool, progress: bool) -> Section:
    shown = folder.keep(
        "digits_infilling",
        infilling_figure(trained, quick),
        "Held-out digits (first row), their upper half (second row), and completions drawn by the exact sampler.",
    )
    text = (
        "Any set of tokens may be given: they stay as they are, and the others are drawn from the model's conditional "
        "law. Nothing was trained for this."
    )
    return Section("Filling in what is missing", [text, shown])


def _errors(folder: Folder, quick: bool, progress: bool) -> Section:
    data = errors(_TARGETS, [1, 2, 4, 8, 16] if quick else [1, 2, 4, 8, 16, 32, 64], progress)
    figure, axes = new_figure(1, 2, panel=(4.6, 3.4))
    for axis, name in zip(axes, _TARGETS, strict=True):
        draw_steps(axis, data, name)
    shared_legend(figure)
    shown = folder.keep(
        "exact_errors",
        (figure, data),
        "Error of the output law against the number of steps, enumerated without sampling noise: a ring of four spins, "
        "and four bits of even parity. Grey: the exact path error and two bounds on it.",
    )
    blocks: list[Block] = [
        "On targets small enough to enumerate, the law of a sampler's output can be computed and compared with the "
        "data's, and with what theory promises. Where every string is possible (left) the error falls as 1/N², faster "
        "than the bounds, which fall as 1/N; where strings are forbidden (right) 1/N is the truth.",
        shown,
    ]
    return Section("The error of the samplers, exactly", blocks + ([slope_table(data)] if data["fits"] else []))
