"""``geomgen fit``: shipped configurations, resuming, bad input. In this process, two steps each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import geomgen
from geomgen.absorbing import AbsorbingDiffusion
from geomgen.cli import main

CONFIGS = Path(geomgen.__file__).parent / "configs"
QUIET = ["--trainer.enable_progress_bar=false", "--trainer.accelerator=cpu", "--trainer.limit_val_batches=1"]

pytestmark = [
    pytest.mark.usefixtures("as_user"),
    # LightningCLI 2.6 calls what jsonargparse 4.49 renamed
    pytest.mark.filterwarnings(
        "ignore:\\s+(By default only one Json|.*instantiate_classes|skip_none):DeprecationWarning"
    ),
]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text("It was the best of times, it was the worst of times. " * 100, encoding="utf-8")
    return path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def arguments(name: str, book: Path) -> list[str]:
    return [f"--data.init_args.path={book}"] if name == "absorbing_text.yaml" else []


@pytest.mark.parametrize("name", sorted(path.name for path in CONFIGS.glob("absorbing_*.yaml")))
def test_shipped_configurations_run(name: str, book: Path, tmp_path: Path, elsewhere: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    extra = [*QUIET, "--trainer.max_steps=2", "--trainer.log_every_n_steps=1"]
    assert main(["fit", "--config", name, "--out", str(out), *arguments(name, book), *extra]) == 0, capsys.readouterr()
    model = AbsorbingDiffusion.from_pretrained(out)
    written = yaml.safe_load((CONFIGS / name).read_text(encoding="utf-8"))["model"]["init_args"]
    assert model.learning_rate == written["learning_rate"]
    assert (model.vocabulary is not None) == (name == "absorbing_text.yaml")
    assert {path.name for path in out.iterdir()} == {
        *("README.md", "config.json", "model.safetensors", "checkpoints", "logs")
    }
    assert {path.name for path in (out / "logs" / "version_0").iterdir()} == {"fit.yaml", "hparams.yaml", "metrics.csv"}
    torch.load(out / "checkpoints" / "last.ckpt", weights_only=True)
    assert list(elsewhere.iterdir()) == []
    assert f"model saved in {out}" in capsys.readouterr().out


def test_a_resumed_command_ends_in_the_same_weights(tmp_path: Path, elsewhere: Path) -> None:
    """Resumed in the middle of the first epoch; other random masks would show."""
    config = yaml.safe_load((CONFIGS / "absorbing_digits.yaml").read_text(encoding="utf-8"))
    config["model"]["init_args"]["network"]["args"].update(width=8, depth=1, heads=2)
    config["data"]["init_args"]["batch_size"] = 300
    config["trainer"]["max_steps"] = 5
    config["trainer"]["callbacks"][-1]["init_args"] = {"filename": "{step}", "every_n_train_steps": 2, "save_top_k": -1}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    call = ["fit", "--config", str(path), *QUIET, "--out", str(tmp_path / "run")]
    weights = tmp_path / "run" / "model.safetensors"
    assert main(call) == 0
    whole = weights.read_bytes()
    assert main([*call, "--resume", str(tmp_path / "run" / "checkpoints" / "step=2.ckpt")]) == 0
    assert weights.read_bytes() == whole
    assert main([*call, "--model.init_args.seed=1"]) == 0
    assert weights.read_bytes() != whole


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--config", "absorbing_digits.yaml", "--unheard_of=1"], "unheard_of"),
        (["--config", "absorbing_digits.yaml", "--model.init_args.objective=mse"], "mse"),
        (["--config", "absorbing_digits.yaml", "--model.init_args.learning_rate=-1"], "learning_rate=-1"),
        (["--config", "absorbing_digits.yaml", "--resume=old.ckpt"], "no checkpoint at old.ckpt"),
        (["--config", "absorbing_text.yaml"], "text.txt"),
        ([], "model"),
    ],
)
def test_bad_input(extra: list[str], message: str, elsewhere: Path, capsys: Any) -> None:
    assert main(["fit", *extra]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("geomgen: error:") and message in error
    assert list(elsewhere.iterdir()) == []


def test_a_damaged_checkpoint(elsewhere: Path, tmp_path: Path, capsys: Any) -> None:
    damaged = tmp_path / "damaged.ckpt"
    for content in (b"", b"no checkpoint", b"PK\x03\x04 and no more"):
        damaged.write_bytes(content)
        assert main(["fit", "--config", "absorbing_digits.yaml", "--resume", str(damaged)]) == 2
        assert "damaged.ckpt is damaged or no checkpoint of geomgen fit" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []


def test_classes_outside_our_packages_are_refused(elsewhere: Path, capsys: Any) -> None:
    spec = json.dumps({"class": "os.system", "args": {"command": "touch pwned"}})
    assert main(["fit", "--config", "absorbing_digits.yaml", f"--model.init_args.network={spec}"]) == 2
    assert "class 'os.system' is refused" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []
