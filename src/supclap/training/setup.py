"""From a RunConfig to the things a loop turns over: clips by split, model, objective, optimizer, loader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from supclap import runtime
from supclap.data import manifest
from supclap.data.loader import Loader
from supclap.data.quarantine import Quarantine
from supclap.data.sample import Augmentation
from supclap.data.split import split
from supclap.embedding.features import Features, tower_features
from supclap.schema import Clip, UserError
from supclap.training import validate
from supclap.training.config import RunConfig
from supclap.training.processes import Team
from supclap.training.step import Stepper, needs_anchor

Progress = Callable[[int, int], None]
QUARANTINE = "quarantine.csv"
ALONE = Team()


@dataclass
class Parts:
    """What one run is made of."""

    clips: dict[str, list[Clip]]
    model: Any
    objective: nn.Module
    optimizer: torch.optim.Optimizer
    loader: Loader
    stepper: Stepper
    features: Features | None
    team: Team

    @property
    def learned(self) -> nn.Module:
        """Model and objective as one module: what a checkpoint holds."""
        return nn.ModuleDict({"model": self.model, "objective": self.objective})


def splits(config: RunConfig, data: Sequence[Clip] | None = None) -> dict[str, list[Clip]]:
    """The clips of each split; a table without one of them is split by recording, the same on every machine."""
    settings = config.data
    if data is None:
        if not settings.path:
            raise UserError("data is missing; name a table, a folder of sounds or a corpus: supclap train my.csv")
        data = manifest.read(settings.path, captions_from=settings.captions_from)
    named = {clip.split for clip in data}
    wants_val = settings.val if "val" not in named else 0.0
    clips = split(list(data), val=wants_val, test=settings.test if "test" not in named else 0.0, seed=0)
    if "val" not in named and named != {None}:
        clips = _val_from_train(clips, settings.val)
    found = {name: [clip for clip in clips if clip.split == name] for name in ("train", "val", "test")}
    if not found["train"]:
        raise UserError(f"data={settings.path!r}: no clip is in the train split; check its split column")
    # The limit first: shares of a limited table lie within each other too, and a curve can be drawn over them.
    found["train"] = _share(found["train"][: settings.limit], settings.share)
    return found | validate.more_sets(config.evaluate)


def _share(clips: list[Clip], share: float) -> list[Clip]:
    """That share of the clips in their order, at least one; the same clips for every seed, and nested by share."""
    if share == 1:
        return clips
    drawn = sorted(clips, key=lambda clip: runtime.derive(0, "share", clip.id))
    kept = {clip.id for clip in drawn[: max(1, round(share * len(clips)))]}
    return [clip for clip in clips if clip.id in kept]


def _val_from_train(clips: list[Clip], share: float) -> list[Clip]:
    """A table that names train and test alone lends validation a part of train."""
    train = [replace(clip, split=None) for clip in clips if clip.split == "train"]
    rest = [clip for clip in clips if clip.split != "train"]
    return [*split(train, val=share, test=0.0, seed=0), *rest]


def build(
    config: RunConfig,
    clips: dict[str, list[Clip]],
    *,
    out: Path | None = None,
    progress: Progress | None = None,
    team: Team = ALONE,
) -> Parts:
    """Everything, from the seed alone: each purpose draws from a generator of its own."""
    device = runtime.device(config.device)
    if config.precision == "fp16" and device.type == "cpu":
        raise UserError("precision='fp16' needs a GPU: convolutions on a CPU lose their gradients in it; use bf16")
    model, objective = networks(config, clips["train"])
    if not any(value.requires_grad for value in model.parameters()):
        raise UserError(
            "nothing of the model learns: both towers are frozen and there is no head; give head=mlp, or "
            "train.freeze_audio=false train.freeze_text=false"
        )
    model.to(device)
    objective.to(device)
    changes = _changes(config, model)
    features, clips = cached(config, model, clips, out, progress, team)
    optimizer = config.optim.build(model, objective)
    check = getattr(objective, "check_optimizer", None)
    if check is not None:
        check(optimizer)
    settings = config.train
    stepper = Stepper(
        model,
        objective,
        optimizer,
        device=device,
        precision=config.precision,
        seed=config.seed,
        chunk=settings.chunk,
        clip_norm=config.optim.clip_norm,
        team=team,
    )
    loader = make_loader(config, model, clips["train"], features, out, team, changes)
    return Parts(clips, model, objective, optimizer, loader, stepper, features, team)


def _changes(config: RunConfig, model: Any) -> Augmentation | None:
    """What is done to training clips: to samples in the loader, to the spectrogram in the tower."""
    changes = config.data.augment.build()
    if config.data.max_seconds is not None and model.frozen_audio and config.train.features:
        raise UserError(
            f"data.max_seconds={config.data.max_seconds}: a frozen audio tower hears each clip once, whole, so nothing "
            "would be cropped; leave it out, or set train.features=false"
        )
    if (changes is not None or config.train.mask.active) and model.frozen_audio and config.train.features:
        field = "data.augment" if changes is not None else "train.mask"
        raise UserError(
            f"{field}.*: a frozen audio tower is heard once and cached, so nothing would change; set "
            "train.features=false, or train.freeze_audio=false"
        )
    if config.train.mask.active:
        config.train.mask.attach(model.audio)
    return changes


def networks(config: RunConfig, clips: Sequence[Clip]) -> tuple[Any, nn.Module]:
    """Model and objective; the radius has a generator of its own, so that it moves no other weight."""
    runtime.seed_everything(config.seed, "weights")
    model = config.dual().build(texts=sorted({caption.text for clip in clips for caption in clip.captions}))
    runtime.seed_everything(config.seed, "radius")
    objective: nn.Module = config.objective.build()
    if needs_anchor(objective) and config.data.captions != "triple":
        raise UserError(f"objective compares two languages; set data.captions=triple, not {config.data.captions!r}")
    return model, objective


def cached(
    config: RunConfig,
    model: Any,
    clips: dict[str, list[Clip]],
    out: Path | None,
    progress: Progress | None,
    team: Team = ALONE,
) -> tuple[Features | None, dict[str, list[Clip]]]:
    """What frozen towers say of every clip and caption; clips that no tower could hear are left out and listed."""
    if not (model.frozen_audio and config.train.features):
        return None, clips
    # Anchors are captions as well, but a loader has no features for them.
    text = model.text if model.frozen_text and config.data.captions != "triple" else None
    every = [clip for side in clips.values() for clip in side]
    if team.world > 1:
        # Each hears its share; then all read what all have heard.
        mine = every[team.rank :: team.world]
        tower_features(model.audio, mine, text_tower=text, workers=config.data.workers, progress=progress)
        team.wait()
    features = tower_features(model.audio, every, text_tower=text, workers=config.data.workers, progress=progress)
    if features.errors:
        clips = _without(clips, features.errors, config.data.strict, out if team.first else None)
    return features, clips


def _without(
    clips: dict[str, list[Clip]], errors: dict[Any, str], strict: bool, out: Path | None
) -> dict[str, list[Clip]]:
    bad = [clip for side in clips.values() for clip in side if _place(clip) in errors]
    reason = f"{bad[0].audio}: {errors[_place(bad[0])]}"
    if strict:
        raise UserError(f"{reason} ({len(bad)} such clips); mend them, or leave data.strict=false")
    table = Quarantine(None if out is None else out / QUARANTINE)
    for index, clip in enumerate(bad):
        table.add(index, clip, errors[_place(clip)])
    kept = {name: [clip for clip in side if _place(clip) not in errors] for name, side in clips.items()}
    if not kept["train"]:
        raise UserError(f"none of {len(clips['train'])} clips can be read; the first: {reason}")
    return kept


def _place(clip: Clip) -> tuple[str, float, float | None]:
    return clip.audio, clip.start, clip.end


def make_loader(
    config: RunConfig,
    model: Any,
    clips: list[Clip],
    features: Any,
    out: Path | None,
    team: Team = ALONE,
    augment: Augmentation | None = None,
) -> Loader:
    """The training batches."""
    batch_size = config.train.batch_size
    if len(clips) < batch_size:
        raise UserError(f"batch_size={batch_size}, but there are {len(clips)} clips to train on; set batch_size lower")
    return Loader(
        clips,
        batch_size=team.share(batch_size),
        sample_rate=model.sample_rate,
        seed=config.seed,
        rank=team.rank,
        world=team.world,
        workers=config.data.workers,
        prepare=model.prepare,
        captions=config.data.captions,
        augment=augment,
        features=features,
        drop_last=True,
        max_seconds=config.data.max_seconds,
        quarantine=None if out is None else out / QUARANTINE,
        strict=config.data.strict,
        decoded=config.data.decoded,
        bucket=config.data.bucket,
    )
