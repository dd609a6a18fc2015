"""Chance decides what happens in a scene: which sounds, in which order, together or apart, how loud, when.

Times are whole hundredths of a second, so that a plan is the same on every machine and at every sampling rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supclap.data.scenes.dsp import generator
from supclap.data.scenes.events import EVENTS, Event
from supclap.data.scenes.truth import BACKGROUND, Placed, Truth
from supclap.runtime import derive
from supclap.schema import UserError

FACTORS = {"pitch": {"low": 0.62, "high": 1.55}, "speed": {"slow": 0.6, "fast": 1.7}}
LOUDNESS = {"soft": -13.0, "loud": 8.0}
COUNTS = ((1, 0.4), (2, 0.25), (3, 0.2), (4, 0.15))
SIZES = (0.15, 0.35, 0.35, 0.15)
SHORTEST, LONGEST = 3.0, 600.0


@dataclass(frozen=True)
class Draft:
    """An event that has no place yet."""

    event: Event
    attributes: dict[str, str]
    centiseconds: int
    again: bool = False


def plan(seed: int, split: str, index: int, seconds: float, *, attempt: int = 0) -> Truth:
    """What happens in scene ``index`` of a split."""
    if not SHORTEST <= seconds <= LONGEST:
        raise UserError(f"seconds={seconds!r}: a scene lasts between {SHORTEST:g} and {LONGEST:g} seconds")
    rng = generator(derive(seed, "scenes", "plan", split, index, attempt))
    size = 1 + int(rng.choice(4, p=SIZES))
    behind = None
    if size > 1 and rng.random() < 0.4:
        behind = str(rng.choice([name for name, event in EVENTS.items() if event.background]))
    front = size - (behind is not None)
    while True:
        drafts = _drafts(rng, front, behind)
        groups = groups_of(rng, front)
        placed = _arrange(rng, drafts, groups, round(seconds * 100))
        if placed is not None:
            break
        front = max(1, front - (rng.random() < 0.1))
    if behind is not None:
        placed.append(Placed(behind, 0.0, seconds, BACKGROUND, decibels=-9.0))
    return Truth(seconds, tuple(placed))


def plans(count: int, seed: int, split: str, seconds: float, *, distinct: bool) -> list[Truth]:
    """The plans of a split; ``distinct``: no two with the same events, order and attributes."""
    seen: set[tuple[object, ...]] = set()
    out: list[Truth] = []
    for index in range(count):
        for attempt in range(1000):
            truth = plan(seed, split, index, seconds, attempt=attempt)
            if not distinct or truth.signature not in seen:
                break
        else:
            raise UserError(f"{split}={count}: there are not so many different scenes; ask for fewer")
        seen.add(truth.signature)
        out.append(truth)
    return out


def _drafts(rng: np.random.Generator, front: int, behind: str | None) -> list[Draft]:
    names = [name for name in EVENTS if name != behind]
    chosen = [EVENTS[names[int(index)]] for index in rng.permutation(len(names))[:front]]
    drafts = [draft(rng, event) for event in chosen]
    if front >= 3 and rng.random() < 0.3:
        first = drafts[0]
        drafts[-1] = Draft(first.event, first.attributes, first.centiseconds, again=True)
    return drafts


def draft(rng: np.random.Generator, event: Event, *, plain: bool = False) -> Draft:
    """Draw what is out of the ordinary about an event (``plain``: nothing), and its length."""
    attributes: dict[str, str] = {}
    count = 1
    if event.period is not None and not plain:
        count = int(rng.choice([value for value, _ in COUNTS], p=[share for _, share in COUNTS]))
        if count > 1:
            attributes["count"] = str(count)
    options = {"pitch": ("low", "high"), "speed": ("slow", "fast"), "loudness": ("soft", "loud")}
    names = [name for name in options if name == "loudness" or name in event.attributes]
    if event.period is not None and count < 3:
        names = [name for name in names if name != "speed"]
    for position in rng.permutation(len(names)):
        name = names[int(position)]
        if rng.random() < 0.35 and len(attributes) < 2 and not plain:
            attributes[name] = options[name][int(rng.integers(2))]
    return Draft(event, attributes, _length(rng, event, count, attributes))


def _length(rng: np.random.Generator, event: Event, count: int, attributes: dict[str, str]) -> int:
    low, high = event.seconds
    own = round(100 * (low + (high - low) * float(rng.random())))
    if event.period is None:
        return own
    return own + (count - 1) * stroke_period(event, attributes)


def stroke_period(event: Event, attributes: dict[str, str]) -> int:
    """Hundredths of a second from one stroke to the next."""
    assert event.period is not None
    speed = FACTORS["speed"].get(attributes.get("speed", ""), 1.0)
    return round(100 * event.period / speed)


def groups_of(rng: np.random.Generator, front: int) -> list[list[int]]:
    """Which events share a step: mostly none, sometimes two neighbours."""
    alone = [[index] for index in range(front)]
    if front < 2 or rng.random() >= 0.3:
        return alone
    first = int(rng.integers(front - 1))
    return [*alone[:first], [first, first + 1], *alone[first + 2 :]]


def _arrange(rng: np.random.Generator, drafts: list[Draft], groups: list[list[int]], room: int) -> list[Placed] | None:
    lengths = [max(drafts[index].centiseconds for index in group) for group in groups]
    gaps = [15 + int(rng.integers(16)) for _ in groups]
    slack = room - 5 - sum(lengths) - sum(gaps)
    if slack < 0:
        return None
    # What is left over goes before, between and behind the events, by chance.
    cuts = np.sort(rng.integers(0, slack + 1, len(groups)))
    placed, at, before = [], 0, 0
    for step, group in enumerate(groups):
        at += gaps[step] + int(cuts[step]) - before
        before = int(cuts[step])
        for index in group:
            part = drafts[index]
            start = at + int(rng.integers(0, max(1, min(15, lengths[step] - part.centiseconds + 1))))
            placed.append(placed_alone(part, rng, start, step))
        at += lengths[step]
    return placed


def placed_alone(part: Draft, rng: np.random.Generator, start: int = 0, step: int = 0) -> Placed:
    """An event at so many hundredths of a second, at a level of its own."""
    loudness = LOUDNESS.get(part.attributes.get("loudness", ""), 0.0)
    decibels = round(loudness + int(rng.integers(-10, 11)) / 10, 1)
    end = (start + part.centiseconds) / 100
    return Placed(part.event.name, start / 100, end, step, part.attributes, part.again, decibels)
