"""Several recipes beside each other, over one seed or several, from the same weights and the same batches.

Runs lie in OUT/NAME, or in OUT/NAME/seed-N where seeds are given; what is finished is not run again.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supclap import runtime
from supclap.data import manifest
from supclap.evaluation import significance
from supclap.evaluation.retrieval import DIRECTIONS, Scores
from supclap.report import tables
from supclap.schema import FORMAT, Clip, Direction, UserError
from supclap.settings import read as read_settings
from supclap.settings import write, write_json
from supclap.training import cells, identity, loop, records, setup
from supclap.training.cells import Cell, Outcome
from supclap.training.config import RunConfig
from supclap.training.processes import joined

RESULT = "comparison.json"
METRIC = "R@1"


@dataclass(frozen=True)
class Compared:
    """What every run scored on the same clips, by recipe and seed; the first recipe is what the others stand against.

    ``seeds`` is None where each recipe ran once, with the seed of its own settings.
    """

    out: Path
    split: str
    selected_on: str
    seeds: tuple[int, ...] | None
    runs: dict[str, list[Outcome]]

    @property
    def base(self) -> str:
        """The first recipe."""
        return next(iter(self.runs))

    @property
    def scores(self) -> dict[str, list[Scores]]:
        """By recipe, one a seed."""
        return {name: [run.scores for run in mine] for name, mine in self.runs.items()}

    def summary(self, name: str, direction: Direction) -> significance.Seeds:
        """A recipe's R@1 over its seeds."""
        return significance.over_seeds(self.scores[name], direction, METRIC)

    def differences(self) -> list[dict[str, Any]]:
        """Every recipe against the first, both directions: gain, interval, p and Holm's p over all rows.

        Over seeds ``low`` and ``high`` are the two-level interval (seeds and clips drawn afresh), ``student`` is that
        over seeds alone, and ``p`` is its test.
        """
        rows = [
            {"recipe": name, "base": self.base, "direction": way, "metric": METRIC, **self._difference(name, way)}
            for name in list(self.scores)[1:]
            for way in DIRECTIONS
        ]
        tested = [row for row in rows if row["p"] is not None]
        for row, corrected in zip(tested, significance.holm([row["p"] for row in tested]), strict=True):
            row["holm"] = corrected
        return rows

    def _difference(self, name: str, way: Direction) -> dict[str, Any]:
        if self.seeds is None or len(self.seeds) == 1:
            one = significance.compare(self.scores[self.base][0], self.scores[name][0], METRIC)[way]
            return {"gain": one.gain, "low": one.low, "high": one.high, "p": one.p}
        many = significance.over_seeds(self.scores[name], way, METRIC, base=self.scores[self.base])
        low, high = many.two_level
        kept = {"gain": many.mean, "low": low, "high": high, "p": many.p}
        return kept | {"student": [many.low, many.high], "sd": many.sd, "mde": many.mde, "seeds": many.seeds}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        first = self.scores[self.base][0]
        plain: dict[str, Any] = {
            "format": FORMAT,
            "split": self.split,
            "selected_on": self.selected_on,
            "protocol": first.protocol.name,
            "clips": first.clips,
            "captions": first.captions,
            "seeds": None if self.seeds is None else list(self.seeds),
            "recipes": {name: self._recipe(name) for name in self.scores},
            "differences": self.differences(),
        }
        return records.plain(plain)  # type: ignore[no-any-return]

    def _recipe(self, name: str) -> dict[str, Any]:
        many = {way: self.summary(name, way).to_dict() for way in DIRECTIONS} if self.seeds is not None else None
        return {"runs": [run.to_dict(self.out) for run in self.runs[name]], "over_seeds": many}

    def text(self) -> str:
        """Tables for the terminal."""
        first = self.scores[self.base][0]
        title = f"{self.split} split, {first.clips} clips, {first.captions} captions, {first.protocol.name}, {METRIC}"
        lines = [self._scores(title) if self.seeds is None else self._over_seeds(title)]
        if len(self.scores) > 1:
            lines.append(self._gains())
        if self.selected_on == self.split:
            lines.append(f"the {self.split} split also chose the best step of each run, as the recipe asks\n")
        return "\n".join(lines)

    def _scores(self, title: str) -> str:
        rows: list[tables.Row] = []
        for name, (scores, *_) in self.scores.items():
            cells = [(scores[way][METRIC], *scores.interval(way, METRIC)) for way in DIRECTIONS]
            rows.append([name, *cells])
        return tables.text(rows, ["recipe", "T2A", "A2T"], title=f"{title}; 95 % intervals over clips", digits=1)

    def _over_seeds(self, title: str) -> str:
        rows: list[tables.Row] = []
        for name in self.scores:
            cells: list[Any] = []
            for way in DIRECTIONS:
                found = self.summary(name, way)
                cells += [(found.mean, found.low, found.high), found.sd]
            rows.append([name, *cells])
        seeds = f"{title}; mean of seeds {', '.join(map(str, self.seeds or ()))}, Student's 95 % interval over seeds"
        return tables.text(rows, ["recipe", "T2A", "sd", "A2T", "sd"], title=seeds, digits=1)

    def _gains(self) -> str:
        rows: list[tables.Row] = []
        for row in self.differences():
            gain = (row["gain"], row["low"], row["high"])
            p = [tables.cell(row[key], 3) if key in row else "-" for key in ("p", "holm")]
            sure = [tables.cell(row["mde"], 1)] if "mde" in row else []
            rows.append([f"{row['recipe']} - {row['base']}", row["direction"].upper(), gain, *p, *sure])
        many = self.seeds is not None and len(self.seeds) > 1
        over = (
            "two-level 95 % interval (seeds and clips), t test over seeds; mde: the smallest true gain that so many "
            "seeds would show with 80 % power"
            if many
            else "95 % interval, paired by clip"
        )
        return tables.text(
            rows, ["difference", "", METRIC, "p", "Holm's p", *(["mde"] if many else [])], title=over, digits=1
        )


def compare(
    recipes: Mapping[str, RunConfig],
    *,
    out: str | os.PathLike[str],
    seeds: Iterable[int] | None = None,
    data: Sequence[Clip] | None = None,
    jobs: int = 1,
    watch: cells.Callbacks = lambda name: (),
    progress: setup.Progress | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Compared:
    """Train every recipe with every seed, score all on the test split (val where there is none), and set side by side.

    UserError where two recipes do not start from the same weights or do not see the same batches. With ``jobs`` above 1
    so many runs go on at once, each in a process of its own and without callbacks; ``say`` hears of each that is done.
    """
    folder, chosen = Path(out), None if seeds is None else tuple(seeds)
    _check(recipes, chosen, jobs)
    plan = [cell for one in _seeded(recipes, chosen) for cell in _cells(folder, one, chosen)]
    first = next(iter(recipes.values()))
    with joined(runtime.device(first.device)) as team:
        if team.world > 1 and jobs > 1:
            raise UserError(f"jobs={jobs} with {team.world} processes a run; give one or the other")
        clips = list(data) if data is not None else read_clips(first)
        sides = setup.splits(first, clips)
        split = "test" if len(sides["test"]) > 1 else "val"
        _check_before(plan, sides)
        scored = cells.Scored(sides[split], split)
        if jobs > 1:
            _hear_once(plan[0], sides, progress)
            done = cells.side_by_side(plan, clips, scored, jobs)
        else:
            done = cells.in_turn(plan, clips, scored, watch, progress)
        found = Compared(folder, split, first.evaluate.select_on, chosen, _collect(plan, done, list(recipes), say))
        if team.first:
            write_json(found.to_dict(), folder / RESULT)
        return found


def _collect(
    plan: Sequence[Cell], done: Iterable[tuple[Cell, Outcome]], names: Sequence[str], say: Callable[[str], None]
) -> dict[str, list[Outcome]]:
    """Outcomes by recipe, in the order of the plan; UserError as soon as all recipes of a seed are there and differ."""
    found: dict[Path, Outcome] = {}
    for cell, outcome in done:
        found[cell.place] = outcome
        say(f"{cell.name}: {outcome.scores!r}")
        row = [other for other in plan if other.config.seed == cell.config.seed or len(plan) == len(names)]
        if all(other.place in found for other in row):
            _paired({other.recipe: found[other.place] for other in row})
    return {name: [found[cell.place] for cell in plan if cell.recipe == name] for name in names}


def _hear_once(cell: Cell, sides: dict[str, list[Clip]], progress: setup.Progress | None) -> None:
    """Frozen towers hear all clips here, so that the runs find them in the cache."""
    model, _ = setup.networks(cell.config, sides["train"])
    setup.cached(cell.config, model, sides, None, progress)


# -- the plan --------------------------------------------------------------------------------------------------------


def _seeded(recipes: Mapping[str, RunConfig], seeds: tuple[int, ...] | None) -> Iterator[dict[str, RunConfig]]:
    """All recipes with the first seed, then with the next."""
    for seed in (None,) if seeds is None else seeds:
        yield {
            name: config if seed is None else dataclasses.replace(config, seed=seed) for name, config in recipes.items()
        }


def _cells(out: Path, recipes: Mapping[str, RunConfig], seeds: tuple[int, ...] | None) -> list[Cell]:
    return [
        Cell(name, out / name if seeds is None else out / name / f"seed-{config.seed}", config)
        for name, config in recipes.items()
    ]


def _check_before(plan: Sequence[Cell], sides: dict[str, list[Clip]]) -> None:
    """UserError before anything is trained: folders that hold other runs, recipes that cannot be paired."""
    for cell in plan:
        check_folder(cell.place, cell.config)
    firsts: dict[str, RunConfig] = {}
    for cell in plan:
        firsts.setdefault(cell.recipe, cell.config)
    _start_together(firsts, sides)


def read_clips(config: RunConfig) -> list[Clip]:
    """The table that a config names."""
    if not config.data.path:
        raise UserError("data is missing; name a table, a folder of sounds or a corpus")
    return manifest.read(config.data.path, captions_from=config.data.captions_from)


def _check(recipes: Mapping[str, RunConfig], seeds: tuple[int, ...] | None, jobs: int) -> None:
    if jobs < 1:
        raise UserError(f"jobs={jobs}: give 1 or more")
    if not recipes:
        raise UserError("recipe is missing; name one or several, with commas between them")
    if seeds is not None and (not seeds or len(set(seeds)) < len(seeds)):
        raise UserError(f"seeds={list(seeds)}: give one or more, each once: seeds=[0,1,2,3,4]")
    base, first = next(iter(recipes.items()))
    for name, config in recipes.items():
        for field in ("data", "evaluate"):
            if getattr(config, field) != getattr(first, field):
                raise UserError(f"recipes {base} and {name} differ in {field}.*; give all the same: {field}...=value")


def check_folder(folder: Path, config: RunConfig) -> None:
    """UserError where another run lies in the place of this one."""
    if not (folder / loop.RUN).exists():
        return
    loop.load_recipe(folder)
    there, here = write(read_settings(RunConfig, folder / loop.RUN)), write(config)
    parts = [name for name in here if here[name] != there[name]]
    if parts:
        raise UserError(f"{folder} holds a run with other settings ({', '.join(parts)}); choose another --out")


def _start_together(configs: Mapping[str, RunConfig], sides: dict[str, list[Clip]]) -> None:
    """UserError before anything is trained, where recipes cannot be paired."""
    if len(configs) < 2:
        return
    starts = {}
    for name, config in configs.items():
        model, _ = setup.networks(config, sides["train"])
        batches = identity.first_epoch(config, sides["train"], model.sample_rate)
        starts[name] = {"weights": identity.weights(model), "batches": batches}
    _same(starts, "start")


def _paired(runs: Mapping[str, Outcome]) -> None:
    """UserError unless the journals say that all began alike and saw the same batches, as far as the shortest goes."""
    starts = {name: {key: run.records[0][key] for key in ("weights", "batches")} for name, run in runs.items()}
    _same(starts, "start")
    seen = {name: {line["step"]: line["batches"] for line in run.records if line["event"] == "step"}
            for name, run in runs.items()}  # fmt: skip
    common = set.intersection(*(set(steps) for steps in seen.values()))
    if common:
        _same({name: {"batches": steps[max(common)]} for name, steps in seen.items()}, f"step {max(common)}")


def _same(found: Mapping[str, Mapping[str, str]], where: str) -> None:
    base, first = next(iter(found.items()))
    said = {"weights": "do not start from the same weights", "batches": "do not see the same batches"}
    for name, one in found.items():
        for key, value in one.items():
            if value != first[key]:
                raise UserError(
                    f"recipes {base} and {name} {said[key]} ({first[key]}, {value} at {where}), so their difference is "
                    "not the recipe's alone; compare recipes with the same towers, head, seed, data and batch_size"
                )
