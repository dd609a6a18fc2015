"""The same composer over real recordings: a bank of labelled clips becomes scenes.

Training, validation and test take their sounds from different recordings. Each clip of the bank is decoded once, into
one file that all workers read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.data.scenes.bank_plan import BankScene, Segment, bank_plans
from supclap.data.scenes.compose import SPLITS, rows_of
from supclap.data.scenes.dsp import Samples, fade, level, place
from supclap.data.scenes.pool import Progress, spread
from supclap.data.scenes.write import check_counts, finish, finished, read_manifest, save_sound
from supclap.runtime import derive
from supclap.schema import FORMAT, Clip, UserError

ORDINARY, PEAK = -24.0, 0.85
FRAME = 0.02
LONGEST = 30.0
"""Seconds of a recording that are taken into the bank."""


@dataclass(frozen=True)
class Recording:
    """One clip of the bank: what it is, where its sound begins and how long it lasts, in samples of the bank's file."""

    label: str
    source: str
    split: str
    path: str
    first: int
    count: int


def compose_bank(
    bank_clips: Sequence[Clip],
    out: str | os.PathLike[str],
    count: int = 2000,
    seconds: float = 10.0,
    seed: int = 0,
    *,
    counts: Mapping[str, int] | None = None,
    rate: int = 32000,
    labels: Sequence[str] | None = None,
    languages: Sequence[str] = ("eng",),
    workers: int | None = None,
    progress: Progress | None = None,
    name: str = "bank",
) -> list[Clip]:
    """Scenes from clips that carry ``label``, ``split`` and ``source``; ``count`` in all, or ``counts`` by split."""
    clips = _usable(bank_clips, labels)
    wanted = dict(counts) if counts is not None else shares(count, {clip.split for clip in clips})
    check_counts(wanted, seconds, rate)
    root = Path(out)
    asked = {"format": FORMAT, "bank": name, "sounds": len(clips), "digest": _digest(clips), "counts": wanted,
             "seconds": seconds, "rate": rate, "seed": seed, "languages": list(languages)}  # fmt: skip
    if finished(root, asked):
        return read_manifest(root)
    root.mkdir(parents=True, exist_ok=True)
    file = root / f".bank.{os.getpid()}.i16"
    try:
        bank = _decode(clips, file, rate, workers)
        scenes = [
            scene
            for split in SPLITS
            if wanted.get(split)
            for scene in bank_plans(_by_label(bank, split), wanted[split], seed, split, seconds, rate)
        ]
        jobs = [(str(file), scene, rate, str(root / f"{scene.id}.flac")) for scene in scenes]
        spread(_write_scene, jobs, workers, progress)
    finally:
        file.unlink(missing_ok=True)
    rows = rows_of([(scene.id, scene.split, scene.truth) for scene in scenes], seed, languages)
    return finish(root, asked, rows, {scene.id: [part.source for part in scene.segments] for scene in scenes})


def shares(count: int, splits: set[str | None]) -> dict[str, int]:
    """Eight tenths to train, one to validate, one to test, among the splits that the bank has."""
    weights = {split: 8 if split == "train" else 1 for split in SPLITS if split in splits}
    total = sum(weights.values())
    out = {split: count * weight // total for split, weight in weights.items()}
    if out:
        out[next(iter(out))] += count - sum(out.values())
    return out


def _usable(clips: Sequence[Clip], labels: Sequence[str] | None) -> list[Clip]:
    known = sorted({clip.label for clip in clips if clip.label})
    if not known:
        raise UserError("the bank has no labels; give a table with a label column, or a folder of folders")
    for label in labels or ():
        if label not in known:
            raise UserError(f"labels: {label!r} is not in the bank; it has {', '.join(known[:20])}")
    chosen = [clip for clip in clips if clip.label and (labels is None or clip.label in labels)]
    sides: dict[str, str] = {}
    for clip in chosen:
        if clip.split not in SPLITS:
            raise UserError(f"split={clip.split!r} of {clip.audio}: the bank's clips are train, val or test")
        if sides.setdefault(_source(clip), str(clip.split)) != clip.split:
            raise UserError(f"{clip.audio}: its recording {_source(clip)!r} is on two sides of the split")
    return chosen


def _source(clip: Clip) -> str:
    return clip.source or clip.audio


def _digest(clips: Sequence[Clip]) -> int:
    return derive(0, *(f"{Path(clip.audio).name}:{clip.start}:{clip.end}:{clip.label}:{clip.split}" for clip in clips))


# -- decoding --------------------------------------------------------------------------------------------------------


def _decode(clips: Sequence[Clip], file: Path, rate: int, workers: int | None) -> list[Recording]:
    """All sounds one behind another in one file of 16-bit numbers; silent and unreadable ones are left out."""
    room = round(LONGEST * rate)
    parts = file.with_suffix(".parts")
    parts.mkdir()
    try:
        jobs = [(clip, rate, room, str(parts / str(number))) for number, clip in enumerate(clips)]
        spread(_decode_one, jobs, workers)
        bank, at = [], 0
        with file.open("wb") as stream:
            for number, clip in enumerate(clips):
                part = parts / str(number)
                if not part.exists():
                    continue
                data = part.read_bytes()
                part.unlink()
                stream.write(data)
                bank.append(Recording(str(clip.label), _source(clip), str(clip.split), clip.audio, at, len(data) // 2))
                at += len(data) // 2
    finally:
        for left in parts.iterdir():
            left.unlink()
        parts.rmdir()
    if not bank:
        raise UserError("no sound of the bank can be read")
    return bank


def _decode_one(job: tuple[Clip, int, int, str]) -> None:
    from supclap.audio.reader import read

    clip, rate, room, path = job
    try:
        end = clip.end if clip.end is not None else clip.start + room / rate
        samples = active(read(clip.audio, rate, clip.start, min(end, clip.start + room / rate)), rate)
    except UserError:
        return
    if len(samples) >= round(0.05 * rate):
        top = float(np.abs(samples).max())
        np.round(samples / top * 32000).astype("<i2").tofile(path)


def active(samples: NDArray[np.float32], rate: int) -> Samples:
    """What lies between the first and the last moment that is not silent beside the loudest; empty for silence."""
    wide = samples.astype(np.float64)
    size = max(1, round(FRAME * rate))
    frames = len(wide) // size
    if frames == 0 or float(np.abs(wide).max()) < 1e-4:
        return wide[:0]
    power = np.sqrt(np.mean(wide[: frames * size].reshape(frames, size) ** 2, axis=1))
    heard = np.flatnonzero(power > power.max() * 10 ** (-40 / 20))
    return wide[heard[0] * size : (heard[-1] + 1) * size]


def _by_label(bank: Sequence[Recording], split: str) -> dict[str, list[tuple[str, int, int]]]:
    out: dict[str, list[tuple[str, int, int]]] = {}
    for recording in bank:
        if recording.split == split:
            out.setdefault(recording.label, []).append((recording.source, recording.first, recording.count))
    if not out:
        raise UserError(f"the bank has no recording for {split}")
    return {label: out[label] for label in sorted(out)}


# -- sound -----------------------------------------------------------------------------------------------------------


def _write_scene(job: tuple[str, BankScene, int, str]) -> None:
    file, scene, rate, path = job
    save_sound(path, mix(np.memmap(file, "<i2", "r"), scene, rate), rate)


def mix(bank: NDArray[Any], scene: BankScene, rate: int) -> NDArray[np.float32]:
    """A scene's recordings, cut, levelled and laid over each other."""
    out = np.zeros(round(scene.truth.seconds * rate))
    for event, segment in zip(scene.truth.events, scene.segments, strict=True):
        count = round((event.end - event.start) * rate)
        sound = _looped(_cut(bank, segment), count, rate)
        sound = level(fade(sound, rate, 0.01, 0.05), ORDINARY + event.decibels)
        sound *= min(1.0, PEAK / max(1e-9, float(np.abs(sound).max())))
        place(out, round(event.start * rate), sound)
    top = float(np.abs(out).max())
    return (out * min(1.0, 0.98 / max(top, 1e-9))).astype(np.float32)


def _cut(bank: NDArray[Any], segment: Segment) -> Samples:
    return np.asarray(bank[segment.first : segment.first + segment.count], np.float64)


def _looped(samples: Samples, count: int, rate: int) -> Samples:
    """The first ``count`` samples; a recording that is too short goes round, its ends laid over each other."""
    if len(samples) >= count:
        return samples[:count]
    lap = min(round(0.1 * rate), len(samples) // 4)
    step = max(1, len(samples) - lap)
    ramp = np.ones(len(samples))
    if lap:
        ramp[:lap] = np.arange(lap) / lap
        ramp[-lap:] = np.arange(lap)[::-1] / lap
    out = np.zeros(count)
    for at in range(0, count, step):
        place(out, at, samples * ramp)
    return out
