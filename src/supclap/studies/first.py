"""The first hits of the demo: a model of a few seconds, so that there is something to see before the real ones."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import PositiveInt

from supclap.data.scenes.write import write
from supclap.evaluation.model import embed_clips
from supclap.schema import Clip
from supclap.settings import cache_folder, settings
from supclap.training.config import RunConfig, recipe
from supclap.training.loop import train


@settings
class FirstSettings:
    """Small enough for twenty seconds on two cores from the start of the command, imports and composing included."""

    train: PositiveInt = 320
    asked: PositiveInt = 60  # scenes that are asked about and were not trained on
    seconds: float = 3.0
    steps: PositiveInt = 40
    batch_size: PositiveInt = 32
    channels: tuple[int, int, int, int] = (16, 48, 96, 160)
    text_width: PositiveInt = 128
    lr: float = 3e-3
    seed: int = 0


@dataclass(frozen=True)
class FirstHit:
    """A caption of an unheard scene, the scene it found, and the place of its own."""

    text: str
    found: Clip
    place: int  # from 1
    of: int


def first_hits(chosen: FirstSettings | None = None, count: int = 3) -> list[FirstHit]:
    """What a model of a few seconds finds for the first captions; nothing is picked."""
    chosen = chosen or FirstSettings()
    sizes = (chosen.train, 0, chosen.asked)
    name = f"first-{'-'.join(map(str, sizes))}-{chosen.seconds:g}-{chosen.seed}"
    clips = write(cache_folder("corpora", name), *sizes, seconds=chosen.seconds, seed=chosen.seed, languages=("eng",))
    heard, asked = ([clip for clip in clips if clip.split == split] for split in ("train", "test"))
    with tempfile.TemporaryDirectory(prefix="supclap-") as folder:
        # What is asked about stands in no split of the run: it is neither trained on nor chosen by.
        seen = embed_clips(train(_config(chosen), out=Path(folder) / "first", data=heard).model, asked)
    cosines = seen.text @ seen.audio.T
    captions = [caption.text for clip in asked for caption in clip.captions]
    rows = [int(np.flatnonzero(seen.caption_clip == place)[0]) for place in range(min(count, len(asked)))]
    return [
        FirstHit(
            captions[row],
            asked[int(cosines[row].argmax())],
            int((cosines[row] >= cosines[row, seen.caption_clip[row]]).sum()),
            len(asked),
        )
        for row in rows
    ]


def _config(chosen: FirstSettings) -> RunConfig:
    return recipe(
        "small",
        {
            "objective": "bi-dynamic",
            "steps": chosen.steps,
            "epochs": chosen.steps,
            "batch_size": chosen.batch_size,
            "seed": chosen.seed,
            "lr": chosen.lr,
            "evaluate.every": chosen.steps,
            "evaluate.dynamics": 0,
            "data.val": 0.02,
            "data.test": 0.0,
            "audio_tower.channels": chosen.channels,
            "text_tower.width": chosen.text_width,
            "device": "cpu",
        },
    )
