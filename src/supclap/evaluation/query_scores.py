"""What a ranking is worth where several clips are right, some more than others, and some must not come.

Every query is judged by its whole ranking of the clips. Of equal scores the clip that counts against the model comes
first: a hard negative, then the less relevant. docs/protocols.md has the formulas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.evaluation import inputs, resampling
from supclap.evaluation.model import AUDIO_BATCH, audio_rows, check_clips, text_rows
from supclap.evaluation.queries import Query
from supclap.evaluation.ranks import ROUNDING, unit, worst_order
from supclap.schema import Clip, UserError

CUTS = (1, 5, 10)
METRICS = ("nDCG@10", *(f"R@{k}" for k in CUTS), "mAP")
HARD = ("HNSR", *(f"HNSR@{k}" for k in CUTS), "TFR", *(f"TFR@{k}" for k in CUTS), "delta_rank")
COMPARED = "caption"
CONTROLS = ("words alone", "sound alone")
AT_ONCE = 2**22  # scores held at once

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Value:
    """A number over queries with its 95 % interval over the clips they were made from."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Plain values, ready for JSON."""
        return asdict(self)


def judge(scores: Floats, gains: Floats, against: NDArray[np.bool_], threshold: float = 1.0) -> dict[str, float]:
    """One query's metrics as shares of one; the hard-negative ones only where there is one."""
    order = worst_order(scores, gains, against)
    placed, best = gains[order], np.sort(gains)[::-1]
    worth = 1.0 / np.log2(np.arange(min(10, len(gains))) + 2.0)
    places = np.flatnonzero(placed >= threshold * best[0] - ROUNDING)
    found = {"nDCG@10": float(placed[: len(worth)] @ worth / (best[: len(worth)] @ worth))}
    found |= {f"R@{k}": float(places[0] < k) for k in CUTS}
    found["mAP"] = float((np.arange(1, len(places) + 1) / (places + 1)).mean())
    if against.any():
        found |= _discrimination(int(places[0]), int(np.flatnonzero(against[order])[0]))
    return found


def _discrimination(right: int, hard: int) -> dict[str, float]:
    """From the 0-based places of the first right clip and of the first hard negative."""
    found = {"HNSR": float(right < hard), "TFR": float(right == 0), "delta_rank": float(hard - right)}
    found |= {f"HNSR@{k}": float(right < k <= hard) for k in CUTS}
    return found | {f"TFR@{k}": float(right == 0 and k <= hard) for k in CUTS}


def by_chance(gains: Floats) -> float:
    """The expected nDCG@10 of a ranking drawn by lot."""
    worth = 1.0 / np.log2(np.arange(min(10, len(gains))) + 2.0)
    return float(gains.mean() * worth.sum() / (np.sort(gains)[::-1][: len(worth)] @ worth))


@dataclass(frozen=True)
class Judged:
    """The queries of one kind: whose clip each was made from, and what each is worth by metric."""

    clips: list[str]
    values: dict[str, Floats]
    chance: float

    def mean(self, metric: str) -> Value:
        """In percent; delta_rank in places."""
        return self._over(self.values[metric], 1.0 if metric == "delta_rank" else 100.0)

    def against(self, base: Judged, metric: str = "nDCG@10") -> Value | None:
        """The mean difference from the same clips' other queries, which asked for the same sounds."""
        other = dict(zip(base.clips, base.values[metric].tolist(), strict=True))
        if len(other) != len(base.clips) or any(name not in other for name in self.clips):
            return None
        return self._over(self.values[metric] - np.array([other[name] for name in self.clips]), 100.0)

    def _over(self, values: Floats, scale: float) -> Value:
        _, place = np.unique(self.clips, return_inverse=True)
        known = np.isfinite(values)
        sums = np.bincount(place[known], scale * values[known], place.max() + 1).astype(float)
        counts = np.bincount(place[known], minlength=place.max() + 1).astype(float)
        asked = counts > 0
        if not asked.any():
            return Value(np.nan, np.nan, np.nan)
        drawn = resampling.mean_draws(sums[asked, None], counts[asked, None], 2_000)
        low, high = resampling.percentile(drawn, int(asked.sum()))
        return Value(float(sums.sum() / counts.sum()), float(low[0]), float(high[0]))


@dataclass(frozen=True)
class QueryScores(Mapping[str, dict[str, Any]]):
    """By kind of query: ``scores["tags"]["nDCG@10"]``, percent. ``clips`` were ranked for each."""

    kinds: dict[str, Judged]
    clips: int
    threshold: float
    split: str | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        return {kind: self._row(kind) for kind in self.kinds}

    def _row(self, kind: str) -> dict[str, Any]:
        judged = self.kinds[kind]
        values = {metric: judged.mean(metric) for metric in judged.values}
        row: dict[str, Any] = {"queries": len(judged.clips), "chance": 100.0 * judged.chance}
        row |= {metric: value.value for metric, value in values.items()}
        row["intervals"] = {metric: [value.low, value.high] for metric, value in values.items()}
        if HARD[0] in judged.values:
            row["paired"] = int(np.isfinite(judged.values[HARD[0]]).sum())
        base = self.kinds.get(COMPARED)
        cost = None if base is None or kind in (COMPARED, "exclusion", "composed", *CONTROLS) else judged.against(base)
        if cost is not None:
            row["against_caption"] = cost.to_dict()
        return row

    def __getitem__(self, kind: str) -> dict[str, Any]:
        return self._rows[kind]

    def __iter__(self) -> Any:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain: dict[str, Any] = {"split": self.split, "clips": self.clips, "threshold": self.threshold}
        plain["queries"] = {kind: dict(row) for kind, row in self._rows.items()}
        return plain | ({"notes": list(self.notes)} if self.notes else {})


def evaluate(
    audio: Any,
    clips: Sequence[str],
    asked: Sequence[Query],
    text: Mapping[tuple[str, str], Any],
    *,
    threshold: float = 1.0,
    split: str | None = None,
    notes: Sequence[str] = (),
) -> QueryScores:
    """Score queries: audio [n, d] with the clips' ids, and the row of every (text, language).

    A clip is right where its relevance is at least ``threshold`` of the best that any clip has for this query. A
    composed query is the mean of the unit rows of its sound and its words; both alone stand beside it.
    """
    rows, place = _candidates(audio, clips, asked, threshold)
    vectors: dict[str, list[Any]] = {}
    members: dict[str, list[Query]] = {}
    for query in asked:
        words = unit(np.asarray(text[query.text, query.language])[None])[0]
        ways = {query.kind: words}
        if query.sound is not None:
            sound = rows[place[query.sound]]
            ways = {query.kind: words + sound, CONTROLS[0]: words, CONTROLS[1]: sound}
        for kind, vector in ways.items():
            vectors.setdefault(kind, []).append(vector)
            members.setdefault(kind, []).append(query)
    kinds = {kind: _judged(members[kind], np.stack(vectors[kind]), rows, place, threshold) for kind in members}
    return QueryScores(kinds, len(clips), threshold, split, tuple(notes))


def evaluate_model(
    model: Any,
    clips: Sequence[Clip],
    asked: Sequence[Query],
    *,
    threshold: float = 1.0,
    split: str | None = None,
    notes: Sequence[str] = (),
    batch_size: int = AUDIO_BATCH,
    workers: int = 0,
) -> QueryScores:
    """Ask a model everything; every clip is a candidate for every query."""
    if not asked:
        raise UserError("there is no query to ask; these scenes, or this file, allow none")
    check_clips(clips, captions=False)
    sentences = list(dict.fromkeys((query.text, query.language) for query in asked))
    text = dict(zip(sentences, text_rows(model, sentences), strict=True))
    audio, _ = audio_rows(model, clips, None, batch_size, workers, "raise")
    names = [clip.id for clip in clips]
    return evaluate(audio, names, asked, text, threshold=threshold, split=split, notes=notes)


def _candidates(
    audio: Any, clips: Sequence[str], asked: Sequence[Query], threshold: float
) -> tuple[Floats, dict[str, int]]:
    if not 0 < threshold <= 1:
        raise UserError(f"threshold={threshold!r} must lie above 0 and not above 1; 1 takes the best answers only")
    if not asked:
        raise UserError("there is no query to score; give one at least")
    rows = unit(inputs.embeddings("audio", audio))
    if len(rows) != len(clips):
        raise UserError(f"audio has {len(rows)} rows for {len(clips)} clips; give one a clip")
    name, count = Counter(clips).most_common(1)[0]
    if count > 1:
        raise UserError(f"clip {name!r} stands {count} times among the clips; give each once")
    place = {name: row for row, name in enumerate(clips)}
    for query in asked:
        named = [*query.relevance, *query.distractors, *([query.sound] if query.sound else [])]
        missing = [name for name in named if name not in place]
        if missing:
            raise UserError(f"query {query.text!r} names clip {missing[0]!r}, which has no row of audio; embed it")
    return rows, place


def _judged(
    asked: Sequence[Query], vectors: Floats, rows: Floats, place: Mapping[str, int], threshold: float
) -> Judged:
    values: list[dict[str, float]] = []
    chances = []
    step = max(1, AT_ONCE // len(rows))
    for first in range(0, len(asked), step):
        scores = unit(vectors[first : first + step]) @ rows.T
        for query, row in zip(asked[first : first + step], scores, strict=True):
            gains, against = np.zeros(len(rows)), np.zeros(len(rows), bool)
            gains[[place[name] for name in query.relevance]] = list(query.relevance.values())
            against[[place[name] for name in query.distractors]] = True
            # The sound that goes with a query is no answer to it.
            kept = np.arange(len(rows)) != (-1 if query.sound is None else place[query.sound])
            values.append(judge(row[kept], gains[kept], against[kept], threshold))
            chances.append(by_chance(gains[kept]))
    metrics = METRICS + (HARD if any(HARD[0] in value for value in values) else ())
    table = {metric: np.array([value.get(metric, np.nan) for value in values]) for metric in metrics}
    return Judged([query.clip for query in asked], table, float(np.mean(chances)))
