"""Clapping, footsteps, snoring, whistling, guitar, piano, drum."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from supclap.data.scenes.dsp import (
    Samples,
    Voice,
    band,
    decay,
    fade,
    formants,
    highpass,
    level,
    lowpass,
    modes,
    place,
    pulses,
    tone,
)

SCALE = (0, 2, 4, 7, 9, 12)


def clapping(voice: Voice) -> Samples:
    """Hands clapping in a small room."""
    rate, out = voice.rate, np.zeros(voice.count)
    n = round(0.14 * rate)
    period = 1 / (3.6 * voice.speed)
    palm = voice.draw(0.9, 1.1) * voice.pitch
    for index in range(max(1, int((voice.seconds - 0.1) / period))):
        noise = voice.noise(n)
        hollow = band(noise, 750 * palm, 1700 * palm, rate, 1) * decay(n, rate, 0.014)
        snap = highpass(noise, 2200, rate) * decay(n, rate, 0.004)
        room = band(noise, 500, 3500, rate, 1) * decay(n, rate, 0.04) * 0.12
        at = round((index + 0.08 * voice.draw(-1, 1)) * period * rate)
        place(out, max(0, at), (1.6 * hollow + 0.5 * snap + room) * voice.draw(0.75, 1.0))
    return out


def footsteps(voice: Voice) -> Samples:
    """Shoes on a hard floor: the heel, and the scrape of the sole's grit."""
    rate, out = voice.rate, np.zeros(voice.count)
    n, size = round(0.2 * rate), round(0.1 * rate)
    period = 1 / (1.9 * voice.speed)
    shoe = voice.draw(0.9, 1.1) * voice.pitch
    start = np.minimum(1, np.arange(n) / (0.003 * rate))
    for index in range(max(1, int((voice.seconds - 0.1) / period) + 1)):
        heel = lowpass(voice.noise(n), 220 * shoe, rate) * decay(n, rate, 0.03) * start
        knock = band(voice.noise(n), 350 * shoe, 1100 * shoe, rate) * decay(n, rate, 0.02) * start
        grit = (voice.rng.random(size) < 600 / rate) * voice.rng.random(size) ** 2 * np.hanning(size)
        scrape = np.zeros(n)
        scrape[:size] = grit
        scrape = level(band(scrape, 900 * shoe, 4500 * shoe, rate, 1), -30)
        weight = voice.draw(0.7, 1)
        at = round((index * period + 0.015 * voice.draw(-1, 1)) * rate)
        place(out, at, weight * (level(heel, -24) + 0.1 * knock))
        place(out, at + round(0.02 * rate), weight * scrape * voice.draw(0.5, 1))
        place(out, at + round(0.1 * rate), 0.5 * weight * (scrape + 0.1 * knock))
    return fade(out, rate, 0.0005, 0.02)


def snoring(voice: Voice) -> Samples:
    """Breath drawn through a fluttering palate, then let out."""
    n, rate = voice.count, voice.rate
    breath = (voice.time * voice.speed / max(1.1, 1.1 * voice.draw(1.0, 1.25))) % 1.0
    inhale = np.where(breath < 0.58, np.sin(np.pi * np.clip(breath / 0.58, 0, 1)) ** 0.7, 0)
    exhale = np.where(breath > 0.66, np.sin(np.pi * np.clip((breath - 0.66) / 0.34, 0, 1)), 0)
    flutter = voice.draw(42, 58) * voice.pitch * (1 + 0.12 * voice.wander(14, -1, 1))
    train = pulses(flutter, n, rate) * (1 + 0.6 * voice.wander(50, -1, 1))
    train = np.convolve(train, decay(round(0.004 * rate), rate, 0.001), "same") * (0.6 + 0.6 * np.abs(voice.noise()))
    throat = formants(train, [(260, 90, 1.0), (620, 160, 0.8), (1350, 300, 0.5), (2500, 600, 0.3)], rate)
    air = formants(voice.noise(), [(500, 400, 0.7), (1500, 800, 0.8), (3000, 1500, 0.4)], rate)
    return fade(level(throat, -16) * inhale + level(air, -27) * (inhale + 1.4 * exhale), rate, 0.05, 0.08)


def whistling(voice: Voice) -> Samples:
    """Someone whistles a little tune."""
    n, rate = voice.count, voice.rate
    root = voice.draw(1050, 1250) * voice.pitch
    notes = max(2, round(voice.seconds * 3.0 * voice.speed))
    steps = root * 2 ** (np.array(SCALE)[voice.rng.integers(0, len(SCALE), notes)] / 12)
    which = np.minimum((np.arange(n) / n * notes).astype(int), notes - 1)
    glide = max(1, round(0.035 * rate))
    pitch = np.convolve(np.pad(steps[which], (glide, glide), "edge"), np.ones(glide) / glide, "same")[glide:-glide]
    pitch = pitch * (1 + 0.008 * tone(5.5, n, rate))
    within = (np.arange(n) / n * notes) % 1.0
    breath = np.clip(np.minimum(within / 0.12, (1 - within) / 0.12), 0.25, 1)
    air = band(voice.noise(), 900, 5000, rate, 1)
    return fade(
        (tone(pitch, n, rate) + 0.06 * tone(2 * pitch, n, rate)) * breath + 0.06 * air * breath, rate, 0.03, 0.05
    )


def _pluck(voice: Voice, frequency: float, seconds: float) -> Samples:
    rate, n = voice.rate, round(seconds * voice.rate)
    period = rate / frequency - 0.5
    whole = int(period)
    part = period - whole
    loop = np.zeros(whole + 3)
    # A string: what comes back is smoothed (the decay) and delayed by a fraction of a sample (the tuning).
    loop[whole : whole + 3] = 0.996 * 0.5 * np.array([1 - part, 1.0, part])
    start = np.zeros(n)
    burst = lowpass(voice.noise(whole), 3800, rate, 1)
    comb = burst - 0.9 * np.roll(burst, max(1, whole // 5))
    start[:whole] = comb[:n]
    feedback = -loop
    feedback[0] = 1.0
    return np.asarray(lfilter([1.0], feedback, start))


def guitar(voice: Voice) -> Samples:
    """Plucked strings: a broken chord."""
    rate, out = voice.rate, np.zeros(voice.count)
    root = voice.draw(140, 175) * voice.pitch
    notes = max(2, round(voice.seconds * 3.2 * voice.speed))
    period = voice.seconds / notes
    for index in range(notes):
        step = SCALE[int(voice.rng.integers(0, len(SCALE)))] if index else 0
        string = _pluck(voice, root * 2 ** (step / 12), min(voice.seconds - index * period, 1.2))
        place(out, round(index * period * rate), string)
    body = formants(out, [(105, 40, 0.6), (210, 70, 0.6), (420, 150, 0.3)], rate)
    return fade(out + body, rate, 0.001, 0.08)


def piano(voice: Voice) -> Samples:
    """A few notes on a piano."""
    rate, out = voice.rate, np.zeros(voice.count)
    root = voice.draw(240, 290) * voice.pitch
    notes = max(2, round(voice.seconds * 2.8 * voice.speed))
    period = voice.seconds / notes
    partial = np.arange(1.0, 13.0)
    for index in range(notes):
        pitch = root * 2 ** (SCALE[int(voice.rng.integers(0, len(SCALE)))] / 12)
        n = round(min(voice.seconds - index * period, 1.4) * rate)
        stretched = pitch * partial * np.sqrt(1 + 0.0004 * partial**2)
        gains = partial**-1.1 * np.abs(np.sin(np.pi * partial / 8.0)) ** 0.5
        fast = modes(n, rate, stretched, 0.22 / np.sqrt(partial), gains)
        slow = modes(n, rate, stretched * 1.0007, 1.1 / np.asarray(partial**0.7, float), 0.45 * gains)
        thump = lowpass(voice.noise(n), 900, rate, 1) * decay(n, rate, 0.012)
        place(out, round(index * period * rate), fade(fast + slow + 0.12 * thump, rate, 0.002, 0.06))
    return fade(out, rate, 0.001, 0.06)


def drum(voice: Voice) -> Samples:
    """One beat on a drum: a falling skin and the stick."""
    n, rate = voice.count, voice.rate
    skin = voice.draw(105, 130) * voice.pitch
    fall = skin * (1 + 0.7 * np.exp(-voice.time / 0.025))
    body = tone(fall, n, rate) * decay(n, rate, 0.12) + 0.5 * tone(fall * 1.59, n, rate) * decay(n, rate, 0.07)
    overtone = 0.3 * tone(fall * 2.14, n, rate) * decay(n, rate, 0.05)
    stick = band(voice.noise(), 600, 4500, rate, 1) * decay(n, rate, 0.012)
    return fade(body + overtone + 0.5 * stick, rate, 0.001, 0.04)
