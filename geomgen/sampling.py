"""``geomgen sample``: draw from a saved model and write text, NumPy or torch files."""

from __future__ import annotations

import io
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cli import CommandParser
from .provenance import write_bytes

if TYPE_CHECKING:
    from torch import Tensor

    from samplers.absorbing import Denoiser, Sampler

    from .absorbing import AbsorbingDiffusion

__all__ = ["SAMPLERS", "main"]

SAMPLERS = {
    "tweedie": "Tweedie",
    "tau_leaping": "TauLeaping",
    "euler": "Euler",
    "first_hitting": "FirstHitting",
    "uniformization": "Uniformization",
    "next_reaction": "NextReaction",
}
_GRID_SAMPLERS = ("tweedie", "tau_leaping", "euler")
_DEFAULT_STEPS = 64
_RULE = "\n" + 20 * "-" + "\n"


def main(argv: list[str]) -> int:
    """Run ``geomgen sample DIR --num N --sampler NAME --out FILE``; see ``--help`` for all options.

    Raises:
        ValueError: an unknown option, sampler or suffix, or a prompt that does not fit the model; before any work.
        FileNotFoundError: no model in the folder.
    """
    options = _parse(argv)
    write = _writer(Path(options.out))
    if not Path(options.model).is_dir():
        raise FileNotFoundError(f"no folder {options.model}: give one written by geomgen fit or save_pretrained")

    import torch

    from .absorbing import AbsorbingDiffusion

    model = AbsorbingDiffusion.from_pretrained(options.model).to(options.device)
    sampler = _sampler(options, model)
    prompt = None if options.prompt is None else model.prompt(options.prompt)
    started = time.perf_counter()
    samples = sampler.sample(
        _denoiser(options, model),
        options.num,
        prompt=prompt,
        generator=torch.Generator().manual_seed(options.seed),
        progress=True,
    )
    seconds = time.perf_counter() - started
    write_bytes(options.out, write(model, samples.tokens.cpu()))
    print(
        f"{options.num} samples in {seconds:.1f} s: {samples.network_calls} network calls, "
        f"{int(samples.sequence_evaluations.sum())} sequence evaluations; written to {options.out}"
    )
    return 0


def _parse(argv: list[str]) -> Namespace:
    parser = CommandParser(prog="geomgen sample", description="Draw samples from a trained absorbing diffusion model.")
    parser.add_argument("model", help="folder written by geomgen fit or save_pretrained")
    parser.add_argument("--num", type=int, default=16, help="number of samples (default: 16)")
    parser.add_argument("--sampler", choices=list(SAMPLERS), default="tweedie", help="default: tweedie")
    parser.add_argument("--steps", type=int, help=f"steps of a leaping sampler (default: {_DEFAULT_STEPS})")
    parser.add_argument("--prompt", help="text that every sample begins with (text models)")
    parser.add_argument("--top-p", type=float, help="keep only the likeliest tokens of this total probability")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same samples (default: 0)")
    parser.add_argument("--device", default="cpu", help="where to run, for example cuda (default: cpu)")
    parser.add_argument("--out", required=True, help="file to write: .txt, .npy or .pt")
    options = parser.parse_args(argv)
    if options.num < 1:
        raise ValueError(f"--num {options.num} must be at least 1")
    if options.steps is not None and options.sampler not in _GRID_SAMPLERS:
        raise ValueError(f"--steps is for {', '.join(_GRID_SAMPLERS)}; {options.sampler} takes no steps, leave it out")
    return options


def _sampler(options: Namespace, model: AbsorbingDiffusion) -> Sampler:
    import samplers.absorbing

    build: Any = getattr(samplers.absorbing, SAMPLERS[options.sampler])
    if options.sampler in _GRID_SAMPLERS:
        sampler: Sampler = build(model.process, steps=_DEFAULT_STEPS if options.steps is None else options.steps)
    else:
        sampler = build(model.process)
    return sampler


def _denoiser(options: Namespace, model: AbsorbingDiffusion) -> Denoiser:
    from samplers.absorbing import NucleusDenoiser

    denoiser = model.denoiser()
    return denoiser if options.top_p is None else NucleusDenoiser(denoiser, options.top_p)


def _writer(path: Path) -> Callable[[AbsorbingDiffusion, Tensor], bytes]:
    """The function that turns samples into the content of a file of this suffix."""
    writers = {".txt": _as_text, ".npy": _as_numpy, ".pt": _as_torch}
    if path.suffix not in writers:
        raise ValueError(f"--out {path} has the suffix {path.suffix!r}; choose one of {', '.join(writers)}")
    if path.is_dir():
        raise ValueError(f"--out {path} is a folder; give a file")
    return writers[path.suffix]


def _as_text(model: AbsorbingDiffusion, tokens: Tensor) -> bytes:
    """Texts with a rule between them; token numbers, one sequence per line, for a model without vocabulary."""
    if model.vocabulary is None:
        return "".join(" ".join(map(str, row)) + "\n" for row in tokens.tolist()).encode()
    return (_RULE.join(model.vocabulary.decode(row) for row in tokens) + "\n").encode("utf-8")


def _as_numpy(model: AbsorbingDiffusion, tokens: Tensor) -> bytes:
    """An int64 array (num, L)."""
    import numpy as np

    content = io.BytesIO()
    np.save(content, tokens.numpy())
    return content.getvalue()


def _as_torch(model: AbsorbingDiffusion, tokens: Tensor) -> bytes:
    """An int64 tensor (num, L), for ``torch.load(file, weights_only=True)``."""
    import torch

    content = io.BytesIO()
    torch.save(tokens, content)
    return content.getvalue()
