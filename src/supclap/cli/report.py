"""``supclap report``."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path

from supclap.training import records
from supclap.training.report import in_words, write_report


def report(run: Path, *, listen: bool = True, json: bool = False) -> int:
    """Write RUN/report.html: scores, curves, failures to listen to, settings and environment.

    Parameters
    ----------
    run
        A run's folder.
    listen
        Embed the validation split again and show what went wrong, to play; --no-listen leaves it out.
    json
        The summary as JSON.
    """
    path = write_report(run, listen=listen)
    lines = records.read(run)
    if json:
        print(jsonlib.dumps({"report": str(path), "summary": in_words(lines), "best": records.best(lines)}))
        return 0
    print(in_words(lines))
    print(f"report  {path}")
    return 0
