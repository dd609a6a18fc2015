"""Clips that could not be read: kept aside with their reason, in a table beside the run."""

from __future__ import annotations

import csv
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from supclap.schema import Clip


@dataclass(frozen=True)
class Bad:
    """A clip that was left out, and why."""

    clip_id: str
    audio: str
    start: float
    end: float | None
    reason: str


class Quarantine:
    """Which clips of a list are out, by their place in it."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.bad: dict[int, Bad] = {}

    def add(self, index: int, clip: Clip, reason: str) -> None:
        """Put a clip aside, once; its row is in the table when this returns."""
        if index in self.bad:
            return
        self.bad[index] = row = Bad(clip.id, clip.audio, clip.start, clip.end, reason)
        if self.path is not None and not self._written(row):
            self._write(row)

    def _written(self, row: Bad) -> bool:
        # Another rank, or the run before this one was resumed, may have met the clip already.
        return any((known.clip_id, known.audio) == (row.clip_id, row.audio) for known in read(self.path))

    def _write(self, row: Bad) -> None:
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if file.tell() == 0:
                writer.writerow([entry.name for entry in fields(Bad)])
            writer.writerow(astuple(row))


def read(path: str | Path | None) -> list[Bad]:
    """The rows of a quarantine table; none if there is no table."""
    if path is None or not Path(path).is_file():
        return []
    with Path(path).open(encoding="utf8", newline="") as file:
        return [
            Bad(
                row["clip_id"],
                row["audio"],
                float(row["start"]),
                float(row["end"]) if row["end"] else None,
                row["reason"],
            )
            for row in csv.DictReader(file)
        ]
