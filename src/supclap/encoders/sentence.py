"""sentence-transformers models that take sounds and texts: two frozen towers over one model, with its own prompts.

Shapes: n rows, t samples, w width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from supclap.encoders.languages import check
from supclap.encoders.mel import Lengths
from supclap.encoders.text import module_kinds
from supclap.encoders.weights import sha_of
from supclap.schema import UserError
from supclap.settings import settings


@lru_cache(maxsize=2)
def read(name: str, trust_remote_code: bool = False) -> Any:
    """The sentence-transformers model; UserError unless it takes both sounds and texts."""
    from sentence_transformers import SentenceTransformer

    _refuse_code(Path(name), trust_remote_code)
    try:
        model = SentenceTransformer(name, device="cpu", trust_remote_code=trust_remote_code)
    except Exception as error:  # the library raises many kinds for one fact
        line = " ".join(str(error).split())[:200]
        raise UserError(f"model='st:{name}': sentence-transformers cannot load it ({line})") from error
    missing = {"audio", "text"} - set(model.modalities)
    if missing:
        raise UserError(
            f"model='st:{name}' takes {', '.join(map(str, model.modalities))}, but no {' and no '.join(missing)}"
        )
    model.requires_grad_(False)
    return model.float()


def _refuse_code(folder: Path, trusted: bool) -> None:
    """The library runs the code of a local folder without asking; we ask."""
    if trusted:
        return
    if foreign := [kind for kind in module_kinds(folder) if not kind.startswith("sentence_transformers.")]:
        raise UserError(
            f"model='st:{folder}' wants to run code of its own ({', '.join(foreign)}); read it, then give "
            "trust_remote_code=True in Python"
        )


def prompt_of(model: Any, names: Sequence[str]) -> str | None:
    """The first of the model's own prompts that it has."""
    return next((name for name in names if name in (model.prompts or {})), None)


def _extractor(model: Any) -> Any:
    processor = model[0].processor
    return getattr(processor, "feature_extractor", None) or processor


class SentenceAudioTower(nn.Module):
    """Sounds through ``encode``, at the rate of the model's own feature extractor."""

    frozen_always = True

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.width = int(model.get_embedding_dimension())
        extractor = _extractor(model)
        self.sample_rate = int(getattr(extractor, "sampling_rate", 16000))
        longest = getattr(extractor, "nb_max_samples", None) or getattr(extractor, "n_samples", None)
        self.window_seconds = float(longest) / self.sample_rate if longest else 10.0

    def forward(self, samples: Tensor, lengths: Lengths = None) -> Tensor:
        """[n, t] samples to [n, w]; each row alone, so that no padding reaches it."""
        sizes = [samples.shape[1]] * len(samples) if lengths is None else lengths.tolist()
        rows = [self._encode(row[:size]) for row, size in zip(samples.detach().cpu().numpy(), sizes, strict=True)]
        return torch.from_numpy(np.stack(rows)).to(samples.device)

    def _encode(self, row: Any) -> Any:
        sound = {"array": row, "sampling_rate": self.sample_rate}
        prompt = prompt_of(self.model, ("audio", "document", "passage"))
        return self.model.encode([sound], prompt_name=prompt, show_progress_bar=False, convert_to_numpy=True)[0]

    def digest(self) -> str:
        """Weights and prompts, hashed."""
        return sha_of(self.model, repr(sorted((self.model.prompts or {}).items())))


class SentenceTextTower(nn.Module):
    """Texts through ``encode``, with the prompt for queries where the model has one. ``tokenize`` gives the vectors."""

    frozen_always = True

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.width = int(model.get_embedding_dimension())
        # Some tokenizers write "no limit" as 10 to the 30th.
        self.max_tokens = min(int(model.max_seq_length or 512), 1 << 16)

    def tokenize(self, texts: Sequence[str], languages: Sequence[str]) -> dict[str, Tensor]:
        """The vectors themselves."""
        check(languages, len(texts))
        if not texts:
            return {"vectors": torch.zeros(0, self.width)}
        prompt = prompt_of(self.model, ("query",))
        rows = self.model.encode(list(texts), prompt_name=prompt, show_progress_bar=False, convert_to_numpy=True)
        return {"vectors": torch.from_numpy(np.asarray(rows, np.float32))}

    def forward(self, vectors: Tensor) -> Tensor:
        """The vectors as they are."""
        return vectors

    def digest(self) -> str:
        """Weights and prompts, hashed."""
        return sha_of(self.model, repr(sorted((self.model.prompts or {}).items())))


@settings
class SentenceAudioSettings:
    """The audio side of a sentence-transformers model, frozen, by folder or hub id."""

    model: str

    @property
    def published(self) -> str:
        """The name the weights can be found by again."""
        return f"st:{self.model}"

    def build(self) -> SentenceAudioTower:
        """The tower with its weights."""
        return SentenceAudioTower(read(self.model))

    def skeleton(self, folder: Path | None = None) -> SentenceAudioTower:
        """The same: it is always loaded from its own folder."""
        return self.build()


@settings
class SentenceTextSettings:
    """The text side of a sentence-transformers model, frozen, by folder or hub id."""

    model: str

    @property
    def published(self) -> str:
        """The name the weights can be found by again."""
        return f"st:{self.model}"

    def build(self, texts: Sequence[str] | None = None) -> SentenceTextTower:
        """The tower with its weights."""
        return SentenceTextTower(read(self.model))

    def skeleton(self, folder: Path | None = None) -> SentenceTextTower:
        """The same: it is always loaded from its own folder."""
        return self.build()
