"""Decoding with soundfile: wav, flac, ogg, opus, mp3, aiff and their kin."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from supclap.audio.resample import Samples
from supclap.audio.source import AudioError, Info, check_shape

BLOCK = 1 << 18
LOSSY = ("MP3", "OGG")


class Unknown(Exception):
    """soundfile does not know this kind of file; another decoder may."""


class Plain:
    """One file open in soundfile."""

    def __init__(self, data: str | bytes, name: str) -> None:
        import soundfile

        self.name = name
        try:
            self._file: Any = soundfile.SoundFile(io.BytesIO(data) if isinstance(data, bytes) else data)
        except (soundfile.SoundFileError, TypeError, ValueError, OverflowError) as error:
            raise Unknown(" ".join(str(error).split())) from error
        self.rate, self.channels = int(self._file.samplerate), int(self._file.channels)
        check_shape(name, self.rate, self.channels)
        # Files written to a pipe claim the largest number there is.
        frames = int(self._file.frames)
        self.frames = frames if 0 <= frames < 1 << 60 else None

    def info(self) -> Info | None:
        """What the header says, or None if it does not say how long the sound is."""
        if self.frames is None:
            return None
        return Info(self.frames / self.rate, self.frames, self.rate, self.channels)

    def blocks(self, first: int, last: int | None) -> Iterator[Samples]:
        """[channels, n] blocks of the frames from ``first`` to ``last``."""
        import soundfile

        done = first
        try:
            self._seek(first)
            while last is None or done < last:
                count = max(BLOCK // self.channels, 1)
                got = self._file.read(count if last is None else min(count, last - done), "float32", always_2d=True)
                if len(got) == 0:
                    break
                done += len(got)
                yield np.ascontiguousarray(got.T)
        except (soundfile.SoundFileError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise AudioError(f"{self.name}: broken after {done / self.rate:.2f} s ({reason})") from error
        if self.frames is not None and last is None and done < self.frames - max(self.frames // 100, self.rate // 10):
            claimed = self.frames / self.rate
            raise AudioError(f"{self.name}: cut off: it says {claimed:.2f} s and ends after {done / self.rate:.2f} s")

    def _seek(self, first: int) -> None:
        """Stand before ``first``, and let no later read move."""
        # libsndfile says that it can seek in DWVW, and then it cannot.
        if first > 0 and self._file.seekable() and not self._file.subtype.startswith("DWVW"):
            # A lossy decoder needs a while to settle, and libsndfile misses the very end of an Ogg file.
            settle = self.rate if self._file.format in LOSSY else 0
            aim = min(first, first if self.frames is None else self.frames)
            first -= self._file.seek(max(aim - settle, 0))
        # soundfile seeks after each read, which makes an MP3 decoder begin anew in the midst of the sound.
        self._file.seekable = lambda: False
        while first > 0:
            skipped = len(self._file.read(min(BLOCK, first), "float32", always_2d=True))
            if skipped == 0:
                return
            first -= skipped

    def close(self) -> None:
        """Let the file go."""
        self._file.close()
