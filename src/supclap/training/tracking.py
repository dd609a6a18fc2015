"""A run in TensorBoard or Weights & Biases, through accelerate's trackers: asked for and not there is an error."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Literal

from supclap.schema import LossOutput, UserError
from supclap.settings import write
from supclap.training.callbacks import State

Tracker = Literal["tensorboard", "wandb"]
WAYS: dict[str, str] = {"tensorboard": 'pip install "supclap[tracking]"', "wandb": "pip install wandb"}
FOLDER = "tracking"


def check(names: tuple[Tracker, ...]) -> None:
    """UserError for a tracker that is asked for and not installed: a run is never silently not tracked."""
    for name in names:
        for module in (name, "accelerate"):
            if importlib.util.find_spec(module) is None:
                way = WAYS[name] if module == name else 'pip install "supclap[train]"'
                raise UserError(f"train.track={name!r}, but {module} is not installed: {way}, or leave track out")


def made(name: Tracker, folder: Path) -> Any:
    """Accelerate's tracker, begun; its files lie in RUN/tracking."""
    from accelerate import tracking

    place = folder / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    if name == "tensorboard":
        tracker: Any = tracking.TensorBoardTracker(folder.name or "run", logging_dir=str(place))
    else:
        tracker = tracking.WandBTracker("supclap", name=folder.name or "run", dir=str(place))
    tracker.start()
    return tracker


class Track:
    """A callback that hands every line of the journal on."""

    def __init__(self, names: tuple[Tracker, ...], folder: Path) -> None:
        self.names, self.folder = names, folder
        self.trackers: list[Any] = []

    def on_start(self, state: State) -> None:
        """Begin, with the settings."""
        self.trackers = [made(name, self.folder) for name in self.names]
        for name, tracker in zip(self.names, self.trackers, strict=True):
            if name == "wandb":
                tracker.store_init_configuration(write(state.config))

    def on_step(self, state: State, out: LossOutput) -> None:
        """The numbers of a step."""
        if state.last.get("event") == "step":
            self._log({f"train/{name}": value for name, value in numbers(state.last).items()}, state.step)

    def on_eval(self, state: State, scores: Any) -> None:
        """The scores of every validation set."""
        found = {state.last["split"]: state.last["scores"], **state.last.get("also", {})}
        for name, one in found.items():
            told = numbers({way: one[way] for way in ("t2a", "a2t")})
            self._log({f"{name}/{key}": value for key, value in told.items()}, state.step)

    def on_end(self, state: State) -> None:
        """Close what was begun."""
        self.close()

    def close(self) -> None:
        """Let go of the trackers, whatever happened."""
        for tracker in self.trackers:
            tracker.finish()
        self.trackers = []

    def _log(self, values: dict[str, float], step: int) -> None:
        for tracker in self.trackers:
            tracker.log(values, step=step)


def numbers(line: dict[str, Any], before: str = "") -> dict[str, float]:
    """Every number of a nested record, by the path to it; where it stands (step, epoch) is not one of them."""
    found: dict[str, float] = {}
    for name, value in line.items():
        if isinstance(value, dict):
            found |= numbers(value, f"{before}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and name not in ("step", "epoch"):
            found[before + name] = float(value)
    return found
