"""Several models on several tables: the transfer matrix, what each gains over the first, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from supclap.cli import shown
from supclap.cli.evaluate import Asked, clips_of, scores, task_of
from supclap.cli.shown import Sheet, Shown
from supclap.encoders import hub
from supclap.evaluation import significance
from supclap.evaluation.retrieval import Scores
from supclap.report import tables as drawn
from supclap.schema import UserError


def matrix(models: Mapping[str, str], tables: Mapping[str, str], asked: Asked) -> Shown:
    """Every model on every table. On one table all models are scored on the same clips."""
    found: dict[str, dict[str, Scores]] = {name: {} for name in models}
    notes: list[str] = []
    leaks = []
    for data, path in tables.items():
        chosen: dict[str, Any] = {}
        for name, model in models.items():
            chosen[name], said, count = clips_of(model, path, asked)
            notes += said
            leaks += [{"model": name, "data": data, "clips": count, "dropped": asked.leaks == "drop"}] if count else []
        # A clip that one run has learned from is dropped for all: they are compared on the same clips.
        common = set.intersection(*({clip.id for clip in clips} for clips in chosen.values()))
        clips = [clip for clip in next(iter(chosen.values())) if clip.id in common]
        if not clips:
            raise UserError(f"no clip of {path} is unheard by all of {', '.join(models)}; --leaks note keeps them")
        if task_of(asked.task, clips) != "retrieval":
            raise UserError(
                f"{path}: several models or tables are compared by retrieval, which needs captions of clips"
            )
        for name, model in models.items():
            found[name][data] = scores(hub.load(model), clips, replace(asked, task="retrieval"))
    whole = shown.retrieval(found)
    rows = _compared(found)
    sheets = [_counts(found), *whole.sheets] + ([_differences(rows)] if rows else [])
    plain = {"models": dict(models), "data": dict(tables), **whole.plain, "compared": rows, "leaks": leaks}
    return replace(whole, plain=plain, sheets=sheets, notes=[*notes, *whole.notes])


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
