"""Which of some labels are heard in each file: every one that a calibrated model holds for a match, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supclap.embedding.cache import FeatureCache
from supclap.embedding.curve import probability
from supclap.embedding.rows import Progress
from supclap.schema import Label, UserError
from supclap.searching.collection import of_files
from supclap.searching.lazy import LazyModel


@dataclass(frozen=True)
class Heard:
    """Labels by file, best first: those above the threshold, or all with raw scores where there is none."""

    paths: list[str]
    labels: list[list[Label]]
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    threshold: float | None = None  # None: scores are raw, the model was not calibrated
    alone: bool = True  # whether a probability is the file's own, whatever other files are asked with it


def heard(
    files: Sequence[str],
    labels: Sequence[str],
    model: Any = "bridge",
    *,
    template: str = "the sound of {label}",
    language: str = "eng",
    workers: int = 0,
    progress: Progress | None = None,
    cache: FeatureCache | None = None,
) -> Heard:
    """The labels of each file, each asked by itself as a search would ask it."""
    if "{label}" not in template:
        raise UserError(f"template={template!r} has no {{label}} in it")
    if isinstance(labels, str) or not labels or len(set(labels)) < len(labels):
        raise UserError(f"labels={labels!r}: give a list of names, each once")
    if not files:
        raise UserError("files is empty; give at least one sound")
    cache = FeatureCache() if cache is None else cache
    lazy = LazyModel(model, cache)
    curve = lazy.calibration()
    held = of_files(files, lazy, cache, workers, progress)
    texts_ld = lazy.embed_text([template.replace("{label}", label) for label in labels], language)
    cosines_wl = held.vectors[:, : texts_ld.shape[1]] @ texts_ld.T
    evidence_wl = lazy.evidence(held.vectors, texts_ld)
    said = []
    for k in range(len(labels)):
        scores = held.best(cosines_wl[:, k])
        evidence = None if evidence_wl is None else held.best(evidence_wl[:, k])
        said.append(scores if curve is None else probability(curve, scores, evidence))
    threshold = None if curve is None else float(curve["threshold"])
    found = [_above(labels, row, threshold) for row in np.stack(said, axis=1)]
    return Heard(held.paths, found, held.unreadable, threshold, curve is None or "evidence" in curve)


def _above(labels: Sequence[str], said: np.ndarray, threshold: float | None) -> list[Label]:
    order = np.argsort(-said, kind="stable")
    return [Label(labels[k], float(said[k])) for k in order if threshold is None or said[k] >= threshold]
