"""The ``geomgen`` command: a dispatcher that imports a command only when it is chosen.

A command is a function ``main(argv: list[str]) -> int`` in its own module; it parses its arguments with
:class:`CommandParser` and raises ordinary exceptions. This module is the one place that turns them into a
line on stderr and an exit code: 0 done, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from . import __version__

__all__ = ["COMMANDS", "CommandParser", "main"]

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("geomgen.demo", "train, sample and measure on real data; write an illustrated report"),
    "fit": ("geomgen.training", "train a model from a YAML configuration"),
    "sample": ("geomgen.sampling", "draw samples from a trained model"),
    "bench": ("geomgen.bench", "measure against theory and peers (bench absorbing, bench manifolds)"),
    "info": ("geomgen.provenance", "print versions, threads and devices"),
}

_USER_ERRORS = (ValueError, TypeError, OSError, ModuleNotFoundError, argparse.ArgumentError)


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` whose errors are raised, so that ``main`` reports them like all others.

    Options must be written in full. Takes the arguments of ``argparse.ArgumentParser``.

    Raises:
        ValueError: From ``parse_args``, on unknown options, missing or malformed values; the message names
            the command whose ``--help`` explains them.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """Raise ``ValueError`` instead of printing the usage and leaving."""
        raise ValueError(f"{message} (see: {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: Command line without the program's name; ``sys.argv[1:]`` if None.

    Returns:
        The command's exit code: 0 when done, 2 after one line ``geomgen: error: ...`` on stderr, 130 when
        interrupted.
    """
    own, command, rest = _split(list(sys.argv[1:] if argv is None else argv))
    traceback = "--traceback" in own
    try:
        _parser().parse_args(own)
        code = _command(command)(rest)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("geomgen: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output left, as in `geomgen sample ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (*_USER_ERRORS, KeyError) as error:
        if traceback or not _is_for_the_user(error):
            raise
        print(f"geomgen: error: {_one_line(error, command)}", file=sys.stderr)
        return 2


def _split(argv: list[str]) -> tuple[list[str], str | None, list[str]]:
    """Split into the dispatcher's own options, the command (or None) and the command's arguments."""
    for index, argument in enumerate(argv):
        if not argument.startswith("-"):
            return argv[:index], argument, argv[index + 1 :]
    return argv, None, []


def _parser() -> CommandParser:
    lines = [f"  {name:<8}{summary}" for name, (_, summary) in COMMANDS.items()]
    parser = CommandParser(
        prog="geomgen",
        usage="geomgen [--help] [--version] [--traceback] COMMAND ...",
        description="Generative modelling on geometric and discrete spaces.",
        epilog="\n".join(["commands:", *lines, "", "geomgen COMMAND --help explains a command."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"geomgen {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")
    return parser


def _command(name: str | None) -> Callable[[list[str]], int]:
    """Import the command's module and return its ``main``."""
    choices = ", ".join(COMMANDS)
    if name is None:
        raise ValueError(f"no command given: choose one of {choices} (see: geomgen --help)")
    if name not in COMMANDS:
        raise ValueError(f"unknown command {name!r}: choose one of {choices} (see: geomgen --help)")
    command: Callable[[list[str]], int] = importlib.import_module(COMMANDS[name][0]).main
    return command


def _is_for_the_user(error: Exception) -> bool:
    """Whether the message was written to be read; a bare key or a missing module of ours is a bug instead."""
    if isinstance(error, KeyError):
        return " " in str(error.args[0] if error.args else "")
    if isinstance(error, ModuleNotFoundError):
        return (error.name or "").partition(".")[0] not in {
            "geomgen",
            "manifolds",
            "samplers",
            "vit_registers",
        }
    return True


def _one_line(error: Exception, command: str | None) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.strerror}: {str(error.filename)!r}"
    elif isinstance(error, KeyError):
        text = str(error.args[0])
    elif isinstance(error, ModuleNotFoundError):
        text = f"{error} (optional packages come with: pip install 'geomgen[demo]')"
    elif isinstance(error, argparse.ArgumentError):  # from Lightning's parser; ours raises ValueError
        text = f"{error} (see: geomgen {command} --help)"
    else:
        text = str(error) or type(error).__name__
    return " ".join(text.split())
