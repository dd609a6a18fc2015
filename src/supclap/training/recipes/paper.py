"""The paper's settings as docs and READING fix them: Adam 5e-5, batch 24, ten epochs, tau 0.07, selected on test.

The paper's towers are CED-Base and SONAR; give their weights with audio_tower= and text_tower=. The towers named here
are the ones whose weights are smallest to come by.
"""

from __future__ import annotations

from supclap.encoders.heads import MlpHead
from supclap.encoders.mobilenet import MobileNetSettings
from supclap.encoders.text import MiniLmSettings
from supclap.objectives.settings import PRESETS
from supclap.training.config import EvaluateSettings, RunConfig, TrainSettings, changed
from supclap.training.optim import OptimSettings

BATCH = 24


def _paper(preset: str) -> RunConfig:
    config = RunConfig(
        audio_tower=MobileNetSettings(),
        text_tower=MiniLmSettings(),
        head=MlpHead(width=1024),
        objective=PRESETS[preset],
        optim=OptimSettings(name="adam", lr=5e-5),
        train=TrainSettings(epochs=10, batch_size=BATCH),
        # As published; the label stands in every record.
        evaluate=EvaluateSettings(select_on="test"),
    )
    # The paper's predictor reads a row of the batch as it comes, so its width is the batch size.
    return changed(config, {"objective.radius.batch_size": BATCH}) if preset.endswith("dynamic") else config


def infonce() -> RunConfig:
    """The paper's baseline."""
    return _paper("infonce")


def uni_static() -> RunConfig:
    """StaticSVR, text to audio."""
    return _paper("uni-static")


def uni_dynamic() -> RunConfig:
    """DynamicSVR, text to audio."""
    return _paper("uni-dynamic")


def bi_static() -> RunConfig:
    """StaticSVR, both directions."""
    return _paper("bi-static")


def bi_dynamic() -> RunConfig:
    """DynamicSVR, both directions: the paper's best."""
    return _paper("bi-dynamic")


def siglip() -> RunConfig:
    """The sigmoid baseline."""
    return _paper("siglip")


def siglip_bi_dynamic() -> RunConfig:
    """DynamicSVR on the sigmoid loss."""
    return _paper("siglip-bi-dynamic")
