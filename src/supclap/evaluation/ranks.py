"""Ranks by counting: how many wrong candidates score at least as much as the right one. Nothing is ever sorted whole.

c: clips, q: captions. Ranks are 0-based; ties count against us; a score that is not finite is an error, never a rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.schema import UserError

Ints = NDArray[np.int64]
Floats = NDArray[Any]

# Cosines are formed in float64 from rows of any precision: what differs by less than this is the same score, or a
# collapsed model would be ranked by its rounding.
ROUNDING = 1e-12
# Scores held at once by one tile of the blockwise product.
TILE = 2**23
# A caption's wins are counted in uint8 over a block of clips, so a block has at most this many rows.
BLOCK = 255


@dataclass(frozen=True)
class Ranks:
    """The ranks of every right pair, both ways.

    ``t2a`` [q]: the clip's place among all clips. ``a2t`` [q]: the caption's place among all captions as its clip asks.
    """

    t2a: Ints
    a2t: Ints
    caption_clip: Ints
    clips: int

    def best(self) -> Ints:
        """[c] the place of each clip's best caption; a clip without a caption has -1."""
        best = np.full(self.clips, np.iinfo(np.int64).max)
        np.minimum.at(best, self.caption_clip, self.a2t)
        best[self.counts() == 0] = -1
        return best

    def counts(self) -> Ints:
        """[c] captions of each clip."""
        return np.bincount(self.caption_clip, minlength=self.clips)


def rank_similarity(clips_by_captions: Floats, caption_clip: Ints) -> Ranks:
    """Ranks from a whole matrix, compared as it stands."""
    scores = clips_by_captions
    if scores.dtype not in (np.float32, np.float64):
        # Narrower numbers (and whole ones) fit float64 exactly, block by block, so no comparison changes.
        def rows(first: int, last: int) -> Floats:
            return scores[first:last].astype(np.float64)
    else:

        def rows(first: int, last: int) -> Floats:
            return np.ascontiguousarray(scores[first:last])

    clips, captions = scores.shape
    gold = scores[caption_clip, np.arange(captions)].astype(np.float64 if scores.dtype != np.float32 else np.float32)
    tiles = ((first, 0, rows(first, min(first + BLOCK, clips))) for first in range(0, clips, BLOCK))
    return _count(tiles, gold, 0.0, caption_clip, clips)


def rank_embeddings(audio: Floats, text: Floats, caption_clip: Ints) -> Ranks:
    """Ranks from embeddings, tile by tile: rows may arrive at any length; the whole matrix is never formed."""
    gold = np.empty(len(text))
    step = max(1, TILE // (4 * audio.shape[1]))
    for first in range(0, len(text), step):
        part = slice(first, first + step)
        gold[part] = np.einsum("qd,qd->q", unit(audio[caption_clip[part]]), unit(text[part]))
    return _count(_tiles(audio, text), gold, ROUNDING, caption_clip, len(audio))


def unit(rows: Floats) -> Floats:
    """Rows of length one, in float64."""
    wide = rows.astype(np.float64)
    # Divided by the largest entry first: squares of very large or small entries would leave the range.
    wide /= np.maximum(np.abs(wide).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    wide /= np.sqrt(np.einsum("nd,nd->n", wide, wide))[:, None]
    return wide


def _tiles(audio: Floats, text: Floats) -> Iterator[tuple[int, int, Floats]]:
    wide = max(1, min(len(text), TILE // BLOCK, 2 * TILE // audio.shape[1]))
    for column in range(0, len(text), wide):
        keys = unit(text[column : column + wide]).T
        for row in range(0, len(audio), BLOCK):
            yield row, column, unit(audio[row : row + BLOCK]) @ keys


def _count(
    tiles: Iterator[tuple[int, int, Floats]], gold: Floats, slack: float, caption_clip: Ints, clips: int
) -> Ranks:
    """Wrong candidates at or above the right one, minus nothing: right ones are taken out by the same comparison."""
    bar = gold - slack if slack else gold
    order = np.argsort(caption_clip, kind="stable")
    counts = np.bincount(caption_clip, minlength=clips)
    first_of = np.concatenate([[0], np.cumsum(counts)])
    bars = _padded(bar[order], counts)
    t2a, ahead = np.zeros(len(gold), np.int64), np.zeros(bars.shape, np.int64)
    for row, column, scores in tiles:
        if not np.isfinite(scores).all():
            raise UserError("scores hold NaN or inf, which have no rank; has the model diverged?")
        last, stop = row + len(scores), column + scores.shape[1]
        t2a[column:stop] += _wins_of_columns(scores, bar[column:stop])
        captions = order[first_of[row] : first_of[last]]
        captions = captions[(captions >= column) & (captions < stop)]
        owner = caption_clip[captions]
        right = scores[owner - row, captions - column]
        t2a[captions] -= right >= bar[captions]
        _add_wins_of_rows(ahead, bars, row, scores)
        # A clip's own captions are no rivals of each other here; their order among themselves is added at the end.
        np.subtract.at(ahead, owner, right[:, None] >= bars[owner])
    return Ranks(t2a, _with_own(ahead, bars, counts, order), caption_clip, clips)


def _padded(values: Floats, counts: Ints) -> Floats:
    """[c, most captions of a clip] the values of each clip, then inf, which nothing reaches."""
    table = np.full((len(counts), max(1, int(counts.max(initial=0)))), np.inf, values.dtype)
    table[np.arange(table.shape[1]) < counts[:, None]] = values
    return table


def _wins_of_columns(scores: Floats, bar: Floats) -> Ints:
    wins = (scores >= bar).view(np.uint8)
    won: Ints = np.add.reduce(wins, axis=0, dtype=np.uint8).astype(np.int64)
    return won


def _add_wins_of_rows(ahead: Ints, bars: Floats, row: int, scores: Floats) -> None:
    """Count along rows: eight flags to a word, words added up to 255 at a time so that no byte runs over."""
    high, width = scores.shape
    step = max(1, 2**18 // max(1, width))
    flags = np.zeros((step, -(-width // 8) * 8), bool)
    for first in range(0, high, step):
        part = scores[first : first + step]
        mine = slice(row + first, row + first + len(part))
        for k in range(bars.shape[1]):
            bar = bars[mine, k]
            here = np.flatnonzero(bar < np.inf)
            if not len(here):
                break
            whole = len(here) == len(part)
            np.greater_equal(part if whole else part[here], bar[here, None], out=flags[: len(here), :width])
            words = flags[: len(here)].view(np.uint64)
            for start in range(0, words.shape[1], 255):
                sums = np.ascontiguousarray(np.add.reduce(words[:, start : start + 255], axis=1))
                ahead[row + first + here, k] += sums.view(np.uint8).reshape(len(here), 8).sum(1, dtype=np.int64)


def _with_own(ahead: Ints, bars: Floats, counts: Ints, order: Ints) -> Ints:
    """Add, for each caption, how many of its own clip's captions stand before it (of equals, the earlier)."""
    falling = np.where(bars < np.inf, -bars, np.inf)
    place = np.argsort(np.argsort(falling, axis=1, kind="stable"), axis=1, kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = (ahead + place)[np.arange(bars.shape[1]) < counts[:, None]]
    return ranks


def worst_order(
    scores: Floats, gains: NDArray[np.float64], against: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Items from the first to the last place; of equals those ``against`` the model first, then the less relevant."""
    order = np.argsort(-scores, kind="stable")
    step = np.zeros(len(scores), np.int64)
    step[order[1:]] = -np.diff(scores[order]) > ROUNDING
    group = np.empty(len(scores), np.int64)
    group[order] = np.cumsum(step[order])
    return np.lexsort((gains, group) if against is None else (gains, ~against, group))
