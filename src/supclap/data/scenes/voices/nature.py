"""Rain, thunder, wind, stream, waves, drip."""

from __future__ import annotations

import numpy as np

from supclap.data.scenes.dsp import Samples, Voice, band, decay, fade, highpass, level, lowpass, place, resonate, tone


def rain(voice: Voice) -> Samples:
    """A hiss of far drops and the patter of near ones."""
    n, rate = voice.count, voice.rate
    hiss = lowpass(highpass(voice.noise(), 1500, rate, 1), 12000, rate, 1)
    hiss = level(hiss, -22) * (1 + 0.25 * voice.wander(60, -1, 1))
    near, size = np.zeros(n), round(0.015 * rate)
    for _ in range(int(voice.seconds * voice.draw(90, 130))):
        tick = 0.6 * tone(voice.draw(1200, 5500), size, rate) + 0.6 * voice.noise(size)
        drop = tick * decay(size, rate, voice.draw(0.001, 0.003)) * voice.draw(0, 1) ** 3
        place(near, int(voice.rng.integers(n)), drop)
    return fade(hiss + level(near, -22), rate, 0.08, 0.1)


def thunder(voice: Voice) -> Samples:
    """A crack far off and a long uneven roll."""
    n, rate = voice.count, voice.rate
    noise = voice.noise()
    deep = lowpass(noise, 70 * voice.pitch, rate, 2)
    body = band(voice.noise(), 60, 260 * voice.pitch, rate, 1)
    crack = lowpass(band(voice.noise(), 150, 1200, rate, 1), 900, rate, 1)
    roll = 0.15 + np.zeros(n)
    for _ in range(int(voice.rng.integers(6, 11))):
        swell = np.minimum(1.0, voice.time / voice.draw(0.03, 0.12)) * decay(n, rate, voice.draw(0.15, 0.5))
        place(roll, round(voice.draw(0.0, 0.6) * n), voice.draw(0.3, 1.0) * swell)
    strike = np.zeros(n)
    for _ in range(6):
        place(
            strike, round(voice.draw(0.0, 0.35) * rate), voice.draw(0.3, 1.0) * decay(n, rate, voice.draw(0.03, 0.15))
        )
    out = level(deep, -12) * roll + level(body, -14) * roll * voice.wander(14, 0.5, 1) + level(crack, -21) * strike
    return fade(out * voice.curve(0.8, 1, 0.9, 0.7, 0.45, 0.25, 0.0), rate, 0.04, 0.25)


def wind(voice: Voice) -> Samples:
    """Air that rises and falls in gusts and howls a little."""
    rate, noise = voice.rate, voice.noise()
    centres = np.array([180.0, 320.0, 520.0, 850.0]) * voice.pitch
    drift = voice.wander(1.6, 0, 3)
    out = 0.5 * lowpass(noise, 160, rate, 1)
    for index, centre in enumerate(centres):
        weight = np.clip(1.2 - np.abs(drift - index), 0, 1)
        out += band(noise, centre * 0.86, centre * 1.16, rate, 1) * weight * (0.9 - 0.1 * index)
    return fade(out * voice.wander(1.6, 0.3, 1.0) ** 1.4, rate, 0.25, 0.3)


def _bubble(voice: Voice, low: float, high: float, seconds: float) -> Samples:
    part = Voice(voice.rng, voice.rate, seconds)
    start = part.draw(low, high)
    rise = start * (1 + part.draw(0.1, 0.5) * np.arange(part.count) / max(1, part.count))
    return tone(rise, part.count, part.rate) * decay(part.count, part.rate, seconds / 4) * part.draw(0.1, 1) ** 2


def stream(voice: Voice) -> Samples:
    """Running water: bubbles of many sizes over a soft rush."""
    n, rate, out = voice.count, voice.rate, np.zeros(voice.count)
    for _ in range(14):
        size = voice.draw(350, 2600) * voice.pitch
        bursts = (voice.rng.random(n) < 26 / rate) * voice.rng.random(n) ** 3
        out += resonate(bursts, size, size * voice.draw(0.06, 0.16), rate) * (1000 / size) ** 0.3
    rising = np.zeros(n)
    for _ in range(int(voice.seconds * 45)):
        at = int(voice.rng.integers(0, max(1, n)))
        place(rising, at, _bubble(voice, 400 * voice.pitch, 1500 * voice.pitch, voice.draw(0.015, 0.045)))
    rush = lowpass(band(voice.noise(), 300, 3500, rate, 1), 2500, rate, 1) * voice.wander(9, 0.6, 1)
    return fade(level(out, -20) + level(rising, -25) + level(rush, -21), rate, 0.08, 0.1)


def waves(voice: Voice) -> Samples:
    """Surf: swells that roll in, break bright and drain away over the sea's steady rush."""
    n, rate = voice.count, voice.rate
    period = voice.draw(2.2, 3.0) / voice.speed
    swell = (voice.time / period + voice.draw(0.0, 0.25)) % 1.0
    rise = np.where(swell < 0.45, np.sin(np.pi * swell / 0.9) ** 2, np.exp(-(swell - 0.45) * 3.0))
    noise, other = voice.noise(), voice.noise()
    far = lowpass(other, 900, rate, 1)
    deep = lowpass(noise, 300, rate, 1) * (0.4 + 0.6 * rise)
    wash = lowpass(band(noise, 300, 2200, rate, 1), 2000, rate, 1) * (0.15 + 0.85 * rise)
    foam = highpass(other, 2200, rate, 1) * rise**2.5 * voice.wander(25, 0.6, 1)
    out = level(far, -26) + level(deep, -22) + level(wash, -20) + level(foam, -29)
    return fade(out[:n], rate, 0.2, 0.25)


def drip(voice: Voice) -> Samples:
    """One drop into water: a click, then a short bubble that rises, and a smaller one behind it."""
    n, rate, out = voice.count, voice.rate, np.zeros(voice.count)
    start = voice.draw(750, 1100) * voice.pitch
    for delay, size, loud in ((0.012, 1.0, 1.0), (0.045, 1.5, 0.35)):
        rise = start * size * (1 + voice.draw(4, 7) * voice.time)
        ring = tone(np.minimum(rise, 0.4 * rate), n, rate) * decay(n, rate, voice.draw(0.009, 0.014))
        place(out, round(delay * rate), loud * ring * np.minimum(1, voice.time / 0.002))
    splash = band(voice.noise(), 1500, 6500, rate, 1) * decay(n, rate, 0.002)
    return fade(out + 0.3 * splash, rate, 0.001, 0.02)
