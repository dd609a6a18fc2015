"""supclap: the SupCLAP method and what stands around it. Importing it loads nothing; each name loads what it needs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supclap.embedding.embed import embed as embed
    from supclap.encoders.dual import DualModel as DualModel
    from supclap.encoders.hub import load as load
    from supclap.schema import Batch as Batch
    from supclap.schema import Caption as Caption
    from supclap.schema import Clip as Clip
    from supclap.schema import Embedded as Embedded
    from supclap.schema import Hit as Hit
    from supclap.schema import Label as Label
    from supclap.schema import LossOutput as LossOutput
    from supclap.schema import Term as Term
    from supclap.schema import UserError as UserError
    from supclap.searching.scan import search as search
    from supclap.training.compare import compare as compare
    from supclap.training.config import RunConfig as RunConfig
    from supclap.training.config import recipe as recipe
    from supclap.training.loop import Run as Run
    from supclap.training.loop import resume as resume
    from supclap.training.loop import train as train

__version__ = "0.1.0"

# What the door offers: the name -> the room's module it lives in.
_DOOR = {
    **dict.fromkeys(
        ("Batch", "Caption", "Clip", "Embedded", "Hit", "Label", "LossOutput", "Term", "UserError"), "supclap.schema"
    ),
    "DualModel": "supclap.encoders.dual",
    "load": "supclap.encoders.hub",
    "embed": "supclap.embedding.embed",
    "search": "supclap.searching.scan",
    "RunConfig": "supclap.training.config",
    "recipe": "supclap.training.config",
    "Run": "supclap.training.loop",
    "train": "supclap.training.loop",
    "resume": "supclap.training.loop",
    "compare": "supclap.training.compare",
}

__all__ = ["__version__", *_DOOR]


def __getattr__(name: str) -> Any:
    if name in _DOOR:
        return getattr(importlib.import_module(_DOOR[name]), name)
    raise AttributeError(f"module 'supclap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
