"""The loop: batches in, records out, safe to kill at any instant."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supclap import runtime
from supclap.data.loader import died
from supclap.schema import Batch, Clip, UserError
from supclap.settings import save as save_settings
from supclap.settings import write_json
from supclap.training import again, checkpoint, handover, identity, records, setup, stepline, tracking, validate
from supclap.training.again import same_table, settings_of
from supclap.training.average import Average
from supclap.training.callbacks import State, tell
from supclap.training.config import OWN_RECIPE, RunConfig, load_file
from supclap.training.environment import environment
from supclap.training.lock import locked
from supclap.training.optim import set_rates
from supclap.training.processes import joined
from supclap.training.setup import Parts
from supclap.training.signals import Stopped, Watch
from supclap.training.step import StepResult
from supclap.training.watching import Dynamics

RUN, TABLE = again.RUN, again.TABLE
SECONDS = 300.0  # checkpoints are never further apart
KEPT = ("step", "epoch", "best", "best_step", "stale", "skipped")  # of the state, by a checkpoint


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, the best model, that model's scores and the journal."""

    path: Path
    model: Any
    best: dict[str, Any]
    records: list[dict[str, Any]]


def train(
    config: RunConfig,
    *,
    out: str | os.PathLike[str],
    callbacks: Sequence[Any] = (),
    data: Sequence[Clip] | None = None,
    progress: setup.Progress | None = None,
) -> Run:
    """Train from the beginning; ``data`` are clips that stand in for the table that the config names."""
    folder, device = Path(out), runtime.device(config.device)
    tracking.check(config.train.track)
    with joined(device) as team:
        if (folder / RUN).exists():
            raise UserError(f"{folder} holds a run already; choose another folder, or: supclap train --resume {folder}")
        clips = setup.splits(config, data)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, team):
            parts = setup.build(config, clips, out=folder, progress=progress, team=team)
            team.wait()
            if team.first:
                write_json(identity.table(clips), folder / TABLE)
                write_json(environment(device, team.world), folder / "environment.json")
                # Last of the three: a folder with run.json can be resumed, and a mistake found above leaves none.
                save_settings(config, folder / RUN)
            return _Trainer(config, folder, parts, callbacks).run()


def resume(
    run: str | os.PathLike[str],
    *,
    callbacks: Sequence[Any] = (),
    data: Sequence[Clip] | None = None,
    progress: setup.Progress | None = None,
) -> Run:
    """Go on from the last checkpoint, or from step 0 where there is none; a finished run is returned as it is."""
    folder = Path(run)
    if not (folder / RUN).exists():
        raise UserError(
            f"{folder}: no {RUN} here, so there is no run to resume; start one: supclap train DATA --out {folder}"
        )
    load_recipe(folder)
    config = settings_of(folder)
    if records.last(records.read(folder), "end") is not None:
        return opened(folder)
    tracking.check(config.train.track)
    with joined(runtime.device(config.device)) as team:
        with locked(folder, team):
            clips = setup.splits(config, data)
            same_table(folder, clips)
            parts = setup.build(config, clips, out=folder, progress=progress, team=team)
            return _Trainer(config, folder, parts, callbacks, resumed=True).run()


def load_recipe(folder: Path) -> None:
    """Read a run's copy of a recipe file, so that its settings classes are known by name."""
    if (folder / OWN_RECIPE).exists():
        load_file(folder / OWN_RECIPE)


def opened(folder: Path) -> Run:
    """A run as it lies there."""
    from supclap.encoders.hub import load

    lines = records.read(folder)
    best = records.best(lines)
    return Run(folder, load(folder), best["scores"] if best else {}, lines)


class _Trainer:
    """One run, from wherever it stands to its end."""

    def __init__(
        self, config: RunConfig, folder: Path, parts: Parts, callbacks: Sequence[Any], resumed: bool = False
    ) -> None:
        self.config, self.folder, self.parts = config, folder, parts
        tracked = [tracking.Track(config.train.track, folder)] if config.train.track and parts.team.first else []
        self.callbacks = [*tracked, *callbacks]
        if config.evaluate.dynamics != 0:
            self.callbacks.append(Dynamics(config.evaluate.dynamics or 0))
        per_epoch = -(-len(parts.loader) // config.train.accumulate)
        steps = per_epoch * config.train.epochs
        self.state = State(
            config=config,
            out=folder,
            model=parts.model,
            objective=parts.objective,
            optimizer=parts.optimizer,
            clips=parts.clips,
            steps=min(steps, config.train.steps or steps),
        )
        self.team = parts.team
        self.records = records.Records(folder) if self.team.first else records.Mute()
        self.seen = ""  # a chained hash of all batches so far
        self.saved_at = time.monotonic()
        self.saved_step = -1
        ema = config.train.ema
        self.average = None if ema is None else Average(parts.stepper.parameters, ema)
        self.done = 0  # batches of this epoch
        self.evaluated = 0  # the step that was scored last
        # Frozen parts and the vocabulary are made again on resume; they must be what they were.
        self.given = identity.given(parts.model)
        self._same_start()
        if resumed:
            self._restore()
        else:
            self._begin()

    def _same_start(self) -> None:
        """UserError where processes built different models: their weights or files differ."""
        found = self.team.everyone(identity.weights(self.parts.learned) if self.team.world > 1 else "")
        if len(set(found)) > 1:
            raise UserError(f"processes start from different weights ({', '.join(found)}); give all the same files")

    # -- start and restore -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.state.last = self.records.write(
            "start",
            steps=self.state.steps,
            clips={name: len(side) for name, side in self.parts.clips.items()},
            parameters=sum(value.numel() for value in self.parts.stepper.parameters),
            weights=identity.weights(self.parts.model),
            batches=identity.first_epoch(self.config, self.parts.clips["train"], self.parts.model.sample_rate),
            select_on=self.config.evaluate.select_on,
            seed=self.config.seed,
        )

    def _restore(self) -> None:
        found = checkpoint.load(self.folder)
        if found is None:
            self.records.cut(0)
            self._begin()
        else:
            tensors, state = found
            if state["given"] != self.given:
                raise UserError(f"{self.folder}: its frozen weights or vocabulary are not those here; fetch them again")
            checkpoint.restore(self.parts.learned, self.parts.optimizer, tensors, state["optimizer"])
            self.parts.stepper.scaler.load_state_dict(state["scaler"])
            if self.average is not None:
                self.average.restore(tensors)
            for name in KEPT:
                setattr(self.state, name, state.get(name, 0))
            self.seen, self.saved_step, self.done = state["seen"], state["step"], state["done"]
            self.evaluated = state["evaluated"]
            self.state.position = self._position(state["positions"])
            self.records.cut(state["records"])
        self.records.write("resume", step=self.state.step)

    def _position(self, positions: list[int]) -> int:
        """Where this process goes on: clips put aside have moved each its own way.

        With another number of processes than before, in rows of the whole batch; exact where no clip was put aside.
        """
        if len(positions) == self.team.world:
            return positions[self.team.rank]
        return self.done * self.parts.loader.batch_size

    def save(self) -> None:
        """Write a checkpoint of this instant, from the first process; all must call it."""
        positions = self.team.everyone(self.state.position)
        if not self.team.first:
            self.saved_at, self.saved_step = time.monotonic(), self.state.step
            return
        tensors, optimizer = checkpoint.capture(self.parts.learned, self.parts.optimizer)
        tensors |= self.average.tensors() if self.average is not None else {}
        kept = {name: getattr(self.state, name) for name in KEPT}
        kept |= {"positions": positions, "done": self.done, "evaluated": self.evaluated}
        kept |= {"seen": self.seen, "given": self.given, "records": self.records.size(), "optimizer": optimizer}
        checkpoint.save(self.folder, tensors, {**kept, "scaler": self.parts.stepper.scaler.state_dict()})
        self.saved_at, self.saved_step = time.monotonic(), self.state.step

    # -- the walk ----------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """Train to the end; `Stopped` after a signal, with the state saved."""
        self.parts.model.train()
        self.parts.objective.train()
        tell(self.callbacks, "on_start", self.state)
        try:
            return self._walk()
        except UserError:
            raise
        except Exception as error:
            reason = died(error)
            if reason is None and checkpoint.no_room(error) is not None:
                reason = f"{self.folder}: {checkpoint.refused(self.folder, error)}"
            if reason is None:
                raise
            raise UserError(reason) from error
        finally:
            # Now, and not when the collector comes by: workers are processes.
            self.parts.loader.close()
            self.records.close()

    def _walk(self) -> Run:
        with Watch() as watch:
            while not self._ended():
                self._epoch(watch)
        if self.evaluated != self.state.step:
            # Stopped, or killed, between the last step and its evaluation.
            self._evaluate()
        if self.state.best is None:
            with self._averaged():
                self._keep_best()
        early = {"stopped": f"{self.state.stale} evaluations without a better one"} if self._is_tired() else {}
        self.records.write("end", step=self.state.step, best=self.state.best, best_step=self.state.best_step, **early)
        self.records.size()
        tell(self.callbacks, "on_end", self.state)
        self.records.close()
        self.team.wait()
        return opened(self.folder)

    def _epoch(self, watch: Watch) -> None:
        waited = time.perf_counter()
        for position, group in self._groups():
            begun = time.perf_counter()
            self._step(group, position, begun - waited)
            # A signal, or the clock, reaches processes at different steps; they stop, or save, at the same one.
            number = self.team.most(watch.number or int(self._is_due()), self.parts.stepper.device)
            if number:
                self.save()
            if number > 1:
                self.records.close()
                raise Stopped(number, self.state.step, self.folder)
            if self.state.step >= self.state.steps:
                break
            waited = time.perf_counter()
        else:
            self.state.epoch, self.state.position, self.done = self.state.epoch + 1, 0, 0
        if self._ended() or self.state.epoch % self.config.evaluate.every == 0:
            self._evaluate()
        if self.saved_step != self.state.step and (self._ended() or self.config.train.checkpoint_every is None):
            self.save()

    def _ended(self) -> bool:
        done = self.state.step >= self.state.steps or self.state.epoch >= self.config.train.epochs
        return done or self._is_tired()

    def _is_tired(self) -> bool:
        """Whether the last so many evaluations brought no better model."""
        patience = self.config.evaluate.patience
        return patience is not None and self.state.stale >= patience

    def _groups(self) -> Iterator[tuple[int, list[Batch]]]:
        """As many batches as make a step, and the position behind them."""
        group: list[Batch] = []
        position = self.state.position
        for position, batch in self.parts.loader.batches(self.state.epoch, self.state.position, self.done):
            group.append(batch)
            if len(group) == self.config.train.accumulate:
                yield position, group
                group = []
        if group:
            yield position, group

    def _is_due(self) -> bool:
        every = self.config.train.checkpoint_every
        due = every is not None and self.state.step % every == 0
        return due or time.monotonic() - self.saved_at > SECONDS

    def _step(self, group: list[Batch], position: int, waited: float) -> None:
        state = self.state
        set_rates(self.parts.optimizer, self.config.optim.factor(state.step, state.steps))
        tell(self.callbacks, "on_batch", state, group[-1])
        begun = time.perf_counter()
        result = self.parts.stepper(group, state.step)
        seconds = time.perf_counter() - begun + waited
        state.step, state.position, self.done = state.step + 1, position, self.done + len(group)
        self.seen = identity.chained(self.seen, group, self.team)
        if result.skipped is None:
            if self.average is not None:
                self.average.update()
            state.last = self.records.write("step", **self._line(result, seconds, waited))
        else:
            self._skip(result)
        if result.out is not None:
            state.seen = self.parts.stepper.seen
            tell(self.callbacks, "on_step", state, result.out)

    def _line(self, result: StepResult, seconds: float, waited: float) -> dict[str, Any]:
        assert result.out is not None
        return {
            "step": self.state.step,
            "epoch": self.state.epoch,
            **stepline.mean(self.team.everyone(stepline.told(result.out))),
            "scale": handover.scale_of(self.parts.objective),
            "gradient_norm": result.gradient_norm,
            "lr": {group["name"]: group["lr"] for group in self.parts.optimizer.param_groups},
            "clips_per_s": round(result.rows * self.team.world / max(seconds, 1e-9), 2),
            "wait": round(waited / max(seconds, 1e-9), 4),
            "batches": self.seen,
        }

    def _skip(self, result: StepResult) -> None:
        state = self.state
        state.skipped += result.at_fault
        ids = list(result.rows_at_fault)
        names = [self.parts.clips["train"][index].id for index in ids if 0 <= index < len(self.parts.clips["train"])]
        state.last = self.records.write(
            "skip", step=state.step, epoch=state.epoch, reason=result.skipped, clips=names, skipped=state.skipped
        )
        if state.skipped > max(3, self.config.train.max_skipped * state.step):
            self.save()
            raise UserError(
                f"{state.skipped} of {state.step} steps were not finite (the last: {result.skipped}); the state is "
                f"saved in {self.folder}. Lower lr, set optim.clip_norm, or look at the clips in {records.NAME}"
            )

    # -- evaluation --------------------------------------------------------------------------------------------------

    def _averaged(self) -> AbstractContextManager[None]:
        """The running mean in the model's place, where there is one."""
        return nullcontext() if self.average is None else self.average.in_place()

    def _evaluate(self) -> None:
        self.evaluated = self.state.step
        with self._averaged():
            found, also = self._scores()
            if found is None:
                return
            state, selected = self.state, validate.selection(found)
            state.stale += 1
            if state.best is None or selected > state.best:
                state.best, state.best_step, state.stale = selected, state.step, 0
                self._keep_best(found)
        state.last = self.records.write(
            "eval",
            step=state.step,
            epoch=state.epoch,
            split=self.config.evaluate.select_on,
            selected=selected,
            scores=found.to_dict(intervals=False),
            **({"also": {name: one.to_dict(intervals=False) for name, one in also.items()}} if also else {}),
        )
        tell(self.callbacks, "on_eval", state, found)

    def _scores(self) -> tuple[Any, dict[str, Any]]:
        """What the first process finds, everywhere; the others wait here, however uneven the rows would fall."""
        found: Any = None
        if self.team.first:
            parts, config = self.parts, self.config
            found = validate.scores(parts.model, parts.clips, config.evaluate, parts.features, config.data.workers)
        told: tuple[Any, dict[str, Any]] = self.team.tell(found)
        return told

    def _keep_best(self, found: Any = None) -> None:
        """The run's folder is the best model so far, by the first process."""
        if not self.team.first:
            return
        model = self.parts.model
        model.card = handover.card(self.state, found)
        handover.scale(model, self.parts.objective)
        model.save(self.folder)
