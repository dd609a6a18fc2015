"""A model over a table: a folder of embeddings that grows by shards and goes on where it stopped."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from supclap.audio.reader import Item
from supclap.data import manifest
from supclap.embedding.rows import Encoded, Encoder, Progress, encode_all
from supclap.embedding.sparing import beside_decoders
from supclap.embedding.store import INDEX, Ledger, Side, Store, is_store, read, read_ledger, write_shard
from supclap.encoders import hub
from supclap.encoders.people import whole_number
from supclap.schema import Clip, Embedded, UserError, unknown

ENGINES = ("local",)
WINDOWS = ("mean", "each")


def model_encoder(model: Any, windows: str = "each", batch_size: int = 32) -> Encoder:
    """A dual model as an encoder: the one path from sound to vectors, at the model's own rate."""
    rate = int(model.sample_rate)

    def encode(sounds: Iterable[Item]) -> Iterator[Embedded]:
        return beside_decoders(iter(model.iter_audio(sounds, batch_size=batch_size, windows=windows)))

    return Encoder(f"model/{model.fingerprint()}/{windows}", rate, encode)


def embed(
    model: Any,
    data: Any,
    out: str | os.PathLike[str],
    *,
    engine: str = "local",
    windows: str = "mean",
    batch_size: int = 32,
    workers: int = 0,
    rows_a_shard: int = 8192,
    progress: Progress | None = None,
) -> Store:
    """Embed every clip and caption of ``data`` into the folder ``out``; called again, it goes on.

    ``model`` is a model or whatever ``load`` takes; ``windows`` "mean" is a row a clip, "each" a row a window.
    A clip that cannot be read keeps its row: NaN, with the reason in the table.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if windows not in WINDOWS:
        raise unknown("windows", windows, WINDOWS)
    for name, value, least in (
        ("batch_size", batch_size, 1),
        ("workers", workers, 0),
        ("rows_a_shard", rows_a_shard, 1),
    ):
        whole_number(name, value, least)
    clips = manifest.read(data)
    if not clips:
        raise UserError(f"data={data!r} holds no clip; give a table with rows or a folder with sounds")
    loaded = hub.load(model) if isinstance(model, str | os.PathLike) else model
    folder = Path(out)
    ledger = _open(folder, Ledger(loaded.fingerprint(), _digest(clips), windows, rows_a_shard))
    _embed_audio(loaded, clips, folder, ledger, batch_size, workers, progress)
    _embed_text(loaded, clips, folder, ledger)
    return read(folder)


def _open(folder: Path, wanted: Ledger) -> Ledger:
    if not is_store(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"out={str(folder)!r} is there and holds no embeddings; give a new or an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        wanted.write(folder)
        return wanted
    ledger = read_ledger(folder)
    for name, what in (("fingerprint", "another model"), ("data", "other data"), ("windows", "another window rule")):
        if getattr(ledger, name) != getattr(wanted, name):
            raise UserError(f"out={str(folder)!r} holds embeddings of {what} (see {INDEX}); give another folder")
    return ledger


def _digest(clips: Sequence[Clip]) -> str:
    lines = (json.dumps(asdict(clip), sort_keys=True, ensure_ascii=False) for clip in clips)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _shards(count: int, ledger: Ledger, side: Side) -> list[tuple[int, range]]:
    """The shards that are still to do, and the items of each."""
    step = ledger.rows_a_shard
    every = enumerate(range(first, min(first + step, count)) for first in range(0, count, step))
    return [(shard, items) for shard, items in every if shard not in ledger.finished[side]]


def _close_shard(folder: Path, ledger: Ledger, side: Side, shard: int, parts: Sequence[Any]) -> None:
    vectors = [rows for rows, _ in parts]
    ledger.width = ledger.width or next((rows.shape[1] for rows in vectors if rows.shape[1]), 0)
    whole = np.concatenate([rows if rows.shape[1] else np.full((1, ledger.width), np.nan) for rows in vectors])
    rows = [{**row, "row": place} for place, row in enumerate(itertools.chain.from_iterable(r for _, r in parts))]
    write_shard(folder, side, shard, whole, rows)
    ledger.finished[side].append(shard)
    ledger.write(folder)


def _embed_audio(
    model: Any, clips: Sequence[Clip], folder: Path, ledger: Ledger, batch: int, workers: int, progress: Progress | None
) -> None:
    encoder = model_encoder(model, ledger.windows, batch)
    todo = _shards(len(clips), ledger, "audio")
    done = len(clips) - sum(len(items) for _, items in todo)
    for shard, items in todo:
        answers: dict[int, Encoded] = {}
        for answer in encode_all([clips[i] for i in items], encoder, None, workers=workers):
            answers[answer.index] = answer
            done += 1
            if progress is not None:
                progress(done, len(clips))
        parts = [_audio_part(clips[clip], answers[place]) for place, clip in enumerate(items)]
        _close_shard(folder, ledger, "audio", shard, parts)


def _audio_part(clip: Clip, answer: Encoded) -> tuple[np.ndarray, list[dict[str, Any]]]:
    row = {"clip_id": clip.id, "path": clip.audio, "start": clip.start, "end": clip.end, "error": answer.error}
    if answer.rows is None:
        return np.zeros((1, 0), np.float32), [row]
    spans = clip.start + answer.rows.spans
    return answer.rows.vectors, [{**row, "start": float(start), "end": float(end)} for start, end in spans]


def _embed_text(model: Any, clips: Sequence[Clip], folder: Path, ledger: Ledger) -> None:
    captions = [(clip.id, caption) for clip in clips for caption in clip.captions]
    for shard, items in _shards(len(captions), ledger, "text"):
        chosen = [captions[i] for i in items]
        rows = [{"caption": c.text, "language": c.language, "clip_id": clip} for clip, c in chosen]
        vectors = embed_captions(model, [(c.text, c.language) for _, c in chosen])
        _close_shard(folder, ledger, "text", shard, [(vectors, rows)])


def embed_captions(model: Any, captions: Sequence[tuple[str, str]]) -> np.ndarray:
    """[n, d] of (text, language) pairs, in their order."""
    out: np.ndarray | None = None
    for language in dict.fromkeys(language for _, language in captions):
        places = [place for place, (_, own) in enumerate(captions) if own == language]
        rows = np.asarray(model.embed_text([captions[place][0] for place in places], language=language))
        out = np.zeros((len(captions), rows.shape[1]), np.float32) if out is None else out
        out[places] = rows
    assert out is not None
    return out
