"""How a long sound is cut into windows."""

from __future__ import annotations

from supclap.schema import UserError


def spans(count: int, window: int, hop: int | None = None) -> list[tuple[int, int]]:
    """(first, last) in samples of windows that cover ``count`` samples; the last one may be short."""
    step = window if hop is None else hop
    if window < 1 or not 1 <= step <= window:
        raise UserError(f"window={window}, hop={hop}: give 1 <= hop <= window, so that no sample is left out")
    if count <= 0:
        return []
    firsts = range(0, max(count - window + step, 1), step)
    return [(first, min(first + window, count)) for first in firsts]
