"""The everyday sounds by name: how each is made, which of its attributes can be heard, how long it lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from supclap.data.scenes.dsp import Samples, Voice
from supclap.data.scenes.voices import animals, home, machines, nature, people


@dataclass(frozen=True)
class Event:
    """One kind of sound. With a ``period`` it comes in strokes that can be counted, so many seconds apart."""

    name: str
    family: str
    play: Callable[[Voice], Samples]
    seconds: tuple[float, float]  # of one stroke, or of the whole
    period: float | None = None
    attributes: tuple[str, ...] = ()  # of pitch and speed; loudness goes with every event, count with strokes
    background: bool = False


_LONG = (1.0, 2.4)
_BOTH = ("pitch", "speed")

_ALL = (
    Event("dog", "animals", animals.dog, (0.2, 0.3), 0.48, _BOTH),
    Event("cat", "animals", animals.cat, (0.6, 0.85), 0.95, ("pitch",)),
    Event("bird", "animals", animals.bird, (0.4, 0.7), 0.8, _BOTH),
    Event("cricket", "animals", animals.cricket, _LONG, None, ("speed",), True),
    Event("frog", "animals", animals.frog, (0.28, 0.42), 0.6, _BOTH),
    Event("cow", "animals", animals.cow, (1.0, 1.5), 1.6, ("pitch",)),
    Event("rain", "weather", nature.rain, _LONG, None, (), True),
    Event("thunder", "weather", nature.thunder, (1.3, 2.4), None, ()),
    Event("wind", "weather", nature.wind, (1.3, 2.4), None, ("pitch",), True),
    Event("stream", "water", nature.stream, _LONG, None, ("pitch",), True),
    Event("waves", "water", nature.waves, (1.4, 2.4), None, (), True),
    Event("drip", "water", nature.drip, (0.16, 0.2), 0.5, _BOTH),
    Event("engine", "vehicles", machines.engine, _LONG, None, _BOTH[:1], True),
    Event("train_horn", "vehicles", machines.train_horn, (0.8, 1.7), 1.8, ("pitch",)),
    Event("siren", "vehicles", machines.siren, (1.4, 2.4), None, ("speed",), True),
    Event("car_horn", "vehicles", machines.car_horn, (0.25, 0.5), 0.6, _BOTH),
    Event("bell", "alarms", machines.bell, (0.9, 1.3), 0.85, _BOTH),
    Event("beep", "alarms", machines.beep, (0.15, 0.25), 0.42, _BOTH),
    Event("telephone", "alarms", machines.telephone, (0.7, 1.0), 1.05, ("pitch",)),
    Event("clock", "household", home.clock, _LONG, None, _BOTH, True),
    Event("vacuum", "household", machines.vacuum, _LONG, None, ("pitch",), True),
    Event("knock", "household", home.knock, (0.16, 0.2), 0.38, _BOTH),
    Event("typing", "household", home.typing, _LONG, None, ("speed",), True),
    Event("glass", "household", home.glass, (0.5, 0.7), 0.6, _BOTH),
    Event("saw", "tools", home.saw, _LONG, None, _BOTH),
    Event("hammer", "tools", home.hammer, (0.2, 0.28), 0.5, _BOTH),
    Event("drill", "tools", machines.drill, _LONG, None, ("pitch",)),
    Event("clapping", "people", people.clapping, _LONG, None, ("speed",)),
    Event("footsteps", "people", people.footsteps, (1.2, 2.4), None, _BOTH),
    Event("snoring", "people", people.snoring, (1.3, 2.4), None, ("pitch",), True),
    Event("whistling", "music", people.whistling, _LONG, None, _BOTH),
    Event("guitar", "music", people.guitar, _LONG, None, _BOTH),
    Event("piano", "music", people.piano, _LONG, None, _BOTH),
    Event("drum", "music", people.drum, (0.3, 0.4), 0.45, _BOTH),
)

EVENTS: dict[str, Event] = {event.name: event for event in _ALL}
