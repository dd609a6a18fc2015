"""The demo: embedded sounds, four objectives beside each other, typed queries over unseen scenes, one report."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import PositiveInt

from supclap.data import manifest
from supclap.data.scenes.truth import Truth
from supclap.data.scenes.write import read_truths, write
from supclap.evaluation.model import Embeddings, embed_clips, evaluate_model
from supclap.evaluation.retrieval import Scores
from supclap.schema import Clip, UserError
from supclap.settings import cache_folder, settings, write_json
from supclap.training import watching
from supclap.training.config import RunConfig, recipe
from supclap.training.live import Live
from supclap.training.loop import RUN, Run, train

METHODS = ("bi-dynamic", "infonce", "twice", "uni-zero")
"""The method first, so that its first answers come soon; then the base, the base counted twice, and uni at R = 0."""
RESULTS, REPORT, TABLE = "results.json", "report.html", "scenes.csv"
Say = Callable[[str], None]


@settings
class DemoSettings:
    """How large the demo is. Tests make it tiny."""

    train: PositiveInt = 1500
    val: PositiveInt = 100
    test: PositiveInt = 200
    seconds: float = 5.0
    steps: PositiveInt = 165
    batch_size: PositiveInt = 64
    languages: tuple[str, ...] = ("eng", "fra")
    seed: int = 0
    every: PositiveInt = 10  # steps between two looks at forces and drift
    channels: tuple[int, int, int, int] = (16, 48, 96, 160)
    text_width: PositiveInt = 128


@dataclass(frozen=True)
class Trained:
    """One method: its run, its scores on the test split and what was measured on the way."""

    run: Run
    scores: Scores
    curves: list[dict[str, float]]
    seconds: float


@dataclass(frozen=True)
class Demo:
    """Everything that the report is made from."""

    settings: DemoSettings
    folder: Path
    clips: dict[str, list[Clip]]
    truths: dict[str, Truth]
    trained: dict[str, Trained]
    seen: Embeddings  # the test split, by the bi-Dynamic model
    val: Embeddings


def talk(line: str) -> None:
    """One line on stderr."""
    print(f"demo: {line}", file=sys.stderr, flush=True)  # noqa: T201 -- talk goes to stderr


def run_demo(
    out: Path,
    chosen: DemoSettings | None = None,
    *,
    say: Say = talk,
    first: Callable[[Any, Embeddings, Embeddings], None] | None = None,
) -> Demo:
    """Compose, train all methods, score them. ``first`` is called with the first model as soon as there is one."""
    chosen = chosen or DemoSettings()
    clips, truths = compose(chosen, out, say)
    trained: dict[str, Trained] = {}
    seen = val = None
    for name in METHODS:
        trained[name] = train_one(name, chosen, out, clips)
        say(f"{name}: {told(trained[name].scores)} in {trained[name].seconds:.0f} s")
        if seen is None or val is None:
            model = trained[name].run.model
            seen, val = embed_clips(model, clips["test"]), embed_clips(model, clips["val"])
            if first is not None:
                first(model, seen, val)
    assert seen is not None and val is not None
    ordered = {name: trained[name] for name in ("infonce", "twice", "uni-zero", "bi-dynamic")}
    write_json({name: one.scores.to_dict() for name, one in ordered.items()}, out / RESULTS)
    return Demo(chosen, out, clips, truths, ordered, seen, val)


def compose(chosen: DemoSettings, out: Path, say: Say) -> tuple[dict[str, list[Clip]], dict[str, Truth]]:
    """The scenes, made once a machine, and their table in the demo's folder."""
    size = f"{chosen.train}-{chosen.val}-{chosen.test}-{chosen.seconds:g}-{chosen.seed}-{'-'.join(chosen.languages)}"
    folder = cache_folder("corpora", f"demo-{size}")
    begun = time.monotonic()
    clips = write(
        folder,
        chosen.train,
        chosen.val,
        chosen.test,
        seconds=chosen.seconds,
        seed=chosen.seed,
        languages=chosen.languages,
    )
    say(f"{len(clips)} scenes of {chosen.seconds:g} s in {time.monotonic() - begun:.0f} s ({folder})")
    out.mkdir(parents=True, exist_ok=True)
    manifest.write(clips, out / TABLE)
    return {side: [clip for clip in clips if clip.split == side] for side in ("train", "val", "test")}, read_truths(
        folder
    )


def config(name: str, chosen: DemoSettings, out: Path) -> RunConfig:
    """The run of one method: only the objective differs."""
    fields: Mapping[str, Any] = {
        "data": str((out / TABLE).absolute()),
        # Four runs read the same scenes again and again: decoding was a fifth of their time.
        "data.decoded": str(cache_folder("decoded")),
        "objective": name,
        "steps": chosen.steps,
        "epochs": chosen.steps,
        "batch_size": chosen.batch_size,
        "seed": chosen.seed,
        "evaluate.every": 3,
        "evaluate.dynamics": chosen.every,
        "audio_tower.channels": chosen.channels,
        "text_tower.width": chosen.text_width,
        "device": "cpu",
    }
    return recipe("small", fields)


def train_one(name: str, chosen: DemoSettings, out: Path, clips: dict[str, list[Clip]]) -> Trained:
    """Train one method from the beginning and score it on the test split."""
    folder = out / name
    clear(folder)
    begun = time.monotonic()
    every = [clip for side in clips.values() for clip in side]
    run = train(config(name, chosen, out), out=folder, callbacks=[Live(name)], data=every)
    scores = evaluate_model(run.model, clips["test"], split="test")
    return Trained(run, scores, watching.read(folder), time.monotonic() - begun)


def clear(folder: Path) -> None:
    """Remove the run of an earlier demo, and nothing else."""
    if folder.exists() and any(folder.iterdir()) and not (folder / RUN).exists():
        raise UserError(f"{folder} holds something that is no run; give the demo another folder: --out FOLDER")
    shutil.rmtree(folder, ignore_errors=True)


def told(scores: Mapping[str, Any]) -> str:
    """Both R@1 in words."""
    return f"R@1 {scores['t2a']['R@1']:.1f} text to audio, {scores['a2t']['R@1']:.1f} audio to text"


def smooth(values: Sequence[float], width: int = 5) -> np.ndarray:
    """A running mean, for curves of single steps."""
    whole = np.asarray(values, float)
    if len(whole) < width:
        return whole
    padded = np.pad(whole, (width // 2, width - 1 - width // 2), mode="edge")
    smoothed: np.ndarray = np.convolve(padded, np.ones(width) / width, mode="valid")
    return smoothed
