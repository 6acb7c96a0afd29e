"""`geomgen bench SUITE`: measurements against theory, each figure written with its numbers."""

from __future__ import annotations

from importlib import import_module

from ..cli import CommandParser

__all__ = ["main"]

_SUITES = {"absorbing": "geomgen.bench.absorbing", "manifolds": "geomgen.bench.manifolds"}


def main(argv: list[str]) -> int:
    """Run the benchmark suite named by the first word; the rest is that suite's own."""
    parser = CommandParser(
        prog="geomgen bench",
        description="Measure against theory and against peers.",
        epilog="geomgen bench SUITE --help tells more.",
    )
    parser.add_argument("suite", choices=sorted(_SUITES), help="what to measure")
    suite = parser.parse_args(argv[:1]).suite
    return int(import_module(_SUITES[suite]).main(argv[1:]))
