"""What a difference is worth: intervals and tests over clips, over seeds, and over both.

Clips are resampled with their captions. ``gain`` is always b - a (or method - base): positive means b scored higher.
scipy is imported where seeds are compared: what trains and evaluates needs numpy alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.evaluation import resampling
from supclap.evaluation.retrieval import DIRECTIONS, Scores
from supclap.schema import Direction, UserError

Array = NDArray[np.float64]
DRAWS = 10_000


@dataclass(frozen=True)
class Comparison:
    """Two models on the same clips: ``gain`` = b - a with its paired bootstrap interval, and how surprising it is.

    ``p`` is the permutation test's (models swapped clip by clip); ``p_bootstrap`` twice the smaller share of draws
    beyond zero.
    """

    metric: str
    direction: Direction
    a: float
    b: float
    gain: float
    low: float
    high: float
    p: float
    p_bootstrap: float
    clips: int
    draws: int

    @property
    def significant(self) -> bool:
        """Whether the 95 % interval leaves zero out."""
        return self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Seeds:
    """A number over training seeds: mean, deviation, Student's interval, and a two-level one (seeds x clips).

    ``mde`` is the smallest true effect that this many seeds would show with 80 % power, at 5 %.
    """

    mean: float
    sd: float
    low: float
    high: float
    two_level: tuple[float, float]
    mde: float
    p: float
    seeds: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def compare(
    scores_a: Scores, scores_b: Scores, metric: str = "R@1", *, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> dict[Direction, Comparison]:
    """Paired bootstrap and permutation between two models on the same clips and captions, both directions."""
    _same_queries(scores_a, scores_b)
    return {direction: _compare(scores_a, scores_b, direction, metric, level, draws, seed) for direction in DIRECTIONS}


def _compare(
    scores_a: Scores, scores_b: Scores, direction: Direction, metric: str, level: float, draws: int, seed: int
) -> Comparison:
    (sums_a, counts), (sums_b, _) = scores_a.sums(direction, metric), scores_b.sums(direction, metric)
    difference = sums_b - sums_a
    drawn = bootstrap(difference, counts, draws=draws, seed=seed)
    low, high = resampling.percentile(drawn[:, None], len(counts), level)
    beyond = min(int(np.sum(drawn <= 0)), int(np.sum(drawn >= 0)))
    a, b = scores_a[direction][metric], scores_b[direction][metric]
    return Comparison(
        metric=metric,
        direction=direction,
        a=a,
        b=b,
        gain=b - a,
        low=float(low[0]),
        high=float(high[0]),
        p=permutation(difference, counts, draws=draws, seed=seed),
        p_bootstrap=min(1.0, 2 * (beyond + 1) / (len(drawn) + 1)),
        clips=len(counts),
        draws=len(drawn),
    )


def bootstrap(sums: Array, counts: Array, *, draws: int = DRAWS, seed: int = 0) -> Array:
    """[draws] the mean over queries (then over columns) when clips are drawn afresh; sums and counts by clip."""
    sums, counts = _columns(sums), _columns(counts)
    return np.asarray(resampling.mean_draws(sums, counts, draws, seed).mean(axis=1))


def permutation(difference: Array, counts: Array, *, draws: int = DRAWS, seed: int = 0) -> float:
    """Two-sided p of the mean difference when each clip's two models are swapped by a coin."""
    difference, counts = _columns(difference), _columns(counts)
    # Columns (languages) of a clip are swapped together: their captions are about the same sound.
    by_clip = (difference / counts.sum(axis=0)).mean(axis=1)
    seen = abs(by_clip.sum())
    rng = np.random.default_rng(seed)
    beyond, step = 0, max(1, resampling.CHUNK // len(by_clip))
    for first in range(0, draws, step):
        coins = rng.integers(0, 256, (min(step, draws - first), -(-len(by_clip) // 8)), dtype=np.uint8)
        heads = np.unpackbits(coins, axis=1, count=len(by_clip)).astype(float)
        # A sign per clip is 2 * head - 1. The slack keeps an equal sum equal after rounding.
        beyond += int(np.sum(np.abs(2 * (heads @ by_clip) - by_clip.sum()) >= seen - 1e-9 * max(seen, 1e-9)))
    return (beyond + 1) / (draws + 1)


def over_seeds(
    runs: Sequence[Scores],
    direction: Direction,
    metric: str = "R@1",
    *,
    base: Sequence[Scores] | None = None,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Seeds:
    """A method over its seeds; with ``base`` (the same seeds in the same order), its gain over it, paired by seed."""
    if base is not None and len(base) != len(runs):
        raise UserError(f"base has {len(base)} runs for {len(runs)}; give the same seeds in the same order")
    if not runs:
        raise UserError("runs is empty; give one Scores a seed")
    tables = []
    for index, scores in enumerate(runs):
        _same_queries(runs[0], scores)
        sums, counts = scores.sums(direction, metric)
        if base is not None:
            _same_queries(scores, base[index])
            sums = sums - base[index].sums(direction, metric)[0]
        tables.append(sums)
    values = [float((sums.sum(0) / counts.sum(0)).mean()) for sums in tables]
    both = two_level(np.stack(tables), counts, level=level, draws=draws, seed=seed)
    return summary(values, level=level, two_level_interval=both)


def summary(
    values: Sequence[float], *, level: float = 0.95, two_level_interval: tuple[float, float] = (np.nan, np.nan)
) -> Seeds:
    """Mean, deviation and Student's interval of one number a seed; with one seed the interval is not a number."""
    from scipy import stats

    given = np.asarray(values, float)
    count = len(given)
    mean = float(given.mean())
    if count < 2:
        return Seeds(mean, np.nan, np.nan, np.nan, two_level_interval, np.nan, np.nan, count)
    sd = float(given.std(ddof=1))
    half = float(stats.t.ppf(0.5 + level / 2, count - 1) * sd / np.sqrt(count))
    if sd > 0:
        p = float(2 * stats.t.sf(abs(mean) / (sd / np.sqrt(count)), count - 1))
    else:
        p = 1.0 if mean == 0 else 0.0
    return Seeds(mean, sd, mean - half, mean + half, two_level_interval, minimum_effect(sd, count), p, count)


def two_level(
    sums: Array, counts: Array, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float]:
    """The interval when seeds AND clips are drawn afresh: sums [seeds, clips(, columns)], counts [clips(, columns)]."""
    sums = sums[:, :, None] if sums.ndim == 2 else sums
    counts = _columns(counts)
    seeds, clips, columns = sums.shape
    flat = np.moveaxis(sums, 0, 1).reshape(clips, seeds * columns)
    drawn = resampling.mean_draws(flat, np.tile(counts, (1, seeds)), draws, seed)
    by_seed = drawn.reshape(len(drawn), seeds, columns).mean(axis=2)
    chosen = np.random.default_rng([seed, 1]).integers(0, seeds, by_seed.shape)
    low, high = resampling.percentile(np.take_along_axis(by_seed, chosen, 1).mean(1)[:, None], clips, level)
    return float(low[0]), float(high[0])


def minimum_effect(sd: float, count: int, *, power: float = 0.8, level: float = 0.95) -> float:
    """The smallest true effect that ``count`` paired differences of deviation ``sd`` show with this power."""
    from scipy import optimize, stats

    if count < 2:
        raise UserError(f"count={count}: one seed shows no effect of any size; run two or more")
    bar = stats.t.ppf(0.5 + level / 2, count - 1)

    def missing(effect: float) -> float:
        centre = effect * np.sqrt(count)
        wrong_way = np.nan_to_num(stats.nct.cdf(-bar, count - 1, centre))  # scipy says NaN where it is zero
        return float(stats.nct.sf(bar, count - 1, centre) + wrong_way) - power

    # Far beyond the answer the noncentral t has no finite value, so the bracket stops at twice the usual shortcut.
    top = 2 * (bar + stats.t.ppf(power, count - 1)) / np.sqrt(count)
    return sd * float(optimize.brentq(missing, 1e-9, float(top)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the order given."""
    given = np.asarray(p_values, float)
    if not len(given):
        return []
    if not ((given >= 0) & (given <= 1)).all():
        raise UserError(f"p_values={list(p_values)} must lie in 0..1")
    order = np.argsort(given, kind="stable")
    raised = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    adjusted = np.empty(len(given))
    adjusted[order] = np.minimum(raised, 1.0)
    return [float(value) for value in adjusted]


def table(runs: Mapping[str, Scores], *, base: str, metric: str = "R@1", draws: int = DRAWS) -> list[dict[str, Any]]:
    """Every model against ``base``, both directions: gain, interval, p, Holm's p, and whether it stands at 5 %."""
    if base not in runs:
        raise UserError(f"base={base!r} is not among the runs: {', '.join(runs)}")
    rows = []
    for name, scores in runs.items():
        found: dict[Direction, Comparison] = {} if name == base else compare(runs[base], scores, metric, draws=draws)
        for direction in DIRECTIONS:
            row = {"model": name, "direction": direction, "metric": metric, "value": scores[direction][metric]}
            if direction in found:
                pair = found[direction]
                row |= {"gain": pair.gain, "low": pair.low, "high": pair.high, "p": pair.p}
            rows.append(row)
    tested = [row for row in rows if "p" in row]
    for row, corrected in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row |= {"holm": corrected, "significant": corrected < 0.05}
    return rows


def _columns(values: Array) -> Array:
    given = np.asarray(values, float)
    return given[:, None] if given.ndim == 1 else given


def _same_queries(a: Scores, b: Scores) -> None:
    """UserError unless both were scored on the same clips and captions under one protocol."""
    if a.protocol.name != b.protocol.name:
        raise UserError(f"protocols differ ({a.protocol.name}, {b.protocol.name}); score both models by one")
    if list(a.parts) != list(b.parts):
        raise UserError(f"languages differ ({', '.join(a.parts)}; {', '.join(b.parts)}); score both models on the same")
    for code, part in a.parts.items():
        mine, theirs = part.ranks, b.parts[code].ranks
        if mine.clips != theirs.clips or not np.array_equal(mine.caption_clip, theirs.caption_clip):
            raise UserError(
                f"the two were scored on different rows ({a.clips} clips and {a.captions} captions, {b.clips} and "
                f"{b.captions}); score both models on one table"
            )


__all__ = [
    "Comparison", "Seeds", "bootstrap", "compare", "holm", "minimum_effect", "over_seeds", "permutation", "summary",
    "table", "two_level",
]  # fmt: skip
