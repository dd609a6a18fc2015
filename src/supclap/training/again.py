"""A run that is taken up again: its settings must be readable here, and its data what it was."""

from __future__ import annotations

import json
from pathlib import Path

from supclap.schema import Clip, UserError
from supclap.settings import read as read_settings
from supclap.training import identity
from supclap.training.config import RunConfig
from supclap.training.environment import version, written_by

RUN, TABLE = "run.json", "data.json"


def settings_of(folder: Path) -> RunConfig:
    """A run's settings; where they do not fit, also whether another version of supclap wrote them."""
    try:
        return read_settings(RunConfig, folder / RUN)
    except UserError as error:
        theirs, ours = written_by(folder), version("supclap")
        if theirs == ours or theirs is None:
            raise
        raise UserError(f"{error} (the run is of supclap {theirs}, this is {ours}: resume it with {theirs})") from error


def same_table(folder: Path, clips: dict[str, list[Clip]]) -> None:
    """UserError, with the difference, where the data is not what the run began with."""
    try:
        before = json.loads((folder / TABLE).read_text(encoding="utf8"))
    except FileNotFoundError:
        return
    now = identity.table(clips)
    kinds = {
        "gone": sorted(set(before) - set(now)),
        "new": sorted(set(now) - set(before)),
        "changed": sorted(name for name in set(now) & set(before) if now[name] != before[name]),
    }
    said = [f"{len(names)} {kind} ({', '.join(names[:3])})" for kind, names in kinds.items() if names]
    if said:
        raise UserError(
            f"{folder}: the data is not what this run began with: {'; '.join(said)}. Bring the old table back, "
            "or start a new run"
        )
