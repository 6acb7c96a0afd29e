"""Curves of the digits model against theory: likelihood lost to few steps, and calls of uniformization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from samplers.absorbing import AbsorbingProcess, Constant, Sampler, TauLeaping, Tweedie, Uniformization, bounds
from samplers.absorbing.information import estimate_profile

from ..absorbing import NELBO, nelbo_steps
from ..bench.protocol import bar
from ..plotting import label_axes, measured, new_figure, theory
from ..statistics import mean_interval
from .digits import NATS_PER_BIT, Trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["call_figure", "step_figure"]

_SAMPLERS = {"Tweedie": Tweedie, "τ-leaping": TauLeaping}
_HORIZON = 8.0


def step_figure(trained: Trained, quick: bool, progress: bool) -> tuple[Figure, dict[str, Any]]:
    """N-step NELBO of two samplers, beside the left Riemann sum of the model's own information profile.

    Both are of the same images, so intervals are those of the random reveal times alone.
    """
    tokens = trained.data.test[: 16 if quick else 50].long()
    steps = [1, 4, 16] if quick else [1, 2, 4, 8, 16, 32, 64]
    denoiser, process = trained.model.denoiser(), trained.model.process
    stream = torch.Generator().manual_seed(trained.seed)
    estimate = estimate_profile(
        denoiser, tokens, mask_id=process.mask_id, draws_per_count=2, generator=stream, progress=progress
    )
    bits = NATS_PER_BIT * process.length
    curves = {}
    for name, sampler in bar(list(_SAMPLERS.items()), "N-step likelihoods", progress):
        runs = [sampler(process, steps=n) for n in steps]
        values = [_step_nelbo(run, trained, tokens) for run in runs]
        curves[name] = {
            "bits": [value.mean / bits for value in values],
            "half_width": [1.96 * (value.monte_carlo_error or 0.0) / bits for value in values],
            "theory": [bounds.path_nelbo(run.reveal_fractions(), estimate.profile) / bits for run in runs],
        }
    data = {"steps": steps, "images": len(tokens), "curves": curves, "limit": estimate.nelbo / bits}
    return _draw_steps(data), data


def _step_nelbo(run: Sampler, trained: Trained, tokens: Tensor) -> NELBO:
    stream = torch.Generator().manual_seed(trained.seed)
    return nelbo_steps(run, trained.model.denoiser(), tokens, num_draws=2, generator=stream)


def _draw_steps(data: dict[str, Any]) -> Figure:
    figure, (axis,) = new_figure(panel=(6.0, 3.6))
    for index, (name, curve) in enumerate(data["curves"].items()):
        label = f"left Riemann sum of ĝ, {name}'s grid"
        theory(axis, data["steps"], curve["theory"], label, dashes=("--", ":")[index])
        measured(axis, data["steps"], curve["bits"], name, half_width=curve["half_width"], index=index)
    theory(axis, data["steps"], [data["limit"]] * len(data["steps"]), "NELBO, infinitely many steps", dashes="-")
    title = f"Likelihood that few steps cost ({data['images']} held-out images)"
    label_axes(axis, title, "steps N = network calls", "N-step NELBO, bits per token", log="x", ticks=data["steps"])
    return figure


def call_figure(trained: Trained, quick: bool) -> tuple[Figure, dict[str, Any]]:
    """Candidates and network calls of uniformization on the digits model against the early stop δ."""
    rows, stops = (8, [1.0, 0.1]) if quick else (32, [1.0, 0.3, 0.1, 0.03, 0.01])
    length = trained.model.process.length
    process = AbsorbingProcess(trained.data.vocab_size, length, Constant(horizon=_HORIZON))
    points = []
    for stop in stops:
        sampler = Uniformization(process, early_stop=stop, fill=False, start="surrogate")
        stream = torch.Generator().manual_seed(trained.seed)
        made = sampler.sample(trained.model.denoiser(), rows, generator=stream)
        calls, candidates = mean_interval(made.sequence_evaluations), mean_interval(made.candidates)
        points.append(
            {
                "early_stop": stop,
                "calls": calls.mean,
                "calls_half_width": calls.half_width,
                "candidates": candidates.mean,
                "candidates_half_width": candidates.half_width,
                "calls_theory": bounds.unif_calls(length, _HORIZON, stop),
                "candidates_theory": bounds.unif_candidates_absorb(length, _HORIZON, stop),
            }
        )
    return _draw_calls(points), {"rows": rows, "length": length, "horizon": _HORIZON, "points": points}


def _draw_calls(points: Sequence[dict[str, Any]]) -> Figure:
    figure, (axis,) = new_figure(panel=(6.0, 3.6))
    stops = [p["early_stop"] for p in points]
    formulas = {"calls": "d(e⁻ᵟ-e⁻ᵀ)", "candidates": "d log((1-e⁻ᵀ)/(1-e⁻ᵟ))"}
    for index, key in enumerate(("candidates", "calls")):
        theory(axis, stops, [p[f"{key}_theory"] for p in points], formulas[key], dashes=("--", ":")[index])
        widths = [p[f"{key}_half_width"] for p in points]
        label = {"candidates": "candidates", "calls": "network calls"}[key]
        measured(axis, stops, [p[key] for p in points], label, half_width=widths, index=index, line=False)
    axis.invert_xaxis()
    title = "Uniformization: cost of one image of 64 pixels"
    label_axes(axis, title, "early stop δ (later to the right)", "count per image", log="x", ticks=stops)
    return figure
