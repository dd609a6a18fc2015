"""Forces, drift and radius while a run trains: dynamics.jsonl, one object a line, beside records.jsonl.

An eighth of the rows and, where no cadence is set, a budget of 1 % of the time keep it cheap; each line says the
seconds it took.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from supclap.dynamics.drift import measure, moved
from supclap.schema import Batch, LossOutput
from supclap.training import batches, records
from supclap.training.callbacks import State

NAME = "dynamics.jsonl"
FEWEST, SHARE = 4, 8  # rows whose real step is followed: an eighth of the batch, at least four
OFTEN, BUDGET = 25, 0.01  # where no cadence is set: at most each 25th step, and 1 % of the time
TOGETHER = 100  # steps, where several processes must agree and a clock would let one wait for the others


class Dynamics:
    """A callback that measures every so many steps, on the very batch that is stepped on; 0: as 1 % of the time allows.

    Forces and radii are those of the rows that the objective saw, by a copy of it as it was before the step. The drift
    of the real step is that of some of these rows, encoded in evaluation mode before and after. Nothing is moved.
    """

    def __init__(self, every: int = 0, *, share: int = SHARE) -> None:
        self.every, self.share = every, share
        self.spent = self._begun = 0.0
        self.off = False
        self.rows: list[dict[str, Any]] = []
        self._due: tuple[Batch, tuple[Tensor, Tensor], Any] | None = None
        self._seconds = 0.0
        self._path: Path | None = None

    def on_start(self, state: State) -> None:
        """Forget what was measured behind the checkpoint that the run goes on from."""
        self._begun = time.perf_counter()
        self.rows = [line for line in read(state.out) if line["step"] <= state.step]
        if int(os.environ.get("RANK", "0")) == 0:
            self._path = state.out / NAME
            self._path.write_text("".join(map(_line, self.rows)), encoding="utf8")

    def on_batch(self, state: State, batch: Batch) -> None:
        """Where some rows are, and the objective as it is."""
        self._due = None
        if self._is_due(state.step + 1):
            with self._harmless(state):
                self._before(state, batch)

    def on_step(self, state: State, out: LossOutput) -> None:
        """What drove the rows, and where they went."""
        if self._due is not None and state.last.get("event") == "step":
            with self._harmless(state):
                self._after(state)

    def _before(self, state: State, batch: Batch) -> None:
        begun = time.perf_counter()
        count = len(batch.clip_ids)
        some = batches.rows(batch, 0, min(count, max(FEWEST, count // self.share)))
        some = batches.to(some, next(state.model.parameters()).device)
        self._due = some, _encoded(state.model, some), copy.deepcopy(state.objective)
        self._seconds = time.perf_counter() - begun

    def _is_due(self, step: int) -> bool:
        if self.off or step == 1:
            return not self.off
        if self.every or _together():
            return step % (self.every or TOGETHER) == 0
        # One more must fit as well, not only those that were.
        ahead = self.spent * (1 + 1 / max(1, len(self.rows)))
        return step % OFTEN == 0 and ahead <= BUDGET * (time.perf_counter() - self._begun)

    def _after(self, state: State) -> None:
        assert self._due is not None
        begun = time.perf_counter()
        (some, before, objective), self._due = self._due, None
        drifts = moved(before, _encoded(state.model, some))
        found = measure(objective, **state.seen)
        found |= {f"step_drift_{way}": float(cosines.mean()) for way, cosines in drifts.items()}
        seconds = self._seconds + time.perf_counter() - begun
        self.spent += seconds
        self.rows.append(records.plain({"step": state.step, **found, "seconds": round(seconds, 5)}))
        if self._path is not None:
            with self._path.open("a", encoding="utf8") as file:
                file.write(_line(self.rows[-1]))

    @contextlib.contextmanager
    def _harmless(self, state: State) -> Iterator[None]:
        """An objective that cannot be measured, or a full disk, ends the measuring and not the run."""
        try:
            yield
        except Exception as error:
            if _together():
                raise  # one that stops by itself would leave the others waiting
            self.off = True
            said = f"dynamics: nothing is measured from step {state.step} on: {type(error).__name__}: {error}"
            print(said, file=sys.stderr, flush=True)  # noqa: T201 -- talk goes to stderr


def _together() -> bool:
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def read(folder: Path) -> list[dict[str, Any]]:
    """All whole lines of a run's dynamics."""
    path = folder / NAME
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf8").rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def cost(rows: list[dict[str, Any]], lines: list[dict[str, Any]], rows_a_step: int) -> float:
    """The share of the training time that measuring took, from a run's own records."""
    trained = sum(rows_a_step / line["clips_per_s"] for line in lines if line["event"] == "step")
    return float(sum(row["seconds"] for row in rows) / trained) if trained else 0.0


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


@torch.no_grad()
def _encoded(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    was = model.training
    model.eval()
    try:
        return model.encode_audio(batch), model.encode_text(batch)
    finally:
        model.train(was)
