"""Train, val and test by recording: every clip of one source falls on the same side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from supclap.runtime import derive
from supclap.schema import Clip, UserError

SPLITS = ("train", "val", "test")


def split(clips: Sequence[Clip], val: float = 0.1, test: float = 0.1, seed: int = 0) -> list[Clip]:
    """The clips with ``split`` filled, whatever their order; what has a split keeps it, and so does its recording."""
    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise UserError(f"val={val}, test={test}: give shares from 0 that leave something to train on")
    groups: dict[str, list[Clip]] = {}
    for clip in clips:
        groups.setdefault(recording(clip), []).append(clip)
    given = {name: _given(group) for name, group in groups.items()}
    # Ranked by the hash of an id, not of a path: the same table splits alike wherever it lies.
    free = sorted(
        (name for name, side in given.items() if side is None),
        key=lambda name: derive(seed, "split", min(clip.id for clip in groups[name])),
    )
    sides = dict(zip(free, _sides(len(free), val, test), strict=True))
    return [
        clip if clip.split else replace(clip, split=given[recording(clip)] or sides[recording(clip)]) for clip in clips
    ]


def recording(clip: Clip) -> str:
    """What a clip was cut from: its source, or its file."""
    return f"source:{clip.source}" if clip.source else f"file:{clip.audio}"


def on(clips: Iterable[Clip], side: str) -> list[Clip]:
    """The clips of one split."""
    return [clip for clip in clips if clip.split == side]


def _given(group: Sequence[Clip]) -> str | None:
    sides = sorted({clip.split for clip in group if clip.split})
    return sides[0] if sides else None


def _sides(count: int, val: float, test: float) -> list[str]:
    """One side a recording: at least one for each side that was asked for, once there are three."""
    least = 1 if count >= 3 else 0
    tests = max(round(count * test), least if test > 0 else 0)
    vals = max(round(count * val), least if val > 0 else 0)
    while tests + vals >= count > 0:
        tests, vals = (tests - 1, vals) if tests > vals else (tests, vals - 1)
    return ["test"] * tests + ["val"] * vals + ["train"] * (count - tests - vals)
