"""Clips to batches: the same ones for any number of workers, and from any (epoch, position) on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from supclap.audio.decode import AudioError, probe
from supclap.data.decoded import Decoded
from supclap.data.quarantine import Bad, Quarantine
from supclap.data.sample import ENGLISH, Augmentation, Captions, Features, Made, Maker, Task
from supclap.data.sampler import Order, apart, bucketed, rounds, share, shuffled
from supclap.schema import Batch, Clip, UserError, unknown

AHEAD = 2
PATIENCE_SECONDS = 600
_DEAD = "data.workers: a worker died ({}); for want of memory? take fewer workers, or smaller batches"


class Loader:
    """Batches of an epoch, formed after decoding: a clip that cannot be read is put aside and the next one moves up.

    ``batches`` yields the position after each batch; (epoch, position) is all that resuming takes. Draws depend on
    (seed, epoch, position) alone. ``distinct``: no clip comes twice in a batch. ``bucket``: clips of like length
    stand together within so many batches. ``decoded``: a folder where every clip is kept as 16-bit samples once it has
    been read, for sounds that come in many epochs.
    """

    def __init__(
        self,
        clips: Sequence[Clip],
        *,
        batch_size: int,
        sample_rate: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        workers: int = 0,
        prepare: Callable[[Batch], Batch] | None = None,
        captions: Captions = "one",
        features: Features | None = None,
        drop_last: bool = True,
        max_seconds: float | None = None,
        quarantine: str | Path | None = None,
        strict: bool = False,
        crop: Literal["random", "start"] = "random",
        augment: Augmentation | None = None,
        bucket: int = 0,
        distinct: bool = True,
        shuffle: bool = True,
        context: str | None = None,
        decoded: str | Path | None = None,
    ) -> None:
        _check(batch_size=batch_size, workers=workers, captions=captions, crop=crop, max_seconds=max_seconds)
        self.clips = list(clips)
        self.batch_size, self.seed, self.rank, self.world, self.workers = batch_size, seed, rank, world, workers
        self.drop_last, self.strict, self.distinct, self.shuffle = drop_last, strict, distinct, shuffle
        self.repeats = 0
        self._bucket, self._context = bucket, context
        self._quarantine = Quarantine(quarantine)
        first: dict[str, int] = {}
        ids = [first.setdefault(clip.id, index) for index, clip in enumerate(self.clips)]
        items = self._items(captions)
        self._maker = Maker(self.clips, items, ids, sample_rate, seed, captions, max_seconds, crop)
        self._maker.rank, self._maker.world = rank, world
        self._maker.augment, self._maker.features, self._maker.prepare = augment, features, prepare
        self._maker.decoded = None if decoded is None else Decoded(Path(decoded).absolute(), sample_rate)
        self._lengths = self._seconds() if bucket else []
        self._pool: Any = None
        self._count = len(share(np.arange(len(items)), rank, world))
        if len(self) == 0:
            raise UserError(
                f"batch_size={batch_size}, world={world}: {len(items)} samples do not fill one batch; take it smaller"
            )

    @property
    def items(self) -> Sequence[tuple[int, int]]:
        """(clip, caption) of every sample of an epoch; caption -1: drawn."""
        return self._maker.items

    @property
    def ids(self) -> Sequence[int]:
        """The clip id of every clip."""
        return self._maker.ids

    @property
    def out(self) -> Mapping[int, Bad]:
        """The clips that are put aside, by their place in ``clips``."""
        return self._quarantine.bad

    @property
    def quarantined(self) -> list[Bad]:
        """The clips that were put aside so far."""
        return list(self._quarantine.bad.values())

    def __len__(self) -> int:
        """Batches an epoch, if every clip can be read."""
        return self._count // self.batch_size if self.drop_last else -(-self._count // self.batch_size)

    def batches(self, epoch: int, position: int = 0, done: int | None = None) -> Iterator[tuple[int, Batch]]:
        """(position after it, batch) for the rest of an epoch.

        ``done``: batches of the epoch given before ``position``, needed where bad clips were among them.
        """
        given = position // self.batch_size if done is None else done
        stream = _Stream(self, self._order(epoch), epoch, position, given)
        source = self._inline(stream) if self.workers == 0 else self._workers(stream)
        try:
            yield from source
            if stream.given == 0 and position == 0:
                raise UserError(self._hopeless())
        except UserError:
            # Workers that outlive an error keep its reader waiting when they are collected.
            self.close()
            raise

    def close(self) -> None:
        """Let the workers go; the next ``batches`` starts new ones."""
        pool, self._pool = getattr(self, "_pool", None), None
        if pool is None or pool._iterator is None:
            return
        if self._owner == os.getpid():
            pool._iterator._shutdown_workers()
            # One that hangs in a file hears no SIGTERM (see `_deaf`), and would be waited for at exit.
            for worker in pool._iterator._workers:
                if worker.is_alive():
                    worker.kill()
        # In a forked child the workers are somebody else's.
        pool._iterator._shutdown = True

    def __del__(self) -> None:
        # Left to the collector, a pool would be ended in a later pool's children, which complain.
        self.close()

    def _inline(self, stream: _Stream) -> Iterator[tuple[int, Batch]]:
        while (task := stream.next_task()) is not None:
            if (done := stream.accept(self._maker[task])) is not None:
                yield done

    def _workers(self, stream: _Stream) -> Iterator[tuple[int, Batch]]:
        if self._pool is None:
            dataset: Any = self._maker
            self._owner = os.getpid()
            self._pool = torch.utils.data.DataLoader(
                dataset,
                sampler=_Tasks(),
                batch_size=None,
                collate_fn=_as_it_is,
                num_workers=self.workers,
                prefetch_factor=AHEAD,
                persistent_workers=True,
                timeout=PATIENCE_SECONDS,
                worker_init_fn=_deaf,
                multiprocessing_context=self._context,
            )
        self._pool.sampler.stream = stream
        made = iter(self._pool)
        while True:
            try:
                answer = next(made)
            except StopIteration:
                break
            except (RuntimeError, OSError, EOFError) as error:
                reason = died(error) or self._lost(error)
                if reason is None:
                    raise
                raise UserError(reason) from error
            if (done := stream.accept(answer)) is not None:
                yield done
        # A bad clip in the last batches leaves a rest that the workers were not asked for.
        yield from self._inline(stream)

    def _lost(self, error: Exception) -> str | None:
        """What to say where a batch broke off on its way because its worker is dead."""
        workers = self._pool._iterator._workers
        for worker in workers:
            worker.join(0.2)
        return None if all(worker.is_alive() for worker in workers) else _DEAD.format(error)

    def _order(self, epoch: int) -> Order:
        items = self._maker.items
        whole = shuffled(len(items), self.seed, epoch) if self.shuffle else np.arange(len(items))
        if self._bucket:
            size = self.batch_size * self.world
            whole = bucketed(whole, self._lengths, size, self._bucket, self.seed, epoch)
        groups = [self._maker.ids[clip] for clip, _ in items]
        if self.distinct and len(set(groups)) < len(groups):
            whole = apart(self._in_rounds(whole, groups, epoch), groups, self.batch_size * self.world)
        return share(whole, self.rank, self.world)

    def _in_rounds(self, whole: Order, groups: Sequence[int], epoch: int) -> Order:
        return rounds(whole, groups, self.seed, epoch) if self.shuffle and not self._bucket else whole

    def _items(self, captions: Captions) -> list[tuple[int, int]]:
        items: list[tuple[int, int]] = []
        for index, clip in enumerate(self.clips):
            reason = _wordless(clip, captions)
            if reason is not None:
                self.put_aside(index, reason)
            elif captions == "all":
                items += [(index, place) for place in range(len(clip.captions))]
            else:
                items.append((index, -1))
        if not items:
            raise UserError(self._hopeless() if self.clips else "data: there are no clips")
        return items

    def _seconds(self) -> list[float]:
        """The length of every item's clip; of one that cannot be read, nothing."""
        lengths: list[float] = []
        for clip in self.clips:
            try:
                lengths.append((probe(clip.audio).seconds if clip.end is None else clip.end) - clip.start)
            except AudioError:
                lengths.append(0.0)
        return [lengths[clip] for clip, _ in self._maker.items]

    def put_aside(self, clip: int, reason: str) -> None:
        """Leave a clip (by its place in ``clips``) out from now on; UserError if ``strict``."""
        if self.strict:
            raise UserError(f"clip {self.clips[clip].id!r}: {reason} (strict)")
        self._quarantine.add(clip, self.clips[clip], reason)

    def _hopeless(self) -> str:
        bad = self.quarantined
        first = f"; the first: {bad[0].reason}" if bad else ""
        return f"data: {len(bad)} of {len(self.clips)} clips cannot be used, which leaves no batch{first}"


class _Stream:
    """Where an epoch stands: the rows of the next task, and which answer is due.

    Tasks are asked for ahead. A bad clip moves all rows behind it, so what was asked for after it is asked for anew.
    """

    def __init__(self, loader: Loader, order: Order, epoch: int, position: int, done: int) -> None:
        self._loader, self._order, self._epoch = loader, order.tolist(), epoch
        self._next = position
        self._number = self._outdated = -1
        self._home: int | None = None
        self.given, self._done = 0, done
        self._asked = done
        # Ranks must give equally many batches: one that lost clips goes on with its first ones.
        self._end = len(order) * (2 if loader.world > 1 else 1)

    def next_task(self) -> Task | None:
        """The next batch to be made; None while there is nothing to ask for."""
        wanted = self._wanted()
        if self._home is not None and (self._number + 1) % max(self._loader.workers, 1) != self._home:
            # An empty task moves the turn on, to the worker that still holds most of these samples.
            return self._task(())
        rows, repeats = self._rows(wanted)
        if not rows or (len(rows) < wanted and (self._loader.drop_last or self._loader.world > 1)):
            return None
        self._home = None
        self._next = rows[-1][0] + 1
        self._asked += 1
        return self._task(tuple(rows), repeats)

    def accept(self, made: Made) -> tuple[int, Batch] | None:
        """The batch of an answer, if it is the one that is due."""
        task = made.task
        if task.number <= self._outdated or not task.rows:
            return None
        if made.mistake is not None:
            raise UserError(made.mistake)
        if made.batch is None:
            for item, reason in made.bad:
                self._loader.put_aside(self._loader.items[item][0], reason)
            self._rewind(task)
            return None
        self.given += 1
        self._loader.repeats += task.repeats
        return task.rows[-1][0] + 1, made.batch

    def _rewind(self, task: Task) -> None:
        self._next, self._asked = task.rows[0][0], self._done + self.given
        self._outdated = self._number
        self._home = task.number % max(self._loader.workers, 1)

    def _wanted(self) -> int:
        """Rows of the next batch; the last one of an epoch may be short, the same on all ranks."""
        size = self._loader.batch_size
        left = len(self._order) - self._asked * size
        if self._asked >= len(self._loader) and (self._loader.world > 1 or self._loader.drop_last):
            return 0
        return size if self._loader.drop_last or self._loader.world == 1 else min(size, left)

    def _rows(self, wanted: int) -> tuple[list[tuple[int, int]], int]:
        rows: list[tuple[int, int]] = []
        seen: set[int] = set()
        repeats = 0
        place = self._next
        while len(rows) < wanted and place < self._end:
            item = self._order[place % len(self._order)]
            clip = self._loader.items[item][0]
            if clip not in self._loader.out:
                name = self._loader.ids[clip]
                if self._loader.distinct and name in seen:
                    repeats += 1
                else:
                    rows.append((place, item))
                    seen.add(name)
            place += 1
        return rows, repeats

    def _task(self, rows: tuple[tuple[int, int], ...], repeats: int = 0) -> Task:
        self._number += 1
        return Task(self._number, self._epoch, rows, repeats)


class _Tasks:
    """The stream as the pool's sampler: it may run dry and go on."""

    stream: _Stream

    def __iter__(self) -> _Tasks:
        return self

    def __next__(self) -> Task:
        task = self.stream.next_task()
        if task is None:
            raise StopIteration
        return task


def _deaf(worker: int) -> None:
    """Ctrl-C and a scheduler's SIGTERM reach the whole group; the process that trains saves and ends its workers."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _as_it_is(made: Any) -> Any:
    return made


def _wordless(clip: Clip, captions: Captions) -> str | None:
    """Why a clip has nothing to say in this mode, if so."""
    languages = {said.language for said in clip.captions}
    if not languages:
        return "it has no caption"
    if captions == "triple" and ENGLISH not in languages:
        return "captions='triple' takes an English caption beside another language"
    if captions == "triple" and len(languages) < 2:
        return "captions='triple' takes a caption in another language beside the English one"
    return None


def died(error: BaseException) -> str | None:
    """What to say of an error that is a worker's death or silence; None of another.

    torch raises it from a signal handler, so it can come out of any line of whoever turns the batches over.
    """
    reason = (str(error).splitlines() or [""])[0]
    if not isinstance(error, RuntimeError) or "DataLoader" not in reason:
        return None
    if "timed out" in reason.lower():
        return (
            f"data.workers: a worker gave no answer for {PATIENCE_SECONDS} s; find the file with `supclap corpus check`"
        )
    return _DEAD.format(reason)


def _check(batch_size: int, workers: int, captions: str, crop: str, max_seconds: float | None) -> None:
    if batch_size < 1:
        raise UserError(f"batch_size={batch_size}: give at least 1")
    if workers < 0:
        raise UserError(f"workers={workers}: give 0 (in this process) or more")
    if captions not in ("one", "all", "triple"):
        raise unknown("captions", captions, ["one", "all", "triple"])
    if crop not in ("random", "start"):
        raise unknown("crop", crop, ["random", "start"])
    if max_seconds is not None and not 0 < max_seconds < float("inf"):
        raise UserError(f"max_seconds={max_seconds}: give seconds above 0")
