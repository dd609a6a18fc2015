"""Answers as one HTML file with the sounds in it: to listen, to judge, to send to somebody."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from supclap.audio import reader
from supclap.report import html
from supclap.schema import Hit, UserError
from supclap.searching.scan import Answer, Question

_RATE = 16000
_MOST_SECONDS = 10.0


def write_page(place: str | os.PathLike[str], asked: Sequence[tuple[Question, Answer]], subtitle: str = "") -> None:
    """Write the page, whole or not at all."""
    target = Path(place)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.write_text(page(asked, subtitle), encoding="utf8", errors="backslashreplace")
    temporary.replace(target)


def page(asked: Sequence[tuple[Question, Answer]], subtitle: str = "") -> str:
    """The page of some questions and their answers, the best hit of each first."""
    sections = [(_heading(question), _said(found) + html.cards(map(_card, found.hits))) for question, found in asked]
    first = asked[0][1]
    about = f"{first.files:,} files, the nearest {len(first.hits)} of each question; {subtitle}"
    return html.page("What was found", sections, subtitle=about)


def _heading(question: Question) -> str:
    words = question.text or "like the example"
    return words if question.not_ is None else f"{words}, not {question.not_}"


def _said(found: Answer) -> str:
    if found.nothing:
        return html.text(f"nothing here matches: the likeliest is at {found.best:.0%}; the nearest:", "bad")
    return html.text(f"scores are raw: {found.raw}", "soft") if found.raw else ""


def _card(hit: Hit) -> str:
    sure = f"score {hit.score:.2f}" if hit.probability is None else f"{hit.probability:.0%}, score {hit.score:.2f}"
    end = min(hit.end, hit.start + _MOST_SECONDS)
    try:
        sound = html.audio(reader.read(hit.path, _RATE, hit.start, end), _RATE, hit.path)
    except (UserError, OSError) as error:
        # It was there a moment ago; the others are still worth a page.
        sound = html.text(str(error), "bad")
    return html.text(f"{Path(hit.path).parent.name}/{Path(hit.path).name}") + html.text(sure, "soft") + sound
