"""Sounds to tower vectors: read lazily, cut into windows, computed in batches of windows, given back in order.

The one path that embedding, features, evaluation and search share. Memory is bounded by the batch and by one stretch
of a minute, however long a sound is.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from supclap.audio.decode import probe
from supclap.audio.reader import Item, read
from supclap.audio.window import spans
from supclap.schema import Clip, UserError

Sound = Item | Clip
"""What a model hears: an item of the reader, or a manifest's clip with its span."""
Windows = Literal["mean", "each"]
Floats = NDArray[np.float32]
_STRETCH = 60.0  # seconds read at once
NOT_FINITE = "the model gave values that are not finite; has its training diverged?"
_LINE = 300  # characters of a reason


@dataclass
class Window:
    """One window of one item on its way: samples, then a vector; or the reason why there is none."""

    index: int
    start: float
    end: float
    last: bool
    samples: Floats | None = None
    vector: Tensor | None = None
    error: str | None = None


@contextmanager
def inference(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; every module gets its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def windows_of(index: int, sound: Sound, rate: int, seconds: float) -> Iterator[Window]:
    """The windows of one sound, read a stretch at a time; one that cannot be read is one window with an error."""
    size = max(1, round(seconds * rate))
    stretch = max(1, int(_STRETCH / seconds)) * seconds
    item, start, end = (sound.audio, sound.start, sound.end) if isinstance(sound, Clip) else (sound, 0.0, None)
    held = None
    while True:
        until = start + stretch if end is None else min(start + stretch, end)
        try:
            samples = read(item, rate, start, until)
            more = len(samples) >= round(stretch * rate) - 1 and _reaches(item, until, end)
        except Exception as error:  # whatever a file does, the run goes on
            if held is not None:
                yield held
            yield Window(index, start, start, True, error=_reason(item, error))
            return
        for first, last in spans(len(samples), size):
            if held is not None:
                yield held
            held = Window(index, start + first / rate, start + last / rate, False, samples[first:last])
        if not more:
            break
        start = until
    if held is None:
        yield Window(index, start, start, True, error=f"{called(item)}: no samples in it")
        return
    held.last = True
    yield held


def _reaches(item: Item, time: float, end: float | None) -> bool:
    """Whether a sound goes on after ``time``; asked only where a whole stretch was read."""
    if end is not None and end - time < 1e-3:
        return False
    if isinstance(item, tuple):
        return bool(np.asarray(item[0]).shape[-1] / item[1] - time >= 1e-3)
    return float(probe(item).seconds) - time >= 1e-3


def called(item: Item) -> str:
    """What an item is called in a message."""
    if isinstance(item, bytes):
        return f"{len(item)} bytes"
    if isinstance(item, tuple):
        return "samples"
    # Whatever else was handed in may be long, and may have lines.
    return str(item) if isinstance(item, str | os.PathLike) else f"an item of type {type(item).__name__}"


def _reason(item: Item, error: Exception) -> str:
    line = " ".join(str(error).split())[:_LINE] or type(error).__name__
    return line if called(item) in line else f"{called(item)}: {line}"


def read_ahead(items: Iterable[Sound], rate: int, seconds: float, workers: int) -> Iterator[Window]:
    """The windows of all items, in order; ``workers`` threads decode ahead."""
    if workers <= 0:
        for index, item in enumerate(items):
            yield from windows_of(index, item, rate, seconds)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[tuple[list[Window], Iterator[Window]]]] = deque()
        source = enumerate(items)
        try:
            while True:
                while len(waiting) < 2 * workers and (pair := next(source, None)) is not None:
                    waiting.append(pool.submit(_first, windows_of(*pair, rate, seconds), int(_STRETCH / seconds) + 1))
                if not waiting:
                    return
                begun, rest = waiting.popleft().result()
                yield from begun
                yield from rest
        finally:
            for future in waiting:
                future.cancel()


def _first(windows: Iterator[Window], count: int) -> tuple[list[Window], Iterator[Window]]:
    """Decode the first windows now; a long sound's others are read when their turn comes."""
    return [window for window, _ in zip(windows, range(count), strict=False)], windows


def vectors(
    tower: Any, items: Iterable[Sound], *, batch_size: int = 32, workers: int = 0, device: torch.device | None = None
) -> Iterator[Window]:
    """Every window of every item with the tower's vector in place of its samples, in order."""
    if batch_size < 1:
        raise UserError(f"batch_size={batch_size} must be at least 1")
    queue: list[Window] = []
    ready = 0
    for window in read_ahead(items, tower.sample_rate, tower.window_seconds, workers):
        queue.append(window)
        ready += window.samples is not None
        if ready == batch_size:
            compute(tower, queue, device)
            yield from queue
            queue, ready = [], 0
    compute(tower, queue, device)
    yield from queue


def compute(tower: Any, windows: list[Window], device: torch.device | None) -> None:
    """Replace the samples of windows by vectors, in one batch."""
    filled = [window for window in windows if window.samples is not None]
    if not filled:
        return
    sizes = [len(window.samples) for window in filled if window.samples is not None]
    samples = torch.zeros(len(filled), max(sizes))
    for row, window in zip(samples, filled, strict=True):
        assert window.samples is not None
        row[: len(window.samples)] = torch.from_numpy(np.ascontiguousarray(window.samples))
    lengths = None if min(sizes) == max(sizes) else torch.tensor(sizes, device=device)
    try:
        with inference(tower):
            rows = tower(samples.to(device), lengths).float().cpu()
    except Exception as error:  # a tower of the user's own, a library's, or no memory for so large a batch
        _one_by_one(tower, filled, device, error)
        return
    for row, window in zip(rows, filled, strict=True):
        window.samples = None
        if bool(torch.isfinite(row).all()):
            window.vector = row.clone()
        else:
            window.error = NOT_FINITE


def _one_by_one(tower: Any, windows: list[Window], device: torch.device | None, error: Exception) -> None:
    """What a batch cannot answer, each window alone; the one that is to blame gets the reason."""
    if len(windows) > 1:
        for window in windows:
            compute(tower, [window], device)
        return
    line = " ".join(str(error).split())[:_LINE]
    known = isinstance(error, UserError)
    windows[0].samples = None
    windows[0].error = line if known else f"the model failed ({type(error).__name__}: {line})"


def merged(windows: Iterable[Window], project: Callable[[Tensor], Tensor], how: Windows) -> Iterator[Window]:
    """Windows to answers: each one projected, or one mean per item, weighted by true length and then projected."""
    total: Tensor | None = None
    weight, begin, error = 0.0, 0.0, None
    for window in windows:
        if how == "each":
            if window.vector is not None:
                _answer(window, project(window.vector[None])[0])
            yield window
            continue
        if total is None and weight == 0.0:
            begin = window.start
        span = max(window.end - window.start, 1e-9)
        if window.vector is not None:
            total = window.vector * span if total is None else total + window.vector * span
            weight += span
        error = error or window.error
        if window.last:
            whole = Window(window.index, begin, window.end, True, error=error)
            if total is not None and error is None:
                _answer(whole, project((total / weight)[None])[0])
            yield whole
            total, weight, error = None, 0.0, None


def _answer(window: Window, vector: Tensor) -> None:
    """The vector of a window, or the error that it is none."""
    finite = bool(torch.isfinite(vector).all())
    window.vector, window.error = (vector, None) if finite else (None, NOT_FINITE)
