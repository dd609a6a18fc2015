"""What a bench hands back: a table, and the machine it was measured on."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from supclap.report import tables


@dataclass(frozen=True)
class Measured:
    """One table of results. ``rows`` are plain values by column; ``notes`` say how they were measured."""

    name: str
    title: str
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    machine: Mapping[str, Any] = field(default_factory=lambda: machine())

    def plain(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return asdict(self)

    def text(self) -> str:
        """For the terminal."""
        return "\n".join([self._table(tables.text), *self.notes, self._machine(), ""])

    def markdown(self, command: str) -> str:
        """A result file: command, table, machine."""
        lines = [f"# {self.title}", "", f"    {command}", "", self._table(tables.markdown)]
        lines += [f"- {note}" for note in self.notes]
        lines += [f"- {self._machine()}", ""]
        return "\n".join(lines)

    def _table(self, draw: Any) -> str:
        headers = list(self.rows[0])
        drawn: str = draw([[row[header] for header in headers] for row in self.rows], headers)
        return drawn

    def _machine(self) -> str:
        return "; ".join(f"{name} {value}" for name, value in self.machine.items())


def machine() -> dict[str, Any]:
    """Where and with what a result was measured."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "supclap": _version("supclap"),
        "torch": torch.__version__,
        "open_clip_torch": _version("open_clip_torch"),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load before": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else "unknown",
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit of the source tree, with a + where files have changed since."""
    folder = Path(__file__).parent
    try:
        found = _git(folder, "rev-parse", "--short", "HEAD")
        return found + ("+" if _git(folder, "status", "--porcelain", "--", str(folder.parent)) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _processor() -> str:
    """Vendor, family and model: the marketing name alone hides the generation."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    fields = {name.strip(): value.strip() for name, value in found.items()}
    name = fields.get("model name", platform.machine())
    return f"{name} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"
