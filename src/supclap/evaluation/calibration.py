"""How far a hit can be believed: a curve from scores to probabilities, fitted on one corpus and judged on another.

People ask folders that hold many, few or none of what they look for. So both fitting and judging draw collections
from a labelled corpus, of other sizes and with other numbers of matches, none among them, and look at the hits that
would be shown. Shapes: q queries, n files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.stats import rankdata

from supclap.embedding.curve import SMALLEST, features, names, probability
from supclap.schema import UserError

HITS = 10  # how many of each answer are looked at
# What a curve may read, the simplest first: background and margin mislead where few queries are fitted on.
_FORMS = (("score", "size"), ("score", "size", "background", "margin"))
_FOLDS = 5
_WORTH = 0.9  # a smaller gain on one corpus turned into a loss on another
_ABSENT = 0.4  # the share of collections without a match
_BINS = 10


@dataclass(frozen=True)
class Drawn:
    """One query over one drawn collection."""

    scores: np.ndarray  # [n]
    match: np.ndarray  # [n] bool
    query: int = 0
    evidence: np.ndarray | None = None  # [n] a tagger's

    @property
    def hits(self) -> np.ndarray:
        """The files that would be shown, best first."""
        order: np.ndarray = np.argsort(-self.scores, kind="stable")[:HITS]
        return order


@dataclass(frozen=True)
class Judgement:
    """How a curve does on a corpus: calibration errors, and how well presence is told from absence."""

    # Over all files, and over the hits that would be shown: the second is what a user meets.
    ece: float
    hits_ece: float
    auc: float
    raw_auc: float
    missed: float  # share of collections with a match of which "nothing here matches" was said
    invented: float  # share of those without one of which it was not
    collections: int


def draw(
    scores_qn: np.ndarray,
    match_qn: np.ndarray,
    evidence_qn: np.ndarray | None = None,
    *,
    seed: int = 0,
    draws: int = 40,
) -> Iterator[Drawn]:
    """Collections for each query: ``draws`` of them, with sizes and numbers of matches spread over powers of two."""
    generator = np.random.default_rng(seed)
    for query, (scores, match) in enumerate(zip(scores_qn, match_qn, strict=True)):
        yes, no = np.flatnonzero(match), np.flatnonzero(~match)
        if not len(yes) or len(no) < SMALLEST:
            continue
        for _ in range(draws):
            kept = generator.permutation(no)[: _between(generator, SMALLEST, len(no))]
            if generator.random() >= _ABSENT:
                kept = np.concatenate([kept, generator.permutation(yes)[: _between(generator, 1, len(yes))]])
            yield Drawn(scores[kept], match[kept], query, None if evidence_qn is None else evidence_qn[query, kept])


def _between(generator: np.random.Generator, low: int, high: int) -> int:
    return int(np.exp(generator.uniform(np.log(low), np.log(high + 1))))


def fit(
    scores_qn: np.ndarray, match_qn: np.ndarray, evidence_qn: np.ndarray | None = None, *, seed: int = 0
) -> dict[str, float]:
    """The curve, with the threshold that best tells collections with a match from those without."""
    drawn = _checked(scores_qn, match_qn, evidence_qn, seed)
    x = np.concatenate([features(one.scores, one.evidence)[one.hits] for one in drawn])
    y = np.concatenate([one.match[one.hits] for one in drawn]).astype(float)
    queries = np.concatenate([np.full(len(one.hits), one.query) for one in drawn])
    curve = _curve(x, y, _form(x, y, queries) if evidence_qn is None else names(evidence_qn), names(evidence_qn))
    best, present = _best_hits(curve, drawn)
    curve["threshold"] = _threshold(best, present)
    return curve


def _form(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> tuple[str, ...]:
    """The simpler form, unless the richer one says clearly more of queries that it was not fitted on."""
    known = sorted(set(queries.tolist()))
    folds = np.searchsorted(known, queries) % min(_FOLDS, len(known))
    lost = []
    for form in _FORMS:
        columns = [names(None).index(name) for name in form]
        loss = 0.0
        for fold in set(folds.tolist()):
            held = folds == fold
            curve = _curve(x[~held], y[~held], form, names(None))
            logit = x[held][:, columns] @ np.array([curve[name] for name in form]) + curve["constant"]
            loss += float(np.sum(np.logaddexp(0.0, logit) - y[held] * logit))
        lost.append(loss)
    return _FORMS[1] if lost[1] < _WORTH * lost[0] else _FORMS[0]


def _curve(x: np.ndarray, y: np.ndarray, form: Sequence[str], columns: Sequence[str]) -> dict[str, float]:
    """Weights by name, and the constant, of a logistic regression on the columns of a form."""
    x = x[:, [columns.index(name) for name in form]]
    mean, spread = x.mean(0), np.maximum(x.std(0), 1e-9)
    # A better score never speaks against a match; a query's background and a collection's size may.
    least = [None if name in ("background", "size") else 0.0 for name in form]
    weights = _logistic((x - mean) / spread, y, least)
    raw = weights[:-1] / spread
    return {**dict(zip(form, map(float, raw), strict=True)), "constant": float(weights[-1] - raw @ mean)}


def judge(
    curve: Mapping[str, float],
    scores_qn: np.ndarray,
    match_qn: np.ndarray,
    evidence_qn: np.ndarray | None = None,
    *,
    seed: int = 1,
) -> Judgement:
    """How the curve does on a corpus that it was not fitted on."""
    drawn = _checked(scores_qn, match_qn, evidence_qn, seed)
    said = [probability(curve, one.scores, one.evidence) for one in drawn]
    shown = np.concatenate([row[one.hits] for row, one in zip(said, drawn, strict=True)])
    best, present = _best_hits(curve, drawn)
    raw = np.array([one.scores.max() for one in drawn])
    silent = best < curve["threshold"]
    return Judgement(
        ece=ece(np.concatenate(said), np.concatenate([one.match for one in drawn])),
        hits_ece=ece(shown, np.concatenate([one.match[one.hits] for one in drawn])),
        auc=auc(best, present),
        raw_auc=auc(raw, present),
        missed=float(silent[present].mean()),
        invented=float((~silent[~present]).mean()),
        collections=len(drawn),
    )


def ece(said: np.ndarray, true: np.ndarray) -> float:
    """Expected calibration error over ten bins of equal width: the mean gap of said and found, by bin size."""
    bins = np.minimum((said * _BINS).astype(int), _BINS - 1)
    gaps = [abs(said[bins == b].mean() - true[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return float(np.sum(gaps))


def auc(values: np.ndarray, present: np.ndarray) -> float:
    """How often a collection with a match has the higher value; ties count half."""
    yes, no = int(present.sum()), int((~present).sum())
    return float((rankdata(values)[present].sum() - yes * (yes + 1) / 2) / (yes * no))


def _checked(scores_qn: np.ndarray, match_qn: np.ndarray, evidence_qn: np.ndarray | None, seed: int) -> list[Drawn]:
    if scores_qn.shape != match_qn.shape:
        raise UserError(f"scores {list(scores_qn.shape)} and matches {list(match_qn.shape)} differ in shape")
    if evidence_qn is not None and evidence_qn.shape != match_qn.shape:
        raise UserError(f"evidence {list(evidence_qn.shape)} and matches {list(match_qn.shape)} differ in shape")
    if not np.isfinite(scores_qn).all() or (evidence_qn is not None and not np.isfinite(evidence_qn).all()):
        raise UserError("scores contain NaN or inf; has the checkpoint diverged?")
    drawn = list(draw(scores_qn, match_qn.astype(bool), evidence_qn, seed=seed))
    if len(drawn) < 100:
        raise UserError(
            f"too little to calibrate on: it takes at least 3 labels, each with {SMALLEST} sounds without it"
        )
    return drawn


def _best_hits(curve: Mapping[str, float], drawn: list[Drawn]) -> tuple[np.ndarray, np.ndarray]:
    best = np.array([probability(curve, one.scores, one.evidence).max() for one in drawn])
    return best, np.array([bool(one.match.any()) for one in drawn])


def _threshold(best: np.ndarray, present: np.ndarray) -> float:
    """Where the mean of both error rates is least."""
    order = np.argsort(best)
    missed = np.cumsum(present[order]) / present.sum()
    invented = 1.0 - np.cumsum(~present[order]) / (~present).sum()
    place = int(np.argmin(missed + invented))
    return float((best[order][place] + best[order][min(place + 1, len(best) - 1)]) / 2)


def _logistic(x: np.ndarray, y: np.ndarray, least: Sequence[float | None]) -> np.ndarray:
    """Weights, each at least ``least``, and last the constant of a logistic regression with a breath of ridge."""
    whole = np.concatenate([x, np.ones((len(x), 1))], axis=1)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logit = whole @ weights
        gap = 1.0 / (1.0 + np.exp(-np.clip(logit, -50, 50))) - y
        value = np.mean(np.logaddexp(0.0, logit) - y * logit) + 1e-4 * weights[:-1] @ weights[:-1]
        slope = whole.T @ gap / len(y)
        slope[:-1] += 2e-4 * weights[:-1]
        return float(value), slope

    bounds = [(low, None) for low in (*least, None)]
    found: np.ndarray = minimize(loss, np.zeros(whole.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x
    return found
