"""Tables from plain values: for the terminal, for Markdown, CSV, and LaTeX rows in the paper's layout.

A row is a sequence of cells: text, numbers, None (nothing was measured), or (value, low, high). A row that is None is a
rule between groups.
"""

from __future__ import annotations

import csv as csv_module
import io
import math
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from supclap.schema import UserError

Row = Sequence[Any] | None
LOWER_IS_BETTER = ("MedR", "MeanR")


def text(rows: Sequence[Row], headers: Sequence[str], *, title: str | None = None, digits: int = 2) -> str:
    """A table for the terminal; as wide as it needs to be."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    _check(rows, headers)
    table = Table(box=SIMPLE)
    for place, header in enumerate(headers):
        table.add_column(_plain(header), justify="right" if _numeric(rows, place) else "left", no_wrap=True)
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*(_plain(cell(value, digits)) for value in row))
    out = io.StringIO()
    Console(file=out, width=10_000, no_color=True).print(table)
    lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    return "\n".join([*([title] if title else []), *lines]) + "\n"


def markdown(rows: Sequence[Row], headers: Sequence[str], *, digits: int = 2) -> str:
    """A Markdown table; rules between groups are left out."""
    _check(rows, headers)
    lines = [list(headers), [("---:" if _numeric(rows, k) else "---") for k in range(len(headers))]]
    lines += [[cell(value, digits).replace("|", "\\|") for value in row] for row in rows if row is not None]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def csv(rows: Sequence[Row], headers: Sequence[str]) -> str:
    """Comma-separated values with all digits; (value, low, high) takes three columns where any row has it."""
    _check(rows, headers)
    body = [row for row in rows if row is not None]
    wide = [any(_interval(row[k]) for row in body) for k in range(len(headers))]
    out = io.StringIO()
    writer = csv_module.writer(out, lineterminator="\n")
    writer.writerow(
        [
            name
            for k, header in enumerate(headers)
            for name in ([header, f"{header} low", f"{header} high"] if wide[k] else [header])
        ]
    )
    for row in body:
        flat: list[Any] = []
        for k, value in enumerate(row):
            flat += (list(value) if _interval(value) else [value, None, None]) if wide[k] else [value]
        writer.writerow(["" if value is None else value for value in flat])
    return out.getvalue()


def latex(rows: Sequence[Row], headers: Sequence[str], *, digits: int = 2, best: bool = True) -> str:
    """LaTeX rows as the paper prints them: an ampersand between cells, the best of each group bold, a line after it.

    A name that starts with "-" is a variant of the row above it and is indented.
    """
    _check(rows, headers)
    lines, group = [], list[Sequence[Any]]()
    for row in [*rows, None]:
        if row is not None:
            group.append(row)
            continue
        marks = _best(group, headers) if best and len(group) > 1 else set()
        lines += [_latex_row(place, row, marks, digits) for place, row in enumerate(group)]
        if group:
            lines[-1] += " \\hline"
        group = []
    return "".join(line + "\n" for line in lines)


def latex_table(rows: Sequence[Row], headers: Sequence[str], *, caption: str, label: str, digits: int = 2) -> str:
    """A whole table environment around ``latex``."""
    head = " & ".join(escape(header) for header in headers)
    columns = "l|" + "c" * (len(headers) - 1)
    return (
        "\\begin{table}[t]\n\\centering\n\\small\n"
        f"\\caption{{{escape(caption)}}}\n\\label{{{label}}}\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{head} \\\\ \\hline\n"
        f"{latex(rows, headers, digits=digits)}\\end{{tabular}}\n\\end{{table}}\n"
    )


def retrieval(
    models: Mapping[str, Mapping[str, Any] | None], metrics: Sequence[str] = ("R@1", "R@10"), *, intervals: bool = False
) -> tuple[list[Row], list[str]]:
    """Rows and headers in the paper's layout: for each data set T2A and A2T, and the metrics under each.

    ``models`` maps a model to its scores by data set; a None in it is a rule. Scores are anything with
    ``scores["t2a"]["R@1"]``, and ``scores["intervals"]`` in the same shape where ``intervals`` asks for them.
    """
    sets = list(dict.fromkeys(name for row in models.values() if row is not None for name in row))
    places = [(data, direction, metric) for data in sets for direction in ("t2a", "a2t") for metric in metrics]
    headers = ["Model"] + [f"{data} {direction.upper()} {metric}".strip() for data, direction, metric in places]
    rows: list[Row] = []
    for model, found in models.items():
        rows.append(
            None
            if found is None
            else [model, *(_score(found.get(data), way, metric, intervals) for data, way, metric in places)]
        )
    return rows, headers


def _score(scores: Any, direction: str, metric: str, intervals: bool) -> Any:
    if scores is None:
        return None
    value = scores[direction][metric]
    return (value, *scores["intervals"][direction][metric]) if intervals else value


def cell(value: Any, digits: int = 2) -> str:
    """One cell as text."""
    if value is None:
        return "-"
    if _interval(value):
        middle, low, high = (cell(part, digits) for part in value)
        return f"{middle} [{low}, {high}]"
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    if isinstance(value, Integral):
        return str(int(value))
    return "-" if math.isnan(value) else f"{float(value):.{digits}f}"


def escape(value: str) -> str:
    """Text that LaTeX prints as it stands."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(r"[\\~^&%$#_{}]", lambda found: special.get(found[0], "\\" + found[0]), value)


def _latex_row(place: int, row: Sequence[Any], marks: set[tuple[int, int]], digits: int) -> str:
    cells = []
    for column, value in enumerate(row):
        if _interval(value):
            shown = f"${cell(value[0], digits)}_{{[{cell(value[1], digits)}, {cell(value[2], digits)}]}}$"
        else:
            shown = escape(cell(value, digits))
        if column == 0 and shown.startswith("-"):
            shown = r"\ \ " + shown
        cells.append(rf"\textbf{{{shown}}}" if (place, column) in marks else shown)
    return " & ".join(cells) + r" \\"


def _best(group: Sequence[Sequence[Any]], headers: Sequence[str]) -> set[tuple[int, int]]:
    marks = set()
    for column, header in enumerate(headers):
        found = {place: _number(row[column]) for place, row in enumerate(group)}
        numbers = [number for number in found.values() if number is not None]
        if not numbers or column == 0:
            continue
        choose = min if header.endswith(LOWER_IS_BETTER) else max
        marks |= {(place, column) for place, number in found.items() if number == choose(numbers)}
    return marks


def _number(value: Any) -> float | None:
    value = value[0] if _interval(value) else value
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(float(value)):
        return None
    return float(value)


def _interval(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 3


def _numeric(rows: Sequence[Row], place: int) -> bool:
    found = [row[place] for row in rows if row is not None and row[place] is not None]
    return bool(found) and all(_number(value) is not None or value != value for value in found)


def _plain(value: str) -> str:
    """Text whose brackets rich takes for what they are."""
    return value.replace("[", r"\[")


def _check(rows: Sequence[Row], headers: Sequence[str]) -> None:
    for place, row in enumerate(rows):
        if row is not None and len(row) != len(headers):
            raise UserError(f"row {place} has {len(row)} cells for {len(headers)} headers; give one a header")
