"""Queries from files: our own form, and the User-Intent Queries of Omni-Embed-Audio (arXiv 2604.18360) as published.

Ours is any table with the columns query, type, clip_id, and as wanted relevance, hard_negative, sound, language and
target: a row a query with lists in them (JSON), or a row a (query, clip), or names with semicolons between them (CSV).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supclap.data import tables
from supclap.data.languages import language
from supclap.data.tables import Row
from supclap.evaluation.queries import Query
from supclap.schema import Clip, UserError

# The published query types under our names.
PUBLISHED = {
    "question": "question",
    "imperative": "command",
    "tagging": "tags",
    "paraphrase": "paraphrase",
    "negative": "exclusion",
}
TEXT = ("generated_query", "negative_query")


@dataclass(frozen=True)
class Read:
    """The queries that can be asked of a table of clips, and what had to be left out."""

    queries: list[Query]
    notes: tuple[str, ...]


def read(path: str | Path, clips: Sequence[Clip]) -> Read:
    """The queries of a file about these clips; those about other clips are left out and counted."""
    rows = tables.rows(path)
    if not rows:
        raise UserError(f"{path}: the file is empty; give one query a line")
    known = _Clips(clips)
    published = "query_type" in rows[0].fields and any(name in rows[0].fields for name in TEXT)
    found = _published(rows, known) if published else _own(rows, known)
    if not found.queries:
        raise UserError(f"{path}: none of {len(rows)} rows asks for one of the {len(clips)} clips; do the ids match?")
    return found


def write(queries: Iterable[Query], path: str | Path) -> Path:
    """A query a line, as JSON; ``read`` gives the same queries again."""
    lines = [json.dumps(query.to_dict(), ensure_ascii=False) + "\n" for query in queries]
    Path(path).write_text("".join(lines), encoding="utf8")
    return Path(path)


class _Clips:
    """The clips by what a file may call them: the id, the file's name, or that without its ending."""

    def __init__(self, clips: Sequence[Clip]) -> None:
        self.names: dict[str, str | None] = {}
        for clip in clips:
            name = Path(clip.audio).name
            for alias in {name, Path(name).stem, Path(clip.id).name, Path(clip.id).stem} - {clip.id}:
                self.names[alias] = None if alias in self.names else clip.id
        self.names |= {clip.id: clip.id for clip in clips}
        self.said: dict[str, set[str]] = {}
        for clip in clips:
            for caption in clip.captions:
                self.said.setdefault(_plain(caption.text), set()).add(clip.id)

    def find(self, name: str) -> str | None:
        """The clip's id; None where there is none, or more than one."""
        return self.names.get(name) or self.names.get(Path(name).stem)

    def by_captions(self, captions: Sequence[str]) -> str | None:
        """The one clip that has at least half of these captions, and more of them than any other."""
        votes: dict[str, int] = {}
        for caption in {_plain(caption) for caption in captions}:
            for name in self.said.get(caption, ()):
                votes[name] = votes.get(name, 0) + 1
        best = sorted(votes, key=lambda name: -votes[name])[:2]
        alone = best and (len(best) == 1 or votes[best[0]] > votes[best[1]])
        return best[0] if alone and 2 * votes[best[0]] >= len(set(captions)) else None


def _published(rows: Sequence[Row], known: _Clips) -> Read:
    """A row a query about one clip; an exclusion names its hard negative by that clip's captions only."""
    found, unpaired, elsewhere = [], 0, 0
    for row in rows:
        kind = str(row.fields.get("query_type"))
        text = next((str(row.fields[name]) for name in TEXT if row.fields.get(name)), "")
        if kind not in PUBLISHED or not text or not row.fields.get("audio_id"):
            raise UserError(
                f"{row.place}: a published query has an audio_id, a query_type ({', '.join(PUBLISHED)}) and a "
                f"{TEXT[0]} or {TEXT[1]}"
            )
        clip = known.find(str(row.fields["audio_id"]))
        if clip is None:
            elsewhere += 1
            continue
        hard = known.by_captions(list(row.fields.get("negative_captions") or [])) if kind == "negative" else None
        unpaired += kind == "negative" and hard in (None, clip)
        with_it = () if hard in (None, clip) else (str(hard),)
        found.append(Query(PUBLISHED[kind], text, clip, {clip: 1.0}, with_it))
    notes = _left_out(elsewhere, len(rows))
    if unpaired:
        notes.append(f"{unpaired} exclusions have no hard negative among the clips: they count for R@k, not for HNSR")
    return Read(found, tuple(notes))


def _own(rows: Sequence[Row], known: _Clips) -> Read:
    """Rows of the same words, type, sound and language are one query."""
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        missing = [name for name in ("query", "type", "clip_id") if not row.fields.get(name)]
        if missing:
            raise UserError(f"{row.place}: column {missing[0]!r} is missing or empty; a query has query, type, clip_id")
        fields = row.fields
        key = (
            str(fields["query"]),
            str(fields["type"]),
            str(fields.get("sound") or ""),
            str(fields.get("target") or ""),
        )
        groups.setdefault(key, []).append(row)
    found, elsewhere, gone = [], 0, 0
    for (text, kind, sound, target), group in groups.items():
        named, hard = _relevance(group), [name for row in group for name in _names(row.fields.get("hard_negative"))]
        here = {clip: gain for name, gain in named.items() if (clip := known.find(name)) is not None}
        gone += len(named) - len(here) + sum(known.find(name) is None for name in hard)
        if not any(here.values()) or (sound and known.find(sound) is None):
            elsewhere += 1
            continue
        origin = known.find(target or sound) or max(here, key=lambda name: here[name])
        against = tuple(dict.fromkeys(clip for name in hard if (clip := known.find(name)) is not None))
        said = language(str(group[0].fields.get("language") or "eng"))
        found.append(Query(kind, text, origin, here, against, known.find(sound) if sound else None, said))
    notes = _left_out(elsewhere, len(groups))
    if gone:
        notes.append(f"{gone} clips that the file names are not in the table: nobody can find them")
    return Read(found, tuple(notes))


def _relevance(group: Sequence[Row]) -> dict[str, float]:
    """By name; without a column of relevance every clip named is as good as any."""
    found: dict[str, float] = {}
    for row in group:
        names, given = _names(row.fields["clip_id"]), row.fields.get("relevance")
        gains = [1.0] * len(names) if given in (None, "") else [_number(value, row) for value in _names(given)]
        if len(gains) != len(names):
            raise UserError(f"{row.place}: {len(names)} clips and {len(gains)} numbers of relevance; give one a clip")
        found |= dict(zip(names, gains, strict=True))
    return found


def _names(value: Any) -> list[str]:
    """A list, or what stands between semicolons."""
    parts = value if isinstance(value, (list, tuple)) else str("" if value is None else value).split(";")
    return [str(part).strip() for part in parts if str(part).strip()]


def _number(value: str, row: Row) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise UserError(
            f"{row.place}: relevance={value!r} is no number; 1 answers the query, 0.5 half of it"
        ) from error


def _left_out(elsewhere: int, count: int) -> list[str]:
    if not elsewhere:
        return []
    return [f"{elsewhere} of {count} queries ask for clips that are not in the table and were left out"]


def _plain(text: str) -> str:
    """Words alone, lower-case: captions are compared by these."""
    return " ".join(re.findall(r"\w+", text.lower()))
