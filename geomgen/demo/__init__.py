"""`geomgen demo`: train, sample and measure on real data, and tell it on one page."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

from ..cli import CommandParser

__all__ = ["main"]

_TITLE = "geomgen at work"
_LEAD = (
    "Masked (absorbing) discrete diffusion, end to end on this machine: a model trained on real data, samplers of "
    "known error, and the theory drawn beside every measurement."
)


def main(argv: list[str]) -> int:
    """Run the demo; everything is written into the folder of ``--out``: index.html, results.json, figures, the model.

    Raises:
        ModuleNotFoundError: scikit-learn, which ships the digits, is not installed.
    """
    parser = CommandParser(prog="geomgen demo", description="Train, sample and measure; write an illustrated page.")
    parser.add_argument("--quick", action="store_true", help="a short run: the same page from a barely trained model")
    parser.add_argument("--out", default="demo", help="folder to write into (default: demo)")
    arguments = parser.parse_args(argv)
    if importlib.util.find_spec("sklearn") is None:
        raise ModuleNotFoundError("the demo needs scikit-learn for its data: pip install 'geomgen[demo]'")
    started = time.perf_counter()
    page = run(Path(arguments.out), quick=arguments.quick)
    print(f"done in {time.perf_counter() - started:.0f} s: open {page}")
    return 0


def run(folder: Path, *, quick: bool, progress: bool = True) -> Path:
    """Make the demo's page in `folder` and return its path."""
    import torch

    from ..page import to_html
    from ..provenance import provenance, write_json, write_text
    from .absorbing import absorbing_part

    torch.set_num_threads(1)
    started = time.perf_counter()
    made_by = provenance(quick=quick)
    sections, results = absorbing_part(folder, made_by, quick=quick, progress=progress)
    seconds = time.perf_counter() - started
    write_json(folder / "results.json", {"provenance": made_by, "seconds": seconds, "absorbing": results})
    facts = {**made_by, "seconds": f"{seconds:.0f}", "numbers": "results.json, and one JSON beside each figure"}
    write_text(folder / "index.html", to_html(_TITLE, _LEAD, sections, facts))
    return folder / "index.html"
