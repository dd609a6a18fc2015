"""Bootstrap over clips: a clip is drawn with all its captions, since captions of one clip succeed and fail together.

b: draws, c: clips, m: metrics. numpy only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from supclap.evaluation.ranks import Ints
from supclap.schema import UserError

Array = NDArray[np.float64]
CHUNK = 2**21


def weights(clips: int, draws: int, seed: int = 0) -> Iterator[Array]:
    """[b, c] how often each clip was drawn, a few draws at a time."""
    rng = np.random.default_rng(seed)
    step = max(1, CHUNK // clips)
    for first in range(0, draws, step):
        count = min(step, draws - first)
        drawn = rng.integers(0, clips, (count, clips), dtype=np.int64)
        drawn += np.arange(count)[:, None] * clips
        yield np.bincount(drawn.ravel(), minlength=count * clips).reshape(count, clips).astype(float)


def mean_draws(sums_cm: Array, counts_cm: Array, draws: int, seed: int = 0) -> Array:
    """[b, m] sum / count of every draw; a draw without a single query (a tiny set) is left out."""
    parts = []
    for weights_bc in weights(len(sums_cm), draws, seed):
        with np.errstate(invalid="ignore", divide="ignore"):
            parts.append((weights_bc @ sums_cm) / (weights_bc @ counts_cm))
    values = np.concatenate(parts)
    return values[np.isfinite(values).all(axis=1)]


def median_draws(ranks: Ints, owner: Ints, clips: int, draws: int, seed: int = 0) -> Array:
    """[b] floor of the median rank, plus one, of every draw; NaN for a draw without a single query."""
    order = np.argsort(ranks, kind="stable")
    ranks, owner = ranks[order], owner[order]
    parts = []
    for weights_bc in weights(clips, draws, seed):
        before = np.cumsum(weights_bc[:, owner], axis=1)
        total = before[:, -1:]
        none = total[:, 0] == 0
        low, high = ((before <= middle).sum(1) for middle in ((total - 1) // 2, total // 2))
        low[none], high[none] = 0, 0
        parts.append(np.where(none, np.nan, np.floor((ranks[low] + ranks[high]) / 2) + 1))
    return np.concatenate(parts)


def percentile(draws_bm: Array, clips: int, level: float = 0.95) -> tuple[Array, Array]:
    """The interval of each column, widened as Student's t against the normal: few clips vary too little.

    NaN where nothing can be said: one clip, or so many languages with so few clips that no draw asks in all of them.
    """
    if not 0 < level < 1:
        raise UserError(f"level={level!r} must lie between 0 and 1; 0.95 is usual")
    if clips < 2 or not len(draws_bm):
        nothing = np.full(draws_bm.shape[1], np.nan)
        return nothing, nothing
    tail = _tail(clips, level)
    low, high = np.quantile(draws_bm, [tail, 1 - tail], axis=0)
    return low, high


def _tail(clips: int, level: float) -> float:
    """The share cut off at each end: P(Z < -sqrt(n / (n - 1)) t)."""
    z, nu = NormalDist().inv_cdf(0.5 + level / 2), clips - 1
    # Student's quantile by its expansion in 1 / nu (Abramowitz and Stegun 26.7.5): good to 0.1 % from nu = 4 on.
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    t = z + sum(term / nu ** (k + 1) for k, term in enumerate(terms))
    return NormalDist().cdf(-math.sqrt(clips / (clips - 1)) * t)
