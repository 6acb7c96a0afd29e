"""`geomgen bench absorbing`: samplers of absorbing diffusion against their theory, and what they cost."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ...cli import CommandParser

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Run all protocols; write absorbing.json, absorbing.md and a figure with its JSON for each.

    Returns:
        0 if every check passed, 1 otherwise.
    """
    parser = CommandParser(
        prog="geomgen bench absorbing", description="Samplers of absorbing diffusion against theory."
    )
    parser.add_argument("--quick", action="store_true", help="fewer points, in less than a minute")
    parser.add_argument("--out", default="bench", help="folder to write into (default: bench)")
    arguments = parser.parse_args(argv)

    import torch

    from .suite import PROTOCOLS, run

    torch.set_num_threads(1)
    started = time.perf_counter()
    checks = run(PROTOCOLS, Path(arguments.out), quick=arguments.quick)
    failed = [check for check in checks if not check["passed"]]
    for check in failed:
        print(f"failed: {check['name']}: {check['value']:.6g}", file=sys.stderr)
    print(
        f"{len(checks) - len(failed)} of {len(checks)} checks passed in {time.perf_counter() - started:.0f} s; "
        f"see {Path(arguments.out) / 'absorbing.md'}"
    )
    return 1 if failed else 0
