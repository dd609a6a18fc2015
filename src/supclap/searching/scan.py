"""``supclap.search``: the sounds of a folder that answer a question, by an exact scan over all windows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supclap.audio.reader import Item
from supclap.embedding.cache import FeatureCache
from supclap.embedding.curve import probability
from supclap.embedding.rows import Progress, encode_all
from supclap.embedding.sparing import decoders
from supclap.schema import Hit, UserError
from supclap.searching import clauses as sentences
from supclap.searching.collection import Collection, collect, place_of
from supclap.searching.lazy import EVIDENCE_FLOOR, LazyModel

_FLOOR = 0.003


@dataclass(frozen=True)
class Question:
    """What is asked: a text, an example, or both; ``not_`` is what shall not be heard."""

    text: str | None = None
    by: Item | None = None
    not_: str | None = None
    clauses: bool = False
    language: str = "eng"

    def check(self) -> None:
        """UserError for a question that asks nothing."""
        if self.by is None and not (self.text or "").strip():
            raise UserError("the query is empty; say what to look for, or give an example with by=FILE")
        if self.not_ is not None and not self.not_.strip():
            raise UserError("not_ is empty; say what shall not be heard, or leave it out")


@dataclass(frozen=True)
class Answer:
    """Hits, best first, and what is to be said of them."""

    hits: list[Hit]
    files: int
    windows: int
    computed: int
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    threshold: float | None = None  # None: scores are raw, for the reason in ``raw``
    best: float | None = None  # the highest probability of all files, shown or not
    raw: str = ""

    @property
    def nothing(self) -> bool:
        """Whether a calibrated model holds even the likeliest file for no match."""
        return self.best is not None and self.threshold is not None and self.best < self.threshold


def search(
    folder_or_index: str | os.PathLike[str],
    query: str | None = None,
    model: Any = "bridge",
    *,
    by: Item | None = None,
    not_: str | None = None,
    clauses: bool = False,
    top: int = 10,
    under: str | None = None,
    language: str = "eng",
    workers: int = 0,
    progress: Progress | None = None,
) -> list[Hit]:
    """The ``top`` files that answer ``query`` best, each with the window that does.

    ``by`` is a sound to look for others like it; ``not_`` what shall not be heard; ``clauses`` splits a query of
    several events; ``under`` keeps a folder inside (or a pattern of paths). A model is a name, a folder or loaded.
    """
    question = Question(query, by, not_, clauses, language)
    return answer(folder_or_index, question, model, top=top, under=under, workers=workers, progress=progress).hits


def answer(
    folder_or_index: str | os.PathLike[str],
    question: Question,
    model: Any = "bridge",
    *,
    top: int = 10,
    under: str | None = None,
    workers: int = 0,
    progress: Progress | None = None,
    cache: FeatureCache | None = None,
) -> Answer:
    """``search`` with what surrounds the hits: how much was searched, what could not be read, the threshold."""
    question.check()
    if top < 1:
        raise UserError(f"top={top} must be at least 1")
    decoders(workers)
    place = place_of(folder_or_index, under)
    cache = FeatureCache() if cache is None else cache
    lazy = LazyModel(model, cache)
    curve = lazy.calibration()
    # The question first: what is wrong with it shall not be said after an hour of listening.
    queries, against = rows_of(question, lazy, cache)
    held = collect(place, lazy, cache, under=under, workers=workers, progress=progress)
    raw = _raw(question, curve, queries, held)
    if raw:
        curve = None
    if held.vectors.shape[1] == queries.shape[1] or question.by is not None:
        scores, windows = score(held, queries, against)
    else:
        asked = queries if against is None else np.concatenate([queries, against])
        scores, windows = tagged_score(held, queries, lazy.tag_weights(asked), against)
    probabilities = None if curve is None else _probabilities(curve, held, lazy, queries)
    order = np.argsort(-(scores if probabilities is None else probabilities), kind="stable")[:top]
    hits = [
        Hit(
            held.paths[file],
            float(held.spans[windows[file], 0]),
            float(held.spans[windows[file], 1]),
            float(scores[file]),
            None if probabilities is None else float(probabilities[file]),
        )
        for file in order
    ]
    threshold = None if curve is None else float(curve["threshold"])
    best = None if probabilities is None else float(probabilities.max())
    return Answer(hits, len(held.paths), len(held.vectors), held.computed, held.unreadable, threshold, best, raw)


def _raw(question: Question, curve: Mapping[str, float] | None, queries: np.ndarray, held: Collection) -> str:
    """Why scores are raw here, or nothing: a curve is fitted on questions of one text."""
    if curve is None:
        return "this model is not calibrated (supclap calibrate)"
    if question.by is not None:
        return "the calibration is of words, and two sounds are nearer to each other"
    if len(queries) > 1:
        return "the calibration is of whole questions, not of clauses"
    if question.not_ is not None:
        return "the calibration is of questions without --not"
    if "evidence" in curve and held.vectors.shape[1] == queries.shape[1]:
        return "the calibration reads a tagger's evidence, which a folder of embeddings does not hold"
    return ""


def _probabilities(curve: Mapping[str, float], held: Collection, model: LazyModel, queries: np.ndarray) -> np.ndarray:
    """[files] how likely each file matches, by its best cosine and the most that a tagger says of it."""
    said = model.evidence(held.vectors, queries)
    cosines = held.best(held.vectors[:, : queries.shape[1]] @ queries[0])
    return probability(curve, cosines, None if said is None else held.best(said[:, 0]))


def rows_of(question: Question, model: LazyModel, cache: FeatureCache) -> tuple[np.ndarray, np.ndarray | None]:
    """([clauses, d], [1, d] or None): the vectors that are looked for, and the one that is not wanted."""
    rows = []
    if question.text and question.text.strip():
        texts = sentences.split(question.text) if question.clauses else [question.text.strip()]
        rows.append(model.embed_text(texts, question.language))
    if question.by is not None:
        example = next(encode_all([question.by], model.encoder(), cache))
        if example.rows is None:
            raise UserError(f"by={_called(question.by)}: {example.error}")
        vectors = example.rows.vectors[:, : model.width] if model.tagged else example.rows.vectors
        mean = np.average(vectors, axis=0, weights=np.diff(example.rows.spans, axis=1)[:, 0] + 1e-9)
        rows.append((mean / max(float(np.linalg.norm(mean)), 1e-12))[None])
    against = None if question.not_ is None else model.embed_text([question.not_.strip()], question.language)
    return np.concatenate(rows).astype(np.float32), against


def score(held: Collection, queries: np.ndarray, against: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """([files], [files]): each file's score, and its window that answers best.

    A file's score is the mean over the clauses of its best window for each; what is not wanted is taken off as far
    as it is heard at all.
    """
    vectors = held.vectors[:, : queries.shape[1]]
    cosines_wq = vectors @ queries.T
    scores = np.mean([held.best(column) for column in cosines_wq.T], axis=0)
    return scores - _unwanted(held, against), _places(held, cosines_wq.mean(1))


def tagged_score(
    held: Collection, queries: np.ndarray, weights_kq: np.ndarray, against: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The same for a tagger's windows: what the tags near a question say, and its cosine.

    All of several clauses have to be heard, so theirs is a geometric mean: a cosine cannot ask that, since a loud sound
    leaves no room for others in a unit row. ``weights_kq`` has a column more for what is not wanted.
    """
    count, width = queries.shape
    tags_wk = held.vectors[:, width:]
    if count == 1:
        said_wq = likeness(tags_wk @ weights_kq[:, :1], held.vectors[:, :width] @ queries.T)
        scores = held.best(said_wq[:, 0])
    else:
        said_wq = np.sqrt(tags_wk) @ weights_kq[:, :count]
        scores = together(np.stack([held.best(column) for column in said_wq.T], axis=1))
    if against is not None:
        said_w = likeness(tags_wk @ weights_kq[:, -1], held.vectors[:, :width] @ against[0])
        scores = scores - held.best(said_w)
    return scores, _places(held, together(said_wq))


def likeness(shared: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    """What a tagger says of a question and how near both are, from 0 to about 1: either alone ranks worse."""
    both: np.ndarray = np.sqrt(shared + EVIDENCE_FLOOR) * np.exp(cosines - 1.0)
    return both


def together(evidence_nq: np.ndarray) -> np.ndarray:
    """[n] the geometric mean over the clauses, with a floor, so that one unheard clause does not decide alone."""
    mean: np.ndarray = np.exp(np.log(evidence_nq + _FLOOR).mean(1)) - _FLOOR
    return mean


def _unwanted(held: Collection, against: np.ndarray | None) -> np.ndarray:
    if against is None:
        return np.zeros(len(held.paths))
    worst: np.ndarray = np.maximum(held.best((held.vectors[:, : against.shape[1]] @ against.T)[:, 0]), 0.0)
    return worst


def _places(held: Collection, scores_w: np.ndarray) -> np.ndarray:
    """[files] the best window of each file."""
    bounds = zip(held.first, held.first[1:], strict=False)
    return np.array([first + int(np.argmax(scores_w[first:last])) for first, last in bounds])


def _called(item: Item) -> str:
    return str(item) if isinstance(item, str | os.PathLike) else "the example"
