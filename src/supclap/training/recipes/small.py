"""For any table on any machine: frozen pretrained towers where their weights are, small ones from scratch elsewhere."""

from __future__ import annotations

from supclap.encoders.heads import LinearHead, MlpHead
from supclap.encoders.mobilenet import MobileNetSettings
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings
from supclap.encoders.text import MiniLmSettings
from supclap.encoders.use import UseSettings
from supclap.objectives.settings import PRESETS
from supclap.training.config import RunConfig, TrainSettings, changed
from supclap.training.optim import OptimSettings


def small() -> RunConfig:
    """Two small towers from scratch, bi-Dynamic: the recipe that `supclap demo` starts from."""
    return RunConfig(
        audio_tower=SmallAudioSettings(),
        text_tower=SmallTextSettings(max_tokens=96),
        head=LinearHead(width=256),
        objective=PRESETS["bi-dynamic"],
        optim=OptimSettings(lr=2e-3, schedule="cosine", warmup=10, clip_norm=5.0),
        train=TrainSettings(epochs=9, batch_size=64),
    )


def frozen() -> RunConfig:
    """Frozen mn04 and MiniLM (English) over the feature cache: only the heads and the radius learn."""
    return RunConfig(
        audio_tower=MobileNetSettings(),
        text_tower=MiniLmSettings(),
        head=MlpHead(width=512),
        objective=PRESETS["bi-dynamic"],
        optim=OptimSettings(lr=1e-3, schedule="cosine", warmup=20),
        train=TrainSettings(epochs=20, batch_size=64, freeze_audio=True, freeze_text=True),
    )


def frozen_multilingual() -> RunConfig:
    """As `frozen`, with the multilingual sentence encoder."""
    return changed(frozen(), {"text_tower": UseSettings()})
