"""Results on stdout in the form that was asked for: tables for people, JSON, CSV, LaTeX rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from supclap.evaluation.probes import ProbeScore
from supclap.evaluation.query_scores import CONTROLS, QueryScores
from supclap.evaluation.retrieval import DIRECTIONS, Scores
from supclap.evaluation.translations import Quality
from supclap.evaluation.zeroshot import Classification
from supclap.report import tables
from supclap.schema import unknown

FORMATS = ("table", "json", "csv", "latex")


@dataclass(frozen=True)
class Sheet:
    """One table; ``title`` stands above it on a terminal."""

    rows: Sequence[tables.Row]
    headers: Sequence[str]
    title: str | None = None
    digits: int = 2


@dataclass(frozen=True)
class Shown:
    """One result in all its forms: ``plain`` for JSON, ``sheets`` for people, ``row`` (one line a model) for papers."""

    plain: Mapping[str, Any]
    sheets: Sequence[Sheet]
    row: Sheet
    csv: Sheet | None = None  # where a spreadsheet should hold more than a paper's row
    notes: Sequence[str] = ()


def form(json: bool, format: str | None) -> str:
    """What --json and --format ask for together."""
    if format is not None and format not in FORMATS:
        raise unknown("--format", format, FORMATS)
    return format or ("json" if json else "table")


def show(shown: Shown, form: str) -> None:
    """The result on stdout; remarks on stderr."""
    for note in shown.notes:
        print(f"supclap: note: {note}", file=sys.stderr)
    if form == "json":
        print(json.dumps(_without_nan(shown.plain), ensure_ascii=False, allow_nan=False))
    elif form == "csv":
        sheet = shown.csv or shown.row
        print(tables.csv(sheet.rows, sheet.headers), end="")
    elif form == "latex":
        head = " & ".join(tables.escape(header) for header in shown.row.headers)
        print(f"% {head}\n" + tables.latex(shown.row.rows, shown.row.headers, digits=shown.row.digits), end="")
    else:
        for sheet in shown.sheets:
            print(tables.text(sheet.rows, sheet.headers, title=sheet.title, digits=sheet.digits), end="")


def _without_nan(value: Any) -> Any:
    """JSON has no word for NaN: what could not be said is null."""
    if isinstance(value, Mapping):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and value != value else value


def retrieval(found: Mapping[str, Mapping[str, Scores]]) -> Shown:
    """Scores by model and data set: for one of each all numbers, for more the paper's layout."""
    plain = {model: {data: scores.to_dict() for data, scores in row.items()} for model, row in found.items()}
    every = [(model, data, one) for model, row in plain.items() for data, one in row.items()]
    alone = len(every) == 1
    sheets = [] if alone else [_layout(plain, intervals=True)]
    if alone:
        only = every[0][2]
        sheets += [_whole(only), *([_languages(only)] if "languages" in only else [])]
    notes = [line for _, _, one in every for line in [one["flag"], *one.get("notes", [])] if line]
    numbers: Mapping[str, Any] = every[0][2] if alone else {"scores": plain}
    return Shown(numbers, sheets, _layout(plain), _wide(every), list(dict.fromkeys(notes)))


def _layout(plain: Mapping[str, Mapping[str, Any]], *, intervals: bool = False) -> Sheet:
    """The paper's: a row a model; for each data set both directions, R@1 and R@10."""
    rows, headers = tables.retrieval(plain, intervals=intervals)
    return Sheet(rows, headers, "95 % intervals over clips" if intervals else None)


def _whole(plain: Mapping[str, Any]) -> Sheet:
    rows = [
        [name, *((plain[way][name], *plain["intervals"][way][name]) for way in DIRECTIONS)] for name in plain["t2a"]
    ]
    title = f"{_counted(plain)}; 95 % intervals over clips"
    return Sheet(rows, ["", "T2A", "A2T"], title)


def _counted(plain: Mapping[str, Any]) -> str:
    where = f", {plain['split']}" if plain["split"] else ""
    return f"{plain['protocol']}{where}: {plain['clips']} clips, {plain['captions']} captions"


def _languages(plain: Mapping[str, Any]) -> Sheet:
    names = ["R@1", "R@10", "mAP10"]
    rows: list[tables.Row] = [
        [code, row["clips"], row["captions"], *(row[way][name] for way in DIRECTIONS for name in names)]
        for code, row in plain["languages"].items()
    ]
    mean = [plain[way][name] for way in DIRECTIONS for name in names]
    headers = ["language", "clips", "captions", *(f"{way.upper()} {name}" for way in DIRECTIONS for name in names)]
    return Sheet([*rows, None, ["mean", plain["clips"], plain["captions"], *mean]], headers)


def _wide(every: Sequence[tuple[str, str, Mapping[str, Any]]]) -> Sheet:
    """Every number of every result: a row a model, data set and language."""
    first = every[0][2]
    names = [(way, name) for way in DIRECTIONS for name in first[way]]
    headers = ["model", "data", "protocol", "split", "language", "clips", "captions"]
    headers += [f"{way.upper()} {name}" for way, name in names]
    rows: list[tables.Row] = []
    for model, data, one in every:
        told = [model, data, one["protocol"], one["split"]]
        bounds = [(one[way][name], *one["intervals"][way][name]) for way, name in names]
        rows.append([*told, "mean" if "languages" in one else None, one["clips"], one["captions"], *bounds])
        for code, row in one.get("languages", {}).items():
            numbers = [(row[way][name], None, None) for way, name in names]
            rows.append([*told, code, row["clips"], row["captions"], *numbers])
    return Sheet(rows, headers)


def classes(found: Classification, model: str = "") -> Shown:
    """Top-1, top-5 and mAP; by class; and the commonest mistakes."""
    plain = found.to_dict()
    tops = [(found[f"top{k}"], *found.interval(f"top{k}")) for k in (1, 5)]
    rows: list[tables.Row] = [[f"top-{k}", top] for k, top in zip((1, 5), tops, strict=True)]
    rows.append(["mAP", found["mAP"]])
    title = f"{found.about}: {found['clips']} clips, {found['classes']} classes"
    by_class = [[label, row["clips"], row["top1"], row["AP"]] for label, row in found["per_class"].items()]
    each = Sheet(by_class, ["label", "clips", "top-1", "AP"])
    sheets = [Sheet(rows, ["", "percent"], title), each]
    if not found.several and found.confused(1):
        sheets.append(Sheet(found.confused(), ["label", "taken for", "times"]))
    names = ["Model", "top-1", "top-5", "mAP"]
    return Shown(plain, sheets, Sheet([[model, found["top1"], found["top5"], found["mAP"]]], names), each)


def few_shot(found: Mapping[int, Mapping[str, float]], classes: int, clips: int) -> Shown:
    """Top-1 by clips of each class that the probe has seen."""
    rows = [[shots, row["top1"], row["sd"]] for shots, row in found.items()]
    title = f"few-shot: {clips} clips, {classes} classes; mean and deviation over draws of the training clips"
    sheet = Sheet(rows, ["clips of each class", "top-1", "sd"], title)
    plain = {"few_shot": {str(shots): dict(row) for shots, row in found.items()}, "clips": clips, "classes": classes}
    return Shown(plain, [sheet], sheet)


def captions(found: Sequence[Quality]) -> Shown:
    """A row a language."""
    rows = [[row.language, (row.similarity, row.low, row.high), row.floor, row.captions] for row in found]
    sheet = Sheet(rows, ["language", "similarity", "random pairs", "captions"], digits=3)
    return Shown({"captions": [row.to_dict() for row in found]}, [sheet], sheet)


def probes(found: Sequence[ProbeScore]) -> Shown:
    """A row a kind of question."""
    rows = [[s.kind, (s.accuracy, s.low, s.high), s.chance, s.questions] for s in found]
    sheet = Sheet(rows, ["what is asked", "right, %", "chance, %", "questions"])
    return Shown({"probes": [score.to_dict() for score in found]}, [sheet], sheet)


def queries(found: QueryScores) -> Shown:
    """A row a kind of query; hard negatives apart."""
    rows: list[tables.Row] = []
    for kind, row in found.items():
        cost = row.get("against_caption")
        against = None if cost is None else (cost["value"], cost["low"], cost["high"])
        first = (row["nDCG@10"], *row["intervals"]["nDCG@10"])
        name = f"composed: {kind}" if kind in CONTROLS else kind
        rows.append([name, row["queries"], first, row["chance"], against, row["R@1"], row["R@10"], row["mAP"]])
    where = f", {found.split}" if found.split else ""
    title = f"queries{where}: each against {found.clips} clips; 95 % intervals over clips"
    headers = ["asked as", "queries", "nDCG@10", "by chance", "against caption", "R@1", "R@10", "mAP"]
    main, sheets = Sheet(rows, headers, title), []
    hard = ["HNSR@10", "TFR@10", "HNSR", "TFR"]
    paired: list[tables.Row] = [
        [kind, row["paired"], *((row[name], *row["intervals"][name]) for name in hard), row["delta_rank"]]
        for kind, row in found.items()
        if "paired" in row and kind not in CONTROLS
    ]
    if paired:
        sheets.append(Sheet(paired, ["hard negatives", "queries", *hard, "places between"]))
    return Shown(found.to_dict(), [main, *sheets], main, notes=found.notes)
