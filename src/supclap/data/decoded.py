"""Sounds decoded and resampled once, kept as plain 16-bit numbers that the system maps.

A file a clip. Its name holds the source's path, size and date, the span and the rate, so that what has changed is read
anew; it exists once its rename is done, so that a crash leaves nothing that looks whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supclap.audio.reader import read
from supclap.audio.resample import Samples
from supclap.data.prepare import name_of
from supclap.data.whole import whole
from supclap.schema import Clip

FULL = 32768.0


@dataclass(frozen=True)
class Decoded:
    """A folder of decoded clips at one rate."""

    folder: Path
    rate: int

    def __call__(self, clip: Clip) -> np.ndarray[Any, Any]:
        """The clip's samples, mapped: int16, or float32 where they are louder than 16 bits can hold."""
        path = (self.folder / name_of(clip, self.rate)).with_suffix(".npy")
        try:
            kept: np.ndarray[Any, Any] = np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError):
            # Not there yet, or not whole: a disk may have lost the end of it.
            return self._made(clip, path)
        return kept

    def _made(self, clip: Clip, path: Path) -> np.ndarray[Any, Any]:
        values = packed(read(clip.audio, self.rate, clip.start, clip.end))
        with whole(path) as temporary, temporary.open("wb") as file:
            np.save(file, values)
        return values


def packed(samples: Samples) -> np.ndarray[Any, Any]:
    """As 16-bit numbers: exact for what was 16 bits at this rate, half a step off at most for the rest."""
    scaled = np.rint(samples * np.float32(FULL))
    if scaled.min() < -FULL or scaled.max() > FULL:
        return samples
    # Full scale itself has no number of its own.
    small: np.ndarray[Any, Any] = np.minimum(scaled, np.float32(FULL - 1)).astype(np.int16)
    return small


def unpacked(values: np.ndarray[Any, Any]) -> Samples:
    """float32 again."""
    if values.dtype != np.int16:
        return np.array(values, np.float32)
    out: Samples = values.astype(np.float32)
    out /= np.float32(FULL)
    return out
