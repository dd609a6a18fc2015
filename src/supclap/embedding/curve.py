"""From scores to the probability of a match: what is applied to a query's scores over a collection.

A score means little by itself: some queries lie near everything, and among many files a high one is met by chance. So
the curve may read four numbers of each file: its score, the size of the collection, the query's background (the median
over the collection), and the margin (how many spreads it stands above it). The fit takes those that help on queries it
has not seen. A tagger says more by itself than a collection does: with its evidence the curve reads score and evidence
alone, and a file's probability is the same in every collection.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

NAMES = ("score", "size", "background", "margin")
TAGGER_NAMES = ("score", "evidence")
SMALLEST = 30  # files in a collection: fewer are not fitted on


def names(evidence_n: np.ndarray | None) -> tuple[str, ...]:
    """What the columns of ``features`` are called."""
    return NAMES if evidence_n is None else TAGGER_NAMES


def features(scores_n: np.ndarray, evidence_n: np.ndarray | None = None) -> np.ndarray:
    """[n, 4] from one query's scores over a collection, or [n, 2] from scores and a tagger's evidence."""
    if evidence_n is not None:
        return np.stack([scores_n, evidence_n], axis=1)
    background = float(np.median(scores_n))
    # The spread of the lower half: the matches themselves must not widen it.
    spread = max(float(background - np.quantile(scores_n, 0.16)), 1e-3)
    margin = np.minimum((scores_n - background) / spread, 20.0)
    same = np.ones(len(scores_n))
    size = np.log(max(len(scores_n), SMALLEST))
    return np.stack([scores_n, same * size, same * background, margin], axis=1)


def probability(curve: Mapping[str, float], scores_n: np.ndarray, evidence_n: np.ndarray | None = None) -> np.ndarray:
    """[n] the probability that each file matches."""
    if "evidence" not in curve:
        evidence_n = None  # fitted without
    weights = np.array([curve.get(name, 0.0) for name in names(evidence_n)])
    logit = features(scores_n, evidence_n) @ weights + curve["constant"]
    found: np.ndarray = 1.0 / (1.0 + np.exp(-np.clip(logit, -50.0, 50.0)))
    return found
