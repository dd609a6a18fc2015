"""What a run is: one RunConfig of frozen parts, short names for what people change most, and recipes by name."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveInt

from supclap.data.augment import AugmentSettings
from supclap.encoders.dual import DualSettings
from supclap.encoders.heads import HEADS, MlpHead
from supclap.encoders.lora import LoraSettings
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings
from supclap.encoders.towers import AUDIO_TOWERS, TEXT_TOWERS
from supclap.evaluation.protocols import PROTOCOLS
from supclap.objectives.settings import OBJECTIVES, PRESETS, SVRSettings
from supclap.runtime import Precision
from supclap.schema import UserError, unknown
from supclap.settings import kind_of, override, settings, write
from supclap.training.masking import MaskSettings
from supclap.training.optim import OptimSettings
from supclap.training.tracking import Tracker


@settings
class DataSettings:
    """Which table, and how its rows become batches. A table without a split column is split by recording."""

    path: str = ""
    captions_from: str | None = None
    captions: Literal["one", "all", "triple"] = "one"
    val: float = 0.1
    test: float = 0.1
    limit: PositiveInt | None = None  # train on the first so many clips of the train split
    share: float = 1.0  # train on this share of those, drawn by clip; a smaller share lies within a larger
    max_seconds: float | None = None
    workers: NonNegativeInt = 0
    # a folder that keeps every clip as 16-bit samples once it has been decoded; a cached frozen tower decodes none
    decoded: str | None = None
    bucket: NonNegativeInt = 0  # clips of like length stand together within so many batches
    augment: AugmentSettings = AugmentSettings()
    strict: bool = False  # an unreadable file is an error, not a line in quarantine.csv

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UserError(f"data.share={self.share!r} must be above 0 and at most 1")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise UserError(f"data.max_seconds={self.max_seconds!r} must be above 0, or null for whole clips")


@settings
class TrainSettings:
    """How long, how large, and what stands still. ``steps`` ends a run before its epochs do."""

    epochs: PositiveInt = 10
    steps: PositiveInt | None = None
    batch_size: PositiveInt = 24
    accumulate: PositiveInt = 1  # batches a step; negatives stay those of one batch
    chunk: PositiveInt | None = None  # gradient cache: rows encoded at a time
    freeze_audio: bool = False
    freeze_text: bool = False
    freeze_audio_parts: NonNegativeInt = 0  # the first so many parts of the tower
    freeze_text_parts: NonNegativeInt = 0
    lora: LoraSettings | None = None
    checkpointing: bool = False  # activations are computed again in backward
    features: bool = True  # a frozen tower is heard once and cached
    mask: MaskSettings = MaskSettings()  # SpecAugment
    ema: float | None = None  # the share of the running mean that each step keeps (.999); None: no mean
    checkpoint_every: PositiveInt | None = None  # steps; None: each epoch, never over five minutes apart
    track: tuple[Tracker, ...] = ()  # beside records.jsonl: tensorboard, wandb
    max_skipped: float = 0.05  # the share of steps that may be skipped as not finite

    def __post_init__(self) -> None:
        if self.ema is not None and not 0 < self.ema < 1:
            raise UserError(f"train.ema={self.ema!r} must lie between 0 and 1 (0.999), or be null for none")
        if not 0 <= self.max_skipped <= 1:
            raise UserError(f"train.max_skipped={self.max_skipped!r} is a share of the steps: from 0 to 1")


@settings
class EvaluateSettings:
    """When and on what a run is measured; the best run is that of the highest mean R@1 of both directions."""

    every: PositiveInt = 1  # epochs
    protocol: str = "mlclap"
    select_on: str = "val"  # "test", as the paper does, or a name in ``also``
    limit: PositiveInt | None = None  # at most so many clips of each set
    also: tuple[str, ...] = ()  # further validation sets: tables, folders or corpora, called by their last name
    # steps between two looks at forces and drift; None: as 1 % of the time allows
    dynamics: NonNegativeInt | None = None
    patience: PositiveInt | None = None  # evaluations without a better one, after which a run stops early

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unknown("evaluate.protocol", self.protocol, PROTOCOLS)
        names = ["train", "val", "test", *(Path(place).stem for place in self.also)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise UserError(f"evaluate.also={list(self.also)}: two sets would be called {twice[0]!r}; rename one")
        if self.select_on not in names[1:]:
            raise unknown("evaluate.select_on", self.select_on, names[1:])

    @property
    def more(self) -> dict[str, str]:
        """The further sets by name."""
        return {Path(place).stem: place for place in self.also}


@settings
class RunConfig:
    """Everything that decides a run; ``run.json`` holds it."""

    data: DataSettings = DataSettings()
    audio_tower: kind_of(AUDIO_TOWERS) = SmallAudioSettings()  # type: ignore[valid-type]
    text_tower: kind_of(TEXT_TOWERS) = SmallTextSettings()  # type: ignore[valid-type]
    head: kind_of(HEADS) = MlpHead()  # type: ignore[valid-type]
    objective: kind_of(OBJECTIVES) = SVRSettings()  # type: ignore[valid-type]
    optim: OptimSettings = OptimSettings()
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    seed: NonNegativeInt = 0
    device: str = "auto"
    precision: Precision = "fp32"

    def dual(self) -> DualSettings:
        """The model's own settings."""
        train = self.train
        return DualSettings(
            audio_tower=self.audio_tower,
            text_tower=self.text_tower,
            head=self.head,
            freeze_audio=train.freeze_audio,
            freeze_text=train.freeze_text,
            freeze_audio_parts=train.freeze_audio_parts,
            freeze_text_parts=train.freeze_text_parts,
            lora=train.lora,
            checkpointing=train.checkpointing,
        )


SHORT_NAMES: dict[str, str] = {
    "data": "data.path",
    "epochs": "train.epochs",
    "steps": "train.steps",
    "batch_size": "train.batch_size",
    "lr": "optim.lr",
}
"""Beside these the parts' own names are short enough: seed, device, objective, audio_tower, text_tower."""


def changed(config: RunConfig, fields: Mapping[str, Any]) -> RunConfig:
    """A copy with fields replaced: short names, dotted names, and presets (which are put in before dotted fields)."""
    parts = [part.name for part in dataclasses.fields(config)]
    for name in fields:
        if name.partition(".")[0] not in (*parts, *SHORT_NAMES):
            raise _unknown_field(name, [*parts, *SHORT_NAMES], _dotted(config))
    return override(config, {SHORT_NAMES.get(name, name): _preset(name, value) for name, value in fields.items()})


def _unknown_field(name: str, short: list[str], dotted: list[str]) -> UserError:
    near = get_close_matches(name, [*short, *dotted], n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    names = ", ".join(dict.fromkeys(short))
    return UserError(f"field={name!r} is unknown; {hint}choose from {names}, or one of their fields (optim.lr)")


def _dotted(config: RunConfig) -> list[str]:
    """Every field by its dotted name."""
    return [f"{part}.{name}" for part, value in write(config).items() if isinstance(value, dict) for name in value]


_REGISTRIES: dict[str, dict[str, type[Any]]] = {
    "audio_tower": AUDIO_TOWERS,
    "text_tower": TEXT_TOWERS,
    "head": dict(HEADS),
    "objective": OBJECTIVES,
}


def _preset(name: str, value: Any) -> Any:
    """Presets by name, and settings objects with their kind."""
    if name not in _REGISTRIES:
        return value
    if name == "objective" and isinstance(value, str):
        if value in PRESETS:
            return _kinded(PRESETS[value], OBJECTIVES)
        if value not in OBJECTIVES and ":" not in value:
            raise unknown("objective", value, PRESETS)
    return value if isinstance(value, str | Mapping) else _kinded(value, _REGISTRIES[name])


def _kinded(value: Any, registry: Mapping[str, type[Any]]) -> dict[str, Any]:
    kinds = [kind for kind, cls in registry.items() if type(value) is cls]
    return {"kind": kinds[0] if kinds else f"{type(value).__module__}:{type(value).__qualname__}", **write(value)}


OWN_RECIPE = "recipe.py"
"""What a recipe file of the user's own is called in the run."""

# -- recipes ---------------------------------------------------------------------------------------------------------

# name -> module:function that returns a RunConfig
RECIPES: dict[str, str] = {
    "small": "supclap.training.recipes.small:small",
    "frozen": "supclap.training.recipes.small:frozen",
    "frozen-multilingual": "supclap.training.recipes.small:frozen_multilingual",
    "real_small": "supclap.training.recipes.real_small:bi_dynamic",
    "real_small/infonce": "supclap.training.recipes.real_small:infonce",
    "real_small/bi-dynamic": "supclap.training.recipes.real_small:bi_dynamic",
    "real_small/twice": "supclap.training.recipes.real_small:twice",
    "real_small/uni-zero": "supclap.training.recipes.real_small:uni_zero",
    "real_small/dcl": "supclap.training.recipes.real_small:dcl",
    "real_small/siglip": "supclap.training.recipes.real_small:siglip",
    "real_small-use/infonce": "supclap.training.recipes.real_small:use_infonce",
    "real_small-use/bi-dynamic": "supclap.training.recipes.real_small:use_bi_dynamic",
    "real_small-tuned/infonce": "supclap.training.recipes.real_small:tuned_infonce",
    "real_small-tuned/bi-dynamic": "supclap.training.recipes.real_small:tuned_bi_dynamic",
    "paper/infonce": "supclap.training.recipes.paper:infonce",
    "paper/uni-static": "supclap.training.recipes.paper:uni_static",
    "paper/uni-dynamic": "supclap.training.recipes.paper:uni_dynamic",
    "paper/bi-static": "supclap.training.recipes.paper:bi_static",
    "paper/bi-dynamic": "supclap.training.recipes.paper:bi_dynamic",
    "paper/siglip": "supclap.training.recipes.paper:siglip",
    "paper/siglip-bi-dynamic": "supclap.training.recipes.paper:siglip_bi_dynamic",
}


def recipe(name: str, fields: Mapping[str, Any] | None = None, /, **more: Any) -> RunConfig:
    """A recipe by name, or ``"mine.py:cold"``, with fields replaced; dotted names go in as a dict."""
    module, function = _find(name)
    made = getattr(module, function, None)
    if not callable(made):
        found = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown("recipe", name, [f"{name.rpartition(':')[0]}:{key}" for key in found])
    config = made()
    if not isinstance(config, RunConfig):
        raise UserError(f"recipe={name!r} returns {type(config).__name__}; it must return a RunConfig")
    return changed(config, {**(fields or {}), **more})


def _find(name: str) -> tuple[Any, str]:
    if name in RECIPES:
        module, _, function = RECIPES[name].partition(":")
        return importlib.import_module(module), function
    place, _, function = name.rpartition(":")
    if not place.endswith(".py"):
        raise unknown("recipe", name, RECIPES)
    return load_file(Path(place)), function


def load_file(path: Path) -> Any:
    """A recipe file of the user's own as a module; its folder is not added to the path."""
    if not path.is_file():
        raise UserError(f"recipe={str(path)!r}: no such file; write it as FILE.py:FUNCTION")
    name = "supclap_recipe"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Known by this name, so that a settings class of the file's own is found again as "supclap_recipe:Class".
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def parse(words: list[str]) -> dict[str, str]:
    """["lr=1e-4", ...] as fields."""
    fields: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"{word!r} is not name=value; a table comes first, fields follow it (lr=1e-4 epochs=3)")
        fields[name.strip()] = value
    return fields
