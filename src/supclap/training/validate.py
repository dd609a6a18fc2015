"""What a model in training scores on each validation set, and what the best one is chosen by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supclap.data import manifest
from supclap.evaluation.model import evaluate_model
from supclap.schema import Clip, UserError
from supclap.training.config import EvaluateSettings


def more_sets(settings: EvaluateSettings) -> dict[str, list[Clip]]:
    """The further validation sets by name: a table's val split where it names one, else all of it."""
    found: dict[str, list[Clip]] = {}
    for name, place in settings.more.items():
        clips = [clip for clip in manifest.read(place) if clip.captions]
        chosen = [clip for clip in clips if clip.split == "val"] or clips
        if len(chosen) < 2:
            raise UserError(f"evaluate.also: {name}={place!r} has {len(chosen)} clips with captions; give two or more")
        found[name] = chosen
    return found


def scores(
    model: Any, clips: Mapping[str, list[Clip]], settings: EvaluateSettings, features: Any, workers: int = 0
) -> tuple[Any | None, dict[str, Any]]:
    """Retrieval scores on the set that selects, None where it is too small to rank anything; and on all others by name.

    ``workers`` threads decode ahead.
    """
    names = list(dict.fromkeys([settings.select_on, "val", *settings.more] if settings.also else [settings.select_on]))
    was = model.training
    model.eval()
    try:
        found = {name: _one(model, clips[name], name, settings, features, workers) for name in names}
    finally:
        model.train(was)
    return found.pop(settings.select_on), {name: one for name, one in found.items() if one is not None}


def _one(
    model: Any, clips: list[Clip], name: str, settings: EvaluateSettings, features: Any, workers: int
) -> Any | None:
    chosen = [clip for clip in clips if clip.captions][: settings.limit]
    if len(chosen) < 2:
        return None
    return evaluate_model(
        model,
        chosen,
        protocol=settings.protocol,
        split=name if name in ("val", "test") else None,
        features=features,
        workers=workers,
        on_error="raise" if features is not None else "drop",
    )


def selection(found: Any) -> float:
    """The mean of both directions' R@1."""
    return float((found["t2a"]["R@1"] + found["a2t"]["R@1"]) / 2)
