"""``supclap evaluate``: a model on a table of clips; several models, or several tables, side by side."""

from __future__ import annotations

import json as json_module
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from supclap.cli import leaks as shared
from supclap.cli import shown
from supclap.cli.shown import Shown
from supclap.data import manifest
from supclap.data.scenes import read_truths
from supclap.data.split import SPLITS
from supclap.encoders import hub
from supclap.evaluation import linear, probes, queries, query_files, query_scores, translations
from supclap.evaluation import model as evaluation
from supclap.evaluation.zeroshot import TEMPLATE, Classification
from supclap.schema import Clip, UserError, unknown
from supclap.settings import make
from supclap.training import setup
from supclap.training.config import DataSettings, RunConfig
from supclap.training.loop import RUN

T = TypeVar("T")

TASKS = ("auto", "retrieval", "zeroshot", "linear", "fewshot", "probes", "queries", "captions")


@dataclass(frozen=True)
class Asked:
    """Everything but the model and the table."""

    task: str
    protocol: str
    split: str | None
    train_split: str
    templates: tuple[str, ...]
    language: str
    separator: str | None
    again: Path | None
    queries: Path | None
    leaks: str
    batch_size: int
    workers: int
    skip_unreadable: bool

    def reading(self) -> dict[str, Any]:
        """How sounds are read."""
        return {"batch_size": self.batch_size, "workers": self.workers}


def evaluate(
    model: str,
    data: str,
    *,
    task: str = "auto",
    protocol: str = "mlclap",
    split: str | None = None,
    train_split: str = "train",
    template: list[str] | None = None,
    language: str = "eng",
    separator: str | None = None,
    queries: Path | None = None,
    again: Path | None = None,
    leaks: str = "note",
    batch_size: int = 32,
    workers: int = 0,
    skip_unreadable: bool = False,
    format: str | None = None,
    json: bool = False,
) -> None:
    """Evaluate a model on a table: retrieval by a named protocol, classification, probes, or typed queries.

    Parameters
    ----------
    model
        A run, a saved folder, a hub id, "bridge", "hf:..." or "st:...". Several with commas between them are scored
        on the same clips and compared with the first, with Holm's correction.
    data
        A table, a corpus by name, a folder of sounds: what `supclap train` takes. Several with commas between them:
        every model on every table (the transfer matrix).
    task
        retrieval; zeroshot (by label); linear, fewshot (a classifier on the embeddings, fitted on --train-split);
        probes (order, binding, count, negation, composition), queries (search as people type it): for a folder of
        `supclap corpus compose`; captions (do translations keep the meaning, by the model's text side); auto:
        retrieval where clips have captions of their own, else zeroshot.
    protocol
        mlclap, laion, dcase, mteb, cacophony, one-caption or wavcaps-paper.
    split
        Only the clips of this split. A table without a split column is divided as training divides it.
    train_split
        The split that linear and fewshot fit their classifier on, or several: fold1,fold2,fold3.
    template
        A text around each {label}; several are averaged. Default: "This is a sound of {label}".
    language
        The language of the templates or of the probes, or the one that captions were translated from.
    separator
        What stands between the labels of a clip that has several.
    queries
        For --task queries: a file of queries (query, type, clip_id, ...; or User-Intent Queries as published).
    again
        For --task captions: a table of the same clips whose captions are the re-translated ones.
    leaks
        Clips whose recordings a run has learned from: note says how many, drop leaves them out, refuse stops.
    batch_size
        Windows embedded at once.
    workers
        Threads that read sounds.
    skip_unreadable
        Leave out clips that cannot be read, and say how many.
    format
        table, json, csv, or latex (rows in the paper's layout).
    json
        The same as --format json.
    """
    if task not in TASKS:
        raise unknown("--task", task, TASKS)
    if leaks not in shared.CHOICES:
        raise unknown("--leaks", leaks, shared.CHOICES)
    for name, value, needed in (("--queries", queries, "queries"), ("--again", again, "captions")):
        if value is not None and task != needed:
            raise UserError(f"{name} goes with --task {needed}, not with --task {task}")
    form = shown.form(json, format)
    asked = Asked(
        task=task,
        protocol=protocol,
        split=split,
        train_split=train_split,
        templates=tuple(template or (TEMPLATE,)),
        language=language,
        separator=separator,
        again=again,
        queries=queries,
        leaks=leaks,
        batch_size=batch_size,
        workers=workers,
        skip_unreadable=skip_unreadable,
    )
    models, tables = several("model", model), several("data", data)
    if len(models) * len(tables) > 1:
        from supclap.cli.matrix import matrix

        shown.show(matrix(models, tables, asked), form)
        return
    shown.show(_one(next(iter(models.values())), data, asked), form)


def several(what: str, given: str) -> dict[str, str]:
    """Short name -> what was given; commas part several, unless the whole names something that is there."""
    parts = [given] if Path(given).exists() else [part.strip() for part in given.split(",") if part.strip()]
    if not parts:
        raise UserError(f"{what}={given!r} names none")
    short = [Path(part.partition(":")[2] or part).name or part for part in parts]
    twice = [part for part in parts if parts.count(part) > 1]
    if twice:
        raise UserError(f"{what}={given!r} names {twice[0]} twice; give each once")
    return {part if short.count(name) > 1 else name: part for name, part in zip(short, parts, strict=True)}


def clips_of(model: str, data: str, asked: Asked) -> tuple[list[Clip], list[str], int]:
    """The clips to score, without those of other splits; notes; and how many the run has learned from."""
    clips = evaluation.of_split(divided(model, manifest.read(data), asked.split), asked.split)
    return shared.without(model, data, clips, asked.leaks)


def _one(model: str, data: str, asked: Asked) -> Shown:
    clips, notes, _ = clips_of(model, data, asked)
    asked = replace(asked, task=task_of(asked.task, clips))
    for note in notes:
        print(f"supclap: note: {note}", file=sys.stderr)
    name = next(iter(several("model", model)))
    if asked.task == "retrieval":
        return shown.retrieval({name: {next(iter(several("data", data))): scores(hub.load(model), clips, asked)}})
    if asked.task in ("linear", "fewshot"):
        return _classified(model, manifest.read(data), clips, asked)
    if asked.task == "zeroshot":
        return shown.classes(_zeroshot(hub.load(model), clips, asked), name)
    if asked.task == "captions":
        return shown.captions(_translated(hub.load(model), clips, asked))
    if asked.task == "queries":
        return _queried(hub.load(model), data, clips, asked)
    truths = read_truths(data)
    return shown.probes(
        probes.evaluate_model(hub.load(model), clips, truths, language=asked.language, **asked.reading())
    )


def _zeroshot(model: Any, clips: list[Clip], asked: Asked) -> Classification:
    return evaluation.evaluate_zeroshot(
        model,
        clips,
        templates=asked.templates,
        language=asked.language,
        separator=asked.separator,
        **asked.reading(),
    )


def scores(model: Any, clips: list[Clip], asked: Asked) -> Any:
    """Retrieval by the protocol that was asked for."""
    on_error = "drop" if asked.skip_unreadable else "raise"
    return evaluation.evaluate_model(
        model, clips, protocol=asked.protocol, split=asked.split, on_error=on_error, **asked.reading()
    )


def _queried(model: Any, data: str, clips: list[Clip], asked: Asked) -> Shown:
    notes: tuple[str, ...] = ()
    if asked.queries is not None:
        read = query_files.read(asked.queries, clips)
        found, notes = read.queries, read.notes
    else:
        truths = read_truths(data)
        known = [clip for clip in clips if clip.id in truths]
        clips = known or clips
        found = queries.queries({clip.id: truths[clip.id] for clip in known})
    split = asked.split or evaluation.only_split(clips)
    return shown.queries(query_scores.evaluate_model(model, clips, found, split=split, notes=notes, **asked.reading()))


def _translated(model: Any, clips: list[Clip], asked: Asked) -> list[translations.Quality]:
    if asked.again is None:
        return translations.evaluate(model, clips, reference=asked.language)
    return translations.evaluate_again(model, clips, manifest.read(str(asked.again)), reference=asked.language)


def _classified(model: str, table: list[Clip], clips: list[Clip], asked: Asked) -> Shown:
    """A classifier fitted on one split's embeddings and tried on the clips, without those it was fitted on."""
    train = _fitted_on(model, table, asked.train_split)
    known = {clip.id for clip in train}
    test = [clip for clip in clips if clip.id not in known]
    if not test:
        raise UserError(
            f"all {len(clips)} clips are of --train-split {asked.train_split}, which is fitted on; name --split"
        )
    tried_on, heard = ({clip.source for clip in part if clip.source is not None} for part in (test, train))
    both = tried_on & heard
    if both:
        print(
            f"supclap: note: {len(both)} recordings are among the clips tried and among those fitted on ({min(both)})",
            file=sys.stderr,
        )
    loaded = hub.load(model)
    rows = [evaluation.labelled_rows(loaded, part, **asked.reading()) for part in (train, test)]
    (fitted, names), (tried, truth) = rows
    if asked.task == "linear":
        return shown.classes(linear.fit(fitted, names).evaluate(tried, truth), Path(model).name)
    fewest = min(names.count(label) for label in set(names))
    shots = [count for count in (1, 2, 4, 8, 16) if count <= fewest]
    found = linear.few_shot(fitted, names, tried, truth, shots=shots)
    return shown.few_shot(found, len(set(names)), len(test))


def _fitted_on(model: str, table: list[Clip], split: str) -> list[Clip]:
    """The clips of one split, or of several with commas between them (folds)."""
    table = divided(model, table, split)
    names = [split] if split in {clip.split for clip in table} else [part.strip() for part in split.split(",")]
    known = sorted({clip.split for clip in table if clip.split is not None})
    for name in names:
        if name not in known:
            raise unknown("--train-split", name, known)
    return [clip for clip in table if clip.split in names]


def divided(model: str, clips: list[Clip], split: str | None) -> list[Clip]:
    """The clips with the split that training gives them, where the table does not say."""
    named = {clip.split for clip in clips}
    if split not in SPLITS or split in named or not (named == {None} or (split == "val" and "train" in named)):
        return clips
    print("supclap: note: the table does not name this split: divided by recording, as training does", file=sys.stderr)
    found = setup.splits(RunConfig(data=_run(model, RUN, DataSettings())), clips)
    return [clip for side in found.values() for clip in side]


def _run(model: str, name: str, otherwise: T) -> T:
    """What a run keeps of its data: the settings in run.json; ``otherwise`` where the model is no run."""
    path = Path(model) / name
    if not path.is_file():
        return otherwise
    try:
        held = json_module.loads(path.read_text(encoding="utf8"))
        return make(DataSettings, held["data"], where=str(path))  # type: ignore[return-value]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not what a run writes ({error})") from error


def task_of(task: str, clips: list[Clip]) -> str:
    """What auto stands for."""
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
