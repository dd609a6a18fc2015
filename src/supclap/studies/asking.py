"""Typed questions over sounds that a model was not trained on, and when to say that nothing matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supclap.evaluation.model import Embeddings
from supclap.schema import Clip


@dataclass(frozen=True)
class Query:
    """What somebody types, and in which language."""

    text: str
    language: str = "eng"


@dataclass(frozen=True)
class Answer:
    """The clips found for a query, best first; none where the best is below the threshold."""

    query: Query
    clips: tuple[Clip, ...]
    scores: tuple[float, ...]
    nearest: float  # the best cosine, answered or not


@dataclass(frozen=True)
class Threshold:
    """Cosines below ``value`` are answered "nothing here matches"; how that does on captions it was not chosen on."""

    value: float
    answered: float  # share of captions whose clip is there that are answered
    declined: float  # share of captions whose clip was taken out that are declined


def ask(model: Any, queries: Sequence[Query], seen: Embeddings, threshold: float, top: int = 3) -> list[Answer]:
    """Answers over the clips of ``seen``."""
    answers = []
    for query in queries:
        row = model.embed_text([query.text], language=query.language)[0]
        cosines = seen.audio @ row
        order = np.argsort(-cosines, kind="stable")[:top]
        kept = [place for place in order if cosines[place] >= threshold]
        answers.append(
            Answer(
                query,
                tuple(seen.clips[place] for place in kept),
                tuple(float(cosines[place]) for place in kept),
                float(cosines[order[0]]),
            )
        )
    return answers


def threshold(chosen_on: Embeddings, tested_on: Embeddings) -> Threshold:
    """The cosine that tells best, on one set, whether a caption's clip is among the clips; measured on another."""
    there, gone = _best_scores(chosen_on)
    values = np.unique(np.concatenate([there, gone]))
    # Balanced accuracy at every threshold that changes anything.
    hits = 1.0 - np.searchsorted(np.sort(there), values, side="left") / len(there)
    misses = np.searchsorted(np.sort(gone), values, side="left") / len(gone)
    value = float(values[int(np.argmax(hits + misses))])
    there, gone = _best_scores(tested_on)
    return Threshold(value, float((there >= value).mean()), float((gone < value).mean()))


def _best_scores(seen: Embeddings) -> tuple[np.ndarray, np.ndarray]:
    """For each caption the best cosine with its clip among the clips, and with its clip taken out."""
    cosines = seen.text @ seen.audio.T
    there = cosines.max(axis=1)
    cosines[np.arange(len(cosines)), seen.caption_clip] = -np.inf
    return there, cosines.max(axis=1)
