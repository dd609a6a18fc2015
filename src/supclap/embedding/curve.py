"""From scores to the probability of a match: what is applied to a query's scores over a collection.

A score means little by itself: some queries lie near everything. So the curve reads three numbers of each file: its
score, the query's background (the median over the collection), and the margin (how many spreads it stands above it).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

NAMES = ("score", "background", "margin")


def features(scores_n: np.ndarray) -> np.ndarray:
    """[n, 3] from one query's scores over a collection."""
    background = float(np.median(scores_n))
    # The spread of the lower half: the matches themselves must not widen it.
    spread = max(float(background - np.quantile(scores_n, 0.16)), 1e-3)
    margin = np.minimum((scores_n - background) / spread, 20.0)
    return np.stack([scores_n, np.full(len(scores_n), background), margin], axis=1)


def probability(curve: Mapping[str, float], scores_n: np.ndarray) -> np.ndarray:
    """[n] the probability that each file matches."""
    weights = np.array([curve[name] for name in NAMES])
    logit = features(scores_n) @ weights + curve["constant"]
    found: np.ndarray = 1.0 / (1.0 + np.exp(-np.clip(logit, -50.0, 50.0)))
    return found
