"""Small real towers and real sound files, the same on every machine."""

import numpy as np
import soundfile as sf
import torch

from supclap.encoders.dual import DualSettings
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings

RATE = 16000


def audio_tower(seed=0, window_seconds=1.0):
    torch.manual_seed(seed)
    return SmallAudioSettings(channels=(4, 4, 8, 8), width=16, window_seconds=window_seconds).build().eval()


def text_tower(seed=0):
    torch.manual_seed(seed)
    return SmallTextSettings().build(texts=["a dog barks", "rain falls"]).eval()


def dual(seed=0):
    torch.manual_seed(seed)
    settings = DualSettings(
        audio_tower=SmallAudioSettings(channels=(4, 4, 8, 8), width=16, window_seconds=1.0),
        text_tower=SmallTextSettings(),
    )
    return settings.build(texts=["a dog barks", "rain falls"]).eval()


def sound(place, seconds=0.5, seed=0, rate=RATE):
    noise = np.random.default_rng(seed).normal(0, 0.1, round(seconds * rate)).astype(np.float32)
    place.parent.mkdir(parents=True, exist_ok=True)
    sf.write(place, noise, rate, subtype="FLOAT" if place.suffix == ".wav" else None)
    return place


def said_by(tower, path, start=0.0, end=None):
    """The oracle: the tower on the file alone, in windows of a second weighted by their length."""
    samples = sf.read(path, dtype="float32")[0][round(start * RATE) : None if end is None else round(end * RATE)]
    size = round(tower.window_seconds * RATE)
    pieces = [samples[first : first + size] for first in range(0, len(samples), size)]
    with torch.no_grad():
        rows = [tower(torch.from_numpy(piece)[None], torch.tensor([len(piece)]))[0].double() for piece in pieces]
    total = sum(row * len(piece) for row, piece in zip(rows, pieces, strict=True))
    return (total / len(samples)).numpy()
