"""What a run would be, without running it: counts, parameters, memory, and time measured over a few steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from supclap.schema import Clip
from supclap.settings import write
from supclap.training import setup
from supclap.training.config import RunConfig

STEPS = 4


def preview(config: RunConfig, data: Sequence[Clip] | None = None) -> dict[str, Any]:
    """Plain values for `--dry-run`; nothing is written, the feature cache apart."""
    clips = setup.splits(config, data)
    parts = setup.build(config, clips)
    parts.model.train()
    parts.objective.train()
    seconds = _seconds_a_step(parts)
    per_epoch = -(-len(parts.loader) // config.train.accumulate)
    steps = min(per_epoch * config.train.epochs, config.train.steps or per_epoch * config.train.epochs)
    learned = sum(value.numel() for value in parts.stepper.parameters)
    whole = sum(value.numel() for value in parts.learned.parameters())
    return {
        "clips": {name: len(side) for name, side in parts.clips.items()},
        "captions": {name: sum(len(clip.captions) for clip in side) for name, side in parts.clips.items()},
        "parameters": {"all": whole, "learned": learned},
        # Weights of all, gradients and two moments of what learns; activations come on top (measured on a GPU).
        "memory_mb": round((4 * whole + 12 * learned) / 2**20, 1),
        "peak_gpu_mb": _gpu_peak(parts.stepper.device),
        "steps": steps,
        "seconds_a_step": round(seconds, 4),
        "seconds_an_epoch": round(seconds * per_epoch, 1),
        "seconds_in_all": round(seconds * steps, 1),
        "config": write(config),
    }


def _seconds_a_step(parts: setup.Parts) -> float:
    """The mean of a few steps after the first, data included."""
    begun, done = time.perf_counter(), 0
    for _, batch in parts.loader.batches(0):
        parts.stepper([batch], done)
        done += 1
        if done == 1 and len(parts.loader) > 1:
            begun = time.perf_counter()
        if done > STEPS:
            break
    return (time.perf_counter() - begun) / max(1, done - 1)


def _gpu_peak(device: torch.device) -> float | None:
    return round(torch.cuda.max_memory_allocated(device) / 2**20, 1) if device.type == "cuda" else None
