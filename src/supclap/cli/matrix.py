"""Several models on several tables: the transfer matrix, what each gains over the first, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from supclap.cli import shown
from supclap.cli.evaluate import Asked, clips_of, scores, task_of
from supclap.cli.shown import Sheet, Shown
from supclap.encoders import hub
from supclap.evaluation import significance
from supclap.evaluation.retrieval import Scores
from supclap.report import tables as drawn
from supclap.schema import Clip, UserError


def matrix(models: Mapping[str, str], tables: Mapping[str, str], asked: Asked) -> Shown:
    """Every model on every table. On one table all models are scored on the same clips."""
    # All that can be refused is, before the first sound is embedded.
    sides = {data: _common(models, data, path, asked) for data, path in tables.items()}
    loaded = {name: hub.load(model) for name, model in models.items()}
    retrieval = replace(asked, task="retrieval")
    found = {
        name: {data: scores(model, side.clips, retrieval) for data, side in sides.items()}
        for name, model in loaded.items()
    }
    whole = shown.retrieval(found)
    rows = _compared(found)
    sheets = [_counts(found), *whole.sheets] + ([_differences(rows)] if rows else [])
    leaks = [leak for side in sides.values() for leak in side.leaks]
    plain = {"models": dict(models), "data": dict(tables), **whole.plain, "compared": rows, "leaks": leaks}
    notes = [note for side in sides.values() for note in side.notes]
    return replace(whole, plain=plain, sheets=sheets, notes=[*notes, *whole.notes])


@dataclass(frozen=True)
class _Side:
    clips: list[Clip]
    notes: list[str]
    leaks: list[dict[str, Any]]


def _common(models: Mapping[str, str], data: str, path: str, asked: Asked) -> _Side:
    """The clips of a table that all models are scored on: what is dropped for one is dropped for all."""
    notes: list[str] = []
    leaks: list[dict[str, Any]] = []
    chosen = []
    for name, model in models.items():
        clips, said, count = clips_of(model, path, asked)
        chosen.append(clips)
        notes += said
        if count:
            leaks.append({"model": name, "data": data, "clips": count, "dropped": asked.leaks == "drop"})
    common = set.intersection(*({clip.id for clip in clips} for clips in chosen))
    clips = [clip for clip in chosen[0] if clip.id in common]
    if not clips:
        raise UserError(f"no clip of {path} is unheard by all of {', '.join(models)}; --leaks note keeps them")
    if task_of(asked.task, clips) != "retrieval":
        raise UserError(f"{path}: several models or tables are compared by retrieval, which needs captions")
    return _Side(clips, notes, leaks)


def _counts(found: Mapping[str, Mapping[str, Scores]]) -> Sheet:
    first = next(iter(found.values()))
    rows = [[data, one.protocol.name, one.split, one.clips, one.captions] for data, one in first.items()]
    return Sheet(rows, ["data", "protocol", "split", "clips", "captions"])


def _compared(found: Mapping[str, Mapping[str, Scores]]) -> list[dict[str, Any]]:
    """Each model against the first on each table; Holm's correction over all rows."""
    base, *others = found
    if not others:
        return []
    rows = []
    for data in found[base]:
        for row in significance.table({name: one[data] for name, one in found.items()}, base=base):
            rows += [{"data": data, "base": base, **row}] if "p" in row else []
    for row, corrected in zip(rows, significance.holm([row["p"] for row in rows]), strict=True):
        row |= {"holm": corrected, "significant": corrected < 0.05}
    return rows


def _differences(rows: list[dict[str, Any]]) -> Sheet:
    body: list[drawn.Row] = [
        [
            row["model"],
            row["data"],
            row["direction"].upper(),
            (row["gain"], row["low"], row["high"]),
            f"{row['p']:.4f}",
            f"{row['holm']:.4f}",
            "*" if row["significant"] else "",
        ]
        for row in rows
    ]
    title = f"R@1 against {rows[0]['base']}: paired by clip; * stands after Holm's correction over these rows"
    return Sheet(body, ["model", "data", "", "gain", "p", "Holm", ""], title)
