"""Batches on their way to a model: moved, cut into chunks, and looked at for numbers that are none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from supclap.schema import Batch


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nest of dicts and lists with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: _each(inner, change) for name, inner in value.items()}
    return value


def _tensors(batch: Batch, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    names = ("samples", "lengths", "clip_ids", "audio_features", "text_features", "prepared")
    return {name: _each(getattr(batch, name), change) for name in names}


def to(batch: Batch, device: torch.device) -> Batch:
    """The batch on a device."""
    if device.type == "cpu":
        return batch
    return dataclasses.replace(batch, **_tensors(batch, lambda value: value.to(device, non_blocking=True)))


def rows(batch: Batch, first: int, last: int) -> Batch:
    """Rows first to last as a batch of their own."""
    count = len(batch.clip_ids)

    def cut(value: Tensor) -> Tensor:
        return value[first:last] if value.dim() and len(value) == count else value

    def listed(values: list[Any] | None) -> Any:
        return None if values is None else values[first:last]

    return dataclasses.replace(
        batch,
        **_tensors(batch, cut),
        texts=batch.texts[first:last],
        languages=batch.languages[first:last],
        anchors=listed(batch.anchors),
        negatives=listed(batch.negatives),
    )


def bad_rows(*sides: Tensor | None) -> Tensor:
    """Rows in which any side holds NaN or an infinity."""
    found = [~side.flatten(1).isfinite().all(1) for side in sides if side is not None]
    return torch.stack(found).any(0) if found else torch.zeros(0, dtype=torch.bool)
