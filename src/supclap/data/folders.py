"""Folders: plain ones full of sounds, and datasets as Hugging Face saves them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from supclap.audio.reader import sound_files
from supclap.data.columns import Entry, columns, entry
from supclap.data.tables import Row, arrow_table, name_classes
from supclap.schema import Caption, UserError

# Words of folders and files that say nothing of a sound.
EMPTY_WORDS = frozenset("audio sound sounds sfx wav wave ogg mp3 flac file files sample samples clip clips".split())


def sounds(folder: Path, names: bool) -> list[Entry]:
    """A row a sound file; its folder is its label (its name, if all lie in one), its path its caption if ``names``."""
    root = folder.absolute()
    found = sound_files(root)
    if not found:
        raise UserError(f"{folder}: holds no sound file")
    relative = [path.relative_to(root) for path in found]
    captions = captions_of(relative) if names else [""] * len(found)
    flat = len({short.parent for short in relative}) == 1
    return [
        Entry(
            place=str(path),
            audio=str(path),
            clip_id=short.as_posix(),
            named=short.as_posix(),
            label=_name_label(short) if flat else short.parent.name or None,
            captions=(Caption(said),) if said else (),
        )
        for path, short, said in zip(found, relative, captions, strict=True)
    ]


def _name_label(path: Path) -> str | None:
    """The last part of a file's name in words: dog_2.wav is a dog, animals__birds__crow.ogg a crow."""
    last = [part for part in path.stem.split("__") if part][-1:]
    return " ".join(_words(Path(*last))) or None if last else None


def captions_of(paths: Sequence[Path]) -> list[str]:
    """What the words of the paths say: each word once, without numbers and without what all paths share."""
    words = [_words(path) for path in paths]
    everywhere = set.intersection(*map(set, words)) if len(words) > 1 else set()
    return [" ".join(word for word in said if word not in everywhere) for said in words]


def _words(path: Path) -> list[str]:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", " ".join(path.with_suffix("").parts))
    words = [word.lower() for word in re.findall(r"[^\W\d_]+", spaced)]
    return [word for word in dict.fromkeys(words) if len(word) > 1 and word not in EMPTY_WORDS]


# -- Hugging Face datasets -------------------------------------------------------------------------------------------


def is_dataset(folder: Path) -> bool:
    """Whether ``datasets.save_to_disk`` wrote this folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def dataset(folder: Path) -> list[Entry]:
    """A row an example; sounds inside the arrow files become addresses, those beside them paths."""
    import datasets

    try:
        loaded: Any = datasets.load_from_disk(str(folder.absolute()))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder}: not a dataset that can be loaded ({' '.join(str(error).split())})") from error
    return _parts(folder, loaded)


def hub(name: str) -> list[Entry]:
    """A row an example of a dataset of the hub (or of any folder that ``datasets.load_dataset`` knows)."""
    import datasets

    try:
        loaded: Any = datasets.load_dataset(name)
    except (datasets.exceptions.DatasetsError, OSError, ValueError, KeyError, RuntimeError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"data='hf:{name}': cannot be loaded ({first}); without a network it must be cached") from error
    return _parts(Path(f"hf:{name}"), loaded)


def _parts(folder: Path, loaded: Any) -> list[Entry]:
    parts = loaded.items() if isinstance(loaded, dict) else [(None, loaded)]
    return [row for split, part in parts for row in _examples(folder, split, part)]


def _examples(folder: Path, split: str | None, part: Any) -> list[Entry]:
    place = f"{folder}/{split}" if split else str(folder)
    inside = [name for name, feature in part.features.items() if _holds_bytes(feature)]
    addresses = [f"{file}::{{}}::{row}" for file, row in _places(part)] if inside else []
    light = part.remove_columns(inside).to_list() if inside else part.to_list()
    if inside and len(part.column_names) == len(inside):
        light = [{} for _ in addresses]
    paths = {name: _paths(part, name) for name in inside}
    named = {name: feature.names for name, feature in part.features.items() if hasattr(feature, "int2str")}
    rows = []
    for number, fields in enumerate(light):
        fields |= name_classes(fields, named)
        for name in inside:
            fields[name] = paths[name][number] or addresses[number].format(name)
        rows.append(Row(f"{place}, row {number + 1}", fields if split is None else {"split": split, **fields}))
    known = columns(list(dict.fromkeys(name for row in rows for name in row.fields)), place)
    return [_named(entry(row, known), folder, split, number) for number, row in enumerate(rows)]


def _named(found: Entry, folder: Path, split: str | None, number: int) -> Entry:
    inner = "::" in found.audio
    name = found.clip_id or (f"{split or 'row'}/{number}" if inner else found.audio)
    audio = found.audio if Path(found.audio).is_absolute() else str(folder.absolute() / found.audio)
    return replace(found, clip_id=name, audio=audio)


def _holds_bytes(feature: Any) -> bool:
    return type(feature).__name__ == "Audio" or getattr(feature, "dtype", None) in ("binary", "large_binary")


def _paths(part: Any, name: str) -> list[str | None]:
    """The paths of sounds that are not kept inside; None for those that are."""
    column: Any = part.with_format("arrow")[:][name].combine_chunks()
    if not hasattr(column.type, "get_field_index") or column.type.get_field_index("path") < 0:
        return [None] * len(part)
    absent = column.field("bytes").is_null().to_pylist()
    return [path if gone else None for path, gone in zip(column.field("path").to_pylist(), absent, strict=True)]


def _places(part: Any) -> list[tuple[str, int]]:
    """(arrow file, row in it) of every example."""
    files = [entry["filename"] for entry in part.cache_files]
    if not files:
        raise UserError("this dataset is held in memory; save it to a folder first (dataset.save_to_disk)")
    every = [(file, row) for file in files for row in range(arrow_table(Path(file)).num_rows)]
    chosen = part._indices
    return every if chosen is None else [every[index] for index in chosen.column(0).to_pylist()]
