"""Real recordings and real pretrained towers on `scenes-esc50`: frozen for a laptop, and tuned for a GPU."""

from __future__ import annotations

from supclap.encoders.heads import MlpHead
from supclap.encoders.mobilenet import MobileNetSettings
from supclap.encoders.text import MiniLmSettings
from supclap.objectives.settings import PRESETS
from supclap.training.config import DataSettings, RunConfig, TrainSettings, changed
from supclap.training.optim import OptimSettings
from supclap.training.recipes.small import frozen, frozen_multilingual


def infonce() -> RunConfig:
    """The baseline."""
    return changed(frozen(), {"data": "scenes-esc50", "objective": PRESETS["infonce"]})


def bi_dynamic() -> RunConfig:
    """The same run with a Dynamic radius on both directions."""
    return changed(infonce(), {"objective": PRESETS["bi-dynamic"]})


def twice() -> RunConfig:
    """Control: the base counted twice."""
    return changed(infonce(), {"objective": PRESETS["twice"]})


def uni_zero() -> RunConfig:
    """Control: one support term at R = 0."""
    return changed(infonce(), {"objective": PRESETS["uni-zero"]})


def dcl() -> RunConfig:
    """Another base: the positive left out of the denominator."""
    return changed(infonce(), {"objective": PRESETS["dcl"]})


def siglip() -> RunConfig:
    """Another base: sigmoid costs."""
    return changed(infonce(), {"objective": PRESETS["siglip"]})


def use_infonce() -> RunConfig:
    """The baseline on the multilingual sentence encoder."""
    return changed(frozen_multilingual(), {"data": "scenes-esc50", "objective": PRESETS["infonce"]})


def use_bi_dynamic() -> RunConfig:
    """The same run with a Dynamic radius on both directions."""
    return changed(use_infonce(), {"objective": PRESETS["bi-dynamic"]})


def tuned_infonce() -> RunConfig:
    """All of mn04 and all of MiniLM are trained: batch 24, eight epochs, Adam with a cosine."""
    return RunConfig(
        data=DataSettings(path="scenes-esc50", workers=4),
        audio_tower=MobileNetSettings(),
        text_tower=MiniLmSettings(),
        head=MlpHead(width=512),
        objective=PRESETS["infonce"],
        # A pretrained transformer forgets at 3e-4. The radius walks steps x rate: 2,000 steps under a cosine make 1.
        optim=OptimSettings(lr=3e-4, text_tower_lr=5e-5, radius_lr=1e-3, schedule="cosine", warmup=50),
        train=TrainSettings(epochs=8, batch_size=24),
    )


def tuned_bi_dynamic() -> RunConfig:
    """The same run with a Dynamic radius on both directions."""
    return changed(tuned_infonce(), {"objective": PRESETS["bi-dynamic"]})
