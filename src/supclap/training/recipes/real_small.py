"""Real recordings and real pretrained towers, small enough for a laptop: mn04 and MiniLM, frozen, on `scenes-esc50`."""

from __future__ import annotations

from supclap.objectives.settings import PRESETS
from supclap.training.config import RunConfig, changed
from supclap.training.recipes.small import frozen


def infonce() -> RunConfig:
    """The baseline."""
    return changed(frozen(), {"data": "scenes-esc50", "objective": PRESETS["infonce"]})


def bi_dynamic() -> RunConfig:
    """The same run with a Dynamic radius on both directions."""
    return changed(infonce(), {"objective": PRESETS["bi-dynamic"]})
