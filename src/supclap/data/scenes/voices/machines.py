"""Engine, train horn, siren, car horn, bell, beep, telephone, drill, vacuum cleaner."""

from __future__ import annotations

import numpy as np

from supclap.data.scenes.dsp import (
    Samples,
    Voice,
    band,
    decay,
    fade,
    formants,
    harmonics,
    highpass,
    level,
    lowpass,
    modes,
    phase,
    place,
    pulses,
    rolloff,
    tone,
)


def engine(voice: Voice) -> Samples:
    """Firing cylinders in an exhaust, the clatter of the valves and the hiss of the fan."""
    n, rate = voice.count, voice.rate
    firing = voice.draw(48, 62) * voice.pitch * voice.speed
    speed = firing * (1 + 0.03 * voice.wander(3, -1, 1) + 0.02 * voice.wander(25, -1, 1))
    turn = phase(speed, n, rate)
    strength = 0.7 + 0.3 * np.array([1.0, 0.45, 0.8, 0.55])[np.floor(turn).astype(int) % 4]
    bangs = pulses(speed, n, rate) * strength * (0.7 + 0.6 * voice.rng.random(n))
    puff = np.exp(-6 * (turn % 1.0)) * strength
    size = voice.pitch**0.3
    blast = bangs * 8 + 0.5 * voice.noise() * puff
    pipe = [(75 * size, 50, 1.0), (140 * size, 70, 1.0), (260 * size, 100, 0.7), (520, 220, 0.4), (1100, 500, 0.2)]
    clatter = band(voice.noise(), 900, 4000, rate, 1) * puff**2
    hiss = lowpass(voice.noise(), 700, rate, 1)
    out = level(formants(blast, pipe, rate), -14) + level(clatter, -27) + level(hiss, -25)
    return fade(out, rate, 0.1, 0.12)


def train_horn(voice: Voice) -> Samples:
    """A chord of air horns that swells and stops."""
    n, rate = voice.count, voice.rate
    root = voice.draw(290, 325) * voice.pitch
    out = np.zeros(n)
    for ratio in (1.0, 1.189, 1.335, 1.587, 2.0):
        bend = voice.curve(0.985, 1.0, 1.0, 1.0, 0.985) * root * ratio * voice.draw(0.997, 1.003)
        out += harmonics(bend, rolloff(18, 0.9), n, rate)
    out = formants(out, [(700, 500, 1.0), (1400, 700, 0.8), (2600, 1200, 0.5)], rate) + 0.25 * out
    air = 0.05 * band(voice.noise(), 800, 5000, rate, 1)
    return fade((level(out, -14) + air * 0.4) * voice.curve(0.5, 0.9, 1, 1, 1, 0.9), rate, 0.07, 0.14)


def siren(voice: Voice) -> Samples:
    """A wail that sweeps up and down."""
    n, rate = voice.count, voice.rate
    turn = voice.time * 0.75 * voice.speed**1.6 + voice.draw(0, 1)
    sweep = 0.5 - 0.5 * np.cos(2 * np.pi * turn)
    pitch = (600 + 800 * sweep) * voice.pitch**0.6
    wail = harmonics(pitch, [1.0, 0.35, 0.5, 0.15, 0.25, 0.1, 0.12], n, rate)
    echo = np.zeros(n)
    place(echo, round(0.06 * rate), 0.3 * wail)
    place(echo, round(0.13 * rate), 0.18 * wail)
    return fade(band(wail + echo, 400, 4200, rate, 1), rate, 0.06, 0.1)


def car_horn(voice: Voice) -> Samples:
    """One honk of a two-tone horn: two buzzing discs."""
    n, rate = voice.count, voice.rate
    root = voice.draw(400, 440) * voice.pitch
    settle = voice.curve(0.97, 1.0, 1.0, 1.0, 1.0, 0.995)
    reed = rolloff(24, 0.25)
    honk = harmonics(root * settle, reed, n, rate) + harmonics(root * 1.235 * settle, reed, n, rate)
    honk = np.tanh(2 * level(honk, -9))
    horn = formants(honk, [(500, 250, 0.6), (1300, 500, 0.8), (2400, 600, 1.2), (3400, 800, 0.8)], rate)
    return fade(horn + 0.15 * honk + 0.01 * voice.noise(), rate, 0.02, 0.05)


def bell(voice: Voice) -> Samples:
    """One stroke of a church bell: hum, prime, tierce, quint, nominal and above, each of them double."""
    n, rate = voice.count, voice.rate
    prime = voice.draw(380, 480) * voice.pitch
    ratios = np.array([0.5, 1.0, 1.19, 1.51, 2.0, 2.54, 2.66, 3.01, 3.36, 4.17, 5.43, 6.8])
    decays = np.array([2.5, 1.6, 1.4, 0.8, 1.2, 0.6, 0.5, 0.6, 0.4, 0.35, 0.25, 0.15])
    gains = np.array([0.5, 0.5, 0.8, 0.3, 1.0, 0.4, 0.35, 0.6, 0.4, 0.5, 0.35, 0.25])
    out = np.zeros(n)
    for twin, share in ((1.0, 1.0), (1.0, 0.6)):
        detune = twin + 0.006 * (2 * voice.rng.random(len(ratios)) - 1)
        out += modes(n, rate, prime * ratios * detune, decays, gains * share)
    clang = band(voice.noise(), 1500, 7000, rate, 1) * decay(n, rate, 0.02)
    return fade(out + 0.6 * clang, rate, 0.001, 0.12)


def beep(voice: Voice) -> Samples:
    """One electronic beep."""
    pitch = voice.draw(1500, 2100) * voice.pitch
    wave = harmonics(pitch, [1.0, 0.05, 0.3, 0.03, 0.12], voice.count, voice.rate)
    return fade(wave, voice.rate, 0.004, 0.006)


def telephone(voice: Voice) -> Samples:
    """One ring of an old telephone: a clapper between two gongs."""
    rate, out = voice.rate, np.zeros(voice.count)
    gong = voice.draw(950, 1150) * voice.pitch
    strike_rate = voice.draw(21, 25)
    ratios, gains = np.array([1.0, 2.42, 4.05, 5.6]), np.array([0.8, 1.0, 0.7, 0.35])
    decays = np.array([0.3, 0.22, 0.14, 0.08])
    tail = round(0.7 * rate)
    gongs = [modes(tail, rate, gong * scale * ratios, decays, gains) for scale in (1.0, 1.23)]
    for index in range(int((voice.seconds - 0.15) * strike_rate)):
        place(out, round(index / strike_rate * rate), gongs[index % 2] * voice.draw(0.85, 1.0))
    return fade(out + 0.02 * highpass(voice.noise(), 2000, rate) * voice.curve(1, 1, 0), rate, 0.002, 0.1)


def drill(voice: Voice) -> Samples:
    """An electric drill: a geared motor that runs up, labours and runs down."""
    n, rate = voice.count, voice.rate
    base = voice.draw(165, 200) * voice.pitch
    load = voice.wander(3, 0.88, 1.0)
    edge = min(0.25, 0.25 * voice.seconds)
    ramp = np.clip(np.minimum(voice.time / edge, (voice.seconds - voice.time) / edge), 0, 1)
    speed = base * load * (0.45 + 0.55 * ramp**0.6)
    whine = harmonics(speed, rolloff(40, 0.5), n, rate)
    gear = harmonics(speed * 6.3, [1.0, 0.6, 0.4, 0.25], n, rate)
    rasp = band(voice.noise(), 1500, 7000, rate, 1) * (0.6 + 0.4 * harmonics(speed, [1.0], n, rate))
    out = level(whine, -17) + level(gear, -19) + level(rasp, -19)
    return fade(out * (0.3 + 0.7 * ramp), rate, 0.03, 0.06)


def vacuum(voice: Voice) -> Samples:
    """A vacuum cleaner: broad suction noise and the motor's hum and whine."""
    n, rate = voice.count, voice.rate
    motor = voice.draw(205, 250) * voice.pitch
    speed = motor * (1 + 0.006 * voice.wander(3, -1, 1))
    hum = harmonics(speed, [1.0, 0.7, 0.35, 0.5, 0.2, 0.15, 0.1, 0.2], n, rate)
    whine = tone(speed * 11.0, n, rate) + 0.5 * tone(
        speed * 22.0 if speed.max() * 22 < 0.45 * rate else speed * 5, n, rate
    )
    air = formants(voice.noise(), [(450, 400, 1.0), (1100, 700, 1.0), (2400, 1200, 0.9), (4500, 2500, 0.8)], rate)
    return fade(level(air, -18) + level(hum, -24) + level(whine, -33), rate, 0.15, 0.2)
