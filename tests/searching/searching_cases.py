"""A small real model saved in a folder, and real sound files."""

import numpy as np
import soundfile as sf
import torch

from supclap.encoders.dual import DualSettings
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings


def model(seed=0):
    torch.manual_seed(seed)
    settings = DualSettings(
        audio_tower=SmallAudioSettings(channels=(4, 4, 8, 8), width=16, window_seconds=1.0),
        text_tower=SmallTextSettings(),
    )
    return settings.build(texts=["a dog barks", "rain falls"]).eval()


def sound(place, seconds=0.5, seed=0, rate=16000):
    draw = np.random.default_rng(seed)
    time = np.arange(round(seconds * rate)) / rate
    tone = np.sin(2 * np.pi * draw.uniform(100, 4000) * time) * draw.uniform(0.05, 0.5)
    place.parent.mkdir(parents=True, exist_ok=True)
    sf.write(place, (tone + draw.normal(0, 0.05, len(time))).astype(np.float32), rate)
    return place
