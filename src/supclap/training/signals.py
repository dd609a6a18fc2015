"""SIGTERM and Ctrl-C: the step in hand is finished, the state is saved, then the run ends."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any


class Stopped(Exception):
    """The run was asked to stop; its state is saved. ``step`` is None where several runs stopped."""

    def __init__(self, number: int, step: int | None, folder: Path) -> None:
        after = "" if step is None else f" after step {step}"
        super().__init__(f"stopped by {signal.Signals(number).name}{after}")
        self.number, self.step, self.folder = number, step, folder

    def __reduce__(self) -> tuple[type[Stopped], tuple[int, int | None, Path]]:
        return type(self), (self.number, self.step, self.folder)

    @property
    def status(self) -> int:
        """The exit status a shell expects of a process that ended so."""
        return 128 + self.number


class Watch:
    """Remembers the first signal; a second Ctrl-C does not wait any longer."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Watch:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
