"""Real recordings and real pretrained towers, frozen, on `scenes-esc50`: small enough for a laptop."""

from __future__ import annotations

from supclap.objectives.settings import PRESETS
from supclap.training.config import RunConfig, changed
from supclap.training.recipes.small import frozen, frozen_multilingual


def infonce() -> RunConfig:
    """The baseline."""
    return changed(frozen(), {"data": "scenes-esc50", "objective": PRESETS["infonce"]})


def bi_dynamic() -> RunConfig:
    """The same run with a Dynamic radius on both directions."""
    return changed(infonce(), {"objective": PRESETS["bi-dynamic"]})


def use_infonce() -> RunConfig:
    """The baseline on the multilingual sentence encoder."""
    return changed(frozen_multilingual(), {"data": "scenes-esc50", "objective": PRESETS["infonce"]})


def use_bi_dynamic() -> RunConfig:
    """The same run with a Dynamic radius on both directions."""
    return changed(use_infonce(), {"objective": PRESETS["bi-dynamic"]})
