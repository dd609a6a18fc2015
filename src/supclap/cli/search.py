"""``supclap search``: a question to a folder of sounds."""

from __future__ import annotations

import json as text
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from supclap.cli.meter import Meter
from supclap.schema import Hit
from supclap.searching.scan import Answer, Question, answer

_BAR = 12
BRIDGE_NOTE = "model: AudioSet-supervised tagger, label bridge"


def search(
    folder_or_index: Path,
    query: str | None = None,
    *,
    model: str = "bridge",
    by: Path | None = None,
    not_: Annotated[str | None, Parameter(name="--not")] = None,
    clauses: bool = False,
    under: str | None = None,
    top: int = 10,
    language: str = "eng",
    workers: int = 0,
    json: bool = False,
) -> int:
    """Find the sounds of a folder that answer a question. The first call embeds them, later ones take what is kept.

    Parameters
    ----------
    folder_or_index
        A folder of sounds, or one that `supclap embed --windows each` wrote.
    query
        What to look for, in words.
    model
        bridge, bridge:use (multilingual), a run, a saved model or a hub id.
    by
        A sound file: look for others like it.
    not_
        What shall not be heard.
    clauses
        Ask each part of "a dog barks, then rain falls" by itself.
    under
        Only this folder inside, by name or pattern: environment/weather, "*/weather*".
    top
        How many files to show.
    language
        The language of the query: eng, fra, jpn and so on.
    workers
        Threads that decode; 0: as many as there are cores, at most four.
    json
        One JSON object on stdout.
    """
    meter = Meter()
    question = Question(query, by, not_, clauses, language)
    try:
        found = answer(folder_or_index, question, model, top=top, under=under, workers=workers, progress=meter)
    except KeyboardInterrupt:
        meter.close()
        print("stopped; what is embedded is kept, the next call goes on from there", file=sys.stderr)
        raise
    meter.close()
    _talk(found, model)
    if json:
        print(text.dumps(_plain(found, model), ensure_ascii=False, indent=1))
        return 0
    _show(found)
    return 0


def _talk(found: Answer, model: str) -> None:
    note = f"; {BRIDGE_NOTE}" if model.split(":")[0] == "bridge" else ""
    print(f"{found.files:,} files, {found.windows:,} windows, {found.computed:,} embedded now{note}", file=sys.stderr)
    for path, reason in found.unreadable:
        print(f"unreadable: {path}: {reason}", file=sys.stderr)


def _plain(found: Answer, model: str) -> dict[str, object]:
    return {
        "model": model,
        "files": found.files,
        "windows": found.windows,
        "calibrated": found.threshold is not None,
        "nothing": nothing(found),
        "hits": [asdict(hit) for hit in found.hits],
        "unreadable": [{"audio": path, "reason": reason} for path, reason in found.unreadable],
    }


def nothing(found: Answer) -> bool:
    """Whether a calibrated model holds even the best hit for no match."""
    best = max((hit.probability for hit in found.hits if hit.probability is not None), default=None)
    return best is not None and found.threshold is not None and best < found.threshold


def _show(found: Answer) -> None:
    if nothing(found):
        print(f"nothing here matches (the best is below the threshold of {found.threshold:.2f}); the nearest:")
    if found.threshold is None:
        print("scores are raw: this model is not calibrated (supclap calibrate)", file=sys.stderr)
    for rank, hit in enumerate(found.hits, 1):
        sure = "" if hit.probability is None else f"  {hit.probability:4.0%}"
        print(f"{rank:3d}  {_bar(hit)}  {hit.score:+.3f}{sure}  {_span(hit):>13}  {hit.path}")
    if found.hits:
        first = found.hits[0]
        seconds = f"-ss {first.start:g} -t {max(first.end - first.start, 0.1):g} "
        print(f"play: ffplay -nodisp -autoexit {seconds}{shlex.quote(first.path)}", file=sys.stderr)


def _bar(hit: Hit) -> str:
    share = hit.score if hit.probability is None else hit.probability
    filled = round(_BAR * min(max(share, 0.0), 1.0))
    return "█" * filled + "·" * (_BAR - filled)


def _span(hit: Hit) -> str:
    return f"{hit.start:.1f}-{hit.end:.1f} s"
