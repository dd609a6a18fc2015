"""Small pieces that every synthesised sound is made of: noise, filters, envelopes, modes, harmonics.

Everything is float64 and free of chaos (no feedback on rounded values), so that two machines differ by far less than
one step of 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, lfilter, sosfilt

Samples = NDArray[np.float64]
TABLE = 2048


def generator(seed: int) -> np.random.Generator:
    """The one kind of generator used here: its stream is the same on every machine."""
    return np.random.Generator(np.random.PCG64(seed))


@dataclass(frozen=True)
class Voice:
    """What an event is played with: its own generator, how long, and how high and fast (1.0: the middle)."""

    rng: np.random.Generator
    rate: int
    seconds: float
    pitch: float = 1.0
    speed: float = 1.0

    @property
    def count(self) -> int:
        """Length in samples."""
        return round(self.seconds * self.rate)

    @property
    def time(self) -> Samples:
        """The clock, in seconds."""
        return np.arange(self.count) / self.rate

    def draw(self, low: float, high: float) -> float:
        """A number between two bounds."""
        return low + (high - low) * float(self.rng.random())

    def noise(self, count: int | None = None) -> Samples:
        """White noise between -1 and 1."""
        return 2.0 * self.rng.random(self.count if count is None else count) - 1.0

    def wander(self, per_second: float, low: float, high: float) -> Samples:
        """A slow random curve: new values so many times a second, with straight lines between."""
        knots = max(2, int(self.seconds * per_second) + 2)
        values = low + (high - low) * self.rng.random(knots)
        return np.interp(np.arange(self.count), np.linspace(0, max(1, self.count - 1), knots), values)

    def curve(self, *points: float) -> Samples:
        """A curve through values spread evenly over the length."""
        return np.interp(np.linspace(0, 1, self.count), np.linspace(0, 1, len(points)), points)


@lru_cache(maxsize=512)
def _design(kind: str, low: float, high: float, rate: int, order: int) -> Samples:
    ceiling = 0.46 * rate
    low, high = min(low, ceiling * 0.9), min(high, ceiling)
    edge: float | list[float] = [low, high] if kind == "band" else (low if kind == "highpass" else high)
    return np.asarray(butter(order, edge, "bandpass" if kind == "band" else kind, fs=rate, output="sos"))


def band(samples: Samples, low: float, high: float, rate: int, order: int = 2) -> Samples:
    """Only what lies between two frequencies."""
    return np.asarray(sosfilt(_design("band", low, high, rate, order), samples))


def lowpass(samples: Samples, high: float, rate: int, order: int = 2) -> Samples:
    """Only what lies below."""
    return np.asarray(sosfilt(_design("lowpass", 0.0, high, rate, order), samples))


def highpass(samples: Samples, low: float, rate: int, order: int = 2) -> Samples:
    """Only what lies above."""
    return np.asarray(sosfilt(_design("highpass", low, 0.0, rate, order), samples))


def resonate(samples: Samples, frequency: float, width: float, rate: int) -> Samples:
    """One resonance with unit gain at its peak, silent above what the rate can carry."""
    if frequency > 0.47 * rate:
        return np.zeros_like(samples)
    radius = np.exp(-np.pi * width / rate)
    angle = 2 * np.pi * frequency / rate
    gain = (1 - radius) * np.sqrt(1 - 2 * radius * np.cos(2 * angle) + radius * radius)
    return np.asarray(lfilter([gain], [1.0, -2 * radius * np.cos(angle), radius * radius], samples))


def formants(samples: Samples, peaks: Sequence[tuple[float, float, float]], rate: int) -> Samples:
    """Resonances side by side: (frequency, width, gain) each."""
    out = np.zeros(len(samples))
    for frequency, width, gain in peaks:
        out += gain * resonate(samples, frequency, width, rate)
    return out


def phase(frequency: Samples | float, count: int, rate: int) -> Samples:
    """Cycles since the start, of a frequency that may change."""
    return np.cumsum(np.broadcast_to(np.asarray(frequency, float), (count,))) / rate


def tone(frequency: Samples | float, count: int, rate: int) -> Samples:
    """A sine."""
    return np.sin(2 * np.pi * phase(frequency, count, rate))


def harmonics(frequency: Samples | float, weights: Sequence[float] | Samples, count: int, rate: int) -> Samples:
    """A periodic wave with the given strengths of its partials; those above the band are left out."""
    top = float(np.max(frequency))
    kept = np.asarray(weights, float)[: max(1, int(0.46 * rate / top))]
    grid = np.arange(TABLE + 1) / TABLE
    table = np.sin(2 * np.pi * np.outer(grid, np.arange(1, len(kept) + 1))) @ kept
    return np.asarray(np.interp(phase(frequency, count, rate) % 1.0, grid, table))


def rolloff(count: int, power: float) -> Samples:
    """Strengths of partials that fall with a power of their number."""
    return np.asarray(np.arange(1, count + 1) ** -power, np.float64)


def pulses(frequency: Samples | float, count: int, rate: int) -> Samples:
    """One unit impulse a cycle."""
    cycles = np.floor(phase(frequency, count, rate))
    return np.diff(cycles, prepend=0.0)


def modes(
    count: int,
    rate: int,
    frequencies: Sequence[float] | Samples,
    decays: Sequence[float] | Samples,
    gains: Sequence[float] | Samples,
) -> Samples:
    """A struck body: decaying sines (seconds to fall to 1/e)."""
    time = np.arange(count) / rate
    out = np.zeros(count)
    for frequency, decay, gain in zip(frequencies, decays, gains, strict=True):
        if frequency < 0.47 * rate:
            out += gain * np.sin(2 * np.pi * frequency * time) * np.exp(-time / decay)
    return out


def fade(samples: Samples, rate: int, attack: float = 0.005, release: float = 0.01) -> Samples:
    """The same without a click at either end."""
    out = samples.copy()
    first, last = min(len(out), round(attack * rate)), min(len(out), round(release * rate))
    if first:
        out[:first] *= np.arange(first) / first
    if last:
        out[-last:] *= np.arange(last)[::-1] / last
    return out


def decay(count: int, rate: int, seconds: float) -> Samples:
    """Falls to 1/e in so many seconds."""
    return np.exp(-np.arange(count) / (seconds * rate))


def place(out: Samples, at: int, samples: Samples) -> None:
    """Add samples at a position; what reaches beyond either end is cut."""
    first, last = max(0, at), min(len(out), at + len(samples))
    if first < last:
        out[first:last] += samples[first - at : last - at]


def level(samples: Samples, decibels: float) -> Samples:
    """The same at a root mean square of so many dB below full scale."""
    power = float(np.sqrt(np.mean(samples**2))) if len(samples) else 0.0
    return samples * (10 ** (decibels / 20) / power) if power > 0 else samples
