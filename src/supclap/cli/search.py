"""``supclap search``: a question to a folder of sounds."""

from __future__ import annotations

import json as text
import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from supclap.cli.meter import Meter, shown
from supclap.schema import Hit, UserError
from supclap.searching.page import write_page
from supclap.searching.scan import Answer, Question, answer

_BAR = 12
BRIDGE_NOTE = "model: AudioSet-supervised tagger, label bridge"


def search(
    folder_or_index: Path,
    *query: str,
    model: str = "bridge",
    by: Path | None = None,
    not_: Annotated[str | None, Parameter(name="--not")] = None,
    clauses: bool = False,
    under: str | None = None,
    top: int = 10,
    language: str = "eng",
    workers: int = 0,
    page: Path | None = None,
    json: bool = False,
) -> int:
    """Find the sounds of a folder that answer a question. The first call embeds them, later ones take what is kept.

    Parameters
    ----------
    folder_or_index
        A folder of sounds, or one that `supclap embed --windows each` wrote.
    query
        What to look for, in words; several are answered one after the other.
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
    page
        An HTML file of the hits to play and to share, the sounds inside it.
    json
        One JSON object on stdout; a list of them where several things are asked.
    """
    if page is not None and not page.parent.is_dir():
        raise UserError(f"page={str(page)!r}: there is no folder {page.parent}")
    if page is not None and page.is_dir():
        raise UserError(f"page={str(page)!r} is a folder; name the file: {page / 'hits.html'}")
    questions = [Question(words, by, not_, clauses, language) for words in query or (None,)]
    for question in questions:
        question.check()
    found = []
    meter = Meter()
    try:
        for question in questions:
            options: dict[str, Any] = {"top": top, "under": under, "workers": workers, "progress": meter}
            found.append(answer(folder_or_index, question, model, **options))
    except KeyboardInterrupt:
        meter.close()
        print("stopped; what is embedded is kept, the next call goes on from there", file=sys.stderr)
        raise
    meter.close()
    _talk(found, model)
    if page is not None:
        write_page(page, list(zip(questions, found, strict=True)), f"{folder_or_index}, asked of {model}")
        print(f"page: {page}", file=sys.stderr)
    if json:
        plain = [_plain(one, question, model) for question, one in zip(questions, found, strict=True)]
        print(text.dumps(plain[0] if len(plain) == 1 else plain, ensure_ascii=False, indent=1))
        return 0
    for question, one in zip(questions, found, strict=True):
        if len(found) > 1:
            print(f"{question.text}:")
        _show(one)
    return 0


def _talk(answers: list[Answer], model: str) -> None:
    # Each call looks at the folder anew; what the first one had to embed is news, and so is what could not be read.
    found = answers[0]
    note = f"; {BRIDGE_NOTE}" if model.split(":")[0] == "bridge" else ""
    print(f"{found.files:,} files, {found.windows:,} windows, {found.computed:,} embedded now{note}", file=sys.stderr)
    for path, reason in sorted({pair for one in answers for pair in one.unreadable}):
        print(f"unreadable: {shown(path)}: {reason}", file=sys.stderr)


def _plain(found: Answer, question: Question, model: str) -> dict[str, object]:
    return {
        "query": question.text,
        "model": model,
        "files": found.files,
        "windows": found.windows,
        "calibrated": found.threshold is not None,
        "nothing": found.nothing,
        "hits": [asdict(hit) for hit in found.hits],
        "unreadable": [{"audio": path, "reason": reason} for path, reason in found.unreadable],
    }


def _show(found: Answer) -> None:
    if found.nothing:
        print(f"nothing here matches (the best is below the threshold of {found.threshold:.2f}); the nearest:")
    if found.threshold is None:
        print(f"scores are raw: {found.raw}", file=sys.stderr)
    for rank, hit in enumerate(found.hits, 1):
        sure = "" if hit.probability is None else f"  {hit.probability:4.0%}"
        print(f"{rank:3d}  {_bar(hit)}  {hit.score:+.3f}{sure}  {_span(hit):>13}  {shown(hit.path)}")
    if found.hits:
        first = found.hits[0]
        seconds = f"-ss {first.start:g} -t {max(first.end - first.start, 0.1):g} "
        # A file of the folder "." may begin with a dash.
        place = first.path if os.path.isabs(first.path) else os.path.join(".", first.path)
        print(f"play: ffplay -nodisp -autoexit {seconds}{shlex.quote(place)}", file=sys.stderr)


def _bar(hit: Hit) -> str:
    share = hit.score if hit.probability is None else hit.probability
    filled = round(_BAR * min(max(share, 0.0), 1.0))
    return "█" * filled + "·" * (_BAR - filled)


def _span(hit: Hit) -> str:
    return f"{hit.start:.1f}-{hit.end:.1f} s"
