"""Zero-shot classification: each clip takes the label whose text lies nearest. numpy only.

n: clips, l: labels. Ties count against us; accuracies are percent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.evaluation import inputs, resampling
from supclap.evaluation.ranks import ROUNDING, Ints, unit, worst_order
from supclap.schema import UserError

TEMPLATE = "This is a sound of {label}"
Array = NDArray[np.float64]


class Classification(Mapping[str, Any]):
    """What a classifier got right: top-1, top-5, by class, and what was taken for what (``confusion``).

    A clip with several labels counts as right where any is found; ``mAP`` is the mean over labels of average precision.
    """

    def __init__(self, scores_nl: Array, truth_nl: NDArray[np.bool_], labels: Sequence[str], about: str = "") -> None:
        self.scores, self.truth, self.labels, self.about = scores_nl, truth_nl, list(labels), about
        best = np.where(truth_nl, scores_nl, -np.inf).max(axis=1, keepdims=True)
        self.ranks: Ints = ((scores_nl >= best - ROUNDING) & ~truth_nl).sum(axis=1)

    @property
    def several(self) -> bool:
        """Whether any clip has more than one label."""
        return bool((self.truth.sum(axis=1) > 1).any())

    @cached_property
    def _items(self) -> dict[str, Any]:
        items: dict[str, Any] = {
            "about": self.about,
            "clips": len(self.truth),
            "classes": len(self.labels),
            "top1": self._top(1),
            "top5": self._top(5),
            "mAP": mean_precision(self.scores, self.truth),
            "per_class": self.per_class(),
        }
        if not self.several:
            items["confusion"] = self.confusion().tolist()
        return items

    def _top(self, k: int) -> float:
        return float(100.0 * (self.ranks < k).mean())

    def per_class(self) -> dict[str, dict[str, float]]:
        """For each label that occurs: its clips, top-1, and its average precision."""
        found = {}
        for place, label in enumerate(self.labels):
            mine = self.truth[:, place]
            if mine.any():
                found[label] = {
                    "clips": int(mine.sum()),
                    "top1": float(100.0 * (self.ranks[mine] < 1).mean()),
                    "AP": 100.0 * average_precision(self.scores[:, place], mine),
                }
        return found

    def confusion(self) -> Ints:
        """[l, l] clips of each label (row) by the label they were given (column); for one label a clip."""
        if self.several:
            raise UserError("confusion is for one label a clip; some clips here have several")
        # A tie is given away: the right label is chosen only where it stands alone.
        shifted = np.where(self.truth, self.scores - ROUNDING, self.scores)
        table = np.zeros((len(self.labels), len(self.labels)), np.int64)
        np.add.at(table, (self.truth.argmax(axis=1), shifted.argmax(axis=1)), 1)
        return table

    def confused(self, top: int = 10) -> list[tuple[str, str, int]]:
        """The commonest mistakes: (label, taken for, how often)."""
        table = self.confusion()
        np.fill_diagonal(table, 0)
        order = np.argsort(-table, axis=None, kind="stable")[:top]
        pairs = [np.unravel_index(place, table.shape) for place in order]
        return [(self.labels[i], self.labels[j], int(table[i, j])) for i, j in pairs if table[i, j]]

    def interval(
        self, metric: str = "top1", *, level: float = 0.95, draws: int = 10_000, seed: int = 0
    ) -> tuple[float, float]:
        """Bootstrap interval over clips of top1 or top5."""
        if metric not in ("top1", "top5"):
            raise UserError(f"metric={metric!r} has no interval; choose top1 or top5")
        right = 100.0 * (self.ranks < int(metric[3:])).astype(float)
        drawn = resampling.mean_draws(right[:, None], np.ones((len(right), 1)), draws, seed)
        low, high = resampling.percentile(drawn, len(right), level)
        return float(low[0]), float(high[0])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON, with intervals."""
        return {
            **self._items,
            "labels": self.labels,
            "intervals": {m: list(self.interval(m)) for m in ("top1", "top5")},
        }

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return (
            f"Classification({self['clips']} clips, {self['classes']} classes; "
            f"top-1 {self['top1']:.2f}, top-5 {self['top5']:.2f})"
        )


def evaluate(audio: Any, label_rows: Any, truth: Sequence[Any], labels: Sequence[str]) -> Classification:
    """Zero-shot from embeddings: audio [n, d], label_rows [l, d]; ``truth`` a label a clip, or a list of labels."""
    audio, rows = inputs.embeddings("audio", audio), inputs.embeddings("label_rows", label_rows)
    if audio.shape[1] != rows.shape[1]:
        raise UserError(f"audio is {audio.shape[1]} wide and label_rows {rows.shape[1]}; both must be of one model")
    if len(rows) != len(labels):
        raise UserError(f"label_rows has {len(rows)} rows for {len(labels)} labels; give one a label")
    return Classification(unit(audio) @ unit(rows).T, truth_table(truth, labels, len(audio)), labels)


def truth_table(truth: Sequence[Any], labels: Sequence[str], clips: int) -> NDArray[np.bool_]:
    """[n, l] which labels are right; every clip has one at least."""
    if len(set(labels)) != len(labels):
        raise UserError("labels holds a name twice; give each once")
    if len(truth) != clips:
        raise UserError(f"truth has {len(truth)} entries for {clips} rows of audio; give one a clip")
    place = {label: k for k, label in enumerate(labels)}
    table = np.zeros((clips, len(labels)), bool)
    for row, given in enumerate(truth):
        mine = [given] if isinstance(given, str) else list(given)
        missing = [label for label in mine if label not in place]
        if missing or not mine:
            what = f"{missing[0]!r}, which is not among the {len(labels)} labels" if missing else "no label"
            raise UserError(f"truth[{row}] is {what}; mend the table, or drop the clip")
        table[row, [place[label] for label in mine]] = True
    return table


def prompts(labels: Sequence[str], templates: Sequence[str] = (TEMPLATE,)) -> list[list[str]]:
    """The texts of each label: one a template; underscores read as spaces."""
    for template in templates:
        if "{label}" not in template:
            raise UserError(f"template={template!r} has no {{label}} in it")
    if not templates:
        raise UserError("templates is empty; the paper's is " + repr(TEMPLATE))
    return [[template.replace("{label}", spoken(label)) for template in templates] for label in labels]


def spoken(label: str) -> str:
    """A label as one would say it."""
    return " ".join(label.replace("_", " ").split())


def averaged(rows_ltd: Any) -> Array:
    """[l, d] the mean of each label's unit rows over templates, of length one."""
    wide = np.asarray(rows_ltd, float)
    return unit((wide / np.linalg.norm(wide, axis=2, keepdims=True)).mean(axis=1))


def average_precision(scores: Array, right: NDArray[np.bool_]) -> float:
    """Mean over right items of the precision at their place; of equal scores the wrong ones come first."""
    hits = right[worst_order(scores, right.astype(float))]
    places = np.flatnonzero(hits)
    return float((np.arange(1, len(places) + 1) / (places + 1)).mean())


def mean_precision(scores_nl: Array, truth_nl: NDArray[np.bool_]) -> float:
    """Mean over labels that occur of average precision, in percent."""
    values = [average_precision(scores_nl[:, k], truth_nl[:, k]) for k in np.flatnonzero(truth_nl.any(axis=0))]
    return 100.0 * float(np.mean(values))
