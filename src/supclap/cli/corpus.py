"""supclap corpus: list, prepare, check."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from supclap.data import manifest
from supclap.data.check import check as check_data
from supclap.data.check import problems
from supclap.data.corpora import CORPORA
from supclap.data.corpora.translated import add
from supclap.data.prepare import prepare as prepare_clips
from supclap.schema import UserError, unknown

SHOWN = 5


def list_corpora(*, json: bool = False) -> None:
    """The corpora that are known by name, with their licences and what is expected where.

    Parameters
    ----------
    json
        The table as JSON.
    """
    rows = [
        {"name": name, "about": one.about, "licence": one.licence, "home": one.home, "layout": one.layout}
        for name, one in CORPORA.items()
    ]
    if json:
        print(json_text.dumps(rows, indent=1))
        return
    table = Table("name", "about", "licence", "expected", box=None)
    for row in rows:
        table.add_row(row["name"], row["about"], row["licence"], row["layout"] or "composed here")
    _print(table)


def prepare(
    name: str,
    root: Path,
    *,
    out: Path | None = None,
    rate: int | None = None,
    translations: Path | None = None,
    workers: int | None = None,
    json: bool = False,
) -> None:
    """Read a corpus as its owners ship it and write its table; with --rate, resample it once to FLAC.

    Parameters
    ----------
    name
        A name of `supclap corpus list`.
    root
        The folder the corpus lies in.
    out
        Where the table (and the FLAC files) go; ROOT if not given.
    rate
        Samples a second; without it the files stay as they are.
    translations
        A table clip_id, language, text.
    workers
        How many files at once.
    json
        Print plain values.
    """
    if name not in CORPORA:
        raise unknown("name", name, CORPORA)
    found = CORPORA[name].find(root)
    clips = add(found.clips, translations) if translations else found.clips
    folder = out or root
    bad: list[dict[str, str]] = []
    if rate is not None:
        with _progress("resampling", json) as tell:
            done = prepare_clips(clips, folder / f"flac-{rate}", rate, workers=workers, progress=tell)
        clips, bad = done.clips, [{"audio": clip.audio, "reason": reason} for clip, reason in done.bad]
    # Not "manifest.csv" in a folder of the owners': another corpus may lie there too.
    table = manifest.write(clips, folder / f"supclap-{name}.csv")
    missing = folder / f"supclap-{name}-missing.txt"
    missing.write_text("".join(f"{entry}\n" for entry in found.missing), encoding="utf8")
    manifest.register(name, table)
    report = {"name": name, "table": str(table), "clips": len(clips), "note": found.note}
    report |= {"captions": sum(len(clip.captions) for clip in clips), "unreadable": bad}
    report |= {"missing": len(found.missing), "missing_list": str(missing)}
    _say(report, json, [found.note, f"{len(clips)} clips -> {table}", f"{len(found.missing)} missing -> {missing}"])


def check(
    *data: str,
    captions_from: str | None = None,
    strict: bool = False,
    workers: int | None = None,
    json: bool = False,
) -> int:
    """Report counts, lengths, languages, unreadable and missing files, duplicates, leaks and empty captions.

    Parameters
    ----------
    data
        One table, folder or corpus (NAME or NAME:ROOT), or several, which are held against each other too.
    captions_from
        "names": captions of a plain folder are the words of its paths.
    strict
        Exit 1 if anything is amiss.
    workers
        How many files at once.
    json
        Print plain values.
    """
    if not data:
        raise UserError("DATA is missing; name a table, a folder or a corpus: supclap corpus check my.csv")
    with _progress("listening", json) as tell:
        report = check_data(list(data), captions_from=captions_from, workers=workers, progress=tell)
    if json:
        print(json_text.dumps(report, indent=1, ensure_ascii=False))
    else:
        _show(report)
    return 1 if strict and problems(report) else 0


def _show(report: dict[str, Any]) -> None:
    table = Table("what", "how many", "which", box=None)
    for name, value in report.items():
        if isinstance(value, (int, float)):
            table.add_row(name, f"{value:,}", "")
        elif isinstance(value, dict):
            table.add_row(name, "", ", ".join(f"{key} {count:,}" for key, count in value.items()))
        else:
            more = f"\n... {len(value) - SHOWN} more (--json)" if len(value) > SHOWN else ""
            table.add_row(name, str(len(value)), "\n".join(_line(entry) for entry in value[:SHOWN]) + more)
    _print(table)


def _print(table: Table) -> None:
    if sys.stdout.isatty():
        Console(markup=False, highlight=False).print(table)
        return
    # A pipe has no width: nothing is cut or folded in it.
    wide = Console(markup=False, highlight=False, width=10_000, file=StringIO())
    wide.print(table)
    print("\n".join(line.rstrip() for line in wide.file.getvalue().splitlines()))  # type: ignore[attr-defined]


def _line(entry: Any) -> str:
    if isinstance(entry, dict):
        return "  ".join(_line(part) for part in entry.values())
    if not isinstance(entry, list):
        return str(entry)
    return ", ".join(map(str, entry[:2])) + (f" and {len(entry) - 2} more" if len(entry) > 2 else "")


def _say(report: dict[str, Any], json: bool, lines: list[str]) -> None:
    print(json_text.dumps(report, indent=1, ensure_ascii=False) if json else "\n".join(filter(None, lines)))


@contextmanager
def _progress(what: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
