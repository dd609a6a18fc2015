"""A cache of vectors that is never wrong: keyed by what was heard and by who heard it, not by file names.

One SQLite file. ``rows`` holds vectors under a key; ``seen`` and ``copies`` remember which samples a file decodes to,
so that an unchanged file is neither decoded nor read again, and a moved or renamed one is read but not decoded.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supclap.audio.archive import outer_of
from supclap.audio.reader import content_hash
from supclap.schema import UserError
from supclap.settings import cache_folder

# Raised when decoding, resampling or the layout of the file changes: nothing older is then found.
VERSION = 1
# A file system's clock may tick this slowly: a file changed just now could change again under the same time stamp.
_TICK_SECONDS = 2.0
_TABLES = """
CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, spans BLOB, vectors BLOB, width INT, crc INT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (path TEXT, part TEXT, stamp TEXT, content BLOB, PRIMARY KEY (path, part));
CREATE TABLE IF NOT EXISTS copies (bytes TEXT, part TEXT, content BLOB, PRIMARY KEY (bytes, part));
"""


@dataclass(frozen=True)
class Rows:
    """The vectors of one item, one a window: ``spans`` are their seconds."""

    vectors: np.ndarray  # [k, w] float32
    spans: np.ndarray  # [k, 2] float64


@dataclass(frozen=True)
class Part:
    """A stretch of a file, heard at a rate: what a content hash belongs to."""

    path: str
    start: float
    end: float | None
    rate: int

    @property
    def name(self) -> str:
        """The stretch without the file."""
        return f"{VERSION}/{self.start!r}/{self.end!r}/{self.rate}"


def content_of(blocks: Iterable[np.ndarray], rate: int) -> bytes:
    """The hash of decoded samples, given in stretches."""
    digest = hashlib.sha256(b"%d/" % rate)
    for samples in blocks:
        digest.update(np.ascontiguousarray(samples, dtype=np.float32).tobytes())
    return digest.digest()


def key_of(encoder: str, content: bytes) -> bytes:
    """The key of one content as one encoder hears it; ``encoder`` names weights and front end by digest."""
    return hashlib.sha256(f"{VERSION}/{encoder}/".encode() + content).digest()


def text_key(encoder: str, text: str, language: str) -> bytes:
    """The key of one text as one encoder reads it."""
    return key_of(encoder, hashlib.sha256(f"text/{language}/{text}".encode()).digest())


class FeatureCache:
    """Vectors by key, safe against crashes, against changed files and against other processes."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = cache_folder("features") if folder is None else Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "features.sqlite"
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._database = self._open()
        # Facts about files wait here for the next write of vectors: losing them costs time, never truth.
        self._seen: list[tuple[object, ...]] = []
        self._copies: list[tuple[object, ...]] = []

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self.path)
        except sqlite3.OperationalError as error:
            raise self._refused(error) from error
        except sqlite3.DatabaseError:
            self._set_aside()
            return _connect(self.path)

    def _set_aside(self) -> None:
        # Not a database any more (a broken disk, another program): a cache may be lost, an answer may not be wrong.
        self.path.replace(self.path.with_suffix(".broken"))
        # What was still to be rolled back belongs to the broken file.
        self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)

    def _begin_again(self, broken: sqlite3.Connection, error: sqlite3.DatabaseError) -> None:
        """A new file in place of one whose pages are damaged, once, however many threads have met the damage."""
        if type(error) is not sqlite3.DatabaseError:
            raise error  # not damage, which SQLite reports by the bare class
        with self._lock:
            if self._database is broken:
                self._set_aside()
                self._database = _connect(self.path)

    def _refused(self, error: sqlite3.Error) -> UserError:
        return UserError(f"{self.path}: {error}; set SUPCLAP_CACHE to a folder that can be written and has room")

    # -- vectors -----------------------------------------------------------------------------------------------------

    def get(self, key: bytes) -> Rows | None:
        """The rows under a key, or None; a row that fails its check counts as missing."""
        return next(iter(self.get_many([key]).values()), None)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Rows]:
        """Those of ``keys`` that are here."""
        found: dict[bytes, Rows] = {}
        for first in range(0, len(keys), 500):
            chunk = keys[first : first + 500]
            marks = ",".join("?" * len(chunk))
            for key, *row in self._all(
                f"SELECT key, spans, vectors, width, crc FROM rows WHERE key IN ({marks})", chunk
            ):
                rows = _unpack(*row)
                if rows is not None:
                    found[bytes(key)] = rows
        return found

    def put(self, entries: Iterable[tuple[bytes, Rows]]) -> None:
        """Keep rows; all of them or, after a crash, none."""
        packed = [(key, *_pack(rows)) for key, rows in entries]
        database = self._connection()
        try:
            self._write(database, packed)
        except sqlite3.OperationalError as error:
            raise self._refused(error) from error
        except sqlite3.DatabaseError as error:
            self._begin_again(database, error)
            self._write(self._database, packed)

    def _write(self, database: sqlite3.Connection, packed: Sequence[tuple[object, ...]]) -> None:
        with self._lock, database:
            database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?)", packed)
            database.executemany("INSERT OR REPLACE INTO copies VALUES (?, ?, ?)", self._copies)
            database.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)", self._seen)
            self._seen, self._copies = [], []

    # -- which samples a file holds ----------------------------------------------------------------------------------

    def content(self, part: Part) -> bytes | None:
        """The content hash of a stretch of a file without decoding it, or None where it must be decoded."""
        before = _stamp(part.path)
        known = self._all(
            "SELECT stamp, content FROM seen WHERE path = ? AND part = ?", (_path_key(part.path), part.name)
        )
        if known and known[0][0] == before:
            return bytes(known[0][1])
        copies = self._all(
            "SELECT content FROM copies WHERE bytes = ? AND part = ?", (content_hash(part.path), part.name)
        )
        if not copies:
            return None
        self._remember_path(part, bytes(copies[0][0]), before)
        return bytes(copies[0][0])

    def remember(self, part: Part, content: bytes, before: str) -> None:
        """Keep a stretch's content hash; ``before`` is the file's ``stamp`` from before it was decoded."""
        digest = content_hash(part.path)
        if _stamp(part.path) != before:
            return
        with self._lock:
            self._copies.append((digest, part.name, content))
        self._remember_path(part, content, before)

    def stamp(self, path: str) -> str:
        """What changes when a file is written, replaced or moved."""
        return _stamp(path)

    def _remember_path(self, part: Part, content: bytes, before: str) -> None:
        if _stamp(part.path) != before or _is_fresh(part.path):
            return
        with self._lock:
            self._seen.append((_path_key(part.path), part.name, before, content))

    # -- the file ----------------------------------------------------------------------------------------------------

    def _connection(self) -> sqlite3.Connection:
        if os.getpid() != self._pid:
            # A connection must not be used across a fork (the loader's workers).
            self._pid, self._lock = os.getpid(), threading.Lock()
            self._database = self._open()
        return self._database

    def _all(self, command: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        database = self._connection()
        try:
            with self._lock:
                return database.execute(command, values).fetchall()
        except sqlite3.OperationalError as error:
            raise self._refused(error) from error
        except sqlite3.DatabaseError as error:
            self._begin_again(database, error)
            return []

    def close(self) -> None:
        """Write what waits and let go of the file."""
        self.put([])
        self._database.close()

    def __getstate__(self) -> dict[str, object]:
        return {"folder": self.folder}

    def __setstate__(self, state: dict[str, object]) -> None:
        FeatureCache.__init__(self, str(state["folder"]))


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=60.0, check_same_thread=False)
    # No write-ahead log: home folders on network file systems cannot share its memory.
    database.execute("PRAGMA synchronous = NORMAL")
    database.executescript(_TABLES)
    return database


def _pack(rows: Rows) -> tuple[bytes, bytes, int, int]:
    vectors = np.ascontiguousarray(rows.vectors, dtype=np.float32)
    spans = np.ascontiguousarray(rows.spans, dtype=np.float64)
    assert vectors.ndim == 2
    assert spans.shape == (len(vectors), 2)
    return spans.tobytes(), vectors.tobytes(), vectors.shape[1], zlib.crc32(vectors.tobytes() + spans.tobytes())


def _unpack(spans: bytes, vectors: bytes, width: int, crc: int) -> Rows | None:
    if zlib.crc32(vectors + spans) != crc or not width or len(vectors) % (4 * width):
        return None
    return Rows(np.frombuffer(vectors, np.float32).reshape(-1, width), np.frombuffer(spans, np.float64).reshape(-1, 2))


def _stamp(path: str) -> str:
    stat = os.stat(outer_of(path))
    # The change time cannot be set back: a copy that keeps the old modification time still differs.
    return f"{stat.st_size}/{stat.st_mtime_ns}/{stat.st_ctime_ns}/{stat.st_ino}"


def _path_key(path: str) -> str | bytes:
    """The path as SQLite can keep it: a name that is no text in any encoding (old archives) stays bytes."""
    place = os.path.abspath(path)
    try:
        place.encode("utf8")
    except UnicodeEncodeError:
        return os.fsencode(place)
    return place


def _is_fresh(path: str) -> bool:
    stat = os.stat(outer_of(path))
    return time.time() - max(stat.st_mtime, stat.st_ctime) < _TICK_SECONDS
