"""``supclap evaluate``: a model on a table of clips."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TypeVar

from supclap.cli.score import show
from supclap.data import manifest
from supclap.data.scenes import read_truths
from supclap.data.split import SPLITS
from supclap.encoders import hub
from supclap.evaluation import model as evaluation
from supclap.evaluation import probes, translations
from supclap.evaluation.probes import ProbeScore
from supclap.evaluation.translations import Quality
from supclap.evaluation.zeroshot import TEMPLATE, Classification
from supclap.report import tables
from supclap.schema import Clip, UserError, unknown
from supclap.settings import make
from supclap.training import identity, setup
from supclap.training.config import DataSettings, RunConfig
from supclap.training.loop import RUN, TABLE

T = TypeVar("T")

TASKS = ("auto", "retrieval", "zeroshot", "probes", "captions")


def evaluate(
    model: str,
    data: str,
    *,
    task: str = "auto",
    protocol: str = "mlclap",
    split: str | None = None,
    template: list[str] | None = None,
    language: str = "eng",
    separator: str | None = None,
    batch_size: int = 32,
    workers: int = 0,
    skip_unreadable: bool = False,
    json: bool = False,
) -> None:
    """Evaluate a model on a table: retrieval by a named protocol, zero-shot classification, or probes.

    Parameters
    ----------
    model
        A run, a saved folder, a hub id, "bridge", "hf:..." or "st:...".
    data
        A table, a corpus by name, a folder of sounds: what `supclap train` takes.
    task
        retrieval; zeroshot (by label); probes (order, binding, count, negation, composition: for a folder of
        `supclap corpus compose`); captions (do translations keep the meaning, by the model's text side); auto:
        retrieval where clips have captions of their own, else zeroshot.
    protocol
        mlclap, laion, dcase, mteb, cacophony, one-caption or wavcaps-paper.
    split
        Only the clips of this split. A table without a split column is divided as training divides it.
    template
        A text around each {label}; several are averaged. Default: "This is a sound of {label}".
    language
        The language of the templates or of the probes, or the one that captions were translated from.
    separator
        What stands between the labels of a clip that has several.
    batch_size
        Windows embedded at once.
    workers
        Threads that read sounds.
    skip_unreadable
        Leave out clips that cannot be read, and say how many.
    json
        Print JSON.
    """
    if task not in TASKS:
        raise unknown("--task", task, TASKS)
    clips = evaluation.of_split(_divided(model, manifest.read(data), split), split)
    _warn_of_train(model, clips)
    if task == "captions":
        show_captions(translations.evaluate(hub.load(model), clips, reference=language), json)
        return
    if task == "probes":
        found_probes = probes.evaluate_model(
            hub.load(model), clips, read_truths(data), language=language, batch_size=batch_size, workers=workers
        )
        show_probes(found_probes, json)
        return
    if _task(task, clips) == "zeroshot":
        found = evaluation.evaluate_zeroshot(
            hub.load(model),
            clips,
            templates=tuple(template or (TEMPLATE,)),
            language=language,
            separator=separator,
            batch_size=batch_size,
            workers=workers,
        )
        show_classes(found, json)
        return
    scores = evaluation.evaluate_model(
        hub.load(model),
        clips,
        protocol=protocol,
        split=split,
        batch_size=batch_size,
        workers=workers,
        on_error="drop" if skip_unreadable else "raise",
    )
    show(scores, json)


def _divided(model: str, clips: list[Clip], split: str | None) -> list[Clip]:
    """The clips with the split that training gives them, where the table does not say."""
    named = {clip.split for clip in clips}
    if split not in SPLITS or split in named or not (named == {None} or (split == "val" and "train" in named)):
        return clips
    print("supclap: note: the table does not name this split: divided by recording, as training does", file=sys.stderr)
    found = setup.splits(RunConfig(data=_run(model, RUN, DataSettings())), clips)
    return [clip for side in found.values() for clip in side]


def _run(model: str, name: str, otherwise: T) -> T:
    """What a run keeps of its data: the settings in run.json, or data.json; ``otherwise`` where the model is no run."""
    path = Path(model) / name
    if not path.is_file():
        return otherwise
    try:
        held = json_module.loads(path.read_text(encoding="utf8"))
        return make(DataSettings, held["data"], where=str(path)) if name == RUN else held  # type: ignore[return-value]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not what a run writes ({error})") from error


def _warn_of_train(model: str, clips: list[Clip]) -> None:
    """Say how many of the clips the run has learned from."""
    before: dict[str, str] = _run(model, TABLE, {})
    now = identity.table({"train": clips}) if before else {}
    seen = sum(before.get(name) == said for name, said in now.items())
    if seen:
        print(
            f"supclap: note: {seen} of {len(clips)} clips are those that {model} was trained on; "
            "--split test takes the others",
            file=sys.stderr,
        )


def _task(task: str, clips: list[Clip]) -> str:
    if task != "auto":
        return task
    if any(clip.captions for clip in clips) and not _captions_are_labels(clips):
        return "retrieval"
    if any(clip.label for clip in clips):
        print("supclap: note: labels, no captions of single clips: zero-shot classification", file=sys.stderr)
        return "zeroshot"
    raise UserError("the table has neither captions nor labels; nothing to evaluate against")


def _captions_are_labels(clips: list[Clip]) -> bool:
    """Whether captions only repeat the labels, as in labelled corpora: many clips would be right for each."""
    labels = {clip.label for clip in clips}
    texts = {caption.text for clip in clips for caption in clip.captions}
    return None not in labels and len(labels) < len(clips) and len(texts) <= len(labels)


def show_captions(found: list[Quality], json: bool) -> None:
    """The result on stdout: JSON, or a row a language."""
    if json:
        print(json_module.dumps({"captions": [row.to_dict() for row in found]}))
        return
    rows = [[row.language, (row.similarity, row.low, row.high), row.floor, row.captions] for row in found]
    print(tables.text(rows, ["language", "similarity", "random pairs", "captions"], digits=3), end="")


def show_probes(found: list[ProbeScore], json: bool) -> None:
    """The result on stdout: JSON, or a row a kind of question."""
    if json:
        print(json_module.dumps({"probes": [score.to_dict() for score in found]}))
        return
    rows = [[s.kind, (s.accuracy, s.low, s.high), s.chance, s.questions] for s in found]
    print(tables.text(rows, ["what is asked", "right, %", "chance, %", "questions"]), end="")


def show_classes(found: Classification, json: bool) -> None:
    """The result on stdout: JSON, or the numbers with intervals, a table by class and the commonest mistakes."""
    if json:
        print(json_module.dumps(found.to_dict(), ensure_ascii=False))
        return
    rows: list[tables.Row] = [[f"top-{k}", (found[f"top{k}"], *found.interval(f"top{k}"))] for k in (1, 5)]
    rows.append(["mAP", found["mAP"]])
    print(
        tables.text(rows, ["", "percent"], title=f"{found.about}: {found['clips']} clips, {found['classes']} classes")
    )
    by_class = [[label, row["clips"], row["top1"], row["AP"]] for label, row in found["per_class"].items()]
    print(tables.text(by_class, ["label", "clips", "top-1", "AP"]))
    if not found.several and found.confused(1):
        print(tables.text(found.confused(), ["label", "taken for", "times"]), end="")
