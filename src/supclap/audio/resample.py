"""From one sample rate to another."""

from __future__ import annotations

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
    import soxr

    rate_in, rate_out = check_rate(rate_in, "rate_in"), check_rate(rate_out, "rate_out")
    wide = np.ascontiguousarray(samples, dtype=np.float32)
    if rate_in == rate_out or wide.size == 0:
        return wide
    rows = wide.reshape(-1, wide.shape[-1])
    out = np.stack([soxr.resample(row, rate_in, rate_out) for row in rows])
    if out.shape[-1] == 0:
        # A sound shorter than half a sample of the new rate is still a sound.
        out = rows[:, :1].copy()
    return np.ascontiguousarray(out.reshape(*wide.shape[:-1], -1), dtype=np.float32)


class Stream:
    """The same for a sound that comes in blocks: ``push`` them, then ``finish``."""

    def __init__(self, rate_in: float, rate_out: float) -> None:
        import soxr

        rate_in, rate_out = check_rate(rate_in, "rate_in"), check_rate(rate_out, "rate_out")
        self._inner = None if rate_in == rate_out else soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32")

    def push(self, block: Samples) -> Samples:
        """What is ready after one more block."""
        return block if self._inner is None else np.asarray(self._inner.resample_chunk(block), dtype=np.float32)

    def finish(self) -> Samples:
        """What was held back for the filter."""
        empty = np.zeros(0, np.float32)
        return empty if self._inner is None else np.asarray(self._inner.resample_chunk(empty, last=True), np.float32)
