"""The demo, run once with a model that is hardly trained: what it writes, where, and what the page holds."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import geomgen.demo
from geomgen.absorbing import AbsorbingDiffusion, DigitsData
from geomgen.demo import absorbing, digits

FIGURES = ["digits_samples", "digits_steps", "digits_calls", "digits_infilling", "exact_errors"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the demo has run, from an empty working directory."""
    here, out = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("out") / "new" / "demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setattr(digits, "_QUICK_STEPS", 3)
        state = torch.get_rng_state()
        assert geomgen.demo.main(["--quick", "--out", str(out)]) == 0
        assert torch.equal(state, torch.get_rng_state())
    assert list(here.iterdir()) == []
    yield out


@pytest.fixture(scope="module")
def results(demo: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((demo / "results.json").read_text())
    return content


def test_everything_is_written_whole(demo: Path) -> None:
    names = ["index.html", "model", "results.json", *(f"{name}.{end}" for name in FIGURES for end in ("json", "png"))]
    assert sorted(p.name for p in demo.iterdir()) == sorted(names)
    assert [p.name for p in demo.parent.iterdir()] == ["demo"]


def test_page_embeds_the_figures_and_their_commands(demo: Path) -> None:
    page = (demo / "index.html").read_text()
    embedded = [base64.b64decode(text) for text in re.findall(r"data:image/png;base64,([^\"]+)", page)]
    assert embedded == [(demo / f"{name}.png").read_bytes() for name in FIGURES]
    assert not re.search(r"https?://", page)
    for name in FIGURES:
        assert f"{name}.json" in page
    assert page.count("<pre>") == len(FIGURES)
    assert "geomgen sample" in page


def test_figures_have_numbers_and_provenance(demo: Path, results: dict[str, Any]) -> None:
    for name in FIGURES:
        data = json.loads((demo / f"{name}.json").read_text())
        assert data.pop("provenance") == results["provenance"]
        assert data == results["absorbing"][name]
    assert results["provenance"]["threads"] == 1


def test_baselines_are_right(results: dict[str, Any]) -> None:
    bits, data = results["absorbing"]["likelihood"], DigitsData()
    assert bits["uniform"] == pytest.approx(4.0874628, abs=1e-6)
    train, test = data.train.long(), data.test[:50].long()
    total = 0.0
    for place in range(64):  # add-one frequencies, counted anew
        counts = torch.bincount(train[:, place], minlength=17).double() + 1
        total -= float((counts / counts.sum()).log2()[test[:, place]].sum())
    assert bits["marginal"]["mean"] == pytest.approx(total / test.numel(), rel=1e-9)
    assert bits["gain"]["mean"] == pytest.approx(bits["marginal"]["mean"] - bits["model"]["mean"], abs=1e-9)


def test_curves_lie_on_theory(results: dict[str, Any]) -> None:
    steps = results["absorbing"]["digits_steps"]
    for curve in steps["curves"].values():
        assert curve["bits"][0] == pytest.approx(curve["theory"][0], rel=1e-6)  # one step: no randomness on either side
    for point in results["absorbing"]["digits_calls"]["points"]:
        for key in ("calls", "candidates"):
            assert abs(point[key] - point[f"{key}_theory"]) < 3 * point[f"{key}_half_width"] + 1e-9


def test_infilling_keeps_what_is_given(results: dict[str, Any]) -> None:
    data = results["absorbing"]["digits_infilling"]
    truth, completions = torch.tensor(data["truth"]), torch.tensor(data["completions"])
    given = completions.view(-1, len(truth), 64)[:, :, :32]
    assert bool((given == truth[:, :32]).all())
    assert int(completions.max()) <= 16
    assert bool((completions[:, 32:] != truth[:, 32:].repeat(len(given), 1)).any())


def test_saved_model_is_the_one_on_the_page(demo: Path, results: dict[str, Any]) -> None:
    model = AbsorbingDiffusion.from_pretrained(demo / "model")
    from samplers.absorbing import Uniformization

    shown = results["absorbing"]["digits_samples"]["samples"]["Uniformization: exact, 64 calls"]
    stream = torch.Generator().manual_seed(0)
    again = model.sample(len(shown["tokens"]), sampler=Uniformization(model.process), generator=stream)
    assert again.tokens.tolist() == shown["tokens"]
    assert again.network_calls == shown["network_calls"] == 64


def test_an_error_on_the_way_leaves_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "_QUICK_STEPS", 1)

    def fail(*args: Any, **named: Any) -> None:
        raise ValueError("no curve today")

    monkeypatch.setattr(absorbing, "likelihood", fail)
    with pytest.raises(ValueError, match="no curve today"):
        geomgen.demo.run(tmp_path, quick=True, progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_missing_data_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'geomgen\[demo\]'"):
        geomgen.demo.main([])


def test_unknown_option_is_named() -> None:
    with pytest.raises(ValueError, match="--fast"):
        geomgen.demo.main(["--fast"])
