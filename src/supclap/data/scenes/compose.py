"""Scenes by number: planned, told in eight languages, and played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from supclap.data.scenes.grammar import LANGUAGES, tell_several
from supclap.data.scenes.plan import plans
from supclap.data.scenes.pool import spread
from supclap.data.scenes.render import render
from supclap.data.scenes.truth import Placed, Truth
from supclap.runtime import derive
from supclap.schema import Caption, UserError, unknown

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Scene:
    """One composed scene; ``samples`` are float32 [t] and fit 16 bits exactly."""

    id: str
    split: str
    samples: NDArray[np.float32]
    rate: int
    captions: tuple[Caption, ...]
    truth: Truth

    @property
    def events(self) -> tuple[Placed, ...]:
        """The events with label, attributes, start and end."""
        return self.truth.events


@dataclass(frozen=True)
class Script:
    """A scene before it is played."""

    id: str
    split: str
    captions: tuple[Caption, ...]
    truth: Truth
    seed: int


def scripts(
    count: int,
    seed: int,
    split: str,
    seconds: float = 5.0,
    *,
    languages: Sequence[str] = tuple(LANGUAGES),
    captions: int | None = None,
) -> list[Script]:
    """What happens in each scene and what is said of it: cheap, and the same on every machine.

    ``captions`` per clip and language: by default one for training and five for validation and test.
    """
    _check(count, split, languages, captions)
    truths = plans(count, seed, split, seconds, distinct=split != "train")
    named = [(f"{split}-{index:05d}", split, truth) for index, truth in enumerate(truths)]
    return [
        Script(name, split, told, truth, derive(seed, "sound", name))
        for name, split, told, truth in rows_of(named, seed, languages, captions)
    ]


def rows_of(
    named: Sequence[tuple[str, str, Truth]], seed: int, languages: Sequence[str], captions: int | None = None
) -> list[tuple[str, str, tuple[Caption, ...], Truth]]:
    """(id, split, truth) with captions: by default one a language for training, five for validation and test."""
    return [
        (name, split, tuple(
            Caption(text, language)
            for language in languages
            for text in tell_several(truth, language, captions or (1 if split == "train" else 5),
                                     derive(seed, "captions", name))
        ), truth)
        for name, split, truth in named
    ]  # fmt: skip


def _check(count: int, split: str, languages: Sequence[str], captions: int | None) -> None:
    if count < 0:
        raise UserError(f"count={count}: give a number of scenes, 0 or more")
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    for language in languages:
        if language not in LANGUAGES:
            raise unknown("language", language, list(LANGUAGES))
    if captions is not None and not 1 <= captions <= 5:
        raise UserError(f"captions={captions}: between 1 and 5 a clip and language")


def compose(
    count: int,
    seed: int,
    split: str,
    seconds: float = 5.0,
    rate: int = 16000,
    *,
    languages: Sequence[str] = tuple(LANGUAGES),
    captions: int | None = None,
    workers: int | None = None,
) -> list[Scene]:
    """So many scenes of a split, the same for the same seed, whatever the number of worker processes."""
    if not 8000 <= rate <= 192000:
        raise UserError(f"rate={rate}: between 8000 and 192000 samples a second")
    written = scripts(count, seed, split, seconds, languages=languages, captions=captions)
    sounds = spread(partial(_sound, rate=rate), written, workers)
    return [
        Scene(script.id, script.split, samples, rate, script.captions, script.truth)
        for script, samples in zip(written, sounds, strict=True)
    ]


def _sound(script: Script, rate: int) -> NDArray[np.float32]:
    return render(script.truth, rate, script.seed)
