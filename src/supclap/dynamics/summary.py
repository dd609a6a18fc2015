"""R, d, R/d and positive pairs as numbers and histograms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from supclap.schema import LossOutput

NEAR = 1e-6
SHARE = (0.7, 0.9)  # where the paper counts positive pairs


def similarity_numbers(audio: Tensor, text: Tensor) -> dict[str, float]:
    """Positive pairs of unit rows: mean cosine, mean distance, and the percent of them between .7 and .9."""
    similarity = (audio * text).sum(1)
    inside = (similarity >= SHARE[0]) & (similarity < SHARE[1])
    return {
        "positive_similarity": float(similarity.mean()),
        "positive_share_7_9": float(100.0 * inside.double().mean()),
        "distance": float((audio - text).norm(dim=1).mean()),
    }


def radius_numbers(out: LossOutput) -> dict[str, float]:
    """For each term with a radius: mean R, its deviation, mean R/d, and the percent of rows with R beyond d."""
    found = {}
    for name, radius in out.radius.items():
        radius, distance = radius.detach().double(), out.distance[name].double()
        found[f"radius_{name}"] = float(radius.mean())
        found[f"radius_sd_{name}"] = float(radius.std(unbiased=False))
        found[f"radius_ratio_{name}"] = float((radius / distance.clamp(min=NEAR)).mean())
        found[f"radius_beyond_{name}"] = float(100.0 * (radius > distance).double().mean())
    return found


def histogram(values: Tensor | Iterable[float], low: float, high: float, bins: int = 40) -> dict[str, Any]:
    """Edges and counts as plain lists; values beyond the ends are counted in the end bins."""
    given = torch.as_tensor(values if isinstance(values, Tensor) else list(values)).detach().double().cpu()
    counts = torch.histc(given.clamp(low, high), bins=bins, min=low, max=high)
    return {"edges": torch.linspace(low, high, bins + 1).tolist(), "counts": [int(count) for count in counts]}


def histograms(out: LossOutput, audio: Tensor, text: Tensor, bins: int = 40) -> dict[str, dict[str, Any]]:
    """R, d, R/d of each term that has a radius, and the cosine of positive pairs (rows of any length)."""
    pairs = torch.nn.functional.cosine_similarity(audio.detach().double(), text.detach().double())
    found = {"positive_similarity": histogram(pairs, -1.0, 1.0, bins)}
    for name, radius in out.radius.items():
        distance = out.distance[name]
        found[f"radius_{name}"] = histogram(radius, -0.5, 2.0, bins)
        found[f"distance_{name}"] = histogram(distance, 0.0, 2.0, bins)
        found[f"radius_ratio_{name}"] = histogram(radius.detach() / distance.clamp(min=NEAR), -0.5, 2.0, bins)
    return found
