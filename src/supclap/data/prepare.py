"""A corpus resampled once, to FLAC at one rate: parallel, and what is done already is not done again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from supclap.audio.archive import outer_of
from supclap.audio.decode import AudioError
from supclap.audio.reader import read
from supclap.data.whole import whole
from supclap.schema import Clip, UserError


@dataclass(frozen=True)
class Prepared:
    """The clips as they lie in the folder now, and (clip, reason) of those that could not be read."""

    clips: list[Clip]
    bad: list[tuple[Clip, str]]
    made: int


def prepare(
    clips: Sequence[Clip],
    folder: str | Path,
    rate: int,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prepared:
    """Every clip as a mono 16-bit FLAC of its own at ``rate``; a file that is there is whole, and is kept."""
    target = Path(folder).absolute()
    target.mkdir(parents=True, exist_ok=True)
    done: list[Clip] = []
    bad: list[tuple[Clip, str]] = []
    made = 0

    def one(clip: Clip) -> tuple[Path, bool] | str:
        path = target / name_of(clip, rate)
        try:
            return (path, False) if path.is_file() else (_write(clip, path, rate), True)
        except AudioError as error:
            return str(error)

    with ThreadPoolExecutor(workers or min(os.cpu_count() or 1, 8)) as pool:
        for clip, answer in zip(clips, pool.map(one, clips), strict=True):
            if isinstance(answer, str):
                bad.append((clip, answer))
            else:
                made += answer[1]
                done.append(replace(clip, audio=str(answer[0]), start=0.0, end=None))
            if progress is not None:
                progress(len(done) + len(bad), len(clips))
    return Prepared(done, bad, made)


def name_of(clip: Clip, rate: int) -> str:
    """A file name that another source, span, size, date or rate does not share."""
    outer = outer_of(clip.audio)
    state = os.stat(outer) if os.path.isfile(outer) else None
    changed = (state.st_size, state.st_mtime_ns) if state else ()
    key = hashlib.sha256(repr((clip.audio, clip.start, clip.end, changed, rate)).encode()).hexdigest()[:16]
    stem = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in Path(clip.audio).stem)[:80]
    return f"{key[:2]}/{stem}-{key}.flac"


def _write(clip: Clip, path: Path, rate: int) -> Path:
    import soundfile

    samples = read(clip.audio, rate, clip.start, clip.end)
    # FLAC clips what is louder than full scale; a loud float file is turned down instead.
    loudest = max(float(np.abs(samples).max()), 1.0)
    try:
        with whole(path) as temporary:
            soundfile.write(temporary, samples / loudest, rate, format="FLAC", subtype="PCM_16")
    except soundfile.SoundFileError as error:
        raise UserError(f"{path}: {error}; is the disk full?") from error
    return path
