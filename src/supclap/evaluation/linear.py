"""Linear probe and few-shot: logistic regression on standardised embeddings, beside the zero-shot number.

n: rows, d: width, l: labels. The loss is scikit-learn's: C * sum of cross-entropies + half the squared weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from supclap.evaluation import inputs
from supclap.evaluation.zeroshot import Classification, truth_table
from supclap.schema import UserError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Probe:
    """A fitted classifier over embeddings."""

    labels: list[str]
    mean: Array
    scale: Array
    weights: Array  # [d, l]
    offset: Array  # [l]

    def scores(self, audio: Any) -> Array:
        """[n, l] log probabilities up to a constant of the row."""
        rows = inputs.embeddings("audio", audio).astype(float)
        if rows.shape[1] != len(self.mean):
            raise UserError(f"audio is {rows.shape[1]} wide; the probe was fitted on {len(self.mean)}")
        return np.asarray((rows - self.mean) / self.scale @ self.weights + self.offset)

    def evaluate(self, audio: Any, truth: Sequence[str]) -> Classification:
        """Accuracy on clips that the fit has not seen."""
        scores = self.scores(audio)
        return Classification(scores, truth_table(truth, self.labels, len(scores)), self.labels, "linear probe")


def fit(audio: Any, truth: Sequence[str], *, C: float = 0.05, steps: int = 500) -> Probe:
    """Fit a probe; ``C`` small means heavily regularised."""
    if not C > 0:
        raise UserError(f"C={C!r} must be above 0; 0.05 is usual for standardised embeddings")
    rows = inputs.embeddings("audio", audio).astype(float)
    labels = sorted(set(truth))
    if len(labels) < 2:
        raise UserError(f"truth holds {len(labels)} label; a probe needs two or more")
    target = truth_table(truth, labels, len(rows))
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale == 0] = 1.0
    rows = (rows - mean) / scale
    wide = (rows.shape[1], len(labels))

    def loss(flat: Array) -> tuple[float, Array]:
        weights, offset = flat[: -wide[1]].reshape(wide), flat[-wide[1] :]
        logits = rows @ weights + offset
        logits -= logits.max(axis=1, keepdims=True)
        total = np.log(np.exp(logits).sum(axis=1, keepdims=True))
        cost = C * float((total[:, 0] - logits[target]).sum()) + 0.5 * float((weights**2).sum())
        slope = C * (np.exp(logits - total) - target)
        return cost, np.concatenate([(rows.T @ slope + weights).ravel(), slope.sum(axis=0)])

    start = np.zeros((wide[0] + 1) * wide[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": steps, "gtol": 1e-6, "ftol": 1e-12})
    return Probe(labels, mean, scale, found.x[: -wide[1]].reshape(wide), found.x[-wide[1] :])


def few_shot(
    train: Any,
    truth: Sequence[str],
    test: Any,
    test_truth: Sequence[str],
    *,
    shots: Sequence[int] = (1, 2, 4, 8, 16),
    draws: int = 5,
    seed: int = 0,
    C: float = 0.05,
) -> dict[int, dict[str, float]]:
    """Top-1 of a probe fitted on so many clips of each class: mean and deviation over draws of the clips."""
    rows, names = inputs.embeddings("train", train), np.asarray(truth)
    places = {label: np.flatnonzero(names == label) for label in sorted(set(truth))}
    fewest = min(len(mine) for mine in places.values())
    found = {}
    for count in shots:
        if count > fewest:
            raise UserError(f"shots={count}, but a class has {fewest} clips to train on; ask for {fewest} or fewer")
        values = []
        for draw in range(draws):
            rng = np.random.default_rng([seed, count, draw])
            chosen = np.concatenate([rng.choice(mine, count, replace=False) for mine in places.values()])
            probe = fit(rows[chosen], names[chosen].tolist(), C=C)
            values.append(probe.evaluate(test, test_truth)["top1"])
        found[count] = {"top1": float(np.mean(values)), "sd": float(np.std(values, ddof=1)) if draws > 1 else np.nan}
    return found
