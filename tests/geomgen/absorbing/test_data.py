"""Data modules: sizes, splits, vocabularies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from geomgen.absorbing import DigitsData, TextData, Vocabulary
from geomgen.specs import from_spec, to_spec

POEM = "Tyger Tyger, burning bright,\nIn the forests of the night;\n" * 20


def test_digits() -> None:
    data = DigitsData(batch_size=100)
    assert (data.vocab_size, data.length, data.vocabulary) == (17, 64, None)
    assert (len(data.train), len(data.val), len(data.test)) == (1197, 300, 300)
    from sklearn.datasets import load_digits

    everything = torch.cat([data.train, data.val, data.test]).tolist()
    assert sorted(everything) == sorted(load_digits().data.astype(int).tolist())
    assert torch.equal(DigitsData(seed=5).test, data.test)
    batch = next(iter(data.train_dataloader()))
    assert batch.shape == (100, 64) and batch.dtype == torch.int64
    assert sum(len(part) for part in data.val_dataloader()) == 300
    marginals = data.log_marginals(per_place=True)
    torch.testing.assert_close(marginals.exp().sum(1), torch.ones(64, dtype=torch.float64))


def test_text_of_characters(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_text(POEM + "x", encoding="utf-8")
    data = TextData(path, length=16)
    assert data.vocabulary is not None and data.vocab_size == data.vocabulary.size == len(set(POEM)) + 1
    count = len(POEM) // 16
    parts = (data.train, data.val, data.test)
    assert sum(map(len, parts)) == count and len(data.val) == len(data.test) == count // 20
    text = "".join(data.vocabulary.decode(row) for part in parts for row in part)
    assert text == POEM[: 16 * count]
    assert next(iter(data.train_dataloader())).dtype == torch.int64


def test_text_of_bytes(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(bytes(range(256)) * 4)
    data = TextData(path, level="bytes", length=32)
    assert data.vocab_size == 256
    assert data.train[0].tolist() == list(range(32))
    with pytest.raises(ValueError, match=r"is not UTF-8 .* use level='bytes'"):
        TextData(path, length=32)


@pytest.mark.parametrize("level", ["characters", "bytes"])
def test_vocabulary_round_trips(level: str) -> None:
    text = "süß 🙂!"
    vocabulary = Vocabulary("characters", "!ßsü 🙂") if level == "characters" else Vocabulary("bytes")
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert from_spec(json.loads(json.dumps(to_spec(vocabulary)))) == vocabulary
    assert vocabulary.encode("").shape == (0,)


def test_unknown_character() -> None:
    with pytest.raises(ValueError, match="character 'z' at place 2 of the text is not in the model's vocabulary of 3"):
        Vocabulary("characters", "cab").encode("abz")


@pytest.mark.usefixtures("as_user")
def test_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("abc" * 10, encoding="utf-8")
    with pytest.raises(ValueError, match="has 30 characters: 20 sequences of length=16 are needed"):
        TextData(path, length=16)
    with pytest.raises(ValueError, match="length=0"):
        TextData(path, length=0)
    with pytest.raises(FileNotFoundError):
        TextData(tmp_path / "none.txt")
    with pytest.raises(ValueError, match="level='words' must be 'characters' or 'bytes'"):
        TextData(path, level="words", length=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="different characters"):
        Vocabulary("characters", "aa")
    with pytest.raises(ValueError, match="batch_size=0"):
        DigitsData(batch_size=0)
    path.write_bytes(b"")
    for level in ("bytes", "characters"):
        with pytest.raises(ValueError, match=f"has 0 {level}"):
            TextData(path, level=level)
