"""Where a result came from and how it reaches the disk: provenance, atomic writers, ``geomgen info``.

Writers put the content under a temporary name in the same folder and rename it, so that a file is there whole
or not at all. JSON is strict: NaN and infinity are refused with the place where they stand.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from . import __version__
from .cli import CommandParser

__all__ = ["atomic_path", "main", "provenance", "write_bytes", "write_json", "write_text"]

_PACKAGES = (
    *("torch", "lightning", "numpy", "jsonargparse", "safetensors", "huggingface_hub", "torchmetrics"),
    *("timm", "geoopt", "torchsde", "torchdiffeq", "matplotlib"),
)


def provenance(**config: Any) -> dict[str, Any]:
    """Describe this run: what a reader needs to repeat it.

    Args:
        **config: The run's own settings (seeds, sizes, options), kept under ``"config"``.

    Returns:
        A dictionary for :func:`write_json` with keys geomgen, python, platform, processor, versions (of the
        packages underneath), threads, device, command (as typed, without the program's folder) and config.
    """
    import torch

    return {
        "geomgen": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "versions": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "command": _typed_command(),
        "config": config,
    }


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path (same folder, same suffix) that becomes ``path`` if the block succeeds.

    For libraries that write files themselves (figures, safetensors). Missing folders are made; after an error
    the temporary file is removed and what was at ``path`` before is untouched.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.stem}.{os.getpid()}.tmp{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path``, atomically."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_text(path: str | os.PathLike[str], content: str) -> None:
    """Write ``content`` to ``path`` as UTF-8 with its line ends as they are, atomically."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write ``content`` to ``path`` as indented JSON, atomically.

    Paths become strings; dataclasses, dictionaries; tensors and NumPy values, (nested lists of) numbers.

    Raises:
        ValueError: A number is NaN or infinite (write None where that is meant); the message says where.
        TypeError: A value has no JSON form; the message says where.
    """
    write_text(path, json.dumps(_plain(content, "content"), indent=2, allow_nan=False) + "\n")


def _plain(value: Any, place: str) -> Any:
    """``value`` in JSON's own types; ``place`` names it in errors."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{place} is {value}, which JSON cannot hold: write None where it is meant")
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item, f"{place}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{place}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name), f"{place}.{field.name}") for field in fields}
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), place)
    raise TypeError(f"{place} is a {type(value).__name__}, which has no JSON form: convert it first")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """The processor's name: from the kernel where it tells, else from Python."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _typed_command() -> str:
    program = Path(sys.argv[0]).name
    return shlex.join([{"__main__.py": "geomgen"}.get(program, program), *sys.argv[1:]])


def main(argv: list[str]) -> int:
    """``geomgen info``: print versions, threads, device and where the package lies."""
    parser = CommandParser(prog="geomgen info", description="Print versions, threads, device and package path.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args(argv)
    record = provenance()
    del record["config"], record["command"]
    record["package"] = str(Path(__file__).parent)
    if arguments.json:
        print(json.dumps(record, indent=2))
        return 0
    versions = record.pop("versions")
    for name, value in {**record, **versions}.items():
        print(f"{name:<16}{value}")
    return 0
