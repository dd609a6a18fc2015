"""The semantic radius: how far a support vector moves from its query towards its positive.

A radius is any callable (similarities [rows, keys], distance [rows], excluded [rows, keys] | None, name) -> [rows];
see ``supclap.schema.RadiusLike``. Those that do not look at similarities say so (``reads = False``).
"""

from __future__ import annotations

import math
import zlib
from typing import Literal

import torch
from torch import Tensor, nn

from supclap.objectives import check
from supclap.schema import UserError

Cap = Literal["distance"] | None
SET_SIZE = 24  # what DynamicRadius() resamples a row to: the paper's batch
_WORD = (1 << 64) - 1


class Radius(nn.Module):
    """What ours have in common; ``cap`` "distance" keeps a radius below d by d tanh(R / d), d held."""

    reads = True  # whether it looks at similarities; where none does, they are not arranged for it
    beta = 0.0  # the weight of L_cons where SVR is given none

    def __init__(self, cap: Cap = None) -> None:
        super().__init__()
        if cap not in (None, "distance"):
            raise UserError(f"cap={cap!r} is unknown; use None or 'distance'")
        self.cap = cap


class StaticRadius(Radius):
    """One learnable number."""

    reads = False

    def __init__(self, initial: float = 1.0, cap: Cap = None) -> None:
        super().__init__(cap)
        initial = check.real("initial", initial)
        if not math.isfinite(initial):
            raise UserError(f"initial={initial!r} is not a finite number")
        self.radius = nn.Parameter(torch.tensor(initial))

    def forward(self, similarities: Tensor, distance: Tensor, excluded: Tensor | None, name: str) -> Tensor:
        """The number, for every row."""
        return self.radius.to(distance.dtype).expand(len(distance))


class DynamicRadius(Radius):
    """A three-layer perceptron that reads a row of similarities: N - hidden - hidden - 1, ReLU, linear output.

    ``batch_size`` fixes N, the global batch, as in the paper: the row is [positive, then the batch in its order], and
    entries left out as same-clip take the row's mean over its other negatives. None takes any batch: negatives are
    sorted and resampled to a fixed length, so their order does not matter either.
    """

    beta = 0.01

    def __init__(self, batch_size: int | None = None, hidden: int = 64, cap: Cap = None) -> None:
        super().__init__(cap)
        batch_size = None if batch_size is None else check.whole("batch_size", batch_size)
        hidden = check.whole("hidden", hidden)
        if batch_size is not None and batch_size < 2:
            raise UserError(f"batch_size={batch_size!r} has no negatives; use 2 or more, or None for any batch")
        if hidden < 1:
            raise UserError(f"hidden={hidden!r} must be 1 or more")
        self.batch_size = batch_size
        width = SET_SIZE if batch_size is None else batch_size
        self.predictor = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, similarities: Tensor, distance: Tensor, excluded: Tensor | None, name: str) -> Tensor:
        """What the perceptron says of each row."""
        if self.batch_size is None:
            row = resampled(similarities, excluded, SET_SIZE)
        elif similarities.shape[1] != self.batch_size:
            raise UserError(
                f"batch_size={self.batch_size} but the global batch has {similarities.shape[1]} rows; drop the last "
                "partial batch, or use DynamicRadius() for any batch"
            )
        else:
            row = filled(similarities, excluded)
        kind = next(self.predictor.parameters()).dtype
        return self.predictor(row.to(kind)).squeeze(1).to(distance.dtype)  # type: ignore[no-any-return]


def filled(similarities: Tensor, excluded: Tensor | None) -> Tensor:
    """Entries left out take the mean of the row's other negatives, or its positive's value where there is none."""
    if excluded is None:
        return similarities
    kept = ~excluded[:, 1:]
    count = kept.sum(1, keepdim=True)
    mean = (similarities[:, 1:] * kept).sum(1, keepdim=True) / count.clamp(min=1)
    return torch.where(excluded, torch.where(count > 0, mean, similarities[:, :1]), similarities)


def resampled(similarities: Tensor, excluded: Tensor | None, length: int) -> Tensor:
    """[positive, length - 1 evenly spaced order statistics of the negatives that are not left out], largest first."""
    negatives = similarities[:, 1:]
    if excluded is not None:
        negatives = negatives.masked_fill(excluded[:, 1:], -torch.inf)
    ordered = negatives.sort(dim=1, descending=True).values
    count = torch.full_like(ordered[:, :1], ordered.shape[1])
    if excluded is not None:
        count = (~excluded[:, 1:]).sum(1, keepdim=True).to(ordered.dtype)
    place = torch.linspace(0, 1, length - 1, dtype=ordered.dtype, device=ordered.device) * (count - 1).clamp(min=0)
    low = place.floor().long()
    high = torch.minimum(low + 1, (count - 1).clamp(min=0).long())
    picked = torch.lerp(ordered.gather(1, low), ordered.gather(1, high), place - low)
    return torch.cat([similarities[:, :1], torch.where(count > 0, picked, similarities[:, :1])], dim=1)


class FixedRadius(Radius):
    """A control: a number, or a fraction of each row's distance (held)."""

    reads = False

    def __init__(self, value: float | None = None, fraction: float | None = None) -> None:
        super().__init__()
        if (value is None) == (fraction is None):
            raise UserError(f"value={value!r}, fraction={fraction!r}: give exactly one of value and fraction")
        given = ("fraction", fraction) if value is None else ("value", value)
        if not math.isfinite(check.real(*given)):
            raise UserError(f"value={value!r}, fraction={fraction!r}: not a finite number")
        self.value, self.fraction = value, fraction

    def forward(self, similarities: Tensor, distance: Tensor, excluded: Tensor | None, name: str) -> Tensor:
        """The number, or the fraction of the distance."""
        if self.fraction is not None:
            return self.fraction * distance.detach()
        return torch.full_like(distance, float(self.value))  # type: ignore[arg-type]


class RandomRadius(Radius):
    """A control: R_i drawn afresh at each call from U(0, high * d_i), by counting, so that no generator moves.

    The draw depends on the row's place in the global batch, so ranks draw what one process would.
    """

    reads = False

    def __init__(self, high: float = 1.0, seed: int = 0) -> None:
        super().__init__()
        high = check.real("high", high)
        if not 0 < high < math.inf:
            raise UserError(f"high={high!r} must be a number above 0")
        self.high, self.seed = high, seed
        self.first_row = 0  # set by SVR: where this rank's rows start
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, similarities: Tensor, distance: Tensor, excluded: Tensor | None, name: str) -> Tensor:
        """A fresh draw for every row."""
        place = torch.arange(self.first_row, self.first_row + len(distance), device=distance.device)
        share = hashed_uniform(place, self.calls, _key(self.seed, name))
        if self.training:
            self.calls += 1
        return self.high * share.to(distance.dtype) * distance.detach()


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _key(seed: int, name: str) -> int:
    return zlib.crc32(f"{seed}/{name}".encode())


def hashed_uniform(place: Tensor, call: Tensor, key: int) -> Tensor:
    """Numbers in [0, 1) that are a function of (place, call, key) alone: SplitMix64 in int64 arithmetic."""
    state = (place + 1) * _signed(0x9E3779B97F4A7C15) + (call + 1) * _signed(0xD1B54A32D192ED03) + key
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ _right(state, shift)) * _signed(factor)
    return _right(state ^ _right(state, 31), 11).double() * 2.0**-53


def _right(state: Tensor, shift: int) -> Tensor:
    """A logical shift to the right; torch's keeps the sign."""
    return (state >> shift) & (_WORD >> shift)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
