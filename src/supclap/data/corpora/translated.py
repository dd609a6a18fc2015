"""Captions in further languages, for the clips of any corpus.

Two forms: a table ``translations.csv`` (clip_id, language, text) that may hold any number of languages, and tables of
one language beside the owners' (test_jpn.csv), with the owners' own columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from supclap.data import tables
from supclap.data.languages import KNOWN, language
from supclap.schema import Caption, Clip, UserError

NAMES = ("translations.csv", "translations.tsv", "translations.jsonl", "translations.parquet")
# What the paper translates into.
EIGHT = ("eng", "fra", "deu", "spa", "nld", "cat", "jpn", "zho")


def translations(
    folder: Path, clips: Sequence[Clip], alone: Callable[[dict[str, Any]], str] | None = None
) -> list[Clip]:
    """The clips with what lies beside the owners' tables; ``alone`` names the clip of a one-language row."""
    more: dict[str, list[Caption]] = {}
    for name in NAMES:
        if (folder / name).is_file():
            _gather(more, table(folder / name))
    if alone is not None:
        for path, code in _one_language(folder):
            _gather(more, _rows(path, code, alone))
    return [replace(clip, captions=(*clip.captions, *more.get(clip.id, ()))) for clip in clips]


def add(clips: Sequence[Clip], path: str | Path) -> list[Clip]:
    """The clips with the captions of a translations table; UserError if it is of no clip of theirs."""
    more: dict[str, list[Caption]] = {}
    _gather(more, table(Path(path)))
    known = {clip.id for clip in clips}
    if not known & set(more):
        first = next(iter(more), "none")
        raise UserError(
            f"{path}: names no clip of these; the first clip_id is {first!r}, theirs {min(known, default='')!r}"
        )
    return [replace(clip, captions=(*clip.captions, *more.get(clip.id, ()))) for clip in clips]


def table(path: Path) -> list[tuple[str, Caption]]:
    """(clip, caption) of every row of a translations table."""
    found = []
    for row in tables.rows(path):
        try:
            clip, code, text = (str(row.fields[name]) for name in ("clip_id", "language", "text"))
        except KeyError as error:
            raise UserError(
                f"{row.place}: no column {error}; a translations table has clip_id, language, text"
            ) from error
        found.append((clip, Caption(text.strip(), language(code))))
    return found


def _gather(more: dict[str, list[Caption]], rows: Iterable[tuple[str, Caption]]) -> None:
    for clip, caption in rows:
        if caption.text:
            more.setdefault(clip, []).append(caption)


def _one_language(folder: Path) -> list[tuple[Path, str]]:
    named = [(path, re.fullmatch(r".+_([a-z]{3})", path.stem)) for path in sorted(folder.glob("*.csv"))]
    return [(path, language(match[1])) for path, match in named if match and match[1] in KNOWN]


def _rows(path: Path, code: str, alone: Callable[[dict[str, Any]], str]) -> list[tuple[str, Caption]]:
    try:
        return [(alone(row.fields), Caption(row.fields["caption"].strip(), code)) for row in tables.rows(path)]
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: not in the columns of the owners' tables ({error})") from error
