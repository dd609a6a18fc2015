"""A run as a person watches it: one live line on a terminal, a line now and then elsewhere. All of it on stderr."""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import torch

from supclap.schema import LossOutput
from supclap.training.callbacks import State

EVERY = 10.0  # seconds between lines where stderr is no terminal


class Live:
    """A callback that says where a run stands."""

    def __init__(self, name: str = "train", *, quiet: bool = False) -> None:
        self.name, self.quiet = name, quiet
        self.progress: Any = None
        self.task: Any = None
        self.begun = self.said = 0.0
        self.first = 0

    def heard(self, done: int, total: int) -> None:
        """How many clips a frozen tower has heard; cached ones pass quickly."""
        if not self.quiet and (time.monotonic() - self.said > EVERY / 2):
            self.said = time.monotonic()
            self._say(f"features of {done}/{total} clips")

    def on_start(self, state: State) -> None:
        """Say how much there is to do."""
        self.begun, self.first = time.monotonic(), state.step
        if self.quiet:
            return
        if sys.stderr.isatty():
            self._bar(state)
        else:
            self._say(f"{state.steps} steps, {len(state.clips['train'])} clips to train on")

    def _bar(self, state: State) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn(self.name), BarColumn(24), MofNCompleteColumn(), TextColumn("{task.description}"))
        self.progress = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        self.progress.start()
        self.task = self.progress.add_task("", total=state.steps, completed=state.step)

    def on_step(self, state: State, out: LossOutput) -> None:
        """The numbers of this step."""
        if self.progress is not None:
            self.progress.update(self.task, completed=state.step, description=told(state))
        elif not self.quiet and time.monotonic() - self.said > EVERY:
            self.said = time.monotonic()
            left = (self.said - self.begun) / max(1, state.step - self.first) * (state.steps - state.step)
            self._say(f"step {state.step}/{state.steps}  {told(state)}  {left:.0f} s left")

    def on_eval(self, state: State, scores: Any) -> None:
        """The scores on validation data."""
        if self.quiet:
            return
        t2a, a2t = (scores[way]["R@1"] for way in ("t2a", "a2t"))
        mark = "  best so far" if state.best_step == state.step else ""
        line = f"step {state.step}  R@1 {t2a:.1f} text to audio, {a2t:.1f} audio to text, {scores['clips']} clips{mark}"
        self._print(line)
        for name, one in state.last.get("also", {}).items():
            self._print(f"  {name}: R@1 {one['t2a']['R@1']:.1f}, {one['a2t']['R@1']:.1f}, {one['clips']} clips")

    def on_end(self, state: State) -> None:
        """Take the live line away."""
        self.close()

    def close(self) -> None:
        """Give the terminal back."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None

    def _print(self, line: str) -> None:
        if self.progress is not None:
            self.progress.console.print(line, highlight=False)
        else:
            self._say(line)

    def line(self, line: str) -> None:
        """Something that others have to say."""
        if not self.quiet:
            self._say(line)

    def _say(self, line: str) -> None:
        print(f"{self.name}: {line}", file=sys.stderr, flush=True)  # noqa: T201 -- talk goes to stderr


def told(state: State) -> str:
    """The newest step in one line."""
    line = state.last
    if line.get("event") != "step":
        return str(line.get("reason", ""))
    words = [f"loss {line['loss']:.3f}"]
    if len(line["parts"]) > 1:
        words.append("(" + " ".join(f"{name} {value:.3f}" for name, value in line["parts"].items()) + ")")
    if line["radius"]:
        words.append("R " + "/".join(f"{value:.2f}" for value in line["radius"].values()))
        words.append("R/d " + "/".join(f"{value:.2f}" for value in line["share"].values()))
    if line.get("scale"):
        words.append(f"tau {1 / line['scale']:.3f}")
    words.append(f"{line['clips_per_s']:.0f} clips/s")
    if line["wait"] > 0.1:
        words.append(f"waits {100 * line['wait']:.0f} % for data")
    words.append(f"{memory() / 2**30:.1f} GB")
    return "  ".join(words)


def memory() -> float:
    """The most bytes held so far: by tensors on the GPU where there is one, by the process elsewhere."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return float(torch.cuda.max_memory_allocated())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most if sys.platform == "darwin" else most * 1024)
