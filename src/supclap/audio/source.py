"""What a sound is read from: a path, an address inside an archive, or bytes; and what may come out of it."""

from __future__ import annotations

import io
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from supclap.audio.archive import is_address, member
from supclap.audio.resample import HIGHEST_RATE, LOWEST_RATE
from supclap.schema import UserError

Source = str | Path | bytes

# What a file may hold. Ten hours of sound pass; what a hostile header claims, or a bomb unpacks, does not.
MOST_CHANNELS = 64
MOST_SECONDS = 12 * 3600.0
MOST_BYTES = 8 << 30
# A small file may unpack to so many values; a larger one to so many a byte (silent FLACs have 300 to 550).
FREE_VALUES, VALUES_A_BYTE = 1 << 27, 1_000
# Beyond this, float samples are no sound but damage; integers written as floats stay below.
LOUDEST = 2.0**32


class AudioError(UserError):
    """A sound that cannot be read, and why."""


@dataclass(frozen=True)
class Info:
    """What a sound says of itself before it is decoded."""

    seconds: float
    frames: int
    rate: int
    channels: int


def name_of(source: Source) -> str:
    """The source as errors name it."""
    return f"{len(source)} bytes" if isinstance(source, bytes) else str(source)


def check_path(path: str | Path) -> int:
    """The size of a plain, readable, non-empty file."""
    try:
        state = os.stat(path)
    except (OSError, ValueError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise AudioError(f"{path}: {reason}") from error
    if not stat.S_ISREG(state.st_mode):
        raise AudioError(f"{path}: not a file" + (" but a folder" if stat.S_ISDIR(state.st_mode) else ""))
    return state.st_size


def resolve(source: Source) -> tuple[str | bytes, int]:
    """A path or bytes that can be opened, and the size in bytes."""
    if not isinstance(source, (str, Path, bytes)):
        raise UserError(f"a sound is a path, bytes or (samples, rate), not {type(source).__name__}")
    if isinstance(source, bytes):
        data: str | bytes = source
        size = len(source)
    elif is_address(source):
        try:
            data = member(str(source))
        except UserError as error:
            raise AudioError(str(error)) from error
        size = len(data)
    else:
        data, size = os.fspath(source), check_path(source)
    if size == 0:
        raise AudioError(f"{name_of(source)}: the file is empty")
    return data, size


def open_binary(data: str | bytes) -> BinaryIO:
    """A file object over what ``resolve`` gave."""
    if isinstance(data, bytes):
        return io.BytesIO(data)
    try:
        return open(data, "rb")
    except OSError as error:
        raise AudioError(f"{data}: {(error.strerror or str(error)).lower()}") from error


def check_shape(name: str, rate: float, channels: int) -> None:
    """AudioError on a rate or a channel count that no sound has."""
    if not 1 <= channels <= MOST_CHANNELS:
        raise AudioError(f"{name}: {channels} channels; 1 to {MOST_CHANNELS} can be read")
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise AudioError(f"{name}: {rate} samples a second; {LOWEST_RATE} to {HIGHEST_RATE} can be read")


def check_span(start: float, end: float | None) -> None:
    """UserError on a span that is none."""
    if not 0 <= start < float("inf"):
        raise UserError(f"start={start}: give seconds from 0 on")
    if end is not None and not start < end:
        raise UserError(f"end={end}: give seconds after start={start}")
