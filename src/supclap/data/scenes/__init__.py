"""The embedded corpus: everyday sounds made by signal processing, composed into scenes and told in eight languages."""

from supclap.data.scenes.compose import Scene, compose
from supclap.data.scenes.events import EVENTS, Event
from supclap.data.scenes.truth import Placed, Truth
from supclap.data.scenes.write import read_truths, write

__all__ = ["EVENTS", "Event", "Placed", "Scene", "Truth", "compose", "read_truths", "write"]
