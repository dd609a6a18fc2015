"""``supclap train``."""

from __future__ import annotations

import json as jsonlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from supclap.data import manifest, quarantine
from supclap.schema import UserError
from supclap.settings import read as read_settings
from supclap.training import choose, config, loop, records, setup, untrained
from supclap.training.compare import RESULT, compare
from supclap.training.curve import DRAWING, learning_curve
from supclap.training.live import Live
from supclap.training.preview import preview
from supclap.training.report import NAME, write_report
from supclap.training.signals import Stopped

AGAIN = "the same command again"


def train(
    *words: str,
    out: Path | None = None,
    recipe: str | None = None,
    resume: Path | None = None,
    dry_run: bool = False,
    curve: bool = False,
    captions_from: str | None = None,
    jobs: int = 1,
    json: bool = False,
) -> int:
    """Train a model on a table, a folder of sounds or a corpus by name.

    Parameters
    ----------
    words
        DATA, then fields to set: supclap train my.csv --out runs/mine epochs=3 objective=bi-dynamic optim.lr=1e-4.
        seeds=[0,1,2,3,4] runs all of them and summarises.
    out
        The run's folder, which is also the saved model; with several recipes or seeds, the folder of their runs.
    recipe
        A recipe by name (small, frozen, real_small, paper/bi-dynamic, ...) or FILE.py:FUNCTION. Several with commas
        between them are trained from the same weights on the same batches and compared with the first.
    resume
        A run to go on with, from its last checkpoint.
    dry_run
        Say what would happen: counts, parameters, memory, time an epoch.
    curve
        How many more captions do I need: train on 1/16, 1/4, 1/2 and all of the data, and draw R@1.
    captions_from
        "names": captions from the words of file and folder names.
    jobs
        With several recipes or seeds: how many runs go on at once, each in a process of its own.
    json
        The result as JSON.
    """
    if resume is not None:
        if words or recipe or out or dry_run or curve:
            raise UserError("--resume takes the run's folder alone: its settings are in run.json")
        return _one(lambda live: loop.resume(resume, callbacks=[live], progress=live.heard), json)
    _check(words, recipe, out, dry_run, curve, jobs)
    recipes = _names(recipe)
    fields, seeds = _fields(words, captions_from)
    notes: list[str] = []
    settings = {name: _settings(asked, fields, notes) for name, asked in recipes.items()}
    for note in dict.fromkeys(notes if _talks() else ()):
        print(f"train: {note}", file=sys.stderr)
    if dry_run:
        return _preview(settings, json)
    assert out is not None
    if jobs != 1 and len(settings) == 1 and seeds is None:
        raise UserError(f"--jobs {jobs}: there is one run; give several recipes (with commas) or seeds=[0,1,2]")
    if curve:
        return _curve(settings, seeds, out, json)
    if len(settings) > 1 or seeds is not None:
        return _several(settings, recipes, seeds, out, jobs, json)
    ((asked, only),) = zip(recipes.values(), settings.values(), strict=True)
    _keep_recipe(asked, out)
    return _one(lambda live: loop.train(only, out=out, callbacks=[live], progress=live.heard), json)


def _check(words: tuple[str, ...], recipe: str | None, out: Path | None, dry_run: bool, curve: bool, jobs: int) -> None:
    """UserError for what is missing, and for what would be left out unseen."""
    if not words and recipe is None:
        raise UserError("DATA is missing; name a table, a folder of sounds or a corpus: supclap train my.csv")
    if out is None and not dry_run:
        raise UserError("--out is missing; name the run's folder: supclap train DATA --out runs/mine")
    if curve and (dry_run or jobs != 1):
        raise UserError("--curve takes neither --dry-run nor --jobs: its runs follow one another")


# -- what was asked for ----------------------------------------------------------------------------------------------


def _names(recipe: str | None) -> dict[str, str | None]:
    """Short name -> recipe as typed: "real_small/infonce" is infonce, "mine.py:cold" is cold."""
    if recipe is None:
        return {"run": None}
    asked = [part.strip() for part in recipe.split(",") if part.strip()]
    found: dict[str, str | None] = {}
    for part in asked:
        name = part.rpartition(":" if ".py:" in part else "/")[2]
        if name in found:
            raise UserError(
                f"recipe={recipe!r}: {found[name]} and {part} would both be called {name}; give one of them"
            )
        found[name] = part
    files = {part.rpartition(":")[0] for part in asked if ".py:" in part}
    if len(files) > 1:
        raise UserError(f"recipe={recipe!r}: put the recipes of {' and '.join(sorted(files))} into one file")
    if not found:
        raise UserError(f"recipe={recipe!r} names none")
    return found


def _fields(words: tuple[str, ...], captions_from: str | None) -> tuple[dict[str, Any], tuple[int, ...] | None]:
    """Fields by name, and the seeds."""
    data = [word for word in words[:1] if "=" not in word]
    fields: dict[str, Any] = dict(config.parse(list(words[len(data) :])))
    fields |= {"data": data[0]} if data else {}
    fields |= {"data.captions_from": captions_from} if captions_from else {}
    seeds = fields.pop("seeds", None)
    if seeds is not None and "seed" in fields:
        raise UserError(f"seed={fields['seed']} and seeds={seeds}: give one of them")
    return fields, None if seeds is None else _seeds(seeds)


def _seeds(text: str) -> tuple[int, ...]:
    try:
        found = jsonlib.loads(text)
    except jsonlib.JSONDecodeError:
        found = None
    if not isinstance(found, list) or not found or any(type(seed) is not int or seed < 0 for seed in found):
        raise UserError(f"seeds={text!r} is not a list of whole numbers from 0 on; write seeds=[0,1,2,3,4]")
    return tuple(found)


def _settings(recipe: str | None, fields: dict[str, Any], notes: list[str]) -> config.RunConfig:
    """The table and the fields, over the recipe that was asked for or that fits; ``notes`` get what to say of it."""
    if recipe is not None:
        settings = config.recipe(recipe, fields)
        clips = None
    else:
        path = fields.get("data") or fields.get("data.path") or ""
        clips = manifest.read(path, captions_from=fields.get("data.captions_from"))
        chosen = choose.choose(clips)
        notes.append(f"recipe {chosen.recipe}: {chosen.reason}")
        settings = config.recipe(chosen.recipe, fields)
    counted = len(setup.splits(settings, clips)["train"])
    settings, note = choose.fitted(settings, counted, fields)
    notes += [note] if note else []
    if settings.train.accumulate > 1:
        notes.append(
            "accumulate averages gradients of separate batches: it adds no negatives. For more of them set batch_size "
            "higher and train.chunk to what fits into memory"
        )
    return settings


def _keep_recipe(recipe: str | None, out: Path) -> None:
    """A recipe file of the user's own is copied into the run, where --resume finds it."""
    if recipe and ".py:" in recipe and not (out / loop.RUN).exists():
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(recipe.rpartition(":")[0], out / config.OWN_RECIPE)


def _talks() -> bool:
    """Whether this process is the first of those that torchrun started, or the only one."""
    return int(os.environ.get("RANK", "0")) == 0


# -- one run, and several --------------------------------------------------------------------------------------------


def _watched(work: Callable[[], Any], lives: Sequence[Live], again: Callable[[Stopped], str]) -> tuple[Any, int]:
    """What the work gives and the exit status, with the terminal given back whatever happens."""
    try:
        return work(), 0
    except Stopped as stop:
        for live in lives:
            live.close()
        print(f"train: {stop}; the state is saved. Go on with: {again(stop)}", file=sys.stderr)
        return None, stop.status
    finally:
        for live in lives:
            live.close()


def _one(work: Callable[[Live], loop.Run], json: bool) -> int:
    live = Live(quiet=not _talks())
    run, status = _watched(
        lambda: work(live), [live], lambda stop: f"supclap train --resume {shlex.quote(str(stop.folder))}"
    )
    if run is not None and _talks():
        _summary(run, json)
    return status


def _several(
    settings: dict[str, config.RunConfig],
    recipes: dict[str, str | None],
    seeds: tuple[int, ...] | None,
    out: Path,
    jobs: int,
    json: bool,
) -> int:
    lives: list[Live] = []
    hearing = Live(quiet=not _talks())

    def watch(name: str) -> list[Live]:
        lives.append(Live(name, quiet=not _talks()))
        return lives[-1:]

    def work() -> Any:
        for name, asked in recipes.items():
            for place in [out / name] if seeds is None else [out / name / f"seed-{seed}" for seed in seeds]:
                _keep_recipe(asked, place)
        return compare(settings, out=out, seeds=seeds, jobs=jobs, watch=watch, progress=hearing.heard, say=hearing.line)

    found, status = _watched(work, lives, lambda stop: AGAIN)
    if not _talks():
        return status
    if found is not None and json:
        print(jsonlib.dumps(found.to_dict(), allow_nan=False))
    elif found is not None:
        print(found.text())
        print(f"result  {out / RESULT}")
    return status


def _curve(settings: dict[str, config.RunConfig], seeds: tuple[int, ...] | None, out: Path, json: bool) -> int:
    if len(settings) > 1 or seeds is not None:
        raise UserError("--curve takes one recipe and one seed")
    lives: list[Live] = []
    hearing = Live(quiet=not _talks())

    def watch(name: str) -> list[Live]:
        lives.append(Live(name, quiet=not _talks()))
        return lives[-1:]

    (only,) = settings.values()
    found, status = _watched(
        lambda: learning_curve(only, out=out, watch=watch, progress=hearing.heard), lives, lambda stop: AGAIN
    )
    if found is not None and _talks():
        print(jsonlib.dumps(found.to_dict(), allow_nan=False) if json else found.text())
        if not json:
            print(f"drawn   {out / DRAWING}")
    return status


def _summary(run: loop.Run, json: bool) -> None:
    best = records.best(run.records) or {}
    told = _beside(run)
    report = run.path / NAME if _is_current(run.path) else write_report(run.path)
    skipped = sum(line["event"] == "skip" for line in run.records)
    aside = len(quarantine.read(run.path / setup.QUARANTINE))
    if json:
        result = {"run": str(run.path), "best": run.best, "best_step": best.get("step")}
        result |= {"skipped": skipped, "quarantined": aside, "untrained": told, "report": str(report)}
        print(jsonlib.dumps(result, allow_nan=False))
        return
    print(f"run     {run.path}")
    if run.best:
        split = f"{best['split']} set, {run.best['clips']} clips, {run.best['captions']} captions"
        print(f"best    step {best['step']} on the {split}")
        for way, name in (("t2a", "text to audio"), ("a2t", "audio to text")):
            row = run.best[way]
            print(f"        {name}   R@1 {row['R@1']:.2f}   R@5 {row['R@5']:.2f}   R@10 {row['R@10']:.2f}")
    if aside:
        print(f"aside   {aside} clips could not be read; why: {run.path / setup.QUARANTINE}")
    if skipped:
        print(f"lost    {skipped} steps were not finite and changed nothing; their clips: {run.path / records.NAME}")
    if told is not None:
        print(f"beside  {untrained.in_words(told)}")
    print(f"report  {report}")


def _is_current(folder: Path) -> bool:
    """Whether the run's report was written after its last record; one of a run that went on tells of its middle."""
    report = folder / NAME
    return report.exists() and report.stat().st_mtime_ns >= (folder / records.NAME).stat().st_mtime_ns


def _beside(run: loop.Run) -> dict[str, Any] | None:
    """The trained model beside the untrained bridge, as found before or now; None without validation data."""
    found = untrained.read(run.path)
    if found is not None or not run.best:
        return found
    settings = read_settings(config.RunConfig, run.path / loop.RUN)
    print("train: comparing with the untrained bridge on the same rows", file=sys.stderr)
    try:
        return untrained.beside(run.path, run.model, settings, setup.splits(settings))
    except UserError as error:
        return {"reason": str(error)}


def _preview(settings: dict[str, config.RunConfig], json: bool) -> int:
    """One recipe's preview as it is, several by name."""
    told = {name: preview(one) for name, one in settings.items()}
    if json:
        print(jsonlib.dumps(next(iter(told.values())) if len(told) == 1 else told))
        return 0
    for name, one in told.items():
        if len(told) > 1:
            print(f"recipe      {name}")
        _show_preview(one)
    return 0


def _show_preview(told: dict[str, Any]) -> None:
    clips, parameters = told["clips"], told["parameters"]
    print(f"clips       {clips['train']} train, {clips['val']} val, {clips['test']} test")
    print(f"parameters  {parameters['all']:,}, of which {parameters['learned']:,} learn")
    print(f"memory      {told['memory_mb']} MB of weights, gradients and moments; activations come on top")
    print(f"steps       {told['steps']}, {told['seconds_a_step']:.3f} s each")
    print(f"time        {told['seconds_an_epoch']} s an epoch, {told['seconds_in_all']} s in all")
