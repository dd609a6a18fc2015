"""webdataset shards: members of one key are one row; the sound stays in the shard and is read by its address."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from supclap.audio.archive import member, tar_index
from supclap.audio.reader import SUFFIXES
from supclap.data.columns import Entry, columns, entry
from supclap.data.tables import Row
from supclap.schema import UserError

TEXTS = ("txt", "text", "caption")


def is_shards(path: Path) -> bool:
    """A tar file, a pattern of them (x-{000..012}.tar, x-*.tar), or a folder that holds nothing else of use."""
    if path.name.endswith(".tar"):
        return True
    return path.is_dir() and any(path.glob("*.tar")) and not any(path.glob("*.csv"))


def entries(path: Path) -> list[Entry]:
    """A row a sample of every shard."""
    rows = [row for shard in files(path) for row in _samples(shard)]
    if not rows:
        raise UserError(f"{path}: the shards hold no sound")
    known = columns(list(dict.fromkeys(name for row in rows for name in row.fields)), str(path))
    return [entry(row, known) for row in rows]


def files(path: Path) -> list[Path]:
    """The shards that a path or a pattern names, in order."""
    if path.is_dir():
        return sorted(path.absolute().glob("*.tar"))
    names = list(_braces(str(path.absolute())))
    found = [Path(name) for pattern in names for name in (sorted(glob.glob(pattern)) if "*" in pattern else [pattern])]
    missing = [shard for shard in found if not shard.is_file()]
    if missing or not found:
        raise UserError(
            f"{path}: {len(missing) or 'all'} shards are not there, the first is {missing[0] if missing else path}"
        )
    return found


def _braces(pattern: str) -> Iterator[str]:
    match = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if match is None:
        yield pattern
        return
    first, last = int(match[1]), int(match[2])
    if last - first > 1_000_000:
        raise UserError(f"{pattern}: more than a million shards")
    for number in range(first, last + 1):
        yield from _braces(pattern[: match.start()] + str(number).zfill(len(match[1])) + pattern[match.end() :])


def _samples(shard: Path) -> Iterator[Row]:
    for key, members in _groups(list(tar_index(shard))).items():
        sound = next((name for ending, name in members.items() if f".{ending}" in SUFFIXES), None)
        if sound is None and not members.keys() & {"json", *TEXTS}:
            continue
        place = f"{shard}, sample {key}"
        # A sample that has lost its sound stays, to be put aside with a reason when it is read.
        # The name of the shard is part of the identity: keys begin anew in every shard.
        fields: dict[str, Any] = {"audio": f"{shard}::{sound or key}", "clip_id": f"{shard.stem}/{key}"}
        yield Row(place, fields | _said(shard, members, place))


def _groups(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The members of every sample, by the last part of their endings."""
    first: dict[str, list[str]] = {}
    for name in names:
        folder, base = os.path.split(name)
        first.setdefault(os.path.join(folder, base.partition(".")[0]), []).append(name)
    groups: dict[str, dict[str, str]] = {}
    for key, members in first.items():
        # A sample's name ends at its first dot; where that gives it several sounds, the dots belong to the names.
        several = sum(os.path.splitext(name)[1].lower() in SUFFIXES for name in members) > 1
        for name in members:
            stem, ending = os.path.splitext(name)
            groups.setdefault(stem if several else key, {})[ending[1:].lower()] = name
    return groups


def _said(shard: Path, members: dict[str, str], place: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "json" in members:
        try:
            value = json.loads(member(f"{shard}::{members['json']}"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place}: its json is none ({error})") from error
        if not isinstance(value, dict):
            raise UserError(f"{place}: its json is no object of columns")
        fields = {name: part for name, part in value.items() if name not in ("audio", "path", "file_name", "filename")}
    for ending in TEXTS:
        if ending in members:
            fields["caption"] = member(f"{shard}::{members[ending]}").decode("utf8", "replace")
    if "cls" in members:
        fields["label"] = member(f"{shard}::{members['cls']}").decode("utf8", "replace")
    return fields
