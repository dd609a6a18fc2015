"""A plan becomes sound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import oaconvolve

from supclap.data.scenes.dsp import Samples, Voice, decay, generator, level, lowpass, place
from supclap.data.scenes.events import EVENTS
from supclap.data.scenes.plan import FACTORS, stroke_period
from supclap.data.scenes.truth import BACKGROUND, Placed, Truth
from supclap.runtime import derive

ORDINARY = -29.0
"""Root mean square of an event of ordinary loudness, in dB below full scale."""
PEAK = 0.85


def play(event: Placed, rate: int, seed: int) -> Samples:
    """One event alone, at its own level."""
    kind = EVENTS[event.label]
    rng = generator(seed)
    factors = {
        name: values.get(event.attributes.get(name, ""), 1.0) * (0.97 + 0.06 * float(rng.random()))
        for name, values in FACTORS.items()
    }
    total = round((event.end - event.start) * 100)
    strokes = int(event.attributes.get("count", "1"))
    period = stroke_period(kind, dict(event.attributes)) if kind.period is not None else 0
    own = (total - (strokes - 1) * period) / 100
    out = np.zeros(round(total / 100 * rate))
    for stroke in range(strokes):
        # The strokes of one event are one dog, one bell: the same draws, a little stronger or weaker.
        again = generator(derive(seed, "stroke"))
        voice = Voice(again, rate, own, factors["pitch"], factors["speed"])
        place(out, round(stroke * period / 100 * rate), kind.play(voice) * (0.85 + 0.15 * float(rng.random())))
    out = level(out, ORDINARY + event.decibels)
    top = float(np.abs(out).max(initial=0.0))
    return out * min(1.0, PEAK / top) if top > 0 else out


def render(truth: Truth, rate: int, seed: int) -> NDArray[np.float32]:
    """All events of a scene and the quiet of the room: float32 samples that fit 16 bits exactly."""
    rng = generator(derive(seed, "room"))
    count = round(truth.seconds * rate)
    hush = lowpass(2 * rng.random(count) - 1, 900, rate, 1)
    out = level(hush, -64.0 + 10.0 * float(rng.random()))
    sources: dict[str, int] = {}
    for number, event in enumerate(truth.events):
        # What comes back comes back as the same dog.
        own = sources.setdefault(event.label, derive(seed, "event", number))
        sound = play(event, rate, own)
        place(out, 0 if event.step == BACKGROUND else round(event.start * rate), sound)
    out += _room(out, rate, rng)
    top = float(np.abs(out).max())
    if top > 0.98:
        out *= 0.98 / top
    return (np.round(out * 32767) / 32768).astype(np.float32)


def _room(samples: Samples, rate: int, rng: np.random.Generator) -> Samples:
    """What the walls give back: a short tail that is different in each scene."""
    tail = 0.1 + 0.35 * float(rng.random())
    loud = -17.0 + 8.0 * float(rng.random())
    count = round(1.2 * tail * rate)
    echo = lowpass((2 * rng.random(count) - 1) * decay(count, rate, tail / 4), 4500, rate, 1)
    echo[: round(0.004 * rate)] = 0.0
    echo *= 10 ** (loud / 20) / float(np.sqrt(np.sum(echo**2)))
    return np.asarray(oaconvolve(samples, echo)[: len(samples)])
