"""``supclap models list | fetch | add``: weights by name, in one cache folder."""

from __future__ import annotations

import json as text
import sys
from pathlib import Path

from supclap.encoders import pretrained


def list_models(*, json: bool = False) -> int:
    """Every name, whether it is here, its size, its licence and where it comes from.

    Parameters
    ----------
    json
        The table as JSON.
    """
    rows = pretrained.listing()
    if json:
        print(text.dumps(rows, indent=1))
        return 0
    wide = max(len(str(row["name"])) for row in rows)
    for row in rows:
        size = f"{int(str(row['bytes'])) / 1e6:.1f} MB" if row["bytes"] else "-"
        here = "here" if row["here"] else "-"
        print(f"{row['name']:<{wide}}  {here:<4}  {size:>8}  {row['about']}; {row['licence']}; {row['source']}")
    return 0


def fetch(name: str, *, json: bool = False) -> int:
    """Download the weights of NAME into the cache folder; a stopped download goes on where it was.

    Parameters
    ----------
    name
        A name of `supclap models list`.
    json
        Name, path and licence as one JSON object.
    """
    return _say(name, pretrained.fetch(name), json)


def add(name: str, file: Path, *, json: bool = False) -> int:
    """Put a FILE (or folder) that you have under NAME, after checking its hash.

    Parameters
    ----------
    name
        A name of `supclap models list`.
    file
        The file (or folder) as its publisher gives it; it is copied into the cache folder.
    json
        Name, path and licence as one JSON object.
    """
    return _say(name, pretrained.add(name, file), json)


def _say(name: str, path: Path, json: bool) -> int:
    entry = pretrained.entry_of(name)
    if not entry.commercial:
        print(f"supclap: {name}: {entry.licence}; not for commercial use", file=sys.stderr)
    print(text.dumps({"name": name, "path": str(path), "licence": entry.licence}) if json else path)
    return 0
