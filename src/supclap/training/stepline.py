"""What a step's line of the journal tells of its loss, and the mean of what several processes tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from supclap.schema import LossOutput


def told(out: LossOutput) -> dict[str, Any]:
    """Loss, its parts, and by term R, d and R / d."""
    return {
        "loss": float(out.loss.detach()),
        "parts": {name: float(value.detach()) for name, value in out.parts.items()},
        "radius": {name: float(value.detach().mean()) for name, value in out.radius.items()},
        "distance": {name: float(value.mean()) for name, value in out.distance.items()},
        "share": {name: float(share(value, out.distance[name])) for name, value in out.radius.items()},
    }


def share(radius: Tensor, distance: Tensor) -> Tensor:
    """The mean of R / d."""
    return (radius.detach() / distance.clamp(min=1e-6)).mean()


def mean(said: Sequence[Any]) -> Any:
    """One number, or one dict of numbers, from every process's."""
    if isinstance(said[0], dict):
        return {name: mean([one[name] for one in said]) for name in said[0]}
    return sum(said) / len(said)
