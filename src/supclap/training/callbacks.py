"""What a run tells others while it trains. A callback is any object with some of the methods below."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from supclap.schema import Batch, Clip, LossOutput


@dataclass
class State:
    """Where a run stands. Callbacks read it; what they draw at random moves nothing in the run."""

    config: Any
    out: Path
    model: Any
    objective: torch.nn.Module
    optimizer: torch.optim.Optimizer
    clips: dict[str, list[Clip]]  # by split
    step: int = 0  # finished steps of the whole run
    steps: int = 0  # steps the whole run will have
    epoch: int = 0
    position: int = 0  # in the epoch's order, of what has been trained on
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # evaluations since the best one
    skipped: int = 0
    last: dict[str, Any] = field(default_factory=dict)  # the newest line of records.jsonl
    seen: dict[str, Any] = field(default_factory=dict)  # audio, text, clip_ids ... of the newest batch, detached


class Callback(Protocol):
    """All methods are optional."""

    def on_start(self, state: State) -> None:
        """Before the first step, and again when a run resumes."""
        ...

    def on_batch(self, state: State, batch: Batch) -> None:
        """Before a step on this batch (the last of them, where gradients of several are averaged)."""
        ...

    def on_step(self, state: State, out: LossOutput) -> None:
        """After each step; ``out`` is that step's."""
        ...

    def on_eval(self, state: State, scores: Any) -> None:
        """After each evaluation."""
        ...

    def on_end(self, state: State) -> None:
        """When the run is finished."""
        ...


def tell(callbacks: Iterable[Any], method: str, *values: Any) -> None:
    """Call whoever has the method, in order."""
    for callback in callbacks:
        heard = getattr(callback, method, None)
        if heard is not None:
            heard(*values)
