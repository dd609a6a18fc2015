"""What several test files of the encoders build."""

from functools import cache

import numpy as np
import torch

from supclap.encoders.ced import CedSettings
from supclap.encoders.mobilenet import MobileNetSettings
from supclap.encoders.small import SmallAudioSettings


def noise(count, seed=0, level=0.1):
    """Noise with a rising tone in it: no two stretches alike."""
    rng = np.random.default_rng(seed)
    time = np.arange(count)
    tone = np.sin(time * (0.02 + 0.01 * (seed % 7)) + 0.00001 * time**1.5)
    return (level * (rng.normal(size=count) + tone)).astype(np.float32)


@cache
def audio_towers():
    """One of each kind, with random weights and statistics."""
    torch.manual_seed(0)
    towers = {
        "mn": MobileNetSettings(weights=None, width_factor=0.1).build(),
        "ced": CedSettings(weights=None, width=48, depth=2, heads=3).build(),
        "small": SmallAudioSettings().build(),
    }
    for tower in towers.values():
        settle(tower)
    return towers


def settle(tower):
    """Batch norm's statistics from a few sounds, so that a random tower tells sounds apart; then evaluation mode."""
    sounds = torch.stack([torch.from_numpy(noise(32000, seed, 0.02 * 3**seed)) for seed in range(5)])
    norms = [part for part in tower.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    kept = [part.momentum for part in norms]
    for part in norms:
        part.momentum = 1.0
    with torch.no_grad():
        tower.train()(sounds)
    for part, momentum in zip(norms, kept, strict=True):
        part.momentum = momentum
    tower.eval()


def sweep(count):
    """A sound by formula: the same on every machine and with every library."""
    time = np.arange(count)
    return (0.2 * np.sin(time * 0.05 + 3e-6 * time**2) + 0.05 * np.sin(time * 0.71)).astype(np.float32)


FIXTURE_SOUNDS = [(sweep(8000), 16000), (sweep(176000), 16000)]
FIXTURE_TEXTS = ["a dog barks", "rain", ""]


def write_fixture(folder):
    """How fixtures/format-1 was made: a tiny model, and the rows it gave. Run by hand, once a format."""
    import json

    from supclap.encoders.dual import DualSettings
    from supclap.settings import make

    torch.manual_seed(0)
    fields = {
        "audio_tower": {"kind": "small-audio", "channels": [4, 8, 8, 8], "width": 16},
        "text_tower": {"kind": "small-text", "vocabulary": 300, "width": 16, "depth": 1, "heads": 2},
        "head": {"kind": "mlp", "width": 8},
        "learn_scale": True,
    }
    model = make(DualSettings, fields).build(["a dog barks", "rain falls"] * 3)
    model.card = {"recipe": "random weights", "scores": {"t2a R@1": "none"}}
    model.calibration = {"slope": 5.0, "intercept": -2.0}
    model.save(folder)
    rows = {"audio": model.embed_audio(FIXTURE_SOUNDS).tolist(), "text": model.embed_text(FIXTURE_TEXTS).tolist()}
    (folder / "expected.json").write_text(json.dumps(rows | {"fingerprint": model.fingerprint()}, indent=1))
