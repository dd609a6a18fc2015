"""Any sound file to float32 samples, whole or in part: soundfile first, then PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from supclap.audio.container import Container
from supclap.audio.plain import Plain, Unknown
from supclap.audio.resample import Samples
from supclap.audio.source import (
    FREE_VALUES,
    LOUDEST,
    MOST_BYTES,
    MOST_SECONDS,
    VALUES_A_BYTE,
    AudioError,
    Info,
    Source,
    check_span,
    name_of,
    resolve,
)

__all__ = ["AudioError", "Info", "Opened", "decode", "opened", "probe"]


class Opened:
    """A sound that is open: its rate and channels, and its blocks."""

    def __init__(self, inner: Plain | Container, size: int) -> None:
        self._inner, self._size = inner, size
        self.rate, self.channels, self.name = inner.rate, inner.channels, inner.name

    def info(self) -> Info | None:
        """What the header says; None where only decoding can tell."""
        return self._inner.info()

    def blocks(self, start: float = 0.0, end: float | None = None) -> Iterator[Samples]:
        """[channels, n] float32 blocks from ``start`` to ``end`` seconds; at least one sample, or AudioError."""
        first = round(start * self.rate)
        last = None if end is None else max(round(end * self.rate), first + 1)
        most = min(MOST_SECONDS * self.rate, max(FREE_VALUES, VALUES_A_BYTE * self._size) / self.channels)
        count = 0
        for block in self._inner.blocks(first, last):
            count += block.shape[1]
            if count > most:
                seconds = count / self.rate
                raise AudioError(f"{self.name}: {self._size} bytes unpack to more than {seconds:.0f} s of sound")
            yield self._checked(block)
        if count == 0:
            raise AudioError(self._nothing(start))

    def _checked(self, block: Samples) -> Samples:
        # min and max carry NaN through, and cost less than isfinite.
        if not (-LOUDEST < block.min() and block.max() < LOUDEST):
            raise AudioError(f"{self.name}: holds NaN, infinite or absurdly large samples")
        return block

    def _nothing(self, start: float) -> str:
        info = self.info()
        if start > 0:
            length = f"its end ({info.seconds:.2f} s)" if info else "its end"
            return f"{self.name}: start={start} s is beyond {length}"
        return f"{self.name}: holds no samples"


@contextmanager
def opened(source: Source) -> Iterator[Opened]:
    """The sound, open for reading."""
    data, size = resolve(source)
    name = name_of(source)
    inner: Plain | Container
    try:
        inner = Plain(data, name)
    except Unknown:
        inner = Container(data, size, name)
    try:
        yield Opened(inner, size)
    finally:
        inner.close()


def probe(source: Source) -> Info:
    """How long, how fast and how many channels, from the header where it says so."""
    with opened(source) as sound:
        info = sound.info()
        if info is None:
            frames = sum(block.shape[1] for block in sound.blocks())
            info = Info(frames / sound.rate, frames, sound.rate, sound.channels)
    return info


def decode(source: Source, start: float = 0.0, end: float | None = None) -> tuple[Samples, int]:
    """float32 [channels, time] between ``start`` and ``end`` seconds, and the rate."""
    check_span(start, end)
    blocks: list[Samples] = []
    held = 0
    with opened(source) as sound:
        for block in sound.blocks(start, end):
            held += block.nbytes
            if held > MOST_BYTES:
                raise AudioError(f"{sound.name}: more than {MOST_BYTES >> 30} GiB of samples; read it in parts")
            blocks.append(block)
        rate = sound.rate
    return (blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)), rate
