"""Specs: round trips of our objects, and the refusal of everything else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from geomgen.absorbing import Transformer, Vocabulary
from geomgen.specs import from_spec, to_spec
from samplers.absorbing import AbsorbingProcess, Constant, Cosine, Geometric, Linear

OBJECTS = [
    Cosine(0.001),
    Geometric(1e-3, 10.0),
    Linear(5.0),
    Constant(horizon=6.0),
    Vocabulary("characters", "abc"),
]


@pytest.mark.parametrize("value", OBJECTS)
def test_round_trip(value: Any) -> None:
    spec = to_spec(value)
    assert from_spec(spec) == value
    assert set(spec) == {"class", "args"}


def test_nested_objects() -> None:
    spec = to_spec(AbsorbingProcess(5, 3, Cosine(0.01), mask_id=2))
    assert spec["args"]["schedule"] == {"class": "samplers.absorbing.Cosine", "args": {"epsilon": 0.01}}
    built = from_spec(spec)
    assert (built.vocab_size, built.length, built.schedule, built.mask_id) == (5, 3, Cosine(0.01), 2)


def test_networks() -> None:
    spec = to_spec(Transformer(5, 12, width=16, heads=2, fixed_layout=True, grid=(3, 4)))
    assert spec["class"] == "geomgen.absorbing.Transformer"
    assert spec["args"]["grid"] == [3, 4]
    assert to_spec(from_spec(spec)) == spec


def test_plain_values_stay() -> None:
    value = {"a": [1, 2.5, None, True], "b": ("x", Linear(5.0))}
    assert to_spec(value) == {"a": [1, 2.5, None, True], "b": ["x", to_spec(Linear(5.0))]}


def test_defaults_fill_what_is_missing() -> None:
    spec = {"class": "samplers.absorbing.AbsorbingProcess", "args": {"length": 4}}
    built = from_spec(spec, vocab_size=7, length=9, unheard_of=1)
    assert (built.vocab_size, built.length) == (7, 4)


REFUSED = [
    "os.system",
    "subprocess.Popen",
    "torch.nn.Linear",
    "builtins.eval",
    "geomgen.specs.importlib",
    "geomgen.specs.Path",
    "samplers.absorbing.process.torch.nn.Linear",
    "samplers.absorbing.exact_law",
    "samplers.absorbing.Sampler",
    "samplers.absorbing.Nothing",
    "samplers.nowhere.Cosine",
    "samplersx.Cosine",
    "geomgen..absorbing.Transformer",
    "Transformer",
    "",
    3,
]


@pytest.mark.parametrize("name", REFUSED)
def test_other_classes_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="refused: only public classes of geomgen, manifolds, samplers"):
        from_spec({"class": name})


def test_refused_modules_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap.py").write_text("class Trap: ...\nraise SystemExit('imported')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="refused"):
        from_spec({"class": "trap.Trap"})
    assert "trap" not in sys.modules


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("samplers.absorbing.Cosine", "a spec is"),
        ({"args": {}}, "a spec is"),
        ({"class": "samplers.absorbing.Cosine", "init_args": {}}, "a spec is"),
        ({"class": "samplers.absorbing.Cosine", "args": [1]}, "'args' of samplers.absorbing.Cosine"),
        (
            {"class": "samplers.absorbing.Cosine", "args": {"eps": 1}},
            "no argument \\['eps'\\]; it takes \\['epsilon'\\]",
        ),
        ({"class": "samplers.absorbing.Constant"}, "needs the arguments \\['horizon'\\]"),
    ],
)
def test_bad_specs(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_spec(spec)


def test_objects_that_have_no_spec() -> None:
    with pytest.raises(TypeError, match="no public class"):
        to_spec(Path("x"))
