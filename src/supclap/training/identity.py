"""What a run started from, as short hashes: paired comparisons and resumed runs assert that these agree."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from supclap.data.loader import Loader
from supclap.schema import Batch, Clip
from supclap.training.config import RunConfig
from supclap.training.processes import Team


def _bytes(value: Tensor) -> bytes:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def weights(module: nn.Module) -> str:
    """Every number of a module."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode() + _bytes(value))
    return digest.hexdigest()[:16]


def given(model: Any) -> str:
    """What a checkpoint leaves out: frozen tower weights and vocabularies, which are made again on resume."""
    digest = hashlib.sha256()
    for tower in (model.audio, model.text):
        for name, value in sorted(tower.named_parameters()):
            if not value.requires_grad:
                digest.update(name.encode() + _bytes(value))
        told = getattr(getattr(tower, "tokenizer", None), "to_str", None)
        digest.update(told().encode() if told is not None else b"")
    return digest.hexdigest()[:16]


def table(clips: Mapping[str, Sequence[Clip]]) -> dict[str, str]:
    """One hash a clip, of its place, its split and what is said of it."""
    rows: dict[str, str] = {}
    for name, side in clips.items():
        for clip in side:
            captions = [(caption.text, caption.language) for caption in clip.captions]
            said = repr((name, clip.audio, clip.start, clip.end, captions))
            # A further validation set may hold clips of the table.
            key = clip.id if name in ("train", "val", "test") else f"{name}/{clip.id}"
            rows[key] = hashlib.sha256(said.encode()).hexdigest()[:12]
    return rows


def chained(seen: str, batches: Sequence[Batch], team: Team | None = None) -> str:
    """The hash of all batches so far, from the hash before and the newest: clips, captions and languages.

    Row i of process r is row i * world + r of the batch they share, so the hash is that of one process.
    """
    for batch in batches:
        mine = list(zip(batch.clip_ids.tolist(), batch.texts, batch.languages, strict=True))
        rows = [row for place in zip(*(team or Team()).everyone(mine), strict=True) for row in place]
        said = repr((seen, *(list(column) for column in zip(*rows, strict=True))))
        seen = hashlib.sha256(said.encode()).hexdigest()[:16]
    return seen


class _Silent:
    """Stands in for every sound, so that an order is read without decoding."""

    def audio(self, clip: Clip) -> Any:
        return np.zeros(1, np.float32)

    def text(self, text: str, language: str) -> Any:
        return None


def first_epoch(config: RunConfig, clips: Sequence[Clip], sample_rate: int) -> str:
    """The batches that the first epoch will bring, if every clip can be read."""
    loader = Loader(
        list(clips),
        batch_size=config.train.batch_size,
        sample_rate=sample_rate,
        seed=config.seed,
        captions=config.data.captions,
        bucket=config.data.bucket,
        features=_Silent(),
        drop_last=True,
    )
    seen = ""
    for _, batch in loader.batches(0):
        seen = chained(seen, [batch])
    return seen
