"""records.jsonl: one object a line, whole lines only, cut back to a checkpoint when a run resumes."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from supclap.schema import UserError

NAME = "records.jsonl"
EVENTS = ("start", "step", "eval", "skip", "resume", "end")


class Records:
    """The journal of one run; each line is flushed, so that a killed run loses none it has written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        # Unbuffered: what a full disk refused must not wait somewhere to be written later.
        self._file = self.path.open("ab", buffering=0)

    def write(self, event: str, **fields: Any) -> dict[str, Any]:
        """Append one line."""
        assert event in EVENTS, event
        line = {"event": event, **{name: plain(value) for name, value in fields.items()}}
        left = json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        while left:
            left = left[self._file.write(left) :]
        return line

    def size(self) -> int:
        """Bytes that are safely on disk: a checkpoint keeps this number."""
        os.fsync(self._file.fileno())
        return self._file.seek(0, os.SEEK_END)

    def cut(self, size: int) -> None:
        """Forget whatever was written after a checkpoint."""
        if self._file.seek(0, os.SEEK_END) < size:
            raise UserError(f"{self.path}: shorter than at the last checkpoint; bring it back, or start a new run")
        self._file.truncate(size)
        self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """No more lines."""
        self._file.close()


class Mute(Records):
    """The journal of a process that writes none."""

    def __init__(self) -> None:
        self.path = Path(os.devnull)
        self._file = self.path.open("ab", buffering=0)

    def size(self) -> int:
        """Nothing."""
        return 0

    def cut(self, size: int) -> None:
        """Nothing to forget."""


def plain(value: Any) -> Any:
    """What JSON can hold: a number that is not finite becomes None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def read(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All whole lines of a run's journal; the torn last line of a killed run is left out."""
    path = Path(folder) / NAME
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    # What stands behind the last newline was never finished.
    return [json.loads(line) for line in lines[:-1] if line.strip()]


def best(records: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The evaluation that the saved model is from: the first of the highest."""
    evals = [line for line in records if line["event"] == "eval"]
    return max(evals, key=lambda line: (line["selected"], -line["step"]), default=None)


def last(records: list[dict[str, Any]], event: str) -> dict[str, Any] | None:
    """The last line of a kind."""
    return next((line for line in reversed(records) if line["event"] == event), None)
