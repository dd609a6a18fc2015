"""One call from whatever the caller has to mono samples at the rate that a model wants."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from supclap.audio.container import to_float
from supclap.audio.decode import AudioError, opened
from supclap.audio.resample import Samples, Stream, check_rate, resample
from supclap.audio.source import LOUDEST, MOST_CHANNELS, check_span, open_binary, resolve
from supclap.schema import UserError

Item = str | Path | bytes | tuple[np.ndarray, int]

SUFFIXES = frozenset(
    ".wav .flac .ogg .oga .opus .mp3 .m4a .mp4 .m4b .aac .webm .mka .mkv .mov .amr .wma .aif .aiff .aifc .au .snd .caf "
    ".w64 .rf64 .ac3 .3gp".split()
)
# A sound up to so many samples is resampled at once; a longer one in blocks, so that only one channel of it is held.
AT_ONCE = 1 << 22


def read(item: Item, rate: int, start: float = 0.0, end: float | None = None) -> Samples:
    """Mono float32 [time] at ``rate``, the mean of the channels, from ``start`` to ``end`` seconds."""
    check_rate(rate)
    check_span(start, end)
    if isinstance(item, tuple):
        samples, rate_in = array(item, start, end)
        return resample(samples.mean(axis=0), rate_in, rate)
    with opened(item) as sound:
        stream = Stream(sound.rate, rate)
        parts: list[Samples] = []
        held: list[Samples] = []
        count = 0
        for block in sound.blocks(start, end):
            held.append(block.mean(axis=0, dtype=np.float32) if len(block) > 1 else block[0])
            count += block.shape[1]
            if count > AT_ONCE:
                parts += [stream.push(piece) for piece in held]
                held = []
        if count <= AT_ONCE:
            return resample(np.concatenate(held) if len(held) > 1 else held[0], sound.rate, rate)
        parts.append(stream.finish())
        return np.concatenate(parts)


def array(item: tuple[np.ndarray, int], start: float = 0.0, end: float | None = None) -> tuple[Samples, float]:
    """(samples, rate) of a caller as float32 [channels, time], with the usual mistakes named.

    Only what lies between ``start`` and ``end`` seconds is converted: a long array is read in parts, and never copied.
    """
    if len(item) != 2:
        raise UserError(f"a sound in memory is (samples, rate), not {len(item)} values")
    values: Any = np.asarray(item[0])
    rate = check_rate(item[1])
    if values.dtype.kind not in "fiu" or values.dtype in (np.uint16, np.uint32, np.uint64):
        raise UserError(f"samples of type {values.dtype}: give floats from -1 to 1, or signed integers")
    if values.ndim not in (1, 2):
        raise UserError(f"samples of shape {list(values.shape)}: give [time] or [channels, time]")
    values = np.atleast_2d(values)
    channels, count = values.shape
    if channels > MOST_CHANNELS or channels > count >= 1 and channels > 2:
        raise UserError(f"samples of shape {[channels, count]} look like [time, channels]; give samples.T")
    if values.size == 0:
        raise AudioError("the array holds no samples")
    floats = to_float(_cut(values, rate, start, end))
    if not (-LOUDEST < floats.min() and floats.max() < LOUDEST):
        raise AudioError("the array holds NaN, infinite or absurdly large samples")
    return floats, rate


def _cut(samples: Any, rate: float, start: float, end: float | None) -> Any:
    first = round(start * rate)
    last = None if end is None else max(round(end * rate), first + 1)
    piece = samples[:, first:last]
    if piece.shape[1] == 0:
        raise AudioError(f"start={start} s is beyond the end of the array ({samples.shape[1] / rate:.2f} s)")
    return piece


def sound_files(folder: str | Path) -> list[Path]:
    """Every sound file in a folder and the folders in it, sorted; hidden ones are left out."""
    root = Path(folder)
    if not root.is_dir():
        raise UserError(f"{folder}: no such folder")
    found = (path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts))


def content_hash(item: Item, start: float = 0.0, end: float | None = None) -> str:
    """A name for what is heard: the same for a file, its copy and its bytes; another for another span."""
    digest = hashlib.blake2b(digest_size=20)
    if isinstance(item, tuple):
        samples, rate = array(item)
        digest.update(f"array {samples.shape} {rate}".encode())
        digest.update(samples.tobytes())
    else:
        data, _ = resolve(item)
        with open_binary(data) as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    if start != 0.0 or end is not None:
        digest.update(f" {float(start)!r} {None if end is None else float(end)!r}".encode())
    return digest.hexdigest()
