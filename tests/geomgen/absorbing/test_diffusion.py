"""The model in training, on disk and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader

from geomgen.absorbing import AbsorbingDiffusion, TokenData, Transformer, nelbo
from geomgen.averaging import ExponentialAverage
from samplers.absorbing import AbsorbingProcess, Cosine, FirstHitting

MakeData = Callable[..., TokenData]
MakeModel = Callable[..., AbsorbingDiffusion]
MakeTrainer = Callable[..., Trainer]


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    pairs = zip(a.state_dict().items(), b.state_dict().items(), strict=True)
    return all(name == other and torch.equal(value, copy) for (name, value), (other, copy) in pairs)


class StopAt(Callback):
    """Ends training after a step, as an interruption would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: Trainer, *args: Any) -> None:
        trainer.should_stop = trainer.global_step >= self.step


def test_learns_the_copy(make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer) -> None:
    data, model = make_data(batch_size=16), make_model(learning_rate=2e-2)
    start = nelbo(model.denoiser(), data.train, model.process).bits_per_token
    make_trainer(max_epochs=150, check_val_every_n_epoch=50).fit(model, data.train_dataloader(), data.val_dataloader())
    end = nelbo(model.denoiser(), data.train, model.process).bits_per_token
    assert start == pytest.approx(2.0, abs=1e-6)  # nothing learned, no data module: uniform
    assert end < 1.3  # the law itself has 3 of 6 free tokens: 1 bit per token


def test_starts_at_the_marginals_once(make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer) -> None:
    data, model = make_data(), make_model(learning_rate=1e-9)
    make_trainer(max_steps=1).fit(model, data)
    torch.testing.assert_close(model.network.bias.double(), data.log_marginals(per_place=True), rtol=0, atol=1e-5)
    with torch.no_grad():
        model.network.bias.fill_(0.5)
    make_trainer(max_steps=1).fit(model, data)
    torch.testing.assert_close(model.network.bias, torch.full_like(model.network.bias, 0.5), rtol=0, atol=1e-5)


@pytest.mark.parametrize("as_module", [True, False])
@pytest.mark.parametrize("stop", [3, 4, 6])
def test_resumed_run_ends_in_the_same_weights(
    stop: int, as_module: bool, make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    """With the data as a module, and as bare loaders."""

    def source(seed: int) -> dict[str, Any]:
        data = make_data(seed=seed)
        loaders = {"train_dataloaders": data.train_dataloader(), "val_dataloaders": data.val_dataloader()}
        return {"datamodule": data} if as_module else loaders

    options: dict[str, Any] = {"max_epochs": 3, "gradient_clip_val": 1.0, "check_val_every_n_epoch": 1}
    whole = make_model()
    make_trainer(callbacks=[ExponentialAverage(0.9)], enable_checkpointing=False, **options).fit(whole, **source(0))

    def callbacks() -> list[Callback]:
        return [ExponentialAverage(0.9), ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=1)]

    make_trainer(callbacks=[*callbacks(), StopAt(stop)], **options).fit(make_model(), **source(0))
    torch.manual_seed(77)
    resumed = make_model()
    trainer = make_trainer(callbacks=callbacks(), **options)
    other_seed = 5 if as_module or stop % 4 else 0  # Lightning asks no bare loader for its state between epochs
    trainer.fit(resumed, **source(other_seed), ckpt_path=tmp_path / f"step={stop}.ckpt", weights_only=True)
    assert trainer.global_step == 12
    assert same_weights(resumed, whole)


def test_steps_count_once(
    make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    saver = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    trainer = make_trainer(max_epochs=1, callbacks=[saver])
    trainer.fit(make_model(), make_data())
    assert trainer.global_step == 4
    assert sorted(path.name for path in tmp_path.glob("*.ckpt")) == [f"step={n}.ckpt" for n in range(1, 5)]


def test_checkpoint_opens_with_the_safe_loader(
    make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    trainer = make_trainer(max_steps=1, callbacks=[ExponentialAverage(0.5), ModelCheckpoint(tmp_path)])
    trainer.fit(make_model(), make_data())
    path = tmp_path / "last.ckpt"
    trainer.save_checkpoint(path)
    content = torch.load(path, weights_only=True)
    json.dumps(content["hyper_parameters"])
    loaded = AbsorbingDiffusion.load_from_checkpoint(path, weights_only=True)
    assert same_weights(loaded, make_model()) is False
    assert loaded.hparams == make_model().hparams


def test_checkpoints_that_are_refused(
    make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer, tmp_path: Path
) -> None:
    trainer = make_trainer(max_steps=1, callbacks=[ModelCheckpoint(tmp_path)])
    trainer.fit(make_model(), make_data())
    path = tmp_path / "last.ckpt"
    trainer.save_checkpoint(path)
    content = torch.load(path, weights_only=True)
    network = {"class": "geomgen.absorbing.Transformer", "args": {"width": 16, "heads": 2}}
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"geomgen_version": "99.0"}, {}, r"written by geomgen 99\.0, newer than this geomgen 0"),
        ({"class": "HamiltonianDiffusion"}, {}, "holds a model of class HamiltonianDiffusion, not AbsorbingDiffusion"),
        ({}, {"network": network}, "the checkpoint is of another model: its network is"),
        ({}, {"process": AbsorbingProcess(4, 6, Cosine())}, "the checkpoint is of another model: its process is"),
    ]
    for stamp, options, message in cases:
        torch.save({**content, "geomgen": {**content["geomgen"], **stamp}}, path)
        model = make_model(**options)
        before = [value.clone() for value in model.state_dict().values()]
        with pytest.raises(ValueError, match=message):
            make_trainer(max_steps=2, callbacks=[ModelCheckpoint(tmp_path)]).fit(
                model, make_data().train_dataloader(), make_data().val_dataloader(), ckpt_path=path, weights_only=True
            )
        assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values(), strict=True))
    torch.save({**content, "geomgen": {"geomgen_version": "99.0"}}, path)
    with pytest.raises(ValueError, match=r"written by geomgen 99\.0"):
        AbsorbingDiffusion.load_from_checkpoint(path, weights_only=True)


class Counting(LightningModule):
    """Weights 0 -> 1 -> 2 -> 3, an integer buffer that counts and a float buffer that follows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("statistic", torch.zeros(()))

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        self.steps += 1
        self.statistic += 0.5
        return -self.weight.sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 1.0)


def test_average_of_the_weights(make_trainer: MakeTrainer, tmp_path: Path) -> None:
    model, saver = Counting(), ModelCheckpoint(tmp_path, filename="end", every_n_train_steps=3)
    trainer = make_trainer(max_steps=3, callbacks=[ExponentialAverage(0.5), saver])
    trainer.fit(model, DataLoader(torch.zeros(3, 1)))
    assert model.weight.item() == 2.125
    assert (model.steps.item(), model.statistic.item()) == (3, 1.5)
    saved = torch.load(tmp_path / "end.ckpt", weights_only=True)
    assert saved["state_dict"]["weight"].item() == 2.125
    assert saved["current_model_state"]["weight"].item() == 3.0
    assert Counting.load_from_checkpoint(tmp_path / "end.ckpt", weights_only=True).weight.item() == 2.125
    with pytest.raises(ValueError, match=r"decay=1.0"):
        ExponentialAverage(1.0)


class Modes(Callback):
    """Records whether the model trains inside the step, and which gradients are missing after it."""

    def __init__(self) -> None:
        self.training: list[bool] = []
        self.missing: list[str] = []

    def on_before_zero_grad(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        self.training.append(all(module.training for module in pl_module.modules()))

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.missing += [name for name, parameter in pl_module.named_parameters() if parameter.grad is None]


@pytest.mark.parametrize("objective", ["masked_cross_entropy", "t_dce", "lambda_dce", "any_order"])
def test_trains_in_training_mode_with_every_gradient(
    objective: str, make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer
) -> None:
    modes, model = Modes(), make_model(objective=objective)
    trainer = make_trainer(max_steps=2, callbacks=[modes], enable_checkpointing=False)
    trainer.fit(model.eval(), make_data())
    assert modes.training and all(modes.training)
    assert modes.missing == []


def test_sampling_leaves_the_mode(make_model: MakeModel) -> None:
    model = make_model()
    for training in (False, True):
        model.train(training)
        samples = model.sample(3, generator=torch.Generator().manual_seed(1))
        assert model.network.training is training
    assert samples.tokens.shape == (3, 6) and int(samples.tokens.max()) < 4
    prompt = torch.tensor([1, 2, 4, 4, 4, 4])
    exact = model.sample(3, sampler=FirstHitting(model.process), prompt=prompt)
    assert exact.tokens[:, :2].tolist() == [[1, 2]] * 3


def test_a_loss_that_is_not_finite_stops_training(
    make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer
) -> None:
    class Poison(Callback):
        def on_train_batch_start(
            self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
        ) -> None:
            if batch_idx == 2:
                nn.init.constant_(pl_module.network.embedding.weight, math.inf)

    trainer = make_trainer(max_epochs=1, callbacks=[Poison()], enable_checkpointing=False)
    with pytest.raises(ValueError, match=r"the loss is nan at batch 2 of epoch 0; lower learning_rate=0.004"):
        trainer.fit(make_model(), make_data())


def test_learning_rate_warms_up_and_ends_at_zero(
    make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer
) -> None:
    class Rates(Callback):
        def __init__(self) -> None:
            self.rates: list[float] = []

        def on_train_batch_start(self, trainer: Trainer, *args: Any) -> None:
            self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    rates = Rates()
    trainer = make_trainer(max_steps=10, callbacks=[rates], enable_checkpointing=False)
    trainer.fit(make_model(learning_rate=1.0), make_data())
    right = [min(1, (n + 1) / 2) * 0.5 * (1 + math.cos(math.pi * n / 10)) for n in range(10)]
    assert rates.rates == pytest.approx(right)


def test_validation_reports_the_bound(make_data: MakeData, make_model: MakeModel, make_trainer: MakeTrainer) -> None:
    data, model = make_data(), make_model()
    trainer = make_trainer()
    (found,) = trainer.validate(model, data, verbose=False)
    assert found["val_bits_per_token"] == pytest.approx(2.0)
    (found,) = trainer.test(model, data, verbose=False)
    assert found["test_bits_per_token"] == pytest.approx(2.0)


# Files


def saved(folder: Path, model: AbsorbingDiffusion) -> dict[str, Any]:
    """Save a model with random weights and return its configuration."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    model.save_pretrained(folder)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config


def test_save_and_load(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model(process={"class": "samplers.absorbing.AbsorbingProcess", "args": {"mask_id": 2}})
    config = saved(tmp_path, model)
    assert config["class"] == "geomgen.absorbing.AbsorbingDiffusion"
    loaded = AbsorbingDiffusion.from_pretrained(tmp_path)
    assert same_weights(loaded, model) and loaded.process.mask_id == 2 and not loaded.training
    assert loaded.hparams == model.hparams
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "config.json", "model.safetensors"]


def test_objects_and_specs_are_the_same() -> None:
    process = AbsorbingProcess(5, 12, Cosine(0.01))
    network = Transformer(5, 12, width=8, heads=2, grid=(3, 4))
    model = AbsorbingDiffusion(process, network)
    again = AbsorbingDiffusion(**dict(model.hparams))
    assert again.hparams == model.hparams
    assert again.process.schedule == Cosine(0.01)
    assert model.network is network


def test_text_prompt() -> None:
    vocabulary = {"class": "geomgen.absorbing.Vocabulary", "args": {"level": "characters", "characters": "abc"}}
    network = {"class": "geomgen.absorbing.Transformer", "args": {"width": 8, "heads": 2}}
    layout = {"vocab_size": 3, "length": 5, "vocabulary": vocabulary}
    model = AbsorbingDiffusion(network=network, layout=layout)
    assert model.prompt("ca").tolist() == [2, 0, 3, 3, 3]
    with pytest.raises(ValueError, match="the prompt has 6 tokens; this model has length=5"):
        model.prompt("aaaaaa")
    with pytest.raises(ValueError, match="vocabulary has 3 tokens, vocab_size=4"):
        AbsorbingDiffusion(network=network, layout={**layout, "vocab_size": 4})


def damage(config: dict[str, Any], **changes: Any) -> str:
    return json.dumps({**config, **changes})


def test_files_that_are_refused(make_model: MakeModel, tmp_path: Path) -> None:
    config = saved(tmp_path, make_model())
    path, weights = tmp_path / "config.json", tmp_path / "model.safetensors"
    cases = [
        (damage(config, geomgen_version="99.0"), "was written by geomgen 99.0, newer than this geomgen 0"),
        (damage(config, geomgen_version=None), "names no geomgen_version"),
        (damage(config, **{"class": "geomgen.absorbing.Transformer"}), "holds a model of class 'geomgen.absorbing.Tr"),
        (damage(config, **{"class": "os.system"}), "holds a model of class 'os.system', not 'geomgen.absorbing.Abs"),
        (damage(config, args={**config["args"], "seed_": 1}), "no argument \\['seed_'\\]"),
        (damage(config, args={**config["args"], "layout": {"vocab_size": 9, "length": 6}}), "vocab_size differs"),
        (damage(config)[:-9], "holds no JSON"),
        ("[]", "must hold a JSON object"),
    ]
    for content, message in cases:
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            AbsorbingDiffusion.from_pretrained(tmp_path)
    path.write_text(json.dumps(config), encoding="utf-8")
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"model.safetensors is damaged"):
        AbsorbingDiffusion.from_pretrained(tmp_path)
    weights.unlink()
    with pytest.raises(FileNotFoundError, match=r"model.safetensors does not exist"):
        AbsorbingDiffusion.from_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist: give a folder"):
        AbsorbingDiffusion.from_pretrained(tmp_path / "nowhere")


def test_hub(make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = make_model(), []
    saved(tmp_path, model)

    def download(name: str, *, allow_patterns: list[str], revision: str | None = None) -> str:
        asked.append((name, revision))
        if revision == "gone":
            raise OSError("404")
        return str(tmp_path)

    monkeypatch.setattr("geomgen.pretrained.snapshot_download", download)
    assert same_weights(AbsorbingDiffusion.from_pretrained("someone/digits", revision="v1"), model)
    with pytest.raises(FileNotFoundError, match="someone/digits is neither a folder here nor a model on the"):
        AbsorbingDiffusion.from_pretrained("someone/digits", revision="gone")
    assert asked == [("someone/digits", "v1"), ("someone/digits", "gone")]


def test_weights_of_another_size(make_model: MakeModel, tmp_path: Path) -> None:
    config = saved(tmp_path, make_model())
    config["args"]["network"]["args"]["width"] = 16
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=r"is damaged or belongs to another config.json"):
        AbsorbingDiffusion.from_pretrained(tmp_path)


def test_nothing_is_written_half(make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        make_model().save_pretrained(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("as_user")
def test_bad_settings(make_model: MakeModel) -> None:
    with pytest.raises(ValueError, match="vocab_size differs: 5 of the process, 4 of the network, 4 of the data"):
        AbsorbingDiffusion(
            AbsorbingProcess(5, 6), Transformer(4, 6, num_states=6), layout={"vocab_size": 4, "length": 6}
        )
    with pytest.raises(ValueError, match="num_states differs: 4 of the process, 5 of the network"):
        AbsorbingDiffusion(AbsorbingProcess(4, 6, mask_id=2), Transformer(4, 6))
    with pytest.raises(ValueError, match="objective='mse' must be one of"):
        make_model(objective="mse")
    with pytest.raises(ValueError, match="learning_rate=-1 must be positive"):
        make_model(learning_rate=-1)
    with pytest.raises(ValueError, match=r"needs the arguments \['vocab_size', 'length'\]"):
        AbsorbingDiffusion()
    with pytest.raises(TypeError, match="expected Transformer or its spec, got Cosine"):
        make_model(network={"class": "samplers.absorbing.Cosine"})
    with pytest.raises(ValueError, match="needs a vocabulary"):
        make_model().prompt("a")
