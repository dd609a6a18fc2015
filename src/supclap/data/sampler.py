"""Who comes when: the order of an epoch, a pure function of seed, epoch, rank and world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
import torch

from supclap.runtime import generator
from supclap.schema import UserError

Order = np.ndarray[Any, np.dtype[np.int64]]


def order(count: int, seed: int, epoch: int, rank: int = 0, world: int = 1) -> Order:
    """The items of a rank for an epoch, each once; every rank gets equally many (a remainder rests this epoch)."""
    return share(shuffled(count, seed, epoch), rank, world)


def shuffled(count: int, seed: int, epoch: int) -> Order:
    """All items in the order of an epoch."""
    chosen: Order = torch.randperm(count, generator=generator(seed, "order", epoch)).numpy()
    return chosen


def share(whole: Order, rank: int, world: int) -> Order:
    """Every world-th item from ``rank`` on."""
    if not 0 <= rank < world:
        raise UserError(f"rank={rank}, world={world}: give 0 <= rank < world")
    return whole[: len(whole) // world * world][rank::world]


def rounds(whole: Order, groups: Sequence[int], seed: int, epoch: int) -> Order:
    """The same items in rounds: of a group of m items one comes in every m-th of the epoch, at a random place in it."""
    sizes = Counter(groups)
    turn: dict[int, int] = {}
    places = torch.rand(len(whole), generator=generator(seed, "rounds", epoch), dtype=torch.float64).tolist()
    keys = np.empty(len(whole))
    for index, item in enumerate(whole.tolist()):
        group = groups[item]
        keys[index] = (turn.get(group, 0) + places[index]) / sizes[group]
        turn[group] = turn.get(group, 0) + 1
    return whole[np.argsort(keys, kind="stable")]


def apart(whole: Order, groups: Sequence[int], window: int) -> Order:
    """The same items, moved as little as needed for no group to come twice within ``window`` items, while it can be.

    An item whose group has just been waits for its turn; whoever has waited longest goes first.
    """
    ready_at: dict[int, int] = {}
    waiting: list[tuple[int, int, int]] = []  # (may go at, came at, item)
    out: list[int] = []

    def place(item: int) -> None:
        out.append(item)
        ready_at[groups[item]] = len(out) - 1 + window

    def release() -> None:
        while waiting and waiting[0][0] <= len(out):
            _, came, item = heappop(waiting)
            if ready_at[groups[item]] <= len(out):
                place(item)
            else:
                heappush(waiting, (ready_at[groups[item]], came, item))

    for came, item in enumerate(whole.tolist()):
        release()
        if ready_at.get(groups[item], 0) <= len(out):
            place(item)
        else:
            heappush(waiting, (ready_at[groups[item]], came, item))
    # What is left belongs to groups too large to be kept apart: as far apart as it goes.
    while waiting:
        before = len(out)
        release()
        if len(out) == before:
            place(heappop(waiting)[2])
    return np.asarray(out, dtype=np.int64)


def bucketed(whole: Order, lengths: Sequence[float], batch: int, batches: int, seed: int, epoch: int) -> Order:
    """Within every ``batches`` batches, items of like length stand together; the batches are shuffled again."""
    size = batch * batches
    pieces: list[Order] = []
    for number, first in enumerate(range(0, len(whole), size)):
        chunk = whole[first : first + size]
        ranked = chunk[np.argsort(np.asarray([lengths[item] for item in chunk]), kind="stable")]
        full = len(ranked) // batch * batch
        rows = ranked[:full].reshape(-1, batch)
        turn = torch.randperm(len(rows), generator=generator(seed, "buckets", epoch, number)).numpy()
        pieces += [rows[turn].reshape(-1), ranked[full:]]
    return np.concatenate(pieces) if pieces else whole
