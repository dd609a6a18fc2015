"""Search as people type it, asked of scenes whose ground truth is known: not captions, and several clips are right.

Each scene is asked for in seven ways about the same sounds. Relevance is graded by events: the share of the sounds
asked for that a clip holds; a clip with a sound that was excluded, or without the one that was added, has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supclap.data.scenes import Truth
from supclap.data.scenes.asked import COMMANDS, QUESTIONS, WITH, WITHOUT, asked, caption, joined
from supclap.runtime import derive
from supclap.schema import UserError, unknown

KINDS = ("caption", "question", "command", "tags", "paraphrase", "exclusion", "composed")
MOST_TAG_WORDS = 3

Presence = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Query:
    """What was typed, how much each clip answers it (clips that are not named: not at all), and what must not come.

    ``clip`` is the one it was made from: queries of one clip are resampled together. ``distractors`` are hard
    negatives. ``sound`` is the clip that goes with the words of a composed query; it is no answer to it.
    """

    kind: str
    text: str
    clip: str
    relevance: Mapping[str, float]
    distractors: tuple[str, ...] = ()
    sound: str | None = None
    language: str = "eng"

    def __post_init__(self) -> None:
        """Refuse what cannot be scored."""
        what = f"query {self.text!r}"
        if not self.text.strip():
            raise UserError("a query is empty; write what was typed, or leave the row out")
        if any(not 0 <= gain < float("inf") for gain in self.relevance.values()):
            raise UserError(f"{what} has a relevance below 0 or not finite; give 0 or more")
        if not any(self.relevance.values()):
            raise UserError(f"{what} has no clip of a relevance above 0; name one that answers it")
        both = [name for name in self.distractors if self.relevance.get(name, 0) > 0]
        if both:
            raise UserError(f"{what}: clip {both[0]!r} is an answer and a hard negative; it can be one of them")

    def to_dict(self) -> dict[str, Any]:
        """Plain values: a line of a query file."""
        fields: dict[str, Any] = {"query": self.text, "type": self.kind, "clip_id": list(self.relevance)}
        fields |= {"relevance": list(self.relevance.values()), "hard_negative": list(self.distractors)}
        return fields | {"sound": self.sound, "language": self.language, "target": self.clip}


def queries(truths: Mapping[str, Truth], *, kinds: Sequence[str] = KINDS, seed: int = 0) -> list[Query]:
    """Every query that the scenes allow, at most one of a kind a scene; the same ones every time."""
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS)
    present = {name: frozenset(truth.labels()) for name, truth in truths.items()}
    found = []
    for name in truths:
        if present[name]:
            made = _Made(name, present, np.random.default_rng(derive(seed, "queries", name)))
            found += [query for kind in kinds if (query := made.of(kind)) is not None]
    return found


@dataclass
class _Made:
    """The queries of one scene. Every kind draws from a generator of its own, so that leaving one out changes none."""

    name: str
    present: Presence
    rng: np.random.Generator
    wanted: list[str] = field(init=False)
    seeds: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        mine = sorted(self.present[self.name])
        drawn = [mine[place] for place in self.rng.permutation(len(mine))][: 1 + int(self.rng.integers(3))]
        # As many as three words of tags can name; the first one always.
        lengths = np.cumsum([len(asked(label).tag.split()) for label in drawn])
        self.wanted = drawn[: max(1, int((lengths <= MOST_TAG_WORDS).sum()))]
        self.seeds = {kind: int(self.rng.integers(2**32)) for kind in KINDS}

    def of(self, kind: str) -> Query | None:
        rng = np.random.default_rng(self.seeds[kind])
        if kind == "exclusion":
            return self._exclusion(rng)
        if kind == "composed":
            return self._composed(rng)
        doing = joined([asked(label).doing for label in self.wanted])
        text = {
            "caption": lambda: caption(self.wanted),
            "question": lambda: _one(QUESTIONS, rng).format(doing),
            "command": lambda: _one(COMMANDS, rng).format(doing),
            "tags": lambda: " ".join(asked(label).tag for label in self.wanted),
            "paraphrase": lambda: _capital(joined([asked(label).reworded for label in self.wanted])),
        }[kind]()
        return Query(kind, text, self.name, _shares(self.present, self.wanted))

    def _exclusion(self, rng: np.random.Generator) -> Query | None:
        """What is there, without what comes with it elsewhere: a clip that holds both is the hard negative."""
        for wanted in (self.wanted, *([label] for label in self.wanted)):
            rivals = [name for name, labels in self.present.items() if labels.issuperset(wanted)]
            absent = sorted(set().union(*(self.present[name] for name in rivals)) - self.present[self.name])
            if absent:
                gone = absent[int(rng.integers(len(absent)))]
                hard = self._most_alike([name for name in rivals if gone in self.present[name]])
                said = "tag" if rng.random() < 0.5 else "doing"
                here, left_out = joined([getattr(asked(label), said) for label in wanted]), getattr(asked(gone), said)
                text = _one(WITHOUT[said], rng).format(here, left_out)
                return Query("exclusion", text, self.name, _shares(self.present, wanted, without=gone), (hard,))
        return None

    def _composed(self, rng: np.random.Generator) -> Query | None:
        """A sound and what should be there as well; its nearest kin that lacks it is the hard negative."""
        mine = self.present[self.name]
        others = {name: labels for name, labels in self.present.items() if name != self.name}
        added = sorted(set().union(*(labels for labels in others.values() if labels & mine)) - mine)
        if not added:
            return None
        extra = added[int(rng.integers(len(added)))]
        relevance = _shares(others, sorted(mine), given=extra)
        alike = [name for name, labels in others.items() if labels & mine and extra not in labels]
        text = _one(WITH, rng).format(asked(extra).doing)
        hard = (self._most_alike(alike),) if alike else ()
        return Query("composed", text, self.name, relevance, hard, self.name)

    def _most_alike(self, names: Sequence[str]) -> str:
        mine = self.present[self.name]
        # Of equals the first by name: the table's order must not matter.
        return min(names, key=lambda name: (-len(self.present[name] & mine) / len(self.present[name] | mine), name))


def _shares(present: Presence, wanted: Sequence[str], *, without: str = "", given: str = "") -> dict[str, float]:
    """By clip the share of the sounds wanted; clips with none of them, or against the condition, are left out."""
    found = {}
    for name, labels in present.items():
        share = sum(label in labels for label in wanted) / len(wanted)
        if share and without not in labels and (not given or given in labels):
            found[name] = share
    return found


def _one(choices: Sequence[str], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
