"""A dual model from two functions of a user's own: it is embedded, evaluated and searched like any other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from supclap.encoders.dual import DualModel, DualSettings
from supclap.encoders.heads import NoHead
from supclap.encoders.languages import check
from supclap.encoders.mel import Lengths
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings
from supclap.schema import UserError

Hear = Callable[[list[NDArray[np.float32]]], Any]
"""A list of mono sounds at the model's rate, each at its own length, to [n, d]."""
Read = Callable[[list[str]], Any]
"""A list of texts to [n, d]."""


class _Ear(nn.Module):
    def __init__(self, hear: Hear, rate: int, window_seconds: float, name: str) -> None:
        super().__init__()
        self.hear, self.sample_rate, self.window_seconds, self.name = hear, rate, window_seconds, name
        self.width = _rows(hear([np.zeros(rate, np.float32)]), 1, "hear").shape[1]

    def forward(self, samples: Tensor, lengths: Lengths = None) -> Tensor:
        sizes = [samples.shape[1]] * len(samples) if lengths is None else lengths.tolist()
        sounds = [row[:size] for row, size in zip(samples.detach().cpu().numpy(), sizes, strict=True)]
        return _rows(self.hear(sounds), len(sounds), "hear").to(samples.device)

    def digest(self) -> str:
        return hashlib.sha256(f"{self.name} audio {self.sample_rate} {self.window_seconds}".encode()).hexdigest()


class _Eye(nn.Module):
    max_tokens = 1 << 16

    def __init__(self, read: Read, name: str) -> None:
        super().__init__()
        self.read, self.name = read, name
        self.width = _rows(read(["a dog barks"]), 1, "read").shape[1]

    def tokenize(self, texts: Sequence[str], languages: Sequence[str]) -> dict[str, Tensor]:
        check(languages, len(texts))
        rows = _rows(self.read(list(texts)), len(texts), "read") if texts else torch.zeros(0, self.width)
        return {"vectors": rows}

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors

    def digest(self) -> str:
        return hashlib.sha256(f"{self.name} text".encode()).hexdigest()


def _rows(found: Any, count: int, name: str) -> Tensor:
    rows = torch.as_tensor(np.asarray(found.detach().cpu() if isinstance(found, Tensor) else found, dtype=np.float32))
    if rows.dim() != 2 or len(rows) != count:
        raise UserError(f"{name} gave shape {list(rows.shape)} for {count} items; it must give [{count}, width]")
    return rows


class OwnModel(DualModel):
    """A dual model over two functions; it cannot be trained or saved."""

    def save(self, folder: Any) -> None:
        """Functions cannot be saved without running code when they are loaded."""
        raise UserError(f"{self.audio.name} is made of two functions and cannot be saved; make it again from them")


def own(
    hear: Hear, read: Read, *, sample_rate: int, name: str, window_seconds: float = 10.0, scale: float = 1 / 0.07
) -> OwnModel:
    """A dual model from ``hear`` (sounds to rows) and ``read`` (texts to rows); ``name`` stands for them in caches."""
    config = DualSettings(audio_tower=SmallAudioSettings(), text_tower=SmallTextSettings(), head=NoHead(), scale=scale)
    model = OwnModel(config, _Ear(hear, sample_rate, window_seconds, name), _Eye(read, name))
    model.eval()
    return model
