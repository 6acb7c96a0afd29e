"""``geomgen fit``: train a model of ours as a YAML file describes it, through Lightning's command line."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import CSVLogger

from .pretrained import Pretrained

__all__ = ["FitCLI", "main"]


class FitCLI(LightningCLI):
    """Reads model, data and trainer from a YAML file (and the command line), trains, and saves the model.

    The data module is made first; its `layout` (sizes, vocabulary) completes the model. Everything is written into
    one folder: ``logs/version_N`` (settings and losses of the N-th start: ``fit.yaml``, ``metrics.csv``),
    ``checkpoints``, and at the end the model (``config.json``, ``model.safetensors``).
    """

    def __init__(self, args: list[str]) -> None:
        super().__init__(
            LightningModule,
            LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            seed_everything_default=0,
            save_config_kwargs={"overwrite": True, "config_filename": "fit.yaml"},
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
            parser_kwargs={"prog": "geomgen fit", "description": "Train a model.", "exit_on_error": False},
            args=args,
            run=False,
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add where to write and what to resume."""
        parser.add_argument("--out", type=str, default="runs/latest", help="folder to write everything into")
        parser.add_argument("--resume", type=str | None, default=None, help="checkpoint (.ckpt) to go on from")
        parser.link_arguments("out", "trainer.default_root_dir")
        parser.link_arguments("data", "model.init_args.layout", _layout, apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse the given arguments, whatever the program's own command line was."""
        self.config = parser.parse_args(args)
        resume = self.config["resume"]
        if resume is not None:
            _check_checkpoint(Path(resume))

    def instantiate_trainer(self, **kwargs: Any) -> Any:
        """Put logs and checkpoints below the output folder, unless the configuration says where they go."""
        out, settings = self.config_init["out"], self.config_init["trainer"]
        if settings["logger"] in (None, True):
            kwargs["logger"] = CSVLogger(out, name="logs")
        for callback in settings["callbacks"] or []:
            if isinstance(callback, ModelCheckpoint) and callback.dirpath is None:
                callback.dirpath = str(Path(out).resolve() / "checkpoints")
        return super().instantiate_trainer(**kwargs)

    def run(self) -> Path:
        """Train, save the model, and return the folder."""
        folder, resume, model = Path(self.config_init["out"]), self.config_init["resume"], self.model
        if not isinstance(model, Pretrained):
            raise TypeError(
                f"{type(model).__name__} cannot be saved: it must derive from geomgen.pretrained.Pretrained"
            )
        self.trainer.fit(self.model, datamodule=self.datamodule, ckpt_path=resume, weights_only=True)
        if self.trainer.is_global_zero:
            model.save_pretrained(folder)
        return folder


def _check_checkpoint(path: Path) -> None:
    """Refuse a missing or damaged file before anything is built."""
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint at {path}: give a .ckpt file of an earlier run")
    try:
        torch.load(path, map_location="meta", weights_only=True)
    except (RuntimeError, UnpicklingError, EOFError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is damaged or no checkpoint of geomgen fit ({type(error).__name__})") from error


def _layout(data: LightningDataModule) -> dict[str, Any] | None:
    return getattr(data, "layout", None)


def main(argv: list[str]) -> int:
    """Run ``geomgen fit --config FILE [--out DIR] [--resume CKPT] [--trainer.max_steps N ...]``.

    A configuration that ships with geomgen may be given by its name alone, for example ``absorbing_digits.yaml``.
    """
    folder = FitCLI([_find_config(argument) for argument in argv]).run()
    print(f"model saved in {folder}")
    return 0


def _find_config(argument: str) -> str:
    """The path of a shipped configuration for its bare name; any other argument as it is."""
    option, equals, value = argument.rpartition("=")
    shipped = importlib.resources.files("geomgen") / "configs" / value
    is_bare_name = value.endswith(".yaml") and "/" not in value and not Path(value).exists()
    return f"{option}{equals}{shipped}" if is_bare_name and shipped.is_file() else argument
