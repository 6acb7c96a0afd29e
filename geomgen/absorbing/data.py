"""Data as token sequences: scikit-learn's handwritten digits, and any text file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, Integer
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..resumable import ResumableLoader
from ..specs import to_spec
from .metrics import log_frequencies

__all__ = ["DigitsData", "TextData", "TokenData", "Vocabulary"]


@dataclass(frozen=True)
class Vocabulary:
    """What the token ids of a text stand for.

    Args:
        level: ``"characters"`` or ``"bytes"`` (of UTF-8; ids 0..255).
        characters: for characters, the text of token 0, of token 1, ...

    Raises:
        ValueError: no characters or repeated ones.
    """

    level: Literal["characters", "bytes"]
    characters: str = ""

    def __post_init__(self) -> None:
        if self.level not in ("characters", "bytes"):
            raise ValueError(f"level={self.level!r} must be 'characters' or 'bytes'")
        repeated = len(set(self.characters)) < len(self.characters)
        if repeated or (self.level == "characters") != bool(self.characters):
            raise ValueError(f"characters={self.characters!r} must be different characters, and none for level='bytes'")

    @property
    def size(self) -> int:
        """Number of tokens K."""
        return len(self.characters) if self.level == "characters" else 256

    def encode(self, text: str) -> Int[Tensor, " length"]:
        """Token ids of a text; ValueError names the first character that the vocabulary lacks."""
        if self.level == "bytes":
            return torch.tensor(list(text.encode("utf-8")), dtype=torch.int64)
        alphabet, codes = _code_points(self.characters), _code_points(text)
        order = alphabet.argsort()
        place = torch.searchsorted(alphabet[order], codes).clamp(max=self.size - 1)
        unknown = (alphabet[order[place]] != codes).nonzero()
        if len(unknown):
            raise ValueError(
                f"character {text[int(unknown[0])]!r} at place {int(unknown[0])} of the text is not in the model's "
                f"vocabulary of {self.size}: {self.characters!r}"
            )
        return order[place]

    def decode(self, tokens: Int[Tensor, " length"] | Iterable[int]) -> str:
        """Text of token ids; bytes that are no UTF-8 become the replacement character."""
        ids = [int(token) for token in tokens]
        if self.level == "bytes":
            return bytes(ids).decode("utf-8", errors="replace")
        return "".join(self.characters[token] for token in ids)


def _code_points(text: str) -> Tensor:
    """Unicode numbers of the characters, (n,) int64."""
    raw = bytearray(text.encode("utf-32-le", errors="surrogatepass"))
    return torch.frombuffer(raw, dtype=torch.int32).long() if raw else torch.zeros(0, dtype=torch.int64)


class TokenData(LightningDataModule):
    """Base of the data modules: token sequences of one length in three parts.

    Training batches come from a `ResumableLoader`: a run that was stopped inside an epoch resumes with the items
    that are left.

    Args:
        train, val, test: sequences (N, L), of any integer dtype; batches are int64.
        vocab_size: K; ids lie in 0..K-1.
        vocabulary: what the ids stand for, if they are text.
        batch_size: sequences per training batch.
        seed: of the training order.
        num_workers: worker processes of the training loader.
    """

    def __init__(
        self,
        train: Integer[Tensor, "N L"],
        val: Integer[Tensor, "M L"],
        test: Integer[Tensor, "R L"],
        *,
        vocab_size: int,
        vocabulary: Vocabulary | None,
        batch_size: int,
        seed: int,
        num_workers: int,
    ) -> None:
        super().__init__()
        if batch_size < 1 or num_workers < 0:
            raise ValueError(f"batch_size={batch_size} must be at least 1, num_workers={num_workers} at least 0")
        self.train, self.val, self.test = train, val, test
        self.vocab_size, self.length, self.vocabulary = vocab_size, train.shape[1], vocabulary
        self.batch_size, self.seed, self.num_workers = batch_size, seed, num_workers
        self._loader: ResumableLoader | None = None
        self._resume: dict[str, Any] = {}

    @property
    def layout(self) -> dict[str, Any]:
        """Sizes and vocabulary as plain values, for `AbsorbingDiffusion(layout=...)`."""
        return {"vocab_size": self.vocab_size, "length": self.length, "vocabulary": to_spec(self.vocabulary)}

    def log_marginals(self, *, per_place: bool) -> Float[Tensor, "*L K"]:
        """Add-one log-frequencies of the training data, see `log_frequencies`."""
        return log_frequencies(self.train, self.vocab_size, per_place=per_place)

    def state_dict(self) -> dict[str, Any]:
        """Where the epoch of the training loader stands, for Lightning's checkpoints."""
        return {} if self._loader is None else dict(self._loader.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next training loader go on from there."""
        self._resume = dict(state_dict)

    def train_dataloader(self) -> ResumableLoader:
        """Shuffled batches (B, L)."""
        loader = ResumableLoader(
            TokenDataset(self.train), self.batch_size, seed=self.seed, num_workers=self.num_workers
        )
        if self._resume:
            loader.load_state_dict(self._resume)
        self._loader, self._resume = loader, {}
        return loader

    def val_dataloader(self) -> DataLoader[Tensor]:
        """Batches (B, L) in order."""
        return DataLoader(TokenDataset(self.val), max(self.batch_size, 256))

    def test_dataloader(self) -> DataLoader[Tensor]:
        """Batches (B, L) in order."""
        return DataLoader(TokenDataset(self.test), max(self.batch_size, 256))


class TokenDataset(Dataset[Tensor]):
    """Rows of a tensor (N, L) as int64."""

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Tensor:
        return self.tokens[index].long()


class DigitsData(TokenData):
    """scikit-learn's 1,797 handwritten digits: 8x8 pixels in row-major order, 17 grey levels as tokens.

    The split is fixed: 300 images for validation, 300 for testing, the others for training.

    Args:
        batch_size, seed, num_workers: see `TokenData`.
    """

    def __init__(self, batch_size: int = 64, seed: int = 0, num_workers: int = 0) -> None:
        from sklearn.datasets import load_digits

        images = torch.from_numpy(load_digits().data).long()
        images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
        super().__init__(
            images[600:],
            images[300:600],
            images[:300],
            vocab_size=17,
            vocabulary=None,
            batch_size=batch_size,
            seed=seed,
            num_workers=num_workers,
        )


class TextData(TokenData):
    """Any UTF-8 text file, cut into sequences of one length; the last tenth is kept for validation and testing.

    Args:
        path: the file.
        level: tokens are its ``"characters"`` or its ``"bytes"``.
        length: L, tokens per sequence.
        batch_size, seed, num_workers: see `TokenData`.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a text too short for one sequence per part, or not UTF-8 (use ``"bytes"`` then).
    """

    def __init__(
        self,
        path: str | PathLike[str],
        level: Literal["characters", "bytes"] = "characters",
        length: int = 128,
        batch_size: int = 32,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        if length < 1:
            raise ValueError(f"length={length} must be at least 1")
        vocabulary, tokens = _read(Path(path), level)
        count = len(tokens) // length
        held_out = count // 20
        if held_out < 1:
            raise ValueError(f"{path} has {len(tokens)} {level}: 20 sequences of length={length} are needed")
        sequences = tokens[: count * length].view(count, length)
        train, val, test = sequences.split([count - 2 * held_out, held_out, held_out])
        super().__init__(
            train,
            val,
            test,
            vocab_size=vocabulary.size,
            vocabulary=vocabulary,
            batch_size=batch_size,
            seed=seed,
            num_workers=num_workers,
        )


def _read(path: Path, level: Literal["characters", "bytes"]) -> tuple[Vocabulary, Tensor]:
    """Vocabulary and tokens (n,) of a file, in the smallest integer dtype that holds them."""
    content = path.read_bytes()
    if level == "bytes":
        return Vocabulary("bytes"), torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)[: len(content)]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}); use level='bytes'") from None
    vocabulary = Vocabulary(level, "".join(sorted(set(text))) or " ")
    return vocabulary, vocabulary.encode(text).to(torch.int32)
