"""Any (audio, text) data to clips: a table, a dataset folder, shards, a folder of sounds, a corpus by name."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from supclap.audio.archive import outer_of
from supclap.data import folders, shards, tables
from supclap.data.columns import Entry, columns, entry
from supclap.data.corpora import CORPORA
from supclap.data.whole import whole
from supclap.schema import Caption, Clip, UserError, unknown
from supclap.settings import cache_folder, write_json

Data = str | Path | Sequence[Clip]
WINDOWS = "\\"
CaptionsFrom = Literal["names"] | None
# A folder that holds one of these is read through it.
OWN_TABLES = (
    "manifest.csv",
    "manifest.jsonl",
    "manifest.parquet",
    "metadata.csv",
    "metadata.jsonl",
    "metadata.parquet",
)


def read(data: Data, *, captions_from: str | None = None) -> list[Clip]:
    """The clips of whatever ``data`` names, with absolute paths, in the order of their first rows."""
    return clips_of(entries(data, captions_from=captions_from))


def entries(data: Data, *, captions_from: str | None = None) -> list[Entry]:
    """Every row of whatever ``data`` names, with ``audio`` as an absolute path."""
    if captions_from not in (None, "names"):
        raise unknown("captions_from", captions_from, ["names"])
    if not isinstance(data, (str, Path)):
        return [_from_clip(clip) for clip in data]
    name, _, root = str(data).partition(":")
    if name in CORPORA and (root or not _has_table(Path(name))):
        return _corpus(name, root)
    if name == "hf" and root:
        return folders.hub(root)
    path = Path(data).expanduser()
    if shards.is_shards(path):
        return shards.entries(path)
    if path.is_dir():
        return _folder(path, captions_from)
    if not path.exists():
        raise _nowhere(data)
    if not path.is_file():
        raise UserError(f"data={str(data)!r} is neither a file nor a folder")
    return table(path)


def table(path: Path) -> list[Entry]:
    """Every row of a table; relative paths are relative to its folder."""
    rows = tables.rows(path)
    if not rows:
        raise UserError(f"{path}: the table is empty")
    # A dict, not a set: the order of the columns shows in messages.
    known = columns(list(dict.fromkeys(name for row in rows for name in row.fields)), str(path))
    found = [entry(row, known) for row in rows]
    base = _base(path.absolute().parent, found[0].audio)
    return [_placed(one, base) for one in found]


def _base(folder: Path, first: str) -> Path:
    """Where the table's sounds lie: beside it, or in ``audio`` where its first one is there alone."""
    # os.path: a name that no disk can hold is not there, and no error yet.
    aside = folder / "audio"
    return aside if not os.path.exists(folder / first) and os.path.exists(aside / first) else folder


def _placed(found: Entry, base: Path) -> Entry:
    if re.match(r"[a-z][a-z0-9+.-]*://", found.audio, re.IGNORECASE):
        raise UserError(f"{found.place}: {found.audio!r} lies on a network; download it and name the file")
    audio = os.path.normpath(os.path.join(base, os.path.expanduser(found.audio)))
    if WINDOWS in found.audio and not os.path.exists(audio):
        audio = os.path.normpath(os.path.join(base, found.audio.replace(WINDOWS, "/")))
    return replace(found, audio=audio, clip_id=found.clip_id or _identity(found), named=found.audio)


def _identity(found: Entry) -> str:
    """The clip's name where the table gives none: what it says of the sound, not where that lies here."""
    whole = found.start == 0.0 and found.end is None
    return found.audio if whole else f"{found.audio}#{found.start:g}-{'' if found.end is None else f'{found.end:g}'}"


def _folder(path: Path, captions_from: str | None) -> list[Entry]:
    if folders.is_dataset(path):
        return folders.dataset(path)
    own = [path / name for name in OWN_TABLES if (path / name).is_file()]
    if own and captions_from is None:
        return table(own[0])
    return folders.sounds(path, captions_from == "names")


def _has_table(folder: Path) -> bool:
    """A composed or prepared folder that lies here is what its name means."""
    return any((folder / name).is_file() for name in OWN_TABLES)


def _corpus(name: str, root: str) -> list[Entry]:
    """``NAME:ROOT`` read where it lies; ``NAME`` as it was prepared last, or composed."""
    corpus = CORPORA[name]
    if root or corpus.made:
        return [_from_clip(clip) for clip in corpus.prepare(root or cache_folder("corpora", name))]
    try:
        prepared = Path(json.loads((cache_folder("corpora") / f"{name}.json").read_text("utf8"))["table"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"data={name!r}: not prepared yet; run `supclap corpus prepare {name} ROOT`") from error
    if not prepared.is_file():
        raise UserError(f"data={name!r}: {prepared} has gone; run `supclap corpus prepare {name} ROOT` again")
    return table(prepared)


def register(name: str, prepared: Path) -> None:
    """Remember where a corpus was prepared, so that its name alone is enough."""
    write_json({"table": str(prepared.absolute())}, cache_folder("corpora") / f"{name}.json")


def _nowhere(data: str | Path) -> UserError:
    name = str(data)
    if os.sep in name or Path(name).suffix:
        return UserError(f"data={name!r}: no such file or folder")
    near = unknown("data", name, CORPORA)
    return UserError(f"{near}; or give a table ({', '.join(tables.SUFFIXES)}), a folder or shards (x-000.tar)")


def clips_of(found: Iterable[Entry]) -> list[Clip]:
    """Rows of one clip brought together; blank captions are left out."""
    groups: dict[tuple[str, str | None], list[Entry]] = {}
    for row in found:
        groups.setdefault((cast(str, row.clip_id), row.split), []).append(row)
    sides: dict[str, int] = {}
    for name, _ in groups:
        sides[name] = sides.get(name, 0) + 1
    return [_clip(name if sides[name] == 1 else f"{name}@{side}", group) for (name, side), group in groups.items()]


def _clip(name: str, group: list[Entry]) -> Clip:
    first = group[0]
    for row in group[1:]:
        if (row.audio, row.start, row.end) != (first.audio, first.start, first.end):
            raise UserError(f"{row.place}: clip_id {first.clip_id!r} is another sound in {first.place}: {first.audio}")
    return Clip(
        id=name,
        audio=first.audio,
        start=first.start,
        end=first.end,
        # Two people may have said the same: both captions count, as in the official tables.
        captions=tuple(caption for row in group for caption in row.captions if caption.text.strip()),
        label=_one(group, "label"),
        split=first.split,
        source=_one(group, "source"),
        negatives=tuple(dict.fromkeys(text for row in group for text in row.negatives)),
    )


def _one(group: list[Entry], name: str) -> Any:
    return next((value for row in group if (value := getattr(row, name)) is not None), None)


def _from_clip(clip: Clip) -> Entry:
    if not isinstance(clip, Clip):
        raise UserError(f"data holds a {type(clip).__name__}; a list of clips holds supclap.schema.Clip")
    return Entry(
        place=f"clip {clip.id!r}",
        audio=clip.audio,
        start=clip.start,
        end=clip.end,
        captions=clip.captions,
        clip_id=clip.id,
        label=clip.label,
        split=clip.split,
        source=clip.source,
        negatives=clip.negatives,
    )


# -- writing ---------------------------------------------------------------------------------------------------------

FIELDS = ("audio", "caption", "language", "clip_id", "split", "start", "end", "label", "source", "negative")


def write(clips: Sequence[Clip], path: str | Path) -> Path:
    """A table (.csv, .tsv, .jsonl or .parquet) that ``read`` turns into the same clips; one row a caption."""
    target = Path(path).absolute()
    rows = [row for clip in clips for row in _rows(clip, target.parent)]
    suffix = target.suffix.lower()
    if suffix not in WRITERS:
        raise UserError(f"{path}: give a name that ends in {', '.join(WRITERS)}")
    with whole(target) as temporary:
        WRITERS[suffix](rows, temporary)
    return target


def _rows(clip: Clip, folder: Path) -> list[dict[str, Any]]:
    outer = Path(outer_of(clip.audio)).absolute()
    inner = clip.audio[len(outer_of(clip.audio)) :]
    audio = f"{outer.relative_to(folder) if outer.is_relative_to(folder) else outer}{inner}"
    shared = {"clip_id": clip.id, "split": clip.split, "start": clip.start or None, "end": clip.end}
    shared |= {"label": clip.label, "source": clip.source}
    count = max(len(clip.captions), len(clip.negatives), 1)
    captions: list[Caption | None] = [*clip.captions, *[None] * count]
    negatives: list[str | None] = [*clip.negatives, *[None] * count]
    return [
        {"audio": audio, "caption": said and said.text, "language": said and said.language, **shared, "negative": wrong}
        for said, wrong in zip(captions[:count], negatives[:count], strict=True)
    ]


def _write_csv(rows: list[dict[str, Any]], path: Path, delimiter: str = ",") -> None:
    with path.open("w", encoding="utf8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, delimiter=delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _write_tsv(rows: list[dict[str, Any]], path: Path) -> None:
    _write_csv(rows, path, "\t")


def _write_jsonl(rows: list[dict[str, Any]], path: Path) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf8")


def _write_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {name: pa.float64() if name in ("start", "end") else pa.string() for name in FIELDS}
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items()))), path)


WRITERS: dict[str, Callable[[list[dict[str, Any]], Path], None]] = {
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
