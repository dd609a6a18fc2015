"""What a model in training scores, and what the best one is chosen by."""

from __future__ import annotations

from typing import Any

from supclap.evaluation.model import evaluate_model
from supclap.schema import Clip
from supclap.training.config import EvaluateSettings


def scores(
    model: Any, clips: dict[str, list[Clip]], settings: EvaluateSettings, features: Any, workers: int = 0
) -> Any | None:
    """Retrieval scores on the split that selects; None where it is too small to rank anything.

    ``workers`` threads decode ahead.
    """
    chosen = [clip for clip in clips[settings.select_on] if clip.captions][: settings.limit]
    if len(chosen) < 2:
        return None
    was = model.training
    model.eval()
    try:
        return evaluate_model(
            model,
            chosen,
            protocol=settings.protocol,
            split=settings.select_on,
            features=features,
            workers=workers,
            on_error="raise" if features is not None else "drop",
        )
    finally:
        model.train(was)


def selection(found: Any) -> float:
    """The mean of both directions' R@1."""
    return float((found["t2a"]["R@1"] + found["a2t"]["R@1"]) / 2)
