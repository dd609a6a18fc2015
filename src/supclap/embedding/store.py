"""A folder of embeddings: float32 shards beside tables of what their rows are. A shard exists once it is renamed.

embeddings.json                          format, fingerprint, data, windows, width, finished shards
audio-00000.npy  audio-00000.parquet     rows | row, clip_id, path, start, end, error
text-00000.npy   text-00000.parquet      rows | row, caption, language, clip_id
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from supclap.schema import FORMAT, UserError
from supclap.settings import write_json

INDEX = "embeddings.json"
Side = Literal["audio", "text"]
COLUMNS: dict[str, tuple[str, ...]] = {
    "audio": ("row", "clip_id", "path", "start", "end", "error"),
    "text": ("row", "caption", "language", "clip_id"),
}
_TYPES = {"row": "int64", "start": "float64", "end": "float64"}


@dataclass(frozen=True)
class Store:
    """What ``read`` gives: row i of ``audio`` is described by row i of ``audio_rows`` (pyarrow tables).

    ``audio`` and ``text`` are memory-mapped where they are one shard. A row that could not be embedded is NaN and
    has an ``error``.
    """

    folder: Path
    fingerprint: str
    windows: str
    audio: np.ndarray  # [n, d] float32
    audio_rows: Any
    text: np.ndarray  # [m, d] float32
    text_rows: Any


@dataclass
class Ledger:
    """What ``embeddings.json`` says."""

    fingerprint: str
    data: str
    windows: str
    rows_a_shard: int
    width: int = 0
    finished: dict[str, list[int]] = field(default_factory=lambda: {"audio": [], "text": []})

    def write(self, folder: Path) -> None:
        """Put it into the folder, whole or not at all."""
        write_json({"format": FORMAT, **self.__dict__}, folder / INDEX)


def is_store(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder holds embeddings."""
    return (Path(folder) / INDEX).is_file()


def read_ledger(folder: Path) -> Ledger:
    """The ledger of a folder of embeddings."""
    try:
        plain = json.loads((folder / INDEX).read_text(encoding="utf8"))
        form = plain.pop("format")
        if form != FORMAT:
            raise UserError(f"{folder / INDEX}: format {form!r}; this version reads format {FORMAT}")
        return Ledger(**plain)
    except FileNotFoundError as error:
        raise UserError(f"{folder}: holds no {INDEX}; `supclap embed MODEL DATA --out {folder}` writes it") from error
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{folder / INDEX}: not a list of embeddings ({error}); embed again into a new folder"
        ) from error


def write_shard(
    folder: Path, side: Side, shard: int, vectors: np.ndarray, rows: Sequence[Mapping[str, object]]
) -> None:
    """Vectors and their table under temporary names, then renamed."""
    import pyarrow as pa
    from pyarrow import parquet

    assert len(vectors) == len(rows)
    stem = f"{side}-{shard:05d}"
    names = COLUMNS[side]
    schema = pa.schema([(name, getattr(pa, _TYPES.get(name, "string"))()) for name in names])
    table = pa.table({name: [row.get(name) for row in rows] for name in names}, schema=schema)
    parquet.write_table(table, folder / f".{stem}.parquet.tmp")
    with open(folder / f".{stem}.npy.tmp", "wb") as file:
        np.save(file, np.ascontiguousarray(vectors, dtype=np.float32))
        file.flush()
        os.fsync(file.fileno())
    (folder / f".{stem}.parquet.tmp").replace(folder / f"{stem}.parquet")
    (folder / f".{stem}.npy.tmp").replace(folder / f"{stem}.npy")


def read(folder: str | os.PathLike[str]) -> Store:
    """The embeddings in a folder, as far as they are finished."""
    root = Path(folder)
    ledger = read_ledger(root)
    audio, audio_rows = _side(root, "audio", ledger)
    text, text_rows = _side(root, "text", ledger)
    return Store(root, ledger.fingerprint, ledger.windows, audio, audio_rows, text, text_rows)


def _side(folder: Path, side: Side, ledger: Ledger) -> tuple[np.ndarray, Any]:
    import pyarrow as pa
    from pyarrow import parquet

    shards = [f"{side}-{shard:05d}" for shard in sorted(ledger.finished[side])]
    if not shards:
        empty = pa.table({name: pa.array([], getattr(pa, _TYPES.get(name, "string"))()) for name in COLUMNS[side]})
        return np.zeros((0, ledger.width), np.float32), empty
    try:
        vectors = [np.load(folder / f"{stem}.npy", mmap_mode="r") for stem in shards]
        tables = [parquet.read_table(folder / f"{stem}.parquet") for stem in shards]
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder}: a finished shard cannot be read ({error}); embed again into a new folder"
        ) from error
    if any(len(rows) != len(table) for rows, table in zip(vectors, tables, strict=True)):
        raise UserError(f"{folder}: a shard and its table differ in length; embed again into a new folder")
    whole = vectors[0] if len(vectors) == 1 else np.concatenate(vectors)
    return whole, pa.concat_tables(tables)
