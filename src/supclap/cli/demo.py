"""``supclap demo``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from supclap.audio.reader import sound_files
from supclap.encoders import pretrained
from supclap.evaluation.model import Embeddings
from supclap.schema import Hit, UserError
from supclap.searching.scan import search
from supclap.studies.asking import Query, ask, threshold
from supclap.studies.demo import RESULTS, DemoSettings, run_demo, talk
from supclap.studies.demo_report import QUERIES, verdict, write_report
from supclap.studies.first import first_hits
from supclap.training.signals import Stopped


def demo(*, sounds: Path | None = None, out: Path = Path("runs/demo"), json: bool = False) -> int:
    """Train InfoNCE, two controls and SupCLAP on embedded sounds, score them and answer typed queries.

    Parameters
    ----------
    sounds
        A folder of your own: the same queries over it, by pretrained towers (needs the weights of mn04).
    out
        Where runs, results.json and report.html go.
    json
        The scores as JSON.
    """
    begun = time.monotonic()
    _check_sounds(sounds)
    # Said now, as well as what is wrong with the sounds: not after the scenes and the first model.
    out.mkdir(parents=True, exist_ok=True)
    try:
        _say_first(begun)
        # Before the training: what is missing is said now, and there is something to look at.
        found = None if sounds is None else (sounds, _over(sounds))
        made = run_demo(out, DemoSettings(), first=_first_answers)
    except Stopped as stop:
        talk(f"{stop}; the same command starts again")
        return stop.status
    report = write_report(made, found)
    talk(f"done in {time.monotonic() - begun:.0f} s")
    if json:
        print((out / RESULTS).read_text(encoding="utf8"), end="")
        return 0
    scores = {name: one.scores for name, one in made.trained.items()}
    print(f"{'':12}{'T2A R@1':>10}{'A2T R@1':>10}")
    for name, one in scores.items():
        print(f"{name:12}{one['t2a']['R@1']:10.1f}{one['a2t']['R@1']:10.1f}")
    print(verdict(scores))
    print(f"report  {report}")
    return 0


def _check_sounds(sounds: Path | None) -> None:
    if sounds is None:
        return
    if not sounds.is_dir():
        raise UserError(f"--sounds {sounds}: no such folder")
    if not sound_files(sounds):
        raise UserError(f"--sounds {sounds}: no sound file there")
    pretrained.locate("mn04")


def _say_first(begun: float) -> None:
    """Hits of a model of a few seconds, long before the first real one."""
    talk("a few scenes and a model of 40 steps, for a first look")
    hits = first_hits()
    talk(f"first hits after {time.monotonic() - begun:.0f} s, over {hits[0].of} scenes it was not trained on:")
    for hit in hits:
        said = "right" if hit.place == 1 else f"wrong, its own scene is at place {hit.place}"
        found = hit.found.captions[0].text if hit.found.captions else hit.found.id
        talk(f"  {hit.text!r} -> {found!r} ({said})")


def _first_answers(model: Any, seen: Embeddings, val: Embeddings) -> None:
    """What the first model finds, as soon as it is there."""
    for answer in ask(model, QUERIES[:3], seen, threshold(val, seen).value, top=1):
        found = answer.clips[0].captions[0].text if answer.clips else "nothing here matches"
        print(f"demo: {answer.query.text!r} -> {found!r}", file=sys.stderr, flush=True)


def _over(sounds: Path) -> list[tuple[Query, list[Hit]]]:
    """The demo's questions over a folder; those not in English by the multilingual encoder, where it is here."""
    talk(f"listening to {sounds}")
    found = []
    for query in QUERIES:
        model = "bridge" if query.language == "eng" else "bridge:use"
        try:
            hits = search(sounds, query.text, model, top=3, language=query.language)
        except UserError as error:
            if query.language == "eng":
                raise
            talk(f"{query.text!r} was not asked over {sounds}: {error}")
            hits = []
        found.append((query, hits))
        if hits:
            talk(f"  {query.text!r} -> {os.path.relpath(hits[0].path, sounds)}")
    return found
