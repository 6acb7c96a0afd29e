"""``geomgen sample``: files, repeatability, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from geomgen.absorbing import AbsorbingDiffusion
from geomgen.cli import main
from geomgen.sampling import SAMPLERS

pytestmark = pytest.mark.usefixtures("as_user")


def model(characters: str | None) -> AbsorbingDiffusion:
    vocabulary = {"class": "geomgen.absorbing.Vocabulary", "args": {"level": "characters", "characters": characters}}
    layout = {"vocab_size": 4, "length": 8, "vocabulary": vocabulary if characters else None}
    network = {"class": "geomgen.absorbing.Transformer", "args": {"width": 8, "depth": 1, "heads": 2}}
    return AbsorbingDiffusion(network=network, layout=layout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model(None).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def text_folder(tmp_path: Path) -> Path:
    model("ab\nü").save_pretrained(tmp_path / "text-model")
    return tmp_path / "text-model"


def sample(folder: Path, out: Path, *options: str) -> None:
    assert main(["sample", str(folder), "--num", "3", "--out", str(out), *options]) == 0


@pytest.mark.parametrize("sampler", list(SAMPLERS))
def test_every_sampler(sampler: str, folder: Path, tmp_path: Path, capsys: Any) -> None:
    sample(folder, tmp_path / "a.npy", "--sampler", sampler)
    tokens = np.load(tmp_path / "a.npy")
    assert tokens.shape == (3, 8) and tokens.dtype == np.int64
    assert set(tokens.flat) <= set(range(4))
    assert "3 samples in" in (printed := capsys.readouterr().out) and "network calls" in printed


def test_formats_agree_and_seeds_repeat(folder: Path, tmp_path: Path) -> None:
    for suffix in (".npy", ".pt", ".txt"):
        sample(folder, tmp_path / f"a{suffix}", "--seed", "3", "--steps", "4")
    sample(folder, tmp_path / "b.npy", "--seed", "4", "--steps", "4")
    array = np.load(tmp_path / "a.npy")
    assert torch.equal(torch.load(tmp_path / "a.pt", weights_only=True), torch.from_numpy(array))
    assert np.array_equal(np.loadtxt(tmp_path / "a.txt", dtype=np.int64), array)
    assert not np.array_equal(np.load(tmp_path / "b.npy"), array)


def test_text_and_prompt(text_folder: Path, tmp_path: Path) -> None:
    sample(text_folder, tmp_path / "a.txt", "--prompt", "üb", "--sampler", "first_hitting")
    texts = (tmp_path / "a.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n" + 20 * "-" + "\n")
    assert len(texts) == 3
    assert all(text.startswith("üb") and len(text) == 8 and set(text) <= set("ab\nü") for text in texts)


def test_top_p_of_almost_nothing_is_greedy(text_folder: Path, tmp_path: Path) -> None:
    greedy = AbsorbingDiffusion.from_pretrained(text_folder)
    with torch.no_grad():
        greedy.network.bias[1] = 0.5
    greedy.save_pretrained(text_folder)
    sample(text_folder, tmp_path / "a.pt", "--top-p", "1e-9")
    assert torch.load(tmp_path / "a.pt", weights_only=True).eq(1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "a.csv"], "--out a.csv has the suffix '.csv'; choose one of .txt, .npy, .pt"),
        (["--out", "a"], "has the suffix ''"),
        ([], "--out"),
        (["--out", "a.pt", "--sampler", "gibbs"], "invalid choice: 'gibbs'"),
        (["--out", "a.pt", "--temperature", "2"], "unrecognized arguments: --temperature 2"),
        (["--out", "a.pt", "--num", "0"], "--num 0 must be at least 1"),
        (["--out", "a.pt", "--steps", "0"], "steps=0"),
        (["--out", "a.pt", "--steps", "5", "--sampler", "uniformization"], "uniformization takes no steps"),
        (["--out", "a.pt", "--top-p", "1.5"], "mass=1.5"),
        (["--out", "a.pt", "--prompt", "abz"], "character 'z' at place 2"),
        (["--out", "a.pt", "--prompt", "ababababa"], "the prompt has 9 tokens; this model has length=8"),
    ],
)
def test_bad_input(
    options: list[str], message: str, text_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert main(["sample", str(text_folder), *options]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1 and error[0].startswith("geomgen: error:") and message in error[0]
    assert list(empty.iterdir()) == []


def test_no_model(tmp_path: Path, capsys: Any) -> None:
    assert main(["sample", str(tmp_path), "--out", str(tmp_path / "a.pt")]) == 2
    assert "config.json does not exist: give a folder written by" in capsys.readouterr().err
    assert main(["sample", "runs/none", "--out", str(tmp_path / "a.pt")]) == 2
    assert "no folder runs/none: give one written by geomgen fit" in capsys.readouterr().err
