"""From one sample rate to another."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from supclap.schema import UserError

Samples = np.ndarray[Any, np.dtype[np.float32]]
LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000


def check_rate(rate: object, name: str = "rate") -> float:
    """A sample rate that sound can have, as a number."""
    good = isinstance(rate, (int, float, np.integer, np.floating)) and not isinstance(rate, bool)
    if not good or not LOWEST_RATE <= float(rate) <= HIGHEST_RATE:  # type: ignore[arg-type]
        raise UserError(f"{name}={rate!r}: give samples a second, from {LOWEST_RATE} to {HIGHEST_RATE}")
    return float(rate)  # type: ignore[arg-type]


def resample(samples: np.ndarray, rate_in: float, rate_out: float) -> Samples:
    """``samples`` at another rate; the last axis is time, and at least one sample comes out of one."""
    rate_in, rate_out = check_rate(rate_in, "rate_in"), check_rate(rate_out, "rate_out")
    wide = np.ascontiguousarray(samples, dtype=np.float32)
    if rate_in == rate_out or wide.size == 0:
        return wide
    rows = wide.reshape(-1, wide.shape[-1])
    out = np.stack([_resampled(row, rate_in, rate_out) for row in rows])
    if out.shape[-1] == 0:
        # A sound shorter than half a sample of the new rate is still a sound.
        out = rows[:, :1].copy()
    return np.ascontiguousarray(out.reshape(*wide.shape[:-1], -1), dtype=np.float32)


def _resampled(row: Samples, rate_in: float, rate_out: float) -> Samples:
    try:
        import soxr
    except ModuleNotFoundError:
        return _by_scipy(row, rate_in, rate_out)
    return np.asarray(soxr.resample(row, rate_in, rate_out), np.float32)


def _by_scipy(row: Samples, rate_in: float, rate_out: float) -> Samples:
    """Where soxr is not installed: slower, as steep (within 1e-3 of it below nine tenths of the band)."""
    from scipy.signal import firwin, resample_poly

    step = Fraction(rate_out / rate_in).limit_denominator(10_000)
    up, down = step.numerator, step.denominator
    widest = max(up, down)
    taps = firwin(2 * 64 * widest + 1, 0.95 / widest, window=("kaiser", 12.0))
    return np.asarray(resample_poly(row.astype(np.float64), up, down, window=taps), np.float32)


class _Held:
    """A stream for scipy: all is held until the end."""

    def __init__(self, rate_in: float, rate_out: float) -> None:
        self._rates, self._blocks = (rate_in, rate_out), list[Samples]()

    def resample_chunk(self, block: Samples, last: bool = False) -> Samples:
        """Nothing until the last block."""
        self._blocks.append(block)
        return _by_scipy(np.concatenate(self._blocks), *self._rates) if last else np.zeros(0, np.float32)


class Stream:
    """The same for a sound that comes in blocks: ``push`` them, then ``finish``."""

    def __init__(self, rate_in: float, rate_out: float) -> None:
        rate_in, rate_out = check_rate(rate_in, "rate_in"), check_rate(rate_out, "rate_out")
        self._inner = None if rate_in == rate_out else _stream(rate_in, rate_out)

    def push(self, block: Samples) -> Samples:
        """What is ready after one more block."""
        return block if self._inner is None else np.asarray(self._inner.resample_chunk(block), dtype=np.float32)

    def finish(self) -> Samples:
        """What was held back for the filter."""
        empty = np.zeros(0, np.float32)
        return empty if self._inner is None else np.asarray(self._inner.resample_chunk(empty, last=True), np.float32)


def _stream(rate_in: float, rate_out: float) -> Any:
    try:
        import soxr
    except ModuleNotFoundError:
        return _Held(rate_in, rate_out)
    return soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32")
