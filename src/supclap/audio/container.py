"""Decoding with PyAV: what soundfile does not know (m4a, mp4, webm, amr, wma ...)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

import numpy as np

from supclap.audio.resample import Samples
from supclap.audio.source import AudioError, Info, check_shape, open_binary

# A seek lands this much earlier, so that a codec has settled when the wanted part begins.
SETTLE = 1.0
# A file that says nothing for so many packets has nothing to say; one read so often over is a maze.
SILENT_PACKETS, READ_OVER, READ_FREE = 2_000, 20, 64 << 20


class _Bounded:
    """A file that refuses to be read without end."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, READ_FREE + READ_OVER * size
        self.seek, self.tell = file.seek, file.tell

    def read(self, count: int = -1) -> bytes:
        data = self._file.read(count)
        # A read past the end costs too: a demuxer that waits there would wait for ever.
        self._left -= max(len(data), 4096)
        if self._left < 0:
            raise OSError("the file leads its reader in circles")
        return data


def _refuse(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    raise OSError("a sound may not open other files")


class Container:
    """One file open in PyAV."""

    def __init__(self, data: str | bytes, size: int, name: str) -> None:
        import av

        self.name = name
        self._binary = open_binary(data)
        bounded = _Bounded(self._binary, size)
        try:
            self._inner: Any = av.open(bounded, mode="r", metadata_errors="replace", io_open=_refuse)
        except _errors() as error:
            self._binary.close()
            raise AudioError(f"{name}: no sound that can be read ({_reason(error)})") from error
        try:
            self._choose()
        except BaseException:
            self.close()
            raise

    def _choose(self) -> None:
        if not self._inner.streams.audio:
            raise AudioError(f"{self.name}: holds no sound")
        self._stream: Any = self._inner.streams.audio[0]
        self._stream.thread_count = 1
        try:
            self.rate, self.channels = int(self._stream.rate or 0), int(self._stream.channels or 0)
        except _errors() as error:
            raise AudioError(f"{self.name}: no decoder for its sound ({_reason(error)})") from error
        check_shape(self.name, self.rate, self.channels)

    def info(self) -> Info | None:
        """What the header says, or None if it does not say how long the sound is."""
        seconds = self._claimed()
        return None if seconds is None else Info(seconds, round(seconds * self.rate), self.rate, self.channels)

    def _claimed(self) -> float | None:
        if self._stream.duration and self._stream.time_base:
            return float(self._stream.duration * self._stream.time_base)
        return self._inner.duration / 1e6 if self._inner.duration else None

    def blocks(self, first: int, last: int | None) -> Iterator[Samples]:
        """[channels, n] blocks of the frames from ``first`` to ``last``."""
        done = first
        whole, last = last is None, self._trimmed(last)
        try:
            for at, block in self._from(first):
                skip = max(done - at, 0)
                piece = block[:, skip : None if last is None else max(last - at, skip)]
                if piece.shape[1]:
                    done = at + skip + piece.shape[1]
                    yield piece
                if last is not None and at + block.shape[1] >= last:
                    return
        except _errors() as error:
            raise AudioError(f"{self.name}: broken after {done / self.rate:.2f} s ({_reason(error)})") from error
        claimed = self._claimed()
        if claimed is not None and whole and done < 0.5 * claimed * self.rate:
            raise AudioError(f"{self.name}: cut off: it says {claimed:.2f} s and ends after {done / self.rate:.2f} s")

    def _trimmed(self, last: int | None) -> int | None:
        """Not beyond the length that the container gives to the sample: what follows is a codec's padding."""
        exact = self._stream.duration and self._stream.time_base and 1 / self._stream.time_base == self.rate
        if not exact:
            return last
        return int(self._stream.duration) if last is None else min(last, int(self._stream.duration))

    def _from(self, first: int) -> Iterator[tuple[int, Samples]]:
        """(position, block) in order, beginning at or before ``first``."""
        seconds = first / self.rate - SETTLE
        origin = float((self._stream.start_time or 0) * (self._stream.time_base or 0))
        located = seconds <= SETTLE
        if not located:
            self._inner.seek(int((origin + seconds) * 1_000_000))
        at = 0
        for frame in self._frames():
            if not located:
                if frame.pts is None or frame.time_base is None:
                    raise AudioError(f"{self.name}: has no times, so that no part of it can be found")
                at, located = round((float(frame.pts * frame.time_base) - origin) * self.rate), True
            block = self._values(frame)
            yield at, block
            at += block.shape[1]

    def _frames(self) -> Iterator[Any]:
        silent = 0
        for packet in self._inner.demux(self._stream):
            frames = packet.decode()
            silent = 0 if frames else silent + 1
            if silent > SILENT_PACKETS:
                raise AudioError(f"{self.name}: {SILENT_PACKETS} packets without a sound in them")
            yield from frames

    def _values(self, frame: Any) -> Samples:
        channels = len(frame.layout.channels)
        if frame.sample_rate != self.rate or channels != self.channels:
            raise AudioError(f"{self.name}: changes its rate or its channels midway")
        values = frame.to_ndarray()
        if not frame.format.is_planar:
            values = values.reshape(-1, channels).T
        return to_float(values)

    def close(self) -> None:
        """Let the file go."""
        self._inner.close()
        self._binary.close()


def to_float(values: np.ndarray) -> Samples:
    """Integers scaled by their width to -1..1; floats as they are."""
    if values.dtype == np.uint8:
        return np.ascontiguousarray((values.astype(np.float32) - 128.0) / 128.0)
    if values.dtype.kind == "i":
        return np.ascontiguousarray(values / np.float64(2 ** (8 * values.dtype.itemsize - 1)), dtype=np.float32)
    return np.ascontiguousarray(values, dtype=np.float32)


def _errors() -> tuple[type[Exception], ...]:
    import av

    # PyAV's streams lack attributes where ffmpeg has no decoder.
    plain = (OSError, ValueError, EOFError, MemoryError, OverflowError, IndexError, TypeError, AttributeError)
    return (av.FFmpegError, *plain)


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
