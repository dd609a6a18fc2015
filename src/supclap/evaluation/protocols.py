"""The retrieval protocols by name: which rows take part, and what a rank is worth. docs/protocols.md has the formulas.

c: clips that ask, q: captions, g: most captions of a clip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from supclap.evaluation.ranks import Ints, Ranks
from supclap.schema import Direction, UserError, unknown

CUTS = (1, 5, 10, 50)
SHARES = (*(f"R@{k}" for k in CUTS), "mAP10", "MRR", "nDCG@10")
METRICS = ("R@1", "R@5", "R@10", "R@50", "mAP10", "MedR", "MeanR", "MRR", "nDCG@10")
LOWER_IS_BETTER = ("MedR", "MeanR")
GROUP = 5

Values = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Selection:
    """The rows that take part: clips, captions, and for each of these captions the place of its clip among those."""

    clips: Ints
    captions: Ints
    caption_clip: Ints


@dataclass(frozen=True)
class Protocol:
    """How one family of papers counts.

    ``recall``: A2T R@k by "any" caption found, or by the "share" of them found. ``precision``: A2T mAP10 divides by
    "all" captions of the clip or by the "found" ones, or takes the ranks in "caption order", unsorted. ``flag``: why
    the numbers must not be compared with those of other protocols; None where they may.
    """

    name: str
    about: str
    recall: Literal["any", "share"] = "any"
    precision: Literal["all", "found", "caption order"] = "all"
    flag: str | None = None
    select: Callable[[Ints, int], Selection] | None = None


def select_all(caption_clip: Ints, clips: int) -> Selection:
    """Everything, as it stands."""
    return Selection(np.arange(clips), np.arange(len(caption_clip)), caption_clip)


def select_first(caption_clip: Ints, clips: int) -> Selection:
    """Each clip's first caption."""
    asked, captions = np.unique(caption_clip, return_index=True)
    return Selection(np.arange(clips), captions, asked)


def select_groups(caption_clip: Ints, clips: int) -> Selection:
    """Every fifth clip, with the captions of the four clips behind it taken for its own."""
    if not np.array_equal(np.sort(caption_clip), np.arange(clips)):
        raise UserError("protocol='wavcaps-paper' is for exactly one caption a clip; use protocol='mlclap'")
    if clips < GROUP:
        raise UserError(f"protocol='wavcaps-paper' needs at least {GROUP} clips, got {clips}; use protocol='mlclap'")
    used = clips // GROUP * GROUP
    captions = np.argsort(caption_clip, kind="stable")[:used]
    return Selection(np.arange(0, used, GROUP), captions, np.arange(used) // GROUP)


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("mlclap", "ML-CLAP, WavCaps, GLAP: any caption counts for R@k; mAP10 divides by the clip's captions"),
        Protocol(
            "laion",
            "LAION-CLAP as published: the ranks in A2T mAP10 are never sorted",
            precision="caption order",
            flag="A2T mAP10 takes the ranks unsorted, as published: it is too high, and one query can exceed 100",
        ),
        Protocol("dcase", "DCASE 2023: A2T R@k is the share of the clip's captions found", recall="share"),
        Protocol("mteb", "mteb: recall_at_k is the share found; hit@k (its main score is hit@5) any", recall="share"),
        Protocol("cacophony", "Cacophony: A2T mAP10 divides by the captions found in the top 10", precision="found"),
        Protocol("one-caption", "one caption a clip, its first: as many captions as clips", select=select_first),
        Protocol(
            "wavcaps-paper",
            "the paper's WavCaps table, probably: a five-caption protocol applied to one caption a clip",
            flag="takes five consecutive clips' captions for one clip's own; only for reading the paper's table",
            select=select_groups,
        ),
    )
}


def find(name: str | Protocol) -> Protocol:
    """The protocol of a name."""
    if isinstance(name, Protocol):
        return name
    if name not in PROTOCOLS:
        raise unknown("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]


def values(ranks: Ranks, protocol: Protocol) -> dict[Direction, Values]:
    """What each query is worth: a number in 0..1 by metric, and the 1-based rank under MeanR."""
    return {"t2a": _t2a(ranks.t2a, protocol), "a2t": _a2t(ranks, protocol)}


def owners(ranks: Ranks) -> dict[Direction, Ints]:
    """The clip of each query: what is resampled together."""
    return {"t2a": ranks.caption_clip, "a2t": np.flatnonzero(ranks.counts())}


def median_rank(ranks: Ints) -> float:
    """Floor of the median 0-based rank, plus one: as the peers count."""
    return float(np.floor(np.median(ranks)) + 1)


def _t2a(rank: Ints, protocol: Protocol) -> Values:
    found = {f"R@{k}": (rank < k).astype(float) for k in CUTS}
    worth = {
        **found,
        "mAP10": np.where(rank < 10, 1.0 / (rank + 1), 0.0),
        "MeanR": rank + 1.0,
        "MRR": 1.0 / (rank + 1),
        "nDCG@10": np.where(rank < 10, 1.0 / np.log2(rank + 2.0), 0.0),
    }
    if protocol.recall == "share":
        worth |= {f"hit@{k}": found[f"R@{k}"] for k in CUTS}
    return worth


def _a2t(ranks: Ranks, protocol: Protocol) -> Values:
    table_cg, counts = _table(ranks)
    in_order = table_cg
    table_cg = np.sort(table_cg, axis=1)
    best, top = table_cg[:, 0], table_cg < 10
    hit = {k: (best < k).astype(float) for k in CUTS}
    share = {k: (table_cg < k).sum(1) / counts for k in CUTS}
    gains = np.cumsum(1.0 / np.log2(np.arange(10) + 2.0))
    worth = {
        **{f"R@{k}": (share if protocol.recall == "share" else hit)[k] for k in CUTS},
        "mAP10": _precision(in_order if protocol.precision == "caption order" else table_cg, counts, protocol),
        "MeanR": best + 1.0,
        "MRR": 1.0 / (best + 1),
        "nDCG@10": np.where(top, 1.0 / np.log2(table_cg + 2.0), 0.0).sum(1) / gains[np.minimum(counts, 10) - 1],
    }
    if protocol.recall == "share":
        worth |= {f"hit@{k}": hit[k] for k in CUTS}
    return worth


def _precision(table_cg: Ints, counts: Ints, protocol: Protocol) -> NDArray[np.float64]:
    """Sum over captions in the top 10 of (how many so far) / (rank + 1), divided as the protocol says."""
    top = table_cg < 10
    total = np.where(top, np.cumsum(top, axis=1) / (table_cg + 1.0), 0.0).sum(1)
    divisor = np.maximum(top.sum(1), 1) if protocol.precision == "found" else counts
    return np.asarray(total / divisor)


def _table(ranks: Ranks) -> tuple[Ints, Ints]:
    """[c, g] ranks of each asking clip's captions in caption order, then a rank that counts for nothing."""
    counts = ranks.counts()
    counts = counts[counts > 0]
    table = np.full((len(counts), int(counts.max())), np.iinfo(np.int32).max, np.int64)
    table[np.arange(table.shape[1]) < counts[:, None]] = ranks.a2t[np.argsort(ranks.caption_clip, kind="stable")]
    return table, counts
