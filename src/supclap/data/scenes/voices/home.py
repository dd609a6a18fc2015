"""Clock, knock, typing, glass, saw, hammer."""

from __future__ import annotations

import numpy as np

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
    phase,
    place,
)


def _strikes(voice: Voice, per_second: float, jitter: float) -> list[int]:
    period = 1 / per_second
    times = np.arange(0.01, max(0.02, voice.seconds - 0.06), period)
    moved = times + jitter * period * (2 * voice.rng.random(len(times)) - 1)
    return [max(0, round(at * voice.rate)) for at in moved]


def clock(voice: Voice) -> Samples:
    """Tick, tock: small hard strikes that bounce in a case."""
    rate, out = voice.rate, np.zeros(voice.count)
    n = round(0.05 * rate)
    wood = voice.draw(0.9, 1.1) * voice.pitch
    for index, at in enumerate(_strikes(voice, 2.5 * voice.speed, 0.0)):
        size = wood * (1.0 if index % 2 else 0.85)
        ring = modes(n, rate, [3300 * size, 5200 * size, 7400 * size], [0.004, 0.003, 0.002], [1, 0.8, 0.5])
        click = band(voice.noise(n), 2800 * size, 8000, rate, 1) * decay(n, rate, 0.0015) + 0.4 * ring
        for delay, loud in ((0.0, 1.0), (0.012, 0.5), (0.03, 0.2)):
            place(out, at + round(delay * rate), loud * click)
    return out


def knock(voice: Voice) -> Samples:
    """One knock of knuckles on a door."""
    n, rate = voice.count, voice.rate
    wood = voice.draw(0.9, 1.1) * voice.pitch
    body = modes(
        n,
        rate,
        np.array([115, 190, 290, 430, 640, 980]) * wood,
        [0.03, 0.035, 0.025, 0.018, 0.012, 0.008],
        [0.7, 1.0, 0.9, 0.7, 0.5, 0.35],
    )
    rap = band(voice.noise(), 500 * wood, 2600 * wood, rate, 1) * decay(n, rate, 0.004)
    return fade(body + 1.2 * rap, rate, 0.0005, 0.02)


def typing(voice: Voice) -> Samples:
    """Keys of a keyboard pressed and let go, in bursts, now and then a heavier one."""
    rate, out = voice.rate, np.zeros(voice.count)
    n = round(0.06 * rate)
    for at in _strikes(voice, 8.0 * voice.speed, 0.45):
        if voice.draw(0, 1) < 0.12:
            continue
        key = voice.draw(0.75, 1.25)
        strength = voice.draw(0.35, 1.0)
        noise = voice.noise(n)
        press = band(noise, 1800 * key, 5200 * key, rate, 1) * decay(n, rate, 0.0035)
        case = band(noise, 250, 900 * key, rate, 1) * decay(n, rate, 0.009)
        spring = band(noise, 3000, 7000, rate, 1) * decay(n, rate, 0.012)
        place(out, at, strength * (press + 0.7 * case + 0.15 * spring))
        place(out, at + round(voice.draw(0.06, 0.1) * rate), 0.5 * strength * (press + 0.3 * spring))
    return fade(out + 0.002 * lowpass(voice.noise(), 2000, rate), rate)


def glass(voice: Voice) -> Samples:
    """One clink of two glasses."""
    n, rate, out = voice.count, voice.rate, np.zeros(voice.count)
    for scale, loud in ((1.0, 1.0), (voice.draw(1.12, 1.3), 0.7)):
        base = voice.draw(1700, 2100) * voice.pitch * scale
        ratios = np.array([1.0, 1.02, 1.83, 2.34, 2.87, 3.42, 4.1]) * (1 + 0.01 * voice.noise(7))
        decays = np.array([0.14, 0.12, 0.09, 0.07, 0.05, 0.04, 0.03]) * voice.draw(0.6, 1.1)
        out += loud * modes(n, rate, base * ratios, decays, [0.5, 0.4, 0.8, 1.0, 0.9, 0.8, 0.6])
    click = highpass(voice.noise(), 2500, rate) * decay(n, rate, 0.003)
    second = np.zeros(n)
    place(second, round(voice.draw(0.03, 0.05) * rate), 0.35 * (out + click))
    return fade(out + 1.2 * click + second, rate, 0.0005, 0.03)


def saw(voice: Voice) -> Samples:
    """A hand saw: a rasping push and a lighter pull, again and again."""
    n, rate = voice.count, voice.rate
    turn = voice.time * 1.9 * voice.speed + 0.02
    stroke = turn % 1.0
    half = np.where(stroke < 0.5, stroke / 0.5, (stroke - 0.5) / 0.5)
    push = np.sin(np.pi * half) ** 0.8 * np.where(stroke < 0.5, 1.0, 0.5)
    bites = phase(90 * voice.pitch * (0.3 + np.sin(np.pi * half)), n, rate)
    grain = np.diff(np.floor(bites), prepend=0.0) * (0.4 + 0.6 * voice.rng.random(n))
    rasp = np.convolve(grain, decay(round(0.006 * rate), rate, 0.0018))[:n] * voice.noise()
    board = formants(rasp + 0.1 * grain, [(380, 150, 0.5), (900, 300, 0.8), (1900, 500, 1.0), (3400, 900, 0.9)], rate)
    blade = band(rasp, 2500 * voice.pitch**0.5, 7000, rate, 1)
    forward = np.where(stroke < 0.5, 1.0, 0.55)
    out = level(board * push, -18) + level(blade * push * forward, -22)
    return fade(out, rate, 0.01, 0.03)


def hammer(voice: Voice) -> Samples:
    """One blow of a hammer on a nail in wood."""
    n, rate = voice.count, voice.rate
    size = voice.draw(0.92, 1.08) * voice.pitch
    nail = modes(n, rate, np.array([1850, 2900, 4300, 6100]) * size, [0.05, 0.04, 0.03, 0.02], [0.5, 0.6, 0.5, 0.3])
    plank = modes(n, rate, np.array([170, 310, 560]) * size**0.5, [0.03, 0.02, 0.02], [1.0, 0.8, 0.6])
    hit = band(voice.noise(), 700, 5000, rate, 1) * decay(n, rate, 0.012)
    thud = lowpass(voice.noise(), 300, rate, 1) * decay(n, rate, 0.03)
    return fade(1.5 * hit + 2 * thud + 0.25 * nail + 0.5 * plank, rate, 0.0005, 0.03)
