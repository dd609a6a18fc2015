"""Changes of a sample for training, every draw from the sample's own generator: the same at every run.

``augment`` of the loader takes what ``AugmentSettings(...).build()`` returns; the steps come in the order of its
fields. Changes of a spectrogram lie beside the mel front end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from supclap.audio.resample import Samples
from supclap.data.sample import Sample
from supclap.schema import UserError
from supclap.settings import settings

# How two captions become one, by language.
AND = {
    "eng": " and ", "fra": " et ", "deu": " und ", "spa": " y ", "nld": " en ", "cat": " i ", "jpn": "、", "zho": "，",
    "ita": " e ", "por": " e ",
}  # fmt: skip
SILENCE = 1e-8

Other = Callable[[torch.Generator], Sample | None]


def _uniform(low: float, high: float, draw: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=draw, dtype=torch.float64))


@dataclass(frozen=True)
class Mix:
    """Lay another clip over this one, its level ``snr_db`` below, and join the captions."""

    probability: float
    snr_db: tuple[float, float]

    def __call__(self, sample: Sample, rate: int, draw: torch.Generator, other: Other) -> Sample:
        """The mixture; the sample itself where there is no other of the same language."""
        if _uniform(0, 1, draw) >= self.probability or sample.samples is None:
            return sample
        level = _uniform(*self.snr_db, draw)
        second = other(draw)
        if second is None or second.samples is None or second.language != sample.language:
            return sample
        mixed = overlay(sample.samples, second.samples, level)
        anchor = None
        if sample.anchor is not None and second.anchor is not None:
            anchor = joined(sample.anchor, second.anchor, "eng")
        return replace(sample, samples=mixed, text=joined(sample.text, second.text, sample.language), anchor=anchor)


@dataclass(frozen=True)
class Shift:
    """Turn the sound around in time by up to ``seconds`` either way; what leaves at the end comes in at the start."""

    seconds: float

    def __call__(self, sample: Sample, rate: int, draw: torch.Generator, other: Other) -> Sample:
        """The shifted sample."""
        steps = round(_uniform(-self.seconds, self.seconds, draw) * rate)
        return sample if sample.samples is None else replace(sample, samples=np.roll(sample.samples, steps))


@dataclass(frozen=True)
class Noise:
    """Add white noise ``snr_db`` below the sound."""

    probability: float
    snr_db: tuple[float, float]

    def __call__(self, sample: Sample, rate: int, draw: torch.Generator, other: Other) -> Sample:
        """The noisy sample."""
        if _uniform(0, 1, draw) >= self.probability or sample.samples is None:
            return sample
        noise = torch.randn(len(sample.samples), generator=draw).numpy()
        return replace(sample, samples=overlay(sample.samples, noise, _uniform(*self.snr_db, draw)))


@dataclass(frozen=True)
class Gain:
    """Change the level by so many decibels."""

    db: tuple[float, float]

    def __call__(self, sample: Sample, rate: int, draw: torch.Generator, other: Other) -> Sample:
        """The louder or softer sample."""
        factor = np.float32(10 ** (_uniform(*self.db, draw) / 20))
        return sample if sample.samples is None else replace(sample, samples=sample.samples * factor)


def overlay(samples: Samples, second: Samples, snr_db: float) -> Samples:
    """The second sound, cut or padded to the first, at a level ``snr_db`` below it; silence stays as it is."""
    power, other = _power(samples), _power(second)
    if power < SILENCE or other < SILENCE:
        return samples
    factor = np.float32(np.sqrt(power / other) * 10 ** (-snr_db / 20))
    out = samples.copy()
    count = min(len(samples), len(second))
    out[:count] += factor * second[:count]
    return out


def joined(first: str, second: str, language: str) -> str:
    """Two captions as one sentence."""
    head = first.rstrip(" .。!！?？")
    follow = AND.get(language, ", ")
    # Nouns are capital in German wherever they stand.
    tail = second[:1].lower() + second[1:] if language != "deu" else second
    return f"{head}{follow}{tail}"


def _power(samples: Samples) -> float:
    return float(np.mean(np.square(samples, dtype=np.float64)))


@dataclass(frozen=True)
class Chain:
    """Several changes, one after another."""

    steps: Sequence[Mix | Shift | Noise | Gain]

    def __call__(self, sample: Sample, rate: int, draw: torch.Generator, other: Other) -> Sample:
        """The sample after all of them."""
        for step in self.steps:
            sample = step(sample, rate, draw, other)
        return sample


@settings
class AugmentSettings:
    """What is done to a training sample; the defaults do nothing."""

    mix: float = 0.0
    mix_db: tuple[float, float] = (-5.0, 5.0)
    shift_seconds: float = 0.0
    noise: float = 0.0
    noise_db: tuple[float, float] = (10.0, 40.0)
    gain_db: tuple[float, float] = (0.0, 0.0)

    def build(self) -> Chain | None:
        """The chain, or None where nothing is to be done."""
        for name, share in (("mix", self.mix), ("noise", self.noise)):
            if not 0 <= share <= 1:
                raise UserError(f"augment.{name}={share}: give a probability from 0 to 1")
        for name, (low, high) in (("mix_db", self.mix_db), ("noise_db", self.noise_db), ("gain_db", self.gain_db)):
            if low > high:
                raise UserError(f"augment.{name}={(low, high)}: give the lower number first")
        if self.shift_seconds < 0:
            raise UserError(f"augment.shift_seconds={self.shift_seconds}: give seconds from 0 on")
        steps: list[Mix | Shift | Noise | Gain] = []
        steps += [Mix(self.mix, self.mix_db)] if self.mix else []
        steps += [Shift(self.shift_seconds)] if self.shift_seconds else []
        steps += [Noise(self.noise, self.noise_db)] if self.noise else []
        steps += [Gain(self.gain_db)] if self.gain_db != (0.0, 0.0) else []
        return Chain(tuple(steps)) if steps else None
