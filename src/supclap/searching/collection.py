"""What is searched: the windows of a folder's sounds, or those of a folder of embeddings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from supclap.audio.reader import SUFFIXES, sound_files
from supclap.embedding.cache import FeatureCache
from supclap.embedding.rows import Progress, encode_all
from supclap.embedding.store import is_store, read
from supclap.schema import UserError
from supclap.searching.lazy import LazyModel

# Of a sound of several windows, one shorter than this share of the longest is left out.
_SLIVER = 0.05


@dataclass(frozen=True)
class Collection:
    """Windows of files: those of file i are ``first[i]`` up to ``first[i + 1]``."""

    paths: list[str]
    first: np.ndarray  # [files + 1] int64
    spans: np.ndarray  # [windows, 2] seconds
    vectors: np.ndarray  # [windows, d] unit rows
    unreadable: list[tuple[str, str]] = field(default_factory=list)  # path, reason
    computed: int = 0  # files that were not in the cache

    def best(self, scores: np.ndarray) -> np.ndarray:
        """[files] the best of each file's windows, from [windows] scores."""
        best: np.ndarray = np.maximum.reduceat(scores, self.first[:-1])
        return best


@dataclass(frozen=True)
class Place:
    """A folder of embeddings, or the sound files of a plain one."""

    root: Path
    files: list[str] | None


def place_of(folder: str | os.PathLike[str], under: str | None = None) -> Place:
    """What there is to search, before any of it is read; UserError where there is nothing."""
    root = Path(folder).expanduser()
    if is_store(root):
        return Place(root, None)
    files = [str(file) for file in _files(root) if _is_under(str(file.relative_to(root)), under)]
    if not files:
        raise UserError(f"under={under!r}: no sound file of {root} lies there")
    return Place(root, files)


def collect(
    place: Place,
    model: LazyModel,
    cache: FeatureCache,
    *,
    under: str | None = None,
    workers: int = 0,
    progress: Progress | None = None,
) -> Collection:
    """The windows of a folder, computed where the cache does not know them, or of a folder of embeddings."""
    if place.files is None:
        return _of_store(place.root, model, under)
    return of_files(place.files, model, cache, workers, progress)


def _files(root: Path) -> list[Path]:
    if not root.exists():
        raise UserError(f"{root}: no such folder; give a folder of sounds or one that `supclap embed` wrote")
    if not root.is_dir():
        raise UserError(f"{root}: not a folder; give a folder of sounds or one that `supclap embed` wrote")
    files = sound_files(root)
    if not files:
        held = "is empty" if not any(root.iterdir()) else "holds no sound file"
        raise UserError(f"{root} {held}; sounds end in {', '.join(sorted(SUFFIXES)[:12])} and others")
    return files


def _is_under(relative: str, under: str | None) -> bool:
    if under is None:
        return True
    wanted = under.strip("/")
    parts = Path(relative).parts
    folders = ["/".join(parts[first:last]) for first in range(len(parts)) for last in range(first + 1, len(parts))]
    return any(fnmatch(folder, wanted) for folder in folders) or fnmatch(relative, wanted)


def of_files(
    files: Sequence[str], model: LazyModel, cache: FeatureCache, workers: int, progress: Progress | None
) -> Collection:
    """The windows of some files, computed where the cache does not know them."""
    rows = [np.zeros((0, 0), np.float32)] * len(files)
    spans = [np.zeros((0, 2))] * len(files)
    unreadable: list[tuple[str, str]] = []
    computed = 0
    for done, answer in enumerate(encode_all(files, model.encoder(), cache, workers=workers), 1):
        if answer.rows is None:
            unreadable.append((files[answer.index], answer.error or "no sound in it"))
        else:
            kept = long_enough(answer.rows.spans)
            rows[answer.index], spans[answer.index] = answer.rows.vectors[kept], answer.rows.spans[kept]
            computed += not answer.cached
        if progress is not None:
            progress(done, len(files))
    there = [place for place, row in enumerate(rows) if len(row)]
    if not there:
        path, reason = unreadable[0]
        raise UserError(f"none of {len(files)} sound files can be read; the first one, {path}: {reason}")
    return Collection(
        [files[place] for place in there],
        np.cumsum([0, *(len(rows[place]) for place in there)]),
        np.concatenate([spans[place] for place in there]),
        np.concatenate([rows[place] for place in there]),
        sorted(unreadable),
        computed,
    )


def long_enough(spans: np.ndarray) -> np.ndarray:
    """[windows] bool: all of a sound's windows but a sliver at its end, which sounds like anything."""
    seconds = spans[:, 1] - spans[:, 0]
    kept: np.ndarray = ~(seconds < _SLIVER * seconds.max())
    return kept


def _of_store(root: Path, model: LazyModel, under: str | None) -> Collection:
    store = read(root)
    if store.fingerprint != model.fingerprint:
        raise UserError(
            f"{root}: embedded by another model than {model.name!r}; name that model, or embed again with "
            f"`supclap embed {model.name} DATA --out FOLDER --windows each`"
        )
    table = store.audio_rows.to_pylist()
    good = [place for place, row in enumerate(table) if row["error"] is None and _is_under(row["path"], under)]
    if not good:
        raise UserError(f"{root}: no embedded sound in it" + (f" lies under {under!r}" if under else ""))
    # A stable sort brings the windows of a file together without changing their order.
    good.sort(key=lambda place: table[place]["path"])
    ends = [row["end"] if row["end"] is not None else np.nan for row in table]
    spans = np.array([(table[place]["start"], ends[place]) for place in good], np.float64)
    good, spans = _without_slivers(good, spans, [table[place]["path"] for place in good])
    paths = [table[place]["path"] for place in good]
    starts = [0, *(i for i in range(1, len(paths)) if paths[i] != paths[i - 1]), len(paths)]
    return Collection(
        [paths[first] for first in starts[:-1]],
        np.array(starts),
        spans,
        np.asarray(store.audio[good]),
        sorted({(row["path"], row["error"]) for row in table if row["error"] is not None}),
    )


def _without_slivers(good: list[int], spans: np.ndarray, paths: list[str]) -> tuple[list[int], np.ndarray]:
    starts = [0, *(i for i in range(1, len(paths)) if paths[i] != paths[i - 1]), len(paths)]
    files = zip(starts[:-1], starts[1:], strict=True)
    kept = np.concatenate([long_enough(spans[first:last]) for first, last in files])
    return [place for place, keep in zip(good, kept, strict=True) if keep], spans[kept]
