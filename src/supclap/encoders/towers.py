"""Every tower by name. A tower of your own is one more line here, or ``module:Class`` in a recipe."""

from __future__ import annotations

from typing import Any

from supclap.encoders.ced import CedMiniSettings, CedNanoSettings, CedSettings, CedSmallSettings, CedTinySettings
from supclap.encoders.clap import ClapAudioSettings, ClapTextSettings
from supclap.encoders.hfaudio import HfAudioSettings
from supclap.encoders.mobilenet import (
    Mn01Settings,
    Mn02Settings,
    Mn05Settings,
    Mn10Settings,
    Mn20Settings,
    Mn30Settings,
    Mn40Settings,
    MobileNetSettings,
)
from supclap.encoders.sentence import SentenceAudioSettings, SentenceTextSettings
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings
from supclap.encoders.sonar import SonarSettings
from supclap.encoders.text import HfTextSettings, MiniLmSettings
from supclap.encoders.use import UseSettings

AUDIO_TOWERS: dict[str, type[Any]] = {
    "mn01": Mn01Settings,
    "mn02": Mn02Settings,
    "mn04": MobileNetSettings,
    "mn05": Mn05Settings,
    "mn10": Mn10Settings,
    "mn20": Mn20Settings,
    "mn30": Mn30Settings,
    "mn40": Mn40Settings,
    "ced-nano": CedNanoSettings,
    "ced-tiny": CedTinySettings,
    "ced-mini": CedMiniSettings,
    "ced-small": CedSmallSettings,
    "ced-base": CedSettings,
    "small-audio": SmallAudioSettings,
    "hf": HfAudioSettings,
    "clap-audio": ClapAudioSettings,
    "st-audio": SentenceAudioSettings,
}

TEXT_TOWERS: dict[str, type[Any]] = {
    "minilm": MiniLmSettings,
    "use": UseSettings,
    "hf": HfTextSettings,
    "sonar": SonarSettings,
    "small-text": SmallTextSettings,
    "clap-text": ClapTextSettings,
    "st-text": SentenceTextSettings,
}
