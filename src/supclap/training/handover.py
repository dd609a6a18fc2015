"""What the best model takes from its training: the temperature it was trained with, and a card that says how."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from supclap.settings import write
from supclap.training.callbacks import State


def scale_of(objective: nn.Module) -> float | None:
    """What an objective multiplies cosines with; None where it does not say."""
    base = getattr(objective, "base", objective)
    temperature = getattr(base, "temperature", None)
    found = temperature() if callable(temperature) else getattr(base, "scale", None)
    return None if found is None else float(found.detach() if isinstance(found, Tensor) else found)


@torch.no_grad()
def scale(model: Any, objective: nn.Module) -> None:
    """The model's own scale and bias become those of the objective's base, so that its scores mean what they cost."""
    found = scale_of(objective)
    if found is not None:
        model.log_scale.fill_(math.log(found))
    bias = getattr(getattr(objective, "base", objective), "bias", None)
    if isinstance(bias, Tensor | float):
        model.offset.fill_(float(bias))


def card(state: State, found: Any) -> dict[str, Any]:
    """What the model's README says of its training."""
    plain = write(state.config)
    rows = {name: len(side) for name, side in state.clips.items()}
    told: dict[str, Any] = {
        "recipe": {name: plain[name] for name in ("objective", "optim", "train", "seed", "precision")},
        "data": {"table": plain["data"]["path"], **{f"{name} clips": count for name, count in rows.items()}},
    }
    if found is not None:
        told["scores"] = {"step": state.step, **found.to_dict(intervals=True)}
    return told
