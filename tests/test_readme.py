"""The README and the documentation do what they say: snippets run, commands exist with the options shown."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from geomgen import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CLI_LINE = re.compile(r"^(?:\.venv/bin/)?geomgen\b")


def blocks(page: Path, language: str) -> list[str]:
    """Code blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Every ``geomgen`` command line of the shell blocks, comments removed, continued lines joined."""
    lines = [
        line.partition(" # ")[0].strip()
        for page in PAGES
        for block in blocks(page, "bash")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    return sorted({line for line in lines if CLI_LINE.match(line)})


def help_of(command: list[str]) -> str:
    """What ``geomgen COMMAND --help`` prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), pytest.raises(SystemExit) as leaving:
        cli.main([*command, "--help"])
    assert not leaving.value.code
    return output.getvalue()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks(page, "python"), 1):
        exec(compile(block, f"{page.name}, python block {number}", "exec"), namespace)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", commands())
def test_commands_exist_with_the_options_shown(line: str) -> None:
    words = shlex.split(line)[1:]
    path = [word for word in words if not word.startswith("-")][: 2 if words[0] == "bench" else 1]
    shown = help_of(path)
    options = {word.partition("=")[0] for word in words if word.startswith("--")} - {"--help"}
    # arguments of a class that the configuration chooses (--data.init_args.path) are not in the general help
    options = {option.partition(".init_args.")[0] for option in options}
    assert {option for option in options if option not in shown} == set()


def test_make_targets_of_the_pages_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    targets = set(re.findall(r"^make (\w+)|`make (\w+)`", text, re.MULTILINE))
    assert targets
    for target in {"".join(pair) for pair in targets}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
