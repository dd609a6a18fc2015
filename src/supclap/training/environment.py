"""environment.json: where and with what a run was made."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("supclap", "torch", "numpy", "scipy", "safetensors", "transformers", "tokenizers", "soundfile", "soxr")


def environment(device: torch.device, processes: int = 1) -> dict[str, Any]:
    """Versions, machine, processes, threads, commit and command."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "processes": processes,
        "threads": torch.get_num_threads(),
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "packages": {name: found for name in PACKAGES if (found := version(name))},
        "commit": commit(),
    }


def written_by(run: Path) -> str | None:
    """The supclap that a run was begun with, if that is known."""
    try:
        held = json.loads((run / "environment.json").read_text(encoding="utf8"))
    except (OSError, json.JSONDecodeError):
        return None
    found = held.get("packages", {}).get("supclap")
    return None if found is None else str(found)


def version(name: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the source tree this package runs from, if it does."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None
