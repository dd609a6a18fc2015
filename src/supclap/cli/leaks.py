"""Has a run learned from the recordings that it is tested on? By source, by the sources of a scene, and by file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from supclap.data.scenes.write import EVENTS_FILE
from supclap.schema import Clip, UserError
from supclap.settings import read
from supclap.training import identity, setup
from supclap.training.config import RunConfig
from supclap.training.loop import RUN, TABLE, load_recipe

CHOICES = ("note", "drop", "refuse")


def learned(model: str) -> set[str]:
    """The recordings of a run's training clips, from its table."""
    folder = Path(model)
    load_recipe(folder)
    config = read(RunConfig, folder / RUN)
    try:
        clips = setup.splits(config)["train"]
    except UserError as error:
        raise UserError(f"{model}: what it was trained on cannot be read any more ({error})") from error
    return set().union(*recordings(clips).values())


def recordings(clips: Sequence[Clip]) -> dict[str, set[str]]:
    """By clip what it was cut from or mixed of: a name of its source, those of a scene's parts, its file."""
    parts: dict[Path, dict[str, list[str]]] = {}
    found = {}
    for clip in clips:
        folder = Path(clip.audio).parent
        if folder not in parts:
            parts[folder] = _parts(folder / EVENTS_FILE)
        mixed = parts[folder].get(clip.id)
        # A composed scene's own source is its name, which says nothing beyond its folder.
        names = mixed if mixed is not None else [clip.source] if clip.source else []
        found[clip.id] = {f"source {name}" for name in names} | {f"file {clip.audio}"}
        if mixed is None and (folder / EVENTS_FILE).is_file():
            found[clip.id] = {f"file {clip.audio}"}
    return found


def _parts(path: Path) -> dict[str, list[str]]:
    if not path.is_file():
        return {}
    truths = json.loads(path.read_text(encoding="utf8"))
    return {name: truth["sources"] for name, truth in truths.items() if "sources" in truth}


def without(model: str, data: str, clips: list[Clip], leaks: str) -> tuple[list[Clip], list[str], int]:
    """The clips to score, notes about them, and how many of them the run has heard in training."""
    if not (Path(model) / RUN).is_file():
        return clips, [], 0
    notes = []
    try:
        leaky = _heard(clips, learned(model))
    except UserError as error:
        leaky, notes = set(), [f"only equal clips were looked for, not shared recordings: {error}"]
    leaky |= _same_clips(Path(model), clips)
    if not leaky:
        return clips, notes, 0
    first = next(clip.id for clip in clips if clip.id in leaky)
    said = f"{len(leaky)} of {len(clips)} clips of {data} hold recordings that {model} was trained on ({first} is one)"
    if leaks == "refuse":
        raise UserError(f"{said}; --leaks drop leaves them out")
    if leaks == "note":
        way_out = "--leaks drop leaves them out, --split test takes the others of its own table"
        return clips, [*notes, f"{said}; {way_out}"], len(leaky)
    kept = [clip for clip in clips if clip.id not in leaky]
    if not kept:
        raise UserError(f"{said}: none is left to score; --split test takes the others of its own table")
    return kept, [*notes, f"{said}; they are left out"], len(leaky)


def _heard(clips: Sequence[Clip], known: set[str]) -> set[str]:
    return {name for name, mine in recordings(clips).items() if mine & known}


def _same_clips(run: Path, clips: Sequence[Clip]) -> set[str]:
    """By the hashes that the run keeps of its training clips, which outlive the table."""
    if not (run / TABLE).is_file():
        return set()
    before = json.loads((run / TABLE).read_text(encoding="utf8"))
    return {name for name, said in identity.table({"train": clips}).items() if before.get(name) == said}
