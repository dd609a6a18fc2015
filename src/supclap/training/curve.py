"""How many more captions do I need: the same run on 1/16, 1/4, 1/2 and all of the training clips.

Every run has as many steps as the whole one, and its best model is chosen on validation data: a short run on few clips
would show too little training, not too little data.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from supclap import runtime
from supclap.evaluation import significance
from supclap.evaluation.retrieval import DIRECTIONS, Scores
from supclap.report import figures, tables
from supclap.schema import FORMAT, Clip, Direction, UserError
from supclap.settings import write_json
from supclap.training import cells, compare, records, setup
from supclap.training.config import RunConfig
from supclap.training.processes import joined

SHARES = tuple(map(Fraction, ("1/16", "1/4", "1/2", "1")))
RESULT, DRAWING = "curve.json", "curve.svg"
METRIC = "R@1"
WAYS: dict[Direction, str] = {"t2a": "text to audio", "a2t": "audio to text"}


@dataclass(frozen=True)
class Point:
    """One share of the data and what it scored."""

    share: Fraction
    clips: int
    captions: int
    path: Path
    scores: Scores


@dataclass(frozen=True)
class Curve:
    """The points from few to all; ``left_out`` are shares with too few clips for one batch."""

    out: Path
    split: str
    points: list[Point]
    left_out: list[Fraction]

    def last_step(self) -> dict[Direction, significance.Comparison]:
        """What the last enlargement brought, paired by clip."""
        return significance.compare(self.points[-2].scores, self.points[-1].scores, METRIC)

    def in_words(self) -> str:
        """What more captions would likely bring."""
        few, many = self.points[-2:]
        steps = self.last_step()
        said = " and ".join(
            f"{one.gain:+.1f} [{one.low:+.1f}, {one.high:+.1f}] {WAYS[way]}" for way, one in steps.items()
        )
        head = f"From {few.captions} to {many.captions} captions R@1 changed by {said}."
        if any(one.low > 0 for one in steps.values()) and not any(one.high < 0 for one in steps.values()):
            hoped = " and ".join(f"{one.b + max(0.0, one.gain):.0f}" for one in steps.values())
            factor = many.share / few.share
            more = f"{int(factor * many.captions)} captions of this kind would reach about {hoped} at most"
            return f"{head} More captions will likely help: {more}, for gains shrink as the curve goes on."
        if any(one.high < 0 for one in steps.values()):
            return f"{head} More of these captions made it worse: look at them first (supclap corpus check)."
        best = max(one.high for one in steps.values())
        return (
            f"{head} That is flat within its error: more captions of this kind will likely bring little "
            f"(no more than {best:.1f} for as many again); better towers or better captions may."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = {
            "format": FORMAT,
            "split": self.split,
            "clips": self.points[-1].scores.clips,
            "points": [self._row(point) for point in self.points],
            "left_out": [str(share) for share in self.left_out],
            "last_step": {way: one.to_dict() for way, one in self.last_step().items()},
            "in_words": self.in_words(),
        }
        return records.plain(plain)  # type: ignore[no-any-return]

    def _row(self, point: Point) -> dict[str, Any]:
        row: dict[str, Any] = {"share": str(point.share), "train_clips": point.clips, "train_captions": point.captions}
        for way in DIRECTIONS:
            low, high = point.scores.interval(way, METRIC)
            row[way] = {METRIC: point.scores[way][METRIC], "low": low, "high": high}
        return row | {"run": os.path.relpath(point.path, self.out)}

    def text(self) -> str:
        """The table and the words, for the terminal."""
        rows: list[tables.Row] = []
        for point in self.points:
            cells = [(point.scores[way][METRIC], *point.scores.interval(way, METRIC)) for way in DIRECTIONS]
            rows.append([str(point.share), str(point.clips), str(point.captions), *cells])
        last = self.points[-1].scores
        title = f"{self.split} split, {last.clips} clips, R@1 with 95 % intervals over clips; one seed"
        table = tables.text(rows, ["share", "clips", "captions", "T2A", "A2T"], title=title, digits=1)
        missing = ", ".join(map(str, self.left_out))
        note = f"left out for want of clips to fill a batch: {missing}\n" if missing else ""
        return f"{table}\n{note}{self.in_words()}"

    def drawing(self) -> str:
        """R@1 over training captions, as SVG."""
        x = [point.captions for point in self.points]
        series = {}
        for way in DIRECTIONS:
            bands = [point.scores.interval(way, METRIC) for point in self.points]
            values = [point.scores[way][METRIC] for point in self.points]
            series[WAYS[way]] = (x, values, [low for low, _ in bands], [high for _, high in bands])
        return figures.curve(series, x="captions to train on", y="R@1", log_x=True)


def learning_curve(
    config: RunConfig,
    *,
    out: str | os.PathLike[str],
    data: Sequence[Clip] | None = None,
    watch: cells.Callbacks = lambda name: (),
    progress: setup.Progress | None = None,
) -> Curve:
    """Train on each share, score all on the test split (val where there is none), draw, and say what it means."""
    folder = Path(out)
    with joined(runtime.device(config.device)) as team:
        clips = list(data) if data is not None else compare.read_clips(config)
        sides = setup.splits(config, clips)
        split = "test" if len(sides["test"]) > 1 else "val"
        shares, left_out = fitting(config, len(sides["train"]))
        scored, points = cells.Scored(sides[split], split), []
        for share in shares:
            mine = of_share(config, share, len(sides["train"]))
            place = folder / ("all" if share == 1 else str(share).replace("/", "-"))
            compare.check_folder(place, mine)
            name = place.name
            done = cells.run(cells.Cell(name, place, mine), clips, scored, watch(name), progress)
            kept = setup.splits(mine, clips)["train"]
            captions = sum(len(clip.captions) for clip in kept)
            points.append(Point(share, len(kept), captions, place, done.scores))
        found = Curve(folder, split, points, left_out)
        if team.first:
            write_json(found.to_dict(), folder / RESULT)
            (folder / DRAWING).write_text(found.drawing(), encoding="utf8")
        return found


def fitting(config: RunConfig, clips: int) -> tuple[list[Fraction], list[Fraction]]:
    """The shares that fill a batch, and those that do not."""
    if config.data.share != 1:
        raise UserError(f"data.share={config.data.share}: a curve draws its own shares; leave it out")
    batch = config.train.batch_size
    fit = [share for share in SHARES if round(float(share) * clips) >= batch]
    if len(fit) < 2:
        raise UserError(
            f"batch_size={batch}: {clips} clips make no curve, for half of them do not fill a batch; set batch_size "
            "lower"
        )
    return fit, [share for share in SHARES if share not in fit]


def of_share(config: RunConfig, share: Fraction, clips: int) -> RunConfig:
    """The run on a share of the clips: the steps of the whole run, and as many evaluations."""
    train = config.train

    def per_epoch(count: int) -> int:
        return -(-(count // train.batch_size) // train.accumulate)

    whole = per_epoch(clips) * train.epochs
    steps = min(whole, train.steps or whole)
    epochs = -(-steps // per_epoch(round(float(share) * clips)))
    every = max(1, round(config.evaluate.every * epochs / -(-steps // per_epoch(clips))))
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, share=float(share)),
        train=dataclasses.replace(train, epochs=epochs, steps=steps),
        evaluate=dataclasses.replace(config.evaluate, every=every),
    )
