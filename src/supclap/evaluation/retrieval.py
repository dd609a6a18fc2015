"""Audio-text retrieval: one call from embeddings (or a similarity matrix) to scores, both directions, any protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.evaluation import inputs, protocols, resampling
from supclap.evaluation.protocols import LOWER_IS_BETTER, Protocol, Selection, Values
from supclap.evaluation.ranks import Ints, Ranks, rank_embeddings, rank_similarity
from supclap.schema import Direction, UserError, unknown

DIRECTIONS: tuple[Direction, Direction] = ("t2a", "a2t")
DRAWS = 2000


@dataclass(frozen=True)
class Part:
    """One language's share: what each query is worth, and whose clip it asks about."""

    ranks: Ranks
    values: dict[Direction, Values]
    owners: dict[Direction, Ints]
    captions: Ints  # the places of its captions among all that were given

    def metric(self, direction: Direction, name: str) -> float:
        """Percent; MedR and MeanR in ranks from 1."""
        if name == "MedR":
            return protocols.median_rank(self.query_ranks(direction))
        value = float(self.values[direction][name].mean())
        return value if name in LOWER_IS_BETTER else 100.0 * value

    def query_ranks(self, direction: Direction) -> Ints:
        """0-based rank of each query: of its clip, or of its best caption."""
        return self.ranks.t2a if direction == "t2a" else self.ranks.best()[self.owners["a2t"]]

    def metrics(self, direction: Direction) -> dict[str, float]:
        """All of a direction's numbers."""
        names = [name for name in protocols.METRICS if name == "MedR" or name in self.values[direction]]
        names += [name for name in self.values[direction] if name not in names]
        return {name: self.metric(direction, name) for name in names}

    def sums(self, direction: Direction, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[clips] the sum over each clip's queries, and how many there are."""
        owner, clips = self.owners[direction], self.ranks.clips
        scale = 1.0 if name in LOWER_IS_BETTER else 100.0
        sums = np.bincount(owner, scale * self.values[direction][name], clips).astype(np.float64)
        return sums, np.bincount(owner, minlength=clips).astype(np.float64)


class Scores(Mapping[str, Any]):
    """What a model scored. ``scores["t2a"]["R@1"]`` is percent; with several languages, the mean over them.

    ``ranks["t2a"]`` [captions] and ``ranks["a2t"]`` [clips] are 0-based places of the right clip and of the best right
    caption (with several languages [clips, languages]; -1 where a row took no part).
    """

    def __init__(
        self, protocol: Protocol, parts: dict[str, Part], given: int, split: str | None, notes: Sequence[str]
    ) -> None:
        self.protocol, self.parts, self.split, self.notes = protocol, parts, split, tuple(notes)
        self._given = given
        self._numbers: dict[str, dict[str, float]] = {direction: self._mean(direction) for direction in DIRECTIONS}

    def _mean(self, direction: Direction) -> dict[str, float]:
        rows = [part.metrics(direction) for part in self.parts.values()]
        return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}

    @property
    def clips(self) -> int:
        """How many clips were ranked."""
        return next(iter(self.parts.values())).ranks.clips

    @property
    def captions(self) -> int:
        """How many captions asked."""
        return sum(len(part.captions) for part in self.parts.values())

    def _items(self) -> dict[str, Any]:
        items: dict[str, Any] = {
            "protocol": self.protocol.name,
            "flag": self.protocol.flag,
            "split": self.split,
            "clips": self.clips,
            "captions": self.captions,
            **self._numbers,
        }
        if len(self.parts) > 1:
            items["languages"] = {code: self.language(code) for code in self.parts}
            items["consistency"] = consistency(self.parts)
        if self.notes:
            items["notes"] = list(self.notes)
        return items

    def language(self, code: str) -> dict[str, Any]:
        """One language's row."""
        if code not in self.parts:
            raise unknown("language", code, self.parts)
        part = self.parts[code]
        row: dict[str, Any] = {"clips": len(part.owners["a2t"]), "captions": len(part.captions)}
        return row | {direction: part.metrics(direction) for direction in DIRECTIONS}

    def __getitem__(self, key: str) -> Any:
        if key in self._numbers:
            return self._numbers[key]
        return self._items()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def __repr__(self) -> str:
        t2a, a2t = (self._numbers[direction]["R@1"] for direction in DIRECTIONS)
        where = f", {self.split}" if self.split else ""
        return (
            f"Scores({self.protocol.name}{where}: {self.clips} clips, {self.captions} captions; "
            f"R@1 {t2a:.2f} T2A, {a2t:.2f} A2T)"
        )

    @cached_property
    def ranks(self) -> dict[str, Ints]:
        """0-based ranks by direction."""
        t2a = np.full(self._given, -1)
        for part in self.parts.values():
            t2a[part.captions] = part.ranks.t2a
        best = [part.ranks.best() for part in self.parts.values()]
        return {"t2a": t2a, "a2t": best[0] if len(best) == 1 else np.stack(best, axis=1)}

    def sums(self, direction: Direction, metric: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[clips, languages] sums over each clip's queries and their counts: what significance tests resample."""
        self.check(direction, metric)
        if metric == "MedR":
            raise UserError("metric='MedR' is no mean over queries; use MeanR, or interval(), which takes any metric")
        both = [part.sums(direction, metric) for part in self.parts.values()]
        return np.stack([sums for sums, _ in both], axis=1), np.stack([counts for _, counts in both], axis=1)

    def check(self, direction: str, metric: str) -> None:
        """UserError for a direction or a metric that is not there."""
        if direction not in self._numbers:
            raise unknown("direction", direction, DIRECTIONS)
        if metric not in self._numbers[direction]:
            raise unknown("metric", metric, list(self._numbers[direction]))

    def interval(
        self, direction: Direction, metric: str, *, level: float = 0.95, draws: int = 10_000, seed: int = 0
    ) -> tuple[float, float]:
        """The bootstrap interval over clips, a clip's captions staying together."""
        self.check(direction, metric)
        return self._intervals(direction, [metric], level, draws, seed)[metric]

    def intervals(self, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0) -> dict[str, dict[str, Any]]:
        """The interval of every number."""
        return {
            direction: self._intervals(direction, list(self._numbers[direction]), level, draws, seed)
            for direction in DIRECTIONS
        }

    def _intervals(
        self, direction: Direction, names: list[str], level: float, draws: int, seed: int
    ) -> dict[str, tuple[float, float]]:
        means = [name for name in names if name != "MedR"]
        columns = [np.empty((draws, 0))]
        if means:
            both = [self.sums(direction, name) for name in means]
            sums, counts = (np.concatenate([pair[k] for pair in both], axis=1) for k in (0, 1))
            drawn = resampling.mean_draws(sums, counts, draws, seed)
            columns = [drawn.reshape(len(drawn), len(means), len(self.parts)).mean(axis=2)]
        low, high = resampling.percentile(columns[0], self.clips, level)
        found = {name: (float(low[k]), float(high[k])) for k, name in enumerate(means)}
        if "MedR" in names:
            found["MedR"] = self._median_interval(direction, level, draws, seed)
        return {name: found[name] for name in names}

    def _median_interval(self, direction: Direction, level: float, draws: int, seed: int) -> tuple[float, float]:
        drawn = [
            resampling.median_draws(part.query_ranks(direction), part.owners[direction], self.clips, draws, seed)
            for part in self.parts.values()
        ]
        # Every language is drawn by the same clips, and a draw counts where all of them were asked.
        means = np.mean(drawn, axis=0)
        low, high = resampling.percentile(means[np.isfinite(means), None], self.clips, level)
        return float(low[0]), float(high[0])

    def to_dict(self, *, intervals: bool = True) -> dict[str, Any]:
        """Plain values, ready for JSON; every number with its 95 % interval."""
        plain = dict(self._items())
        if intervals:
            plain["intervals"] = {
                direction: {name: [None if end != end else end for end in pair] for name, pair in row.items()}
                for direction, row in self.intervals().items()
            }
        return plain


def evaluate(
    audio: Any,
    text: Any,
    caption_clip: Any,
    *,
    languages: Sequence[str] | None = None,
    protocol: str = "mlclap",
    split: str | None = None,
) -> Scores:
    """Score embeddings: audio [clips, d], text [captions, d], and for each caption the row of its clip.

    Rows may have any length; they are compared by cosine, blockwise.
    """
    rule = protocols.find(protocol)
    audio, text = inputs.embeddings("audio", audio), inputs.embeddings("text", text)
    if audio.shape[1] != text.shape[1]:
        raise UserError(
            f"audio is {audio.shape[1]} wide and text {text.shape[1]}; both must come from one model's common space"
        )
    mapped = inputs.caption_map(caption_clip, len(audio), len(text))
    pair = inputs.twins(audio)
    notes = [] if pair is None else [f"audio rows {pair[0]} and {pair[1]} are equal: is one clip in the table twice?"]

    def rank(chosen: Selection) -> Ranks:
        return rank_embeddings(audio[chosen.clips], text[chosen.captions], chosen.caption_clip)

    return _score(rank, mapped, len(audio), languages, rule, split, notes)


def evaluate_similarity(
    clips_by_captions: Any,
    caption_clip: Any,
    *,
    languages: Sequence[str] | None = None,
    protocol: str = "mlclap",
    split: str | None = None,
) -> Scores:
    """Score a similarity matrix [clips, captions], higher is nearer, compared as it stands."""
    rule = protocols.find(protocol)
    mapped = inputs.caption_map(caption_clip, np.iinfo(np.int64).max, None)
    matrix = inputs.similarity(clips_by_captions, len(mapped))
    mapped = inputs.caption_map(mapped, len(matrix), None)

    def rank(chosen: Selection) -> Ranks:
        whole = len(chosen.clips) == len(matrix) and np.array_equal(chosen.captions, np.arange(matrix.shape[1]))
        return rank_similarity(matrix if whole else matrix[np.ix_(chosen.clips, chosen.captions)], chosen.caption_clip)

    return _score(rank, mapped, len(matrix), languages, rule, split, [])


def _score(
    rank: Callable[[Selection], Ranks],
    caption_clip: Ints,
    clips: int,
    languages: Sequence[str] | None,
    rule: Protocol,
    split: str | None,
    notes: list[str],
) -> Scores:
    inputs.every_clip_asked(caption_clip, clips)
    codes = inputs.codes(languages, len(caption_clip))
    names = sorted(set(codes)) if codes else [""]
    parts = {}
    for name in names:
        mine = np.arange(len(caption_clip)) if codes is None else np.flatnonzero(np.asarray(codes) == name)
        chosen = (rule.select or protocols.select_all)(caption_clip[mine], clips)
        chosen = Selection(chosen.clips, mine[chosen.captions], chosen.caption_clip)
        ranks = rank(chosen)
        parts[name] = Part(ranks, protocols.values(ranks, rule), protocols.owners(ranks), chosen.captions)
        asked = len(parts[name].owners["a2t"])
        if asked < ranks.clips:
            notes.append(f"language {name!r} has captions for {asked} of {ranks.clips} clips")
    return Scores(rule, parts, len(caption_clip), split, notes)


def consistency(parts: Mapping[str, Part]) -> dict[str, dict[str, float]]:
    """How alike the languages rank: the mean variance of an instance's rank, and the percent that agree at rank 1.

    An instance is a clip (A2T), or the k-th caption of a clip (T2A: only where all languages have as many of them).
    """
    found = {}
    every = list(parts.values())
    if all(len(part.owners["a2t"]) == len(every[0].owners["a2t"]) for part in every):
        found["a2t"] = _agreement([part.query_ranks("a2t") for part in every])
    sorted_by_clip = [np.argsort(part.ranks.caption_clip, kind="stable") for part in every]
    clips = [part.ranks.caption_clip[order] for part, order in zip(every, sorted_by_clip, strict=True)]
    if all(np.array_equal(mine, clips[0]) for mine in clips):
        found["t2a"] = _agreement([part.ranks.t2a[o] for part, o in zip(every, sorted_by_clip, strict=True)])
    return found


def _agreement(ranks: Sequence[Ints]) -> dict[str, float]:
    table = np.stack(ranks)
    first = table == 0
    return {
        "mean_rank_variance": float(table.var(axis=0).mean()),
        "R@1_agreement": float(100.0 * (first.all(axis=0) | ~first.any(axis=0)).mean()),
    }
