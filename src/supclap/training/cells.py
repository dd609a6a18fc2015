"""The runs of a comparison: one after another here, or several side by side in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from supclap.evaluation.retrieval import Scores
from supclap.schema import Clip, UserError
from supclap.settings import make, write
from supclap.training import loop, records, setup
from supclap.training.config import RunConfig
from supclap.training.signals import Stopped, Watch
from supclap.training.untrained import score

Callbacks = Callable[[str], Sequence[Any]]
"""The name of a run -> the callbacks that hear of it."""
PATIENCE = 0.5  # seconds between looks at whether a signal has come


@dataclass(frozen=True)
class Cell:
    """One recipe with one seed, and where its run lies."""

    recipe: str
    place: Path
    config: RunConfig

    @property
    def name(self) -> str:
        """What people read of it."""
        seeded = self.place.name.startswith("seed-")
        return f"{self.place.parent.name} {self.place.name}" if seeded else self.place.name


@dataclass(frozen=True)
class Outcome:
    """A finished run: where it lies, what it started from, and what it scored."""

    path: Path
    config: RunConfig
    records: list[dict[str, Any]]
    scores: Scores

    def to_dict(self, out: Path) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        started = {key: self.records[0][key] for key in ("seed", "weights", "batches")}
        best = (records.last(self.records, "end") or {}).get("best_step")
        return {"run": os.path.relpath(self.path, out), **started, "best_step": best, "scores": self.scores.to_dict()}


@dataclass(frozen=True)
class Scored:
    """What the runs are scored on: some of the clips, and the split they stand for."""

    clips: list[Clip]
    split: str


def in_turn(
    cells: Sequence[Cell], clips: list[Clip], scored: Scored, watch: Callbacks, progress: setup.Progress | None
) -> Iterator[tuple[Cell, Outcome]]:
    """One run after another, in this process."""
    for cell in cells:
        yield cell, run(cell, clips, scored, watch(cell.name), progress)


def run(
    cell: Cell, clips: list[Clip], scored: Scored, callbacks: Sequence[Any] = (), progress: setup.Progress | None = None
) -> Outcome:
    """From the beginning, from where it stopped, or as it lies there."""
    if (cell.place / loop.RUN).exists():
        done = loop.resume(cell.place, callbacks=callbacks, data=clips, progress=progress)
    else:
        done = loop.train(cell.config, out=cell.place, callbacks=callbacks, data=clips, progress=progress)
    scores = score(done.model, cell.config, scored.clips, scored.split)
    # The model goes: ten of them would not fit everywhere.
    return Outcome(cell.place, cell.config, done.records, scores)


# -- side by side ----------------------------------------------------------------------------------------------------


def side_by_side(cells: Sequence[Cell], clips: list[Clip], scored: Scored, jobs: int) -> Iterator[tuple[Cell, Outcome]]:
    """Up to ``jobs`` runs at once, as they finish. A signal or a mistake stops all of them, with their states saved."""
    waiting, running = list(cells), dict[Connection, tuple[Cell, Any]]()
    threads = max(1, torch.get_num_threads() // jobs)
    with Watch() as signals:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    cell = waiting.pop(0)
                    pipe, process = _start(cell, clips, scored, threads)
                    running[pipe] = cell, process
                for ready in wait(list(running), timeout=PATIENCE):
                    assert isinstance(ready, Connection)
                    cell, process = running.pop(ready)
                    yield cell, _answer(cell, ready, process)
                if signals.number is not None:
                    raise Stopped(signals.number, None, cells[0].place)
        finally:
            _end(running)


def _start(cell: Cell, clips: list[Clip], scored: Scored, threads: int) -> tuple[Connection, Any]:
    # Spawned: a fork would take the locks of this process's threads along. Settings travel as plain values, for a
    # class of a recipe file is known only once the file has been read.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_apart, args=(there, cell.place, write(cell.config), clips, scored, threads))
    process.start()
    there.close()
    return here, process


def _apart(
    pipe: Connection, place: Path, config: dict[str, Any], clips: list[Clip], scored: Scored, threads: int
) -> None:
    torch.set_num_threads(threads)
    # A spawned process would spawn the loader's workers too, and send each of them the whole model.
    multiprocessing.set_start_method(None, force=True)
    answer: Outcome | Exception
    try:
        loop.load_recipe(place)
        answer = run(Cell("", place, make(RunConfig, config)), clips, scored)
    except (UserError, Stopped) as error:
        answer = error
    with suppress(BrokenPipeError):
        pipe.send(answer)


def _answer(cell: Cell, pipe: Connection, process: Any) -> Outcome:
    try:
        answer = pipe.recv()
    except EOFError as error:
        process.join()
        raise UserError(
            f"{cell.name}: its process ended with status {process.exitcode}, for want of memory? What is finished is "
            "kept: the same command again, with fewer jobs, goes on"
        ) from error
    process.join()
    if isinstance(answer, UserError):
        raise UserError(f"{cell.name}: {answer}") from answer
    if isinstance(answer, Stopped):
        raise answer
    assert isinstance(answer, Outcome)
    return answer


def _end(running: Mapping[Connection, tuple[Cell, Any]]) -> None:
    """What still runs hears SIGTERM, saves and ends; nobody listens to its answer any more."""
    for pipe, (_, process) in running.items():
        pipe.close()
        process.terminate()
    for _, process in running.values():
        process.join()
