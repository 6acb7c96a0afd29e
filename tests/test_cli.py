"""The dispatcher: lazy, and every error is one line with exit code 2."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from geomgen import __version__, cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process: exit code, stdout, stderr."""

    def call(*argv: str) -> tuple[int, str, str]:
        try:
            code = cli.main(list(argv))
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def command_that(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[list[str]], int]], None]:
    """Install a function as the command ``info``."""

    def install(function: Callable[[list[str]], int]) -> None:
        monkeypatch.setattr(cli.importlib, "import_module", lambda name: SimpleNamespace(main=function))

    return install


def raising(error: BaseException) -> Callable[[list[str]], int]:
    def command(argv: list[str]) -> int:
        raise error

    return command


def test_help_names_every_command_and_loads_no_torch() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "geomgen", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert all(f"  {name} " in done.stdout for name in cli.COMMANDS)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "argparse" in loaded
    assert not {name for name in loaded if name.partition(".")[0] in {"torch", "numpy", "lightning"}}


def test_every_command_has_a_module() -> None:
    for module, _ in cli.COMMANDS.values():
        assert importlib.util.find_spec(module) is not None, module


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"geomgen {__version__}\n", "")


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        ([], ["no command", "demo", "info"]),
        (["inof"], ["'inof'", "demo", "info"]),
        (["--colour", "info"], ["--colour", "geomgen --help"]),
        (["info", "--colour"], ["--colour", "geomgen info --help"]),
        (["info", "--jso"], ["--jso"]),
        (["info", "extra"], ["extra"]),
    ],
)
def test_bad_command_lines_are_one_line_and_exit_2(run: Run, argv: list[str], names: list[str]) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("geomgen: error: ") and err.count("\n") == 1
    assert all(name in err for name in names)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("steps=0:\n  must be at least 1"), "steps=0: must be at least 1"),
        (TypeError("tokens is float32"), "tokens is float32"),
        (FileNotFoundError(2, "No such file or directory", "a.yaml"), "No such file or directory: 'a.yaml'"),
        (OSError("disk is full"), "disk is full"),
        (KeyError("no key 'x': add it"), "no key 'x': add it"),
        (ModuleNotFoundError("No module named 'skimage'"), "No module named 'skimage' (optional packages"),
        (argparse.ArgumentError(None, "no option --x"), "no option --x (see: geomgen info --help)"),
        (ValueError(), "ValueError"),
    ],
)
def test_errors_of_commands(run: Run, command_that: Callable, error: Exception, line: str) -> None:
    command_that(raising(error))
    code, out, err = run("info")
    assert (code, out) == (2, "")
    assert err.startswith(f"geomgen: error: {line}") and err.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), KeyError(), ModuleNotFoundError("gone", name="samplers.gone"), RuntimeError("a bug")],
)
def test_bugs_keep_their_traceback(run: Run, command_that: Callable, error: Exception) -> None:
    command_that(raising(error))
    with pytest.raises(type(error)):
        run("info")


def test_traceback_on_request(run: Run, command_that: Callable) -> None:
    command_that(raising(ValueError("steps=0")))
    with pytest.raises(ValueError, match="steps=0"):
        run("--traceback", "info")


def test_interrupt_is_130(run: Run, command_that: Callable) -> None:
    command_that(raising(KeyboardInterrupt()))
    assert run("info") == (130, "", "geomgen: interrupted\n")


def test_the_commands_own_code_and_arguments_pass_through(run: Run, command_that: Callable) -> None:
    seen = []
    command_that(lambda argv: seen.append(argv) or 7)
    assert run("--traceback", "info", "--traceback", "-x", "y")[0] == 7
    assert seen == [["--traceback", "-x", "y"]]


def test_a_closed_pipe_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "geomgen", "info"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_info_as_table_and_as_json(run: Run) -> None:
    code, table, err = run("info")
    assert (code, err) == (0, "")
    assert f"geomgen         {__version__}" in table and "torch" in table
    code, text, err = run("info", "--json")
    record = json.loads(text)
    assert (code, err) == (0, "")
    assert {"geomgen", "python", "processor", "versions", "threads", "device", "package"} <= set(record)
