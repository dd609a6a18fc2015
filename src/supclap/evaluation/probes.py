"""What a model understands of a sentence, asked of scenes whose ground truth is known.

A question is a clip, a right sentence, and wrong ones that differ in one thing only: who comes first, who has which
attribute, how often, what is absent, which sound it is. The model is right where the right sentence scores above every
wrong one; ties count against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from supclap.data.scenes import EVENTS, Placed, Truth
from supclap.data.scenes.grammar import LANGUAGES, WAYS, tell_one
from supclap.data.scenes.grammar.language import COUNTS, Said
from supclap.evaluation import inputs, resampling
from supclap.evaluation.model import audio_rows, text_rows
from supclap.evaluation.ranks import ROUNDING, unit
from supclap.runtime import derive
from supclap.schema import Clip, UserError, unknown

KINDS = ("order", "binding", "count", "negation", "composition")
MOST_WRONG = 3
MANNERS = ("pitch", "speed", "loudness")


@dataclass(frozen=True)
class Question:
    """One sentence that is true of a clip, and some that are not, alike in all but one thing."""

    kind: str
    clip: str
    right: str
    wrong: tuple[str, ...]

    @property
    def chance(self) -> float:
        """How often a guess is right, in percent."""
        return 100.0 / (1 + len(self.wrong))


def questions(
    truths: Mapping[str, Truth], *, kinds: Sequence[str] = KINDS, language: str = "eng", seed: int = 0
) -> list[Question]:
    """Every question the scenes can be asked, one of a kind a scene; the same ones every time."""
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS)
    if language not in LANGUAGES:
        raise unknown("language", language, LANGUAGES)
    found = []
    for name, truth in truths.items():
        rng = np.random.default_rng(derive(seed, "probes", name))
        way = int(rng.integers(WAYS))
        for kind in kinds:
            if kind == "negation":
                asked = _negation(name, truth, rng) if language == "eng" else None
            else:
                asked = _changed(kind, name, truth, rng, language, way)
            if asked is not None:
                found.append(asked)
    return found


def _changed(kind: str, name: str, truth: Truth, rng: np.random.Generator, language: str, way: int) -> Question | None:
    """Tell the scene as it is, and as it would be with one thing changed, in the same words."""
    makers = {"order": _reordered, "binding": _rebound, "count": _recounted, "composition": _recomposed}
    others = [other for other in makers[kind](truth, rng) if other.signature != truth.signature]
    right = tell_one(truth, language, way)
    told = dict.fromkeys(tell_one(other, language, way) for other in others)
    wrong = tuple(text for text in told if text != right)[:MOST_WRONG]
    return Question(kind, name, right, wrong) if wrong else None


def _reordered(truth: Truth, rng: np.random.Generator) -> Iterator[Truth]:
    """The steps the other way round; scenes in which a sound comes back have no plain order."""
    last = len(truth.steps) - 1
    if last < 1 or any(event.again for event in truth.events):
        return
    swapped = tuple(replace(event, step=last - event.step) if event.step >= 0 else event for event in truth.events)
    yield Truth(truth.seconds, swapped)


def _rebound(truth: Truth, rng: np.random.Generator) -> Iterator[Truth]:
    """One sound's manner given to another, its own taken away."""
    front = [event for event in truth.events if event.step >= 0 and not event.again]
    if any(event.again for event in truth.events):
        return
    for owner in front:
        for manner in MANNERS:
            if manner not in owner.attributes:
                continue
            for heir in front:
                able = manner == "loudness" or manner in EVENTS[heir.label].attributes
                if heir.label != owner.label and able and manner not in heir.attributes:
                    yield _with(truth, (owner, _without(owner, manner)), (heir, _having(heir, manner, owner)))


def _recounted(truth: Truth, rng: np.random.Generator) -> Iterator[Truth]:
    """Another number of strokes."""
    counted = [event for event in truth.events if "count" in event.attributes]
    for event in counted[:1]:
        for number in COUNTS:
            if number != event.attributes["count"]:
                changed = replace(event, attributes={**event.attributes, "count": number})
                yield _with(truth, (event, changed))


def _recomposed(truth: Truth, rng: np.random.Generator) -> Iterator[Truth]:
    """One sound replaced by one that is not there, everything else as it is."""
    front = [event for event in truth.events if event.step >= 0 and not event.again]
    if len(front) < 2 or any(event.again for event in truth.events):
        return
    event = front[int(rng.integers(len(front)))]
    absent = sorted(truth.absent(tuple(EVENTS)))
    for place in rng.permutation(len(absent)).tolist():
        other = EVENTS[absent[place]]
        fits = all(m not in event.attributes or m in other.attributes for m in ("pitch", "speed"))
        if fits and ("count" not in event.attributes or other.period is not None):
            yield _with(truth, (event, replace(event, label=other.name)))


def _negation(name: str, truth: Truth, rng: np.random.Generator) -> Question:
    """The same two sounds, the one that is there and the one that is not: "rain without thunder" and its reverse."""
    present = truth.labels()
    absent = truth.absent(tuple(EVENTS))
    here, gone = (LANGUAGES["eng"].noun(Said(label, {}, False, 0), "plain") for label in (
        present[int(rng.integers(len(present)))], absent[int(rng.integers(len(absent)))]))  # fmt: skip
    right, wrong = (f"{one[0].upper()}{one[1:]}, without {other}" for one, other in ((here, gone), (gone, here)))
    return Question("negation", name, right, (wrong,))


def _with(truth: Truth, *changes: tuple[Placed, Placed]) -> Truth:
    by_place = {id(old): new for old, new in changes}
    return Truth(truth.seconds, tuple(by_place.get(id(event), event) for event in truth.events))


def _without(event: Placed, manner: str) -> Placed:
    return replace(event, attributes={key: value for key, value in event.attributes.items() if key != manner})


def _having(event: Placed, manner: str, owner: Placed) -> Placed:
    return replace(event, attributes={**event.attributes, manner: owner.attributes[manner]})


@dataclass(frozen=True)
class ProbeScore:
    """One kind of question: percent right with its interval over clips, and what guessing gives."""

    kind: str
    accuracy: float
    low: float
    high: float
    chance: float
    questions: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def evaluate(audio: Any, clips: Sequence[str], asked: Sequence[Question], text: Mapping[str, Any]) -> list[ProbeScore]:
    """Score questions: audio [n, d] with the clips' ids, and the row of every sentence."""
    rows = unit(inputs.embeddings("audio", audio))
    if len(rows) != len(clips):
        raise UserError(f"audio has {len(rows)} rows for {len(clips)} clips; give one a clip")
    place = {name: row for row, name in enumerate(clips)}
    missing = [question.clip for question in asked if question.clip not in place]
    if missing:
        raise UserError(f"clip {missing[0]!r} is asked about but has no row of audio; embed it, or leave it out")
    right: dict[str, list[float]] = {}
    for question in asked:
        texts = unit(np.stack([np.asarray(text[sentence]) for sentence in (question.right, *question.wrong)]))
        scores = texts @ rows[place[question.clip]]
        right.setdefault(question.kind, []).append(100.0 * float(scores[0] > scores[1:].max() + ROUNDING))
    chances: dict[str, list[float]] = {}
    for question in asked:
        chances.setdefault(question.kind, []).append(question.chance)
    return [_score(kind, np.array(right[kind]), float(np.mean(chances[kind]))) for kind in KINDS if kind in right]


def _score(kind: str, right: Any, chance: float) -> ProbeScore:
    drawn = resampling.mean_draws(right[:, None], np.ones((len(right), 1)), 10_000)
    low, high = resampling.percentile(drawn, len(right))
    return ProbeScore(kind, float(right.mean()), float(low[0]), float(high[0]), chance, len(right))


def evaluate_model(
    model: Any,
    clips: Sequence[Clip],
    truths: Mapping[str, Truth],
    *,
    kinds: Sequence[str] = KINDS,
    language: str = "eng",
    seed: int = 0,
    batch_size: int = 32,
    workers: int = 0,
) -> list[ProbeScore]:
    """Ask a model everything that its clips' ground truth allows."""
    known = [clip for clip in clips if clip.id in truths]
    if not known:
        raise UserError(f"none of {len(clips)} clips has ground truth; give a folder made by `supclap corpus compose`")
    twice = [name for name, count in Counter(clip.id for clip in known).items() if count > 1]
    if twice:
        raise UserError(f"clip {twice[0]!r} stands in the table twice; give each once")
    asked = questions({clip.id: truths[clip.id] for clip in known}, kinds=kinds, language=language, seed=seed)
    sentences = list(dict.fromkeys(text for question in asked for text in (question.right, *question.wrong)))
    if not sentences:
        raise UserError("these scenes can be asked none of the questions; compose more of them")
    rows = text_rows(model, [(text, language) for text in sentences])
    audio, _ = audio_rows(model, known, None, batch_size, workers, "raise")
    return evaluate(audio, [clip.id for clip in known], asked, dict(zip(sentences, rows, strict=True)))
