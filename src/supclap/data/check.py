"""What is in a corpus and what is wrong with it, before a model sees it."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from supclap.audio.archive import outer_of
from supclap.audio.decode import AudioError, opened
from supclap.data import manifest
from supclap.data.columns import Entry

PROBLEMS = ("unreadable", "missing", "duplicates", "empty_captions", "leaks")
LONG_CAPTION = 1_000


@dataclass(frozen=True)
class Heard:
    """What decoding a whole file told: its length and its samples' digest, or why it cannot be read."""

    seconds: float = 0.0
    digest: str = ""
    reason: str | None = None
    missing: bool = False


def check(
    data: manifest.Data | Sequence[str | Path],
    *,
    captions_from: str | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Counts, lengths and everything that is amiss, as plain values; several tables are also held against each other.

    ``clips``: distinct readable files. Audio is decoded whole, so that what is cut off is found too; two files are
    duplicates if they hold the same samples, whatever their format.
    """
    several: Sequence[Any] = (
        data if isinstance(data, (list, tuple)) and data and isinstance(data[0], (str, Path)) else [data]
    )
    tables = [manifest.entries(one, captions_from=captions_from) for one in several]
    if len(tables) == 1:
        # Reported as the table names them; several tables may give one name to two sounds.
        tables = [[replace(row, audio=row.named or row.audio, named=row.audio) for row in tables[0]]]
    rows = [row for table in tables for row in table]
    heard = _listen({row.audio: row.named if len(tables) == 1 else row.audio for row in rows}, workers, progress)
    unreadable = _unreadable(rows, heard)
    good = [row for row in rows if row.audio not in unreadable and not heard[row.audio].missing]
    return {
        "rows": len(rows),
        "clips": len({row.audio for row in good}),
        "seconds": round(sum(_spans(good, heard)), 3),
        "languages": dict(sorted(Counter(said.language for row in rows for said in row.captions if said.text).items())),
        "unreadable": [{"audio": audio, "reason": reason} for audio, reason in unreadable.items()],
        "missing": [audio for audio, one in heard.items() if one.missing],
        "duplicates": _duplicates(heard),
        "empty_captions": [row.audio for row in rows if row.captions and not any(said.text for said in row.captions)],
        "leaks": [leak for table in tables for leak in _leaks(table, heard)] + _shared(several, tables, heard),
        "suspicious_captions": _suspicious(rows),
        "durations": _durations(good, heard),
        "splits": dict(sorted(Counter(row.split for row in good if row.split).items())),
    }


def problems(report: dict[str, Any]) -> dict[str, int]:
    """How many of each kind a strict check refuses."""
    return {name: len(report[name]) for name in PROBLEMS if report[name]}


def _listen(
    files: dict[str, str], workers: int | None, progress: Callable[[int, int], None] | None
) -> dict[str, Heard]:
    heard: dict[str, Heard] = {}
    # Threads: the decoders leave Python's lock while they work.
    with ThreadPoolExecutor(workers or min(os.cpu_count() or 1, 8)) as pool:
        for name, one in zip(files, pool.map(hear, files.values()), strict=True):
            heard[name] = one
            if progress is not None:
                progress(len(heard), len(files))
    return heard


def hear(path: str) -> Heard:
    """Decode a whole file and keep nothing of it but its length and its digest."""
    if not os.path.exists(outer_of(path)):
        return Heard(missing=True)
    digest = hashlib.blake2b(digest_size=20)
    frames = 0
    try:
        with opened(path) as sound:
            digest.update(f"{sound.rate} {sound.channels}".encode())
            for block in sound.blocks():
                frames += block.shape[1]
                # As 16-bit numbers, time first: equal for a WAV and the FLAC made of it, however they come in blocks.
                digest.update(np.rint(np.clip(block.T, -1, 1) * 32767).astype("<i2").tobytes())
            return Heard(frames / sound.rate, digest.hexdigest())
    except AudioError as error:
        return Heard(reason=str(error).removeprefix(f"{path}: "))


def _unreadable(rows: Sequence[Entry], heard: dict[str, Heard]) -> dict[str, str]:
    found = {audio: one.reason for audio, one in heard.items() if one.reason is not None}
    for row in rows:
        one = heard[row.audio]
        if one.reason is None and not one.missing and row.start >= one.seconds:
            found[row.audio] = f"start={row.start:g} s is beyond its end ({one.seconds:.2f} s)"
    return found


def _spans(rows: Sequence[Entry], heard: dict[str, Heard]) -> list[float]:
    clips = dict.fromkeys((row.audio, row.start, row.end) for row in rows)
    lengths = [(heard[audio].seconds, start, end) for audio, start, end in clips]
    return [(seconds if end is None else min(end, seconds)) - start for seconds, start, end in lengths]


def _durations(rows: Sequence[Entry], heard: dict[str, Heard]) -> dict[str, float]:
    lengths = _spans(rows, heard)
    if not lengths:
        return {}
    middle = np.median(lengths)
    return {
        name: round(float(value), 3)
        for name, value in zip(("min", "median", "max"), (min(lengths), middle, max(lengths)), strict=True)
    }


def _duplicates(heard: dict[str, Heard]) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for audio, one in heard.items():
        if one.digest:
            groups[one.digest].append(audio)
    return [group for group in groups.values() if len(group) > 1]


def _leaks(rows: Sequence[Entry], heard: dict[str, Heard]) -> list[dict[str, Any]]:
    """Recordings on more than one side of a split: by file, by samples or by source."""
    leaks: dict[tuple[str, ...], dict[str, Any]] = {}
    for by, key_of in _keys(heard).items():
        groups: dict[str, list[Entry]] = defaultdict(list)
        for row in rows:
            if row.split and heard[row.audio].digest and (key := key_of(row)):
                groups[key].append(row)
        for key, group in groups.items():
            splits = sorted({str(row.split) for row in group})
            audio = sorted({row.audio for row in group})
            if len(splits) > 1:
                leaks.setdefault(tuple(audio), {"by": by, "recording": key, "splits": splits, "audio": audio})
    return list(leaks.values())


def _shared(data: Sequence[Any], tables: Sequence[list[Entry]], heard: dict[str, Heard]) -> list[dict[str, Any]]:
    """Recordings in more than one of several tables."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for by, key_of in _keys(heard).items():
        groups: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for number, table in enumerate(tables):
            for row in table:
                if not heard[row.audio].missing and (key := key_of(row)):
                    groups[key][number].add(row.audio)
        for key, group in groups.items():
            audio = sorted(set().union(*group.values()))
            if len(group) > 1:
                names = [str(data[number]) for number in group]
                found.setdefault(tuple(audio), {"by": by, "recording": key, "tables": names, "audio": audio})
    return list(found.values())


def _keys(heard: dict[str, Heard]) -> dict[str, Callable[[Entry], str | None]]:
    return {
        "source": lambda row: row.source,
        "file": lambda row: row.audio,
        "samples": lambda row: heard[row.audio].digest or None,
    }


def _suspicious(rows: Sequence[Entry]) -> list[dict[str, str]]:
    found = []
    for row in rows:
        for said in row.captions:
            reason = suspicion(said.text) if any(other.text for other in row.captions) else None
            if reason is not None:
                found.append({"audio": row.audio, "caption": said.text[:80], "reason": reason})
    return found


def suspicion(text: str) -> str | None:
    """Why a caption is hardly one, if so."""
    if not text:
        return "blank beside others"
    if text.lower() in ("nan", "none", "null", "n/a", "na", "todo", "-"):
        return "a mark for nothing"
    if not re.search(r"[^\W\d_]", text):
        return "no letter in it"
    if len(text) > LONG_CAPTION:
        return f"{len(text)} characters"
    if re.search("[\x00-\x08\x0b-\x1f\x7f]", text):
        return "a control character"
    if "\ufffd" in text or re.search("Ã[\x80-\xbf©¨¤¶¼]|â€", text):
        return "broken encoding"
    return None
