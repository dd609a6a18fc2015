"""The words every room shares: plain records, and the one error that is meant for people.

Shapes: n rows, t samples, d width. Nothing here imports torch or numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

FORMAT = 1
"""The format number of every folder that supclap writes."""

Direction = Literal["t2a", "a2t"]


class UserError(Exception):
    """A mistake that its reader can mend: one line with the field, the value and the way out (exit status 2)."""


def unknown(field_name: str, value: object, choices: Sequence[str] | Mapping[str, object]) -> UserError:
    """The error for a name that is none of ``choices``, with the nearest one."""
    names = sorted(choices)
    near = [name for name in names if name.lower() == str(value).lower()] or get_close_matches(str(value), names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"{field_name}={value!r} is unknown; {hint}choose from {', '.join(names)}")


# -- data ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Caption:
    """One sentence about a clip; ``language`` is an ISO 639-3 code."""

    text: str
    language: str = "eng"


@dataclass(frozen=True)
class Clip:
    """One row of a manifest: a stretch of a sound file and what is said of it.

    ``audio`` is a path; ``start`` and ``end`` are seconds (``end`` None: to the end of the file).
    ``source`` names the recording the clip was cut from: clips of one source never stand on both sides of a split.
    """

    id: str
    audio: str
    start: float = 0.0
    end: float | None = None
    captions: tuple[Caption, ...] = ()
    label: str | None = None
    split: str | None = None
    source: str | None = None
    negatives: tuple[str, ...] = ()  # captions that are wrong for the clip


@dataclass
class Batch:
    """What the loader hands to a model. ``clip_ids`` says which rows are of one clip."""

    samples: Tensor | None  # [n, t] float32, zero-padded; None when audio_features stand in for it
    lengths: Tensor | None  # [n] int64, true lengths in samples
    sample_rate: int
    texts: list[str]
    languages: list[str]
    clip_ids: Tensor  # [n] int64
    anchors: list[str] | None = None  # the English captions, when texts are in another language
    audio_features: Tensor | None = None  # [n, width] what a frozen audio tower says
    text_features: Tensor | None = None  # [n, width]
    negatives: list[list[str]] | None = None  # further captions that are wrong for the row
    prepared: dict[str, Any] = field(default_factory=dict)  # what the loader's workers computed for the model


# -- embedding -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Embedded:
    """One window of one item: ``start`` and ``end`` in seconds; exactly one of ``vector`` and ``error`` is there."""

    index: int
    start: float
    end: float
    vector: np.ndarray | None
    error: str | None = None


@dataclass(frozen=True)
class Label:
    """One answer of ``classify``."""

    name: str
    score: float


@dataclass(frozen=True)
class Hit:
    """One answer of ``search``; ``probability`` is None where the model was not calibrated."""

    path: str
    start: float
    end: float
    score: float
    probability: float | None = None


# -- objectives ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """One direction of a contrastive loss: query rows look for their own key row among all keys.

    Row i of ``query`` belongs to row i of ``key``; logits = scale * query @ key.T + bias.
    ``direction`` None: Support Vector Regularization leaves the term alone.
    """

    name: str
    direction: Direction | None
    query: Tensor  # [n, d] unit rows
    key: Tensor  # [n, d] unit rows
    weight: float
    scale: Tensor | float
    bias: Tensor | float = 0.0


@dataclass
class LossOutput:
    """What an objective returns: ``loss == sum(weights[k] * parts[k])``.

    ``radius`` and ``distance`` are keyed by the name of the term they belong to.
    """

    loss: Tensor
    parts: dict[str, Tensor]
    weights: dict[str, float]
    radius: dict[str, Tensor] = field(default_factory=dict)  # [n] each, in the graph
    distance: dict[str, Tensor] = field(default_factory=dict)  # [n] each, detached


@runtime_checkable
class BaseLoss(Protocol):
    """A contrastive loss that SVR can stand on: a list of directional terms and a cost of one row.

    ``cost`` of a row depends on that row alone. ``excluded`` leaves pairs out of the denominator and may hold the
    positive.
    """

    names: tuple[str, ...]

    def terms(
        self,
        audio: Tensor,
        text: Tensor,
        *,
        anchor_text: Tensor | None,
        scale: Tensor | float | None,
        bias: Tensor | float | None,
    ) -> list[Term]:
        """The terms, in the order of ``names``, of this rank's unit rows."""
        ...

    def cost(self, logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
        """[rows, keys] logits and [rows] positions of the positives to [rows] costs."""
        ...


RadiusLike = Callable[["Tensor", "Tensor", "Tensor | None", str], "Tensor"]
"""(similarities [rows, keys], distance [rows], excluded [rows, keys] or None, term name) -> radius [rows].

Similarities are scale * cosine without bias, detached, the positive in column 0 and the negatives behind it in batch
order; ``excluded`` is in the same order.
"""


# -- towers ----------------------------------------------------------------------------------------------------------


class AudioTower(Protocol):
    """Samples to one vector a clip; padding beyond a row's length never changes its vector."""

    sample_rate: int
    width: int

    def __call__(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """[n, t] float32 and [n] true lengths to [n, width]."""
        ...


class TextTower(Protocol):
    """Texts to one vector each."""

    width: int
    max_tokens: int

    def tokenize(self, texts: Sequence[str], languages: Sequence[str]) -> dict[str, Tensor]:
        """What ``__call__`` takes, as keyword arguments."""
        ...

    def __call__(self, **tokens: Tensor) -> Tensor:
        """Tokens to [n, width]."""
        ...
