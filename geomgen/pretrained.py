"""Saved models: a folder with ``config.json`` and ``model.safetensors``, here or on the Hugging Face hub."""

from __future__ import annotations

import json
import re
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import torch
from huggingface_hub import ModelHubMixin, snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from . import __version__
from .provenance import write_bytes, write_json
from .specs import from_spec, public_name

__all__ = ["Pretrained"]

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
CONFIG, WEIGHTS = "config.json", "model.safetensors"
CARD = """---
{{ card_data }}
---
A model of the Python package [geomgen](https://pypi.org/project/geomgen); its settings are in `config.json`.
Load it with the class named there: `from_pretrained(folder)`.
"""
Model = TypeVar("Model", bound="Pretrained")


class Pretrained(ModelHubMixin, library_name="geomgen", model_card_template=CARD):
    """Mixin that saves and loads a `LightningModule` whose hyper-parameters are specs (see `geomgen.specs`).

    ``config.json`` is the model's spec with the version of geomgen that wrote it. It is written last, and each file
    is renamed into place when complete: a folder without it holds no model.

    Lightning's checkpoints (``.ckpt``, to resume only) carry the version and class too, and are checked before any
    weight is touched.
    """

    structure: ClassVar[tuple[str, ...]] = ()
    """Hyper-parameters that a checkpoint must share with the model that it is loaded into."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Note version and class in a Lightning checkpoint."""
        checkpoint["geomgen"] = {"geomgen_version": __version__, "class": type(self).__name__}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a Lightning checkpoint of a newer version or of another model with ValueError."""
        stamp, module = checkpoint.get("geomgen", {}), cast(Any, self)
        _check_version(stamp, "the checkpoint")
        if stamp["class"] != type(self).__name__:
            raise ValueError(f"the checkpoint holds a model of class {stamp['class']}, not {type(self).__name__}")
        for name in self.structure:
            saved, own = checkpoint["hyper_parameters"][name], module.hparams[name]
            if saved != own:
                raise ValueError(f"the checkpoint is of another model: its {name} is {saved}, this model's is {own}")

    def _save_pretrained(self, save_directory: Path) -> None:
        module: Any = self
        state = {name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}
        write_bytes(save_directory / WEIGHTS, save(state, metadata={"format": "pt"}))
        spec = {"class": public_name(type(self)), "args": dict(module.hparams)}
        write_json(save_directory / CONFIG, {"geomgen_version": __version__, **spec})

    @classmethod
    def from_pretrained(cls: type[Model], pretrained_model_name_or_path: str | PathLike[str], **hub: Any) -> Model:
        """Load a model saved by `save_pretrained`, on the CPU and in eval mode.

        Args:
            pretrained_model_name_or_path: a folder, or the name of a repository on the Hugging Face hub.
            **hub: options of `huggingface_hub.snapshot_download` (revision, token, cache_dir, ...).

        Raises:
            FileNotFoundError: no such folder, or one without a model.
            ValueError: a model of another class, a file from a newer major version, or a damaged file.
        """
        folder = _folder(pretrained_model_name_or_path, hub)
        config = _read_config(folder / CONFIG)
        _check_version(config, str(folder))
        if config.get("class") != public_name(cls):
            raise ValueError(
                f"{folder} holds a model of class {config.get('class')!r}, not {public_name(cls)!r}; load it with "
                "its own class"
            )
        model = from_spec({"class": config["class"], "args": config.get("args")})
        _load_weights(model, folder / WEIGHTS)
        return model.eval()


def _folder(name: str | PathLike[str], hub: dict[str, Any]) -> Path:
    path = Path(name)
    if not path.is_dir() and HUB_NAME.fullmatch(str(name)):
        try:
            path = Path(snapshot_download(str(name), allow_patterns=[CONFIG, WEIGHTS], **hub))
        except OSError as error:
            raise FileNotFoundError(
                f"{name} is neither a folder here nor a model on the Hugging Face hub that can be reached"
            ) from error
    for file in (path, path / CONFIG, path / WEIGHTS):
        if not file.exists():
            raise FileNotFoundError(f"{file} does not exist: give a folder written by save_pretrained or geomgen fit")
    return path


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged, it holds no JSON ({error}); save the model again") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} is damaged, it must hold a JSON object; save the model again")
    return config


def _check_version(config: dict[str, Any], place: str) -> None:
    written = str(config.get("geomgen_version"))
    major = written.partition(".")[0]
    if not major.isdigit():
        raise ValueError(f"{place} names no geomgen_version, got {written!r}: it is no model of geomgen")
    if int(major) > int(__version__.partition(".")[0]):
        raise ValueError(
            f"{place} was written by geomgen {written}, newer than this geomgen {__version__}; upgrade geomgen"
        )


def _load_weights(model: torch.nn.Module, path: Path) -> None:
    try:
        model.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged or belongs to another config.json: {error}") from None
