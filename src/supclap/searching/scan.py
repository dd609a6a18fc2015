"""``supclap.search``: the sounds of a folder that answer a question, by an exact scan over all windows."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supclap.audio.reader import Item
from supclap.embedding.cache import FeatureCache
from supclap.embedding.curve import probability
from supclap.embedding.rows import Progress, encode_all
from supclap.schema import Hit, UserError
from supclap.searching import clauses as sentences
from supclap.searching.collection import Collection, collect
from supclap.searching.lazy import LazyModel

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
    threshold: float | None = None  # None: scores are raw, the model was not calibrated


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
    cache = FeatureCache() if cache is None else cache
    lazy = LazyModel(model, cache)
    curve = lazy.calibration()
    held = collect(folder_or_index, lazy, cache, under=under, workers=workers, progress=progress)
    queries, against = rows_of(question, lazy, cache)
    width = queries.shape[1]
    if len(queries) > 1 and question.by is None and held.vectors.shape[1] > width:
        curve = None  # it was fitted on cosines
        scores, windows = tagged_score(held, lazy.tag_weights(queries), width, against)
    else:
        scores, windows = score(held, queries, against)
    order = np.argsort(-scores, kind="stable")[:top]
    if question.by is not None:
        curve = None  # it was fitted on words: two sounds are nearer to each other
    probabilities = None if curve is None else probability(curve, scores, _evidence(held, lazy, queries))
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
    return Answer(hits, len(held.paths), len(held.vectors), held.computed, held.unreadable, threshold)


def _evidence(held: Collection, model: LazyModel, queries: np.ndarray) -> np.ndarray | None:
    """[files] what a tagger says of the query, by each file's best window."""
    said = model.evidence(held.vectors, queries)
    return None if said is None else held.best(said[:, 0])


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
    held: Collection, weights_kq: np.ndarray, width: int, against: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The same for a tagger's windows and several clauses: the geometric mean of what each clause's tags say.

    All clauses have to be heard: a cosine cannot ask that, since a loud sound leaves no room for others in a unit row.
    """
    evidence_wq = np.sqrt(held.vectors[:, width:]) @ weights_kq
    best = np.stack([held.best(column) for column in evidence_wq.T], axis=1)
    return together(best) - _unwanted(held, against), _places(held, together(evidence_wq))


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
