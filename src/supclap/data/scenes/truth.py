"""What is true of a scene, and the questions that probes and queries ask of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BACKGROUND = -1
"""The step of an event that lasts through the whole scene."""


@dataclass(frozen=True)
class Placed:
    """One event where it stands: seconds, the step it belongs to (0, 1, ...; events of one step sound together)."""

    label: str
    start: float
    end: float
    step: int
    attributes: Mapping[str, str] = field(default_factory=dict)  # what is out of the ordinary: count, pitch, ...
    again: bool = False  # the same as an earlier event of the scene
    decibels: float = 0.0  # against an event of ordinary loudness

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "label": self.label, "start": self.start, "end": self.end, "step": self.step,
            "attributes": dict(self.attributes), "again": self.again, "decibels": self.decibels,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Placed:
        """The reverse of ``to_dict``."""
        return cls(**fields)


@dataclass(frozen=True)
class Truth:
    """Everything that happens in one scene."""

    seconds: float
    events: tuple[Placed, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"seconds": self.seconds, "events": [event.to_dict() for event in self.events]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Truth:
        """The reverse of ``to_dict``."""
        return cls(float(fields["seconds"]), tuple(Placed.from_dict(event) for event in fields["events"]))

    @property
    def background(self) -> Placed | None:
        """What lasts through the whole scene."""
        return next((event for event in self.events if event.step == BACKGROUND), None)

    @property
    def steps(self) -> list[list[Placed]]:
        """The foreground in order; events that sound together share a step."""
        last = max((event.step for event in self.events), default=BACKGROUND)
        return [[event for event in self.events if event.step == step] for step in range(last + 1)]

    @property
    def signature(self) -> tuple[object, ...]:
        """What a caption must state: two scenes with one signature cannot be told apart by words."""
        behind = self.background
        steps = tuple(tuple(sorted(_word(event) for event in step)) for step in self.steps)
        return (behind.label if behind else None, steps)

    def labels(self) -> tuple[str, ...]:
        """Which sounds are there, each once, in order of appearance."""
        return tuple(dict.fromkeys(event.label for event in sorted(self.events, key=lambda event: event.start)))

    def order(self) -> tuple[tuple[str, ...], ...]:
        """The labels of each step of the foreground."""
        return tuple(tuple(event.label for event in step) for step in self.steps)

    def before(self, first: str, second: str) -> bool | None:
        """Does one sound come before another? None where either is absent, or they sound together or alternate."""
        steps = [
            [event.step for event in self.events if event.label == name and event.step >= 0] for name in (first, second)
        ]
        if not all(steps):
            return None
        if max(steps[0]) < min(steps[1]):
            return True
        return False if min(steps[0]) > max(steps[1]) else None

    def together(self) -> tuple[tuple[str, str], ...]:
        """Pairs of the foreground that sound at once."""
        return tuple((step[0].label, step[1].label) for step in self.steps if len(step) == 2)

    def count(self, label: str) -> int:
        """How often a sound is heard: strokes where it has strokes, else appearances."""
        return sum(int(event.attributes.get("count", "1")) for event in self.events if event.label == label)

    def attribute(self, label: str, name: str) -> str | None:
        """A sound's count, pitch, speed or loudness where it is out of the ordinary."""
        for event in self.events:
            if event.label == label:
                return event.attributes.get(name)
        return None

    def repeated(self) -> tuple[str, ...]:
        """Sounds that come back after another one."""
        return tuple(event.label for event in self.events if event.again)

    def absent(self, among: Sequence[str]) -> tuple[str, ...]:
        """Which of some sounds are not there."""
        present = {event.label for event in self.events}
        return tuple(name for name in among if name not in present)


def _word(event: Placed) -> tuple[object, ...]:
    return (event.label, tuple(sorted(event.attributes.items())), event.again)
