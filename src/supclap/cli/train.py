"""``supclap train``."""

from __future__ import annotations

import json as jsonlib
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from supclap.data import manifest
from supclap.schema import UserError
from supclap.training import choose, config, loop, setup
from supclap.training.live import Live
from supclap.training.preview import preview
from supclap.training.signals import Stopped


def train(
    *words: str,
    out: Path | None = None,
    recipe: str | None = None,
    resume: Path | None = None,
    dry_run: bool = False,
    captions_from: str | None = None,
    json: bool = False,
) -> int:
    """Train a model on a table, a folder of sounds or a corpus by name.

    Parameters
    ----------
    words
        DATA, then fields to set: supclap train my.csv --out runs/mine epochs=3 objective=bi-dynamic optim.lr=1e-4
    out
        The run's folder, which is also the saved model.
    recipe
        A recipe by name (small, frozen, real_small, paper/bi-dynamic, ...) or FILE.py:FUNCTION.
    resume
        A run to go on with, from its last checkpoint.
    dry_run
        Say what would happen: counts, parameters, memory, time an epoch.
    captions_from
        "names": captions from the words of file and folder names.
    json
        The result as JSON.
    """
    if resume is not None:
        if words or recipe or out or dry_run:
            raise UserError("--resume takes the run's folder alone: its settings are in run.json")
        return _watched(lambda live: loop.resume(resume, callbacks=[live], progress=live.heard), json)
    if not words and recipe is None:
        raise UserError("DATA is missing; name a table, a folder of sounds or a corpus: supclap train my.csv")
    if out is None and not dry_run:
        raise UserError("--out is missing; name the run's folder: supclap train DATA --out runs/mine")
    settings, notes = _settings(words, recipe, captions_from)
    for note in notes:
        print(f"train: {note}", file=sys.stderr)
    if dry_run:
        return _preview(settings, json)
    assert out is not None
    _keep_recipe(recipe, out)
    return _watched(lambda live: loop.train(settings, out=out, callbacks=[live], progress=live.heard), json)


def _settings(
    words: tuple[str, ...], recipe: str | None, captions_from: str | None
) -> tuple[config.RunConfig, list[str]]:
    """The table and the fields, over the recipe that was asked for or that fits."""
    data = [word for word in words[:1] if "=" not in word]
    fields: dict[str, Any] = dict(config.parse(list(words[len(data) :])))
    fields |= {"data": data[0]} if data else {}
    fields |= {"data.captions_from": captions_from} if captions_from else {}
    notes: list[str] = []
    if recipe is not None:
        settings = config.recipe(recipe, fields)
        clips = None
    else:
        path = fields.get("data") or fields.get("data.path") or ""
        clips = manifest.read(path, captions_from=captions_from)
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
    return settings, notes


def _keep_recipe(recipe: str | None, out: Path) -> None:
    """A recipe file of the user's own is copied into the run, where --resume finds it."""
    if recipe and ".py:" in recipe and not (out / loop.RUN).exists():
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(recipe.rpartition(":")[0], out / config.OWN_RECIPE)


def _watched(work: Any, json: bool) -> int:
    live = Live()
    try:
        run = work(live)
    except Stopped as stop:
        live.close()
        folder = shlex.quote(str(stop.folder))
        print(f"train: {stop}; the state is saved. Go on with: supclap train --resume {folder}", file=sys.stderr)
        return stop.status
    finally:
        live.close()
    _summary(run, json)
    return 0


def _summary(run: loop.Run, json: bool) -> None:
    best = next((line for line in run.records if line.get("scores") == run.best), {})
    if json:
        skipped = sum(line["event"] == "skip" for line in run.records)
        result = {"run": str(run.path), "best": run.best, "best_step": best.get("step"), "skipped": skipped}
        print(jsonlib.dumps(result, allow_nan=False))
        return
    print(f"run    {run.path}")
    if run.best:
        split = f"{best['split']} split, {run.best['clips']} clips, {run.best['captions']} captions"
        print(f"best   step {best['step']} on the {split}")
        for way, name in (("t2a", "text to audio"), ("a2t", "audio to text")):
            row = run.best[way]
            print(f"       {name}   R@1 {row['R@1']:.2f}   R@5 {row['R@5']:.2f}   R@10 {row['R@10']:.2f}")
    print(f"next   supclap report {run.path}")


def _preview(settings: config.RunConfig, json: bool) -> int:
    told = preview(settings)
    if json:
        print(jsonlib.dumps(told))
        return 0
    clips, parameters = told["clips"], told["parameters"]
    print(f"clips       {clips['train']} train, {clips['val']} val, {clips['test']} test")
    print(f"parameters  {parameters['all']:,}, of which {parameters['learned']:,} learn")
    print(f"memory      {told['memory_mb']} MB of weights, gradients and moments; activations come on top")
    print(f"steps       {told['steps']}, {told['seconds_a_step']:.3f} s each")
    print(f"time        {told['seconds_an_epoch']} s an epoch, {told['seconds_in_all']} s in all")
    return 0
