"""Sounds inside other files: ``shard.tar::member`` and ``table.parquet::column::row`` (also ``.arrow``).

A shard is indexed once (member, offset, size); from then on a member is one seek and one read, like a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from supclap.schema import UserError
from supclap.settings import cache_folder, write_json

MARK = "::"
KINDS = (".tar", ".arrow", ".parquet")


def is_address(path: str | Path) -> bool:
    """Whether this names something inside an archive (and is not itself a file)."""
    outer, mark, _ = str(path).partition(MARK)
    return bool(mark) and outer.endswith(KINDS) and not os.path.exists(path)


def outer_of(path: str | Path) -> str:
    """The file that has to be there for the address to be read."""
    return str(path).partition(MARK)[0] if is_address(path) else str(path)


def member(address: str) -> bytes:
    """The bytes that an address names."""
    outer, _, inner = address.partition(MARK)
    try:
        if outer.endswith(".tar"):
            return _tar_member(outer, inner)
        column, _, row = inner.rpartition(MARK)
        return _cell(outer, column, int(row))
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise UserError(f"{address}: {type(error).__name__}: {error}") from error


def tar_index(path: str | Path) -> dict[str, tuple[int, int]]:
    """Member -> (offset, size) of a tar file, in its order; kept in the cache folder beside size and time."""
    try:
        state = os.stat(path)
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    return _tar_index(str(Path(path).resolve()), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _tar_index(path: str, size: int, changed: int) -> dict[str, tuple[int, int]]:
    key = hashlib.sha256(f"{path}\0{size}\0{changed}".encode()).hexdigest()[:32]
    kept = cache_folder("shards") / f"{key}.json"
    try:
        return {name: (int(offset), int(length)) for name, offset, length in json.loads(kept.read_text("utf8"))}
    except (OSError, ValueError, TypeError):
        rows = _scan(path)
    write_json([[name, offset, length] for name, (offset, length) in rows.items()], kept)
    return rows


def _scan(path: str) -> dict[str, tuple[int, int]]:
    try:
        with tarfile.open(path, "r:") as shard:
            return {entry.name: (entry.offset_data, entry.size) for entry in shard if entry.isreg()}
    except (tarfile.TarError, OSError, ValueError) as error:
        raise UserError(f"{path}: not a plain tar file ({error}); packed ones (.tar.gz) must be unpacked") from error


def _tar_member(path: str, name: str) -> bytes:
    index = tar_index(path)
    if name not in index:
        raise UserError(f"{path}: holds no member {name!r}")
    offset, size = index[name]
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) < size:
        raise UserError(f"{path}: member {name!r} is cut off")
    return data


def _cell(path: str, column: str, row: int) -> bytes:
    value = _arrow_cell(path, column, row) if path.endswith(".arrow") else _parquet_cell(path, column, row)
    data = value.get("bytes") if isinstance(value, dict) else value
    if data is None and isinstance(value, dict) and value.get("path"):
        # Kept beside the table, not in it.
        return Path(path).parent.joinpath(value["path"]).read_bytes()
    if not isinstance(data, bytes):
        raise ValueError(f"row {row} of {column!r} holds no bytes")
    return data


def _arrow_cell(path: str, column: str, row: int) -> Any:
    return _arrow_column(path, column)[row].as_py()


@lru_cache(maxsize=64)
def _arrow_column(path: str, column: str) -> Any:
    import pyarrow as pa

    # The file is mapped, not read: a row costs its own bytes.
    source = pa.memory_map(path)
    try:
        return pa.ipc.open_stream(source).read_all()[column]
    except pa.ArrowInvalid:
        return pa.ipc.open_file(source).read_all()[column]


def _parquet_cell(path: str, column: str, row: int) -> Any:
    file = _parquet_file(path)
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if row < rows:
            return _parquet_group(path, column, group)[row].as_py()
        row -= rows
    raise IndexError(f"row {row} is beyond the end")


@lru_cache(maxsize=64)
def _parquet_file(path: str) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path)


@lru_cache(maxsize=2)
def _parquet_group(path: str, column: str, group: int) -> Any:
    return _parquet_file(path).read_row_group(group, columns=[column])[column]
