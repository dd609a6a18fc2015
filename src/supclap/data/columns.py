"""What the columns of a table mean, and one row as checked values."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from supclap.data.languages import KNOWN, language
from supclap.data.tables import Row
from supclap.schema import Caption, UserError

# Our name first; the others are what tables in use call it.
NAMES: dict[str, tuple[str, ...]] = {
    "audio": ("audio", "audio_path", "audio_file", "file_name", "filename", "filepath", "file_path", "file", "path")
    + ("wav", "wav_path", "sound"),
    "caption": ("caption", "captions", "text", "description", "sentence", "raw_caption"),
    "language": ("language", "lang", "source_lang"),
    # Not "id": it often counts rows, and would part the captions of one sound.
    "clip_id": ("clip_id",),
    "split": ("split", "subset"),
    "start": ("start", "start_time", "start_seconds", "onset"),
    "end": ("end", "end_time", "end_seconds"),
    "label": ("label", "category", "class"),
    "source": ("source", "recording", "source_id"),
    "negative": ("negative", "negatives"),
}
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "dev": "val",
    "valid": "val",
    "validation": "val",
    "val": "val",
} | {
    "test": "test",
    "testing": "test",
    "eval": "test",
    "evaluation": "test",
}


@dataclass(frozen=True)
class Entry:
    """One row, checked."""

    place: str
    audio: str
    start: float = 0.0
    end: float | None = None
    captions: tuple[Caption, ...] = ()
    clip_id: str | None = None
    label: str | None = None
    split: str | None = None
    source: str | None = None
    negatives: tuple[str, ...] = ()
    named: str = ""  # the sound as the table names it, where ``audio`` has become a path


@dataclass(frozen=True)
class Columns:
    """Which column holds what: role -> column; captions with the language their name gives, if it does."""

    roles: dict[str, str]
    captions: tuple[tuple[str, str | None], ...]
    negatives: tuple[str, ...]
    languages: dict[str, str]  # of one caption column: the column that names its language


def columns(names: Sequence[str], table: str) -> Columns:
    """The meaning of a table's columns; UserError if none names the sounds."""
    lower = _once(names, table)
    roles = {
        role: found for role, found in ((role, _first(lower, choices)) for role, choices in NAMES.items()) if found
    }
    if "audio" not in roles:
        near = [name for name in lower if get_close_matches(name, NAMES["audio"], n=1, cutoff=0.75)]
        hint = f"; is it {lower[near[0]]!r}? rename it" if near else ""
        raise UserError(f"{table}: no column 'audio'{hint}; the columns are {', '.join(map(repr, names)) or 'none'}")
    captions: list[tuple[str, str | None]] = [(roles["caption"], None)] if "caption" in roles else []
    captions += [(lower[name], _code(match)) for name in lower if (match := _numbered(name))]
    captions = captions or [(lower[name], code) for name, code in _codes(lower)]
    languages = {f"caption_{match[2]}": lower[name] for name in lower if (match := _OF_ONE.fullmatch(name))}
    _misspelt(lower, roles, bool(captions), table)
    negatives = [roles["negative"]] if "negative" in roles else []
    negatives += [lower[name] for name in lower if re.fullmatch(r"negative_\d+", name)]
    of_one = {name: languages[name.lower()] for name, _ in captions if name.lower() in languages}
    return Columns(roles, tuple(captions), tuple(negatives), of_one)


def _once(names: Sequence[str], table: str) -> dict[str, str]:
    """The columns by their names in small letters."""
    lower: dict[str, str] = {}
    for name in names:
        other = lower.setdefault(name.strip().lower(), name)
        if other != name:
            raise UserError(f"{table}: columns {other!r} and {name!r} are one name; rename one of them")
    return lower


def _misspelt(lower: dict[str, str], roles: dict[str, str], said: bool, table: str) -> None:
    """UserError on a caption column that is nearly named so; a warning for what else would be left out unseen."""
    # Not "end": too many short words are near it.
    for role in ("caption", "start", "split", "language", "clip_id", "label", "source"):
        if role in roles or (role == "caption" and said):
            continue
        near = [name for name in get_close_matches(role, lower, n=3, cutoff=0.8) if lower[name] not in roles.values()]
        if near and role == "caption":
            raise UserError(f"{table}: no column 'caption'; is it {lower[near[0]]!r}? rename it")
        if near:
            warnings.warn(f"{table}: column {lower[near[0]]!r} is not read; is it {role!r}? rename it", stacklevel=2)


def _first(lower: dict[str, str], choices: Sequence[str]) -> str | None:
    return next((lower[name] for name in choices if name in lower), None)


def _numbered(name: str) -> re.Match[str] | None:
    """caption_3, caption_fra and caption_fra_3; nothing else."""
    match = re.fullmatch(r"caption_(?:([a-z]{2,3})_?)?(\d+)?", name)
    return match if match and (match[1] or match[2]) and (not match[1] or match[1] in KNOWN) else None


# source_lang_2 gives the language of caption_2.
_OF_ONE = re.compile(r"(source_lang|language|lang)_(\d+)")


def _codes(lower: dict[str, str]) -> list[tuple[str, str]]:
    """Columns en, fr, zh_CN ... of a table that has no caption column; one alone may mean anything, and so may "id"."""
    plain = re.compile(r"([a-z]{2,3})([-_][a-z]{2,4})?")
    found = [(name, language(match[1])) for name in lower if (match := plain.fullmatch(name)) and match[1] in KNOWN]
    found = [(name, code) for name, code in found if name != "id"]
    return found if len(found) > 1 else []


def _code(match: re.Match[str]) -> str | None:
    """The language that a column's name gives; None: the row's."""
    return language(match[1]) if match[1] else None


def entry(row: Row, known: Columns) -> Entry:
    """One row's values, checked; UserError names the row and the column."""
    read = _Reader(row)
    roles = known.roles
    audio = read.text(roles["audio"])
    if not audio:
        raise UserError(f"{row.place}: column {roles['audio']!r} is empty; every row names a sound")
    if "\0" in audio:
        raise UserError(f"{row.place}: column {roles['audio']!r}: {audio!r} holds a zero byte; is the table text?")
    start = read.seconds(roles.get("start")) or 0.0
    end = read.seconds(roles.get("end"))
    if end is not None and end <= start:
        raise UserError(f"{row.place}: column {roles['end']!r}: end={end} does not come after start={start}")
    split = read.text(roles.get("split"))
    return Entry(
        row.place,
        audio,
        start,
        end,
        tuple(read.captions(known)),
        read.text(roles.get("clip_id")),
        read.text(roles.get("label")),
        SPLIT_NAMES.get(split.lower(), split) if split else None,
        read.text(roles.get("source")),
        tuple(text for name in known.negatives for text in read.texts(name) if text),
    )


class _Reader:
    def __init__(self, row: Row) -> None:
        self._row = row

    def text(self, name: str | None) -> str | None:
        """The value as text; None where it is blank."""
        value = None if name is None else self._row.fields.get(name)
        if isinstance(value, dict) and name is not None:
            value = value.get("path", value)
        if isinstance(value, float) and math.isnan(value):
            return None
        if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            return _clean(str(value)) or None if value is not None else None
        raise UserError(f"{self._row.place}: column {name!r} holds a {type(value).__name__}; a text is expected")

    def texts(self, name: str) -> list[str]:
        """The value as texts; a blank one is the empty text."""
        value = self._row.fields.get(name)
        if not isinstance(value, (list, tuple)):
            return [self.text(name) or ""]
        for part in value:
            if part is not None and not isinstance(part, str):
                raise UserError(f"{self._row.place}: column {name!r} holds a list with a {type(part).__name__} in it")
        return [_clean(part or "") for part in value] or [""]

    def seconds(self, name: str | None) -> float | None:
        """The value as seconds."""
        value = None if name is None else self._row.fields.get(name)
        if value is None or (isinstance(value, str) and value.strip().lower() in ("", "nan", "none", "null")):
            return None
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(value, bool) or not 0 <= number < math.inf:
            raise UserError(f"{self._row.place}: column {name!r}: {value!r} is no number of seconds")
        return number

    def captions(self, known: Columns) -> list[Caption]:
        """The captions of the row, blank ones too."""
        own = self._language(known.roles.get("language"))
        found: list[Caption] = []
        for name, code in known.captions:
            value = self._row.fields.get(name)
            if isinstance(value, dict):
                found += self._by_language(name, value)
                continue
            said = code or (self._language(known.languages[name]) if name in known.languages else own)
            found += [Caption(text, said) for text in self.texts(name)]
        return found

    def _by_language(self, name: str, value: dict[str, Any]) -> list[Caption]:
        """The captions of a cell {"eng": ["a dog", ...], "fra": "un chien"}."""
        found: list[Caption] = []
        for key, texts in value.items():
            several = texts if isinstance(texts, (list, tuple)) else [texts]
            try:
                code = language(str(key))
            except UserError as error:
                raise UserError(f"{self._row.place}: column {name!r}: {error}") from error
            if not all(text is None or isinstance(text, str) for text in several):
                raise UserError(f"{self._row.place}: column {name!r}, {key}: a text or a list of texts is expected")
            # A parquet file fills up with nothing what one row has and another has not.
            found += [Caption(_clean(text), code) for text in several if text is not None]
        return found

    def _language(self, name: str | None) -> str:
        value = self.text(name)
        if value is None:
            return "eng"
        try:
            return language(value)
        except UserError as error:
            raise UserError(f"{self._row.place}: column {name!r}: {error}") from error


def _clean(value: str) -> str:
    # A lone surrogate (a JSON escape) cannot be written or tokenised.
    return value.encode("utf8", "replace").decode("utf8").strip()
