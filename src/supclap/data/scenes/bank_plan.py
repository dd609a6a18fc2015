"""What happens in a scene of real recordings: which, in which order, together or apart, how loud, when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from supclap.data.scenes.dsp import generator
from supclap.data.scenes.plan import LOUDNESS, SIZES, groups_of
from supclap.data.scenes.truth import BACKGROUND, Placed, Truth
from supclap.runtime import derive
from supclap.schema import UserError

# Classes of the public banks that go on and on.
LASTING = frozenset(
    "rain sea_waves crackling_fire crickets wind engine vacuum_cleaner washing_machine helicopter train insects "
    "chirping_birds air_conditioner engine_idling street_music children_playing".split()
)
LONGEST = 500
"""Hundredths of a second that one event may last."""

Sources = Mapping[str, Sequence[tuple[str, int, int]]]
"""label -> (recording, first sample, how many) each."""


@dataclass(frozen=True)
class Segment:
    """A stretch of the bank's file, and the recording it is from."""

    source: str
    first: int
    count: int


@dataclass(frozen=True)
class BankScene:
    """What is true of a scene, and the sound of each of its events."""

    id: str
    split: str
    truth: Truth
    segments: tuple[Segment, ...]


def bank_plans(sources: Sources, count: int, seed: int, split: str, seconds: float, rate: int) -> list[BankScene]:
    """The scenes of a split; outside training no two with the same events, order and loudness."""
    seen: set[tuple[object, ...]] = set()
    out = []
    for index in range(count):
        for attempt in range(300):
            rng = generator(derive(seed, "bank", split, index, attempt))
            truth, segments = _one(rng, sources, seconds, rate)
            if split == "train" or truth.signature not in seen:
                break
        else:
            raise UserError(
                f"{split}={count}: {len(sources)} labels do not give so many different scenes; ask for fewer"
            )
        seen.add(truth.signature)
        out.append(BankScene(f"{split}-{index:05d}", split, truth, tuple(segments)))
    return out


def _one(rng: np.random.Generator, sources: Sources, seconds: float, rate: int) -> tuple[Truth, list[Segment]]:
    size = 1 + int(rng.choice(4, p=SIZES))
    lasting = [label for label in sources if label in LASTING]
    behind = lasting[int(rng.integers(len(lasting)))] if lasting and size > 1 and rng.random() < 0.35 else None
    names = [label for label in sources if label != behind]
    front = min(size - (behind is not None), len(names))
    chosen = [names[int(index)] for index in rng.permutation(len(names))[:front]]
    again = front >= 3 and rng.random() < 0.2
    if again:
        chosen[-1] = chosen[0]
    groups = groups_of(rng, front)
    picks = [_pick(rng, sources[label]) for label in chosen]
    loudness = [str(rng.choice(["soft", "loud"])) if rng.random() < 0.15 else "" for _ in chosen]
    if again:
        picks[-1], loudness[-1] = picks[0], loudness[0]
    events, segments = _laid(rng, chosen, picks, loudness, groups, again, round(seconds * 100), rate)
    if behind is not None:
        source, first, count = _pick(rng, sources[behind])
        events.append(Placed(behind, 0.0, seconds, BACKGROUND, decibels=-9.0))
        segments.append(Segment(source, first, count))
    return Truth(seconds, tuple(events)), segments


def _pick(rng: np.random.Generator, recordings: Sequence[tuple[str, int, int]]) -> tuple[str, int, int]:
    return recordings[int(rng.integers(len(recordings)))]


def _laid(
    rng: np.random.Generator,
    labels: Sequence[str],
    picks: Sequence[tuple[str, int, int]],
    loudness: Sequence[str],
    groups: Sequence[Sequence[int]],
    again: bool,
    room: int,
    rate: int,
) -> tuple[list[Placed], list[Segment]]:
    most = min(LONGEST, (room - 20) // len(groups) - 15)
    lengths = [max(5, min(most, 100 * count // rate)) for _, _, count in picks]
    spans = [max(lengths[index] for index in group) for group in groups]
    slack = room - 10 - sum(spans) - 15 * (len(groups) - 1)
    cuts = np.sort(rng.integers(0, slack + 1, len(groups)))
    events, segments, at, before = [], [], 5, 0
    for step, group in enumerate(groups):
        at += int(cuts[step]) - before + (15 if step else 0)
        before = int(cuts[step])
        for index in group:
            source, first, count = picks[index]
            wanted = round(lengths[index] / 100 * rate)
            skip = int(rng.integers(0, max(1, count - wanted + 1)))
            decibels = round(LOUDNESS.get(loudness[index], 0.0) + int(rng.integers(-20, 21)) / 10, 1)
            attributes = {"loudness": loudness[index]} if loudness[index] else {}
            events.append(
                Placed(
                    labels[index],
                    at / 100,
                    (at + lengths[index]) / 100,
                    step,
                    attributes,
                    again and index == len(labels) - 1,
                    decibels,
                )
            )
            segments.append(Segment(source, first + skip, min(wanted, count)))
        at += spans[step]
    return events, segments
