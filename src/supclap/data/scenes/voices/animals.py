"""Dog, cat, bird, cricket, frog, cow."""

from __future__ import annotations

import numpy as np

from supclap.data.scenes.dsp import (
    Samples,
    Voice,
    band,
    fade,
    formants,
    harmonics,
    level,
    place,
    pulses,
    rolloff,
    tone,
)


def dog(voice: Voice) -> Samples:
    """One bark: a rough cry that bursts out and falls, with breath in it."""
    n, rate, size = voice.count, voice.rate, voice.pitch
    start = voice.draw(480, 600) * size
    pitch = voice.curve(start * 0.6, start * 1.2, start * 1.15, start, start * 0.75, start * 0.5)
    pitch = pitch * (1 + 0.04 * voice.wander(150, -1, 1))
    throat = size**0.5
    mouth = [(750 * throat, 350, 1.0), (1500 * throat, 500, 0.9), (2600 * throat, 900, 0.5)]
    cry = formants(harmonics(pitch, rolloff(16, 0.6), n, rate), mouth, rate)
    breath = formants(voice.noise(), mouth, rate)
    burst = np.exp(-(((np.arange(n) / n - 0.25) / 0.22) ** 2))
    return fade(np.tanh(2 * (level(cry, -9) + level(breath, -17))) * burst, rate, 0.005, 0.03)


def cat(voice: Voice) -> Samples:
    """One meow: a nasal cry whose mouth opens and closes."""
    n, rate = voice.count, voice.rate
    base = voice.draw(430, 540) * voice.pitch
    pitch = voice.curve(base * 0.85, base * 1.1, base * 1.3, base * 1.28, base * 1.15, base * 0.95, base * 0.75)
    pitch = pitch * (1 + 0.012 * voice.wander(30, -1, 1))
    cry = harmonics(pitch, rolloff(30, 0.3), n, rate) + 0.15 * voice.noise()
    closed = formants(cry, [(450, 120, 1.0), (1400, 300, 0.1)], rate)
    bright = formants(cry, [(700, 160, 0.6), (2400, 300, 1.0), (3500, 450, 0.6), (5200, 900, 0.2)], rate)
    open_ = formants(cry, [(1150, 200, 1.0), (1750, 260, 1.0), (3200, 500, 0.4), (4800, 900, 0.15)], rate)
    out = closed * voice.curve(1, 0.2, 0, 0, 0.1, 0.4) + bright * voice.curve(0.1, 1, 0.8, 0.3, 0.1, 0)
    out = out + open_ * voice.curve(0, 0.2, 0.7, 1, 0.9, 0.3)
    return fade(out * voice.curve(0.2, 0.8, 1, 0.95, 0.7, 0.15), rate, 0.04, 0.08)


def bird(voice: Voice) -> Samples:
    """One phrase of quick sweeping chirps."""
    rate, out = voice.rate, np.zeros(voice.count)
    base = voice.draw(3200, 4000) * voice.pitch**0.8
    syllables = int(voice.rng.integers(3, 6))
    step = voice.seconds / syllables
    shape = voice.draw(-0.25, 0.45)
    for index in range(syllables):
        part = Voice(voice.rng, rate, step * voice.draw(0.5, 0.75))
        top = base * part.draw(0.92, 1.1)
        sweep = part.curve(top * (1 - shape), top, top * (1 + 0.35 * shape), top * (0.85 - 0.3 * shape))
        sweep = np.minimum(sweep * (1 + 0.02 * tone(part.draw(25, 45), part.count, rate)), 0.45 * rate)
        chirp = tone(sweep, part.count, rate) * part.curve(0, 0.8, 1, 0.7, 0)
        place(
            out,
            round(index * step * rate),
            chirp + 0.1 * tone(np.minimum(2 * sweep, 0.45 * rate), part.count, rate) * part.curve(0, 1, 0),
        )
    return fade(out, rate)


def cricket(voice: Voice) -> Samples:
    """A steady song of short pulsed trills."""
    rate, time = voice.rate, voice.time
    carrier = voice.draw(4300, 4800) * voice.pitch**0.4
    trill = voice.draw(2.6, 3.2) * voice.speed
    pulse = voice.draw(36, 44)
    place_in_cycle = (time * trill) % 1.0
    gate = np.clip(6 * np.sin(np.pi * np.clip(place_in_cycle / 0.55, 0, 1)), 0, 1)
    teeth = np.clip(np.sin(2 * np.pi * pulse * time), 0, 1) ** 0.7
    song = tone(carrier * (1 + 0.01 * voice.wander(6, -1, 1)), voice.count, rate) * gate * teeth
    return fade(song + 0.01 * band(voice.noise(), 3000, 6500, rate), rate, 0.02, 0.03)


def frog(voice: Voice) -> Samples:
    """One croak: a train of throat pulses in a resonant sac."""
    n, rate = voice.count, voice.rate
    train = pulses(voice.curve(55, 75, 85, 80) * voice.pitch**0.6 * voice.draw(0.9, 1.1), n, rate)
    train = train * (1 + 0.3 * voice.wander(60, -1, 1))
    sac = voice.draw(0.92, 1.08) * voice.pitch
    peaks = [(520 * sac, 90, 1.0), (1250 * sac, 140, 0.9), (2400 * sac, 260, 0.4)]
    return fade(formants(train, peaks, rate) * voice.curve(0.2, 0.8, 1, 0.9, 0), rate, 0.01, 0.03)


def cow(voice: Voice) -> Samples:
    """One long moo."""
    n, rate = voice.count, voice.rate
    base = voice.draw(115, 140) * voice.pitch
    pitch = voice.curve(base * 0.85, base * 1.1, base * 1.25, base * 1.2, base * 0.8) * (
        1 + 0.01 * voice.wander(25, -1, 1)
    )
    cry = harmonics(pitch, rolloff(40, 0.55), n, rate) + 0.15 * voice.noise()
    hum = formants(cry, [(240, 80, 1.0), (900, 300, 0.12)], rate)
    open_ = formants(cry, [(380, 110, 0.8), (760, 150, 0.9), (1700, 350, 0.25), (2700, 500, 0.12)], rate)
    out = hum * voice.curve(1, 0.6, 0.2, 0.2, 0.5) + open_ * voice.curve(0, 0.7, 1, 1, 0.3)
    return fade(out * voice.curve(0.3, 0.9, 1, 0.9, 0.3), rate, 0.06, 0.12)
