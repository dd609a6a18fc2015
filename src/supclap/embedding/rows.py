"""Items to rows of vectors: from the cache where it knows them, else decoded in parallel and encoded once."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from supclap.audio import reader
from supclap.audio.archive import outer_of
from supclap.audio.decode import AudioError, probe
from supclap.embedding.cache import FeatureCache, Part, Rows, content_of, key_of
from supclap.embedding.sparing import decoders
from supclap.schema import Clip, Embedded, UserError

Sound = Clip | reader.Item
Progress = Callable[[int, int], None]
"""Called with how many items are done, and of how many."""

# Rows are written to the cache this many items at a time: what a crash can lose.
_COMMIT = 64
# A longer sound is never held whole: it is read once for its hash, and again, a stretch at a time, by the encoder.
_HELD_SECONDS = 300.0
_HASHED_SECONDS = 60.0
_SURELY_SHORT_BYTES = 100_000
_BYTES_A_SECOND = 20_000


@dataclass(frozen=True)
class Encoder:
    """Who hears: ``encode`` takes sounds lazily and yields their windows in order, as ``iter_audio`` does.

    Sounds come as (samples, ``rate``), very long ones as paths.

    ``digest`` names weights and front end: two encoders of one digest give the same rows.
    """

    digest: str
    rate: int
    encode: Callable[[Iterable[reader.Item]], Iterator[Embedded]]


@dataclass
class Encoded:
    """The answer for one item of ``encode_all``: rows, or the reason why there are none."""

    index: int
    rows: Rows | None
    error: str | None = None
    cached: bool = False


@dataclass
class _Heard:
    index: int
    key: bytes | None = None
    rows: Rows | None = None
    sound: reader.Item | None = None
    error: str | None = None


@dataclass
class _Waiting:
    """What the encoder has taken and not yet answered, by its own count."""

    heard: list[_Heard] = field(default_factory=list)
    windows: dict[int, list[Embedded]] = field(default_factory=dict)


def encode_all(
    items: Sequence[Sound], encoder: Encoder, cache: FeatureCache | None, *, workers: int = 0
) -> Iterator[Encoded]:
    """One answer an item, cached ones as they are met: the order is free. A bad file is an answer, never an exception.

    Whatever was answered is kept, however the iteration ends.
    """
    done: list[tuple[bytes, Rows]] = []
    answers: deque[Encoded] = deque()
    heard = _hear(items, encoder, cache, workers)
    try:
        waiting = _Waiting()
        for window in encoder.encode(_to_encode(heard, waiting, answers)):
            waiting.windows.setdefault(window.index, []).append(window)
            for ready in [index for index in waiting.windows if index < window.index]:
                answers.append(_finish(waiting, ready, done))
            yield from _drain(answers)
            if cache is not None and len(done) >= _COMMIT:
                cache.put(done)
                done.clear()
        for ready in list(waiting.windows):
            answers.append(_finish(waiting, ready, done))
        yield from _drain(answers)
    finally:
        heard.close()
        if cache is not None:
            cache.put(done)


def _drain(answers: deque[Encoded]) -> Iterator[Encoded]:
    while answers:
        yield answers.popleft()


def _to_encode(heard: Iterator[_Heard], waiting: _Waiting, answers: deque[Encoded]) -> Iterator[reader.Item]:
    for one in heard:
        if one.sound is None:
            answers.append(Encoded(one.index, one.rows, one.error, cached=one.rows is not None))
            continue
        sound, one.sound = one.sound, None
        waiting.heard.append(one)
        yield sound


def _finish(waiting: _Waiting, count: int, done: list[tuple[bytes, Rows]]) -> Encoded:
    one = waiting.heard[count]
    windows = waiting.windows.pop(count)
    errors = [window.error for window in windows if window.error is not None]
    if errors:
        return Encoded(one.index, None, errors[0])
    vectors = np.stack([np.asarray(window.vector, np.float32) for window in windows])
    rows = Rows(vectors, np.array([(window.start, window.end) for window in windows], np.float64))
    if not np.isfinite(vectors).all():
        return Encoded(one.index, None, "the encoder answered with a value that is not finite")
    if one.key is not None:
        done.append((one.key, rows))
    return Encoded(one.index, rows)


# -- hearing ---------------------------------------------------------------------------------------------------------


def _hear(items: Sequence[Sound], encoder: Encoder, cache: FeatureCache | None, workers: int) -> Generator[_Heard]:
    """Look up or decode in threads (the decoders leave the interpreter free), a few items ahead."""
    threads = decoders(workers)
    pool = ThreadPoolExecutor(threads)
    ahead: deque[Future[_Heard]] = deque()
    # Sounds of like length meet in a batch, so that little of it is padding; long ones first, for an honest ETA.
    sizes = [_size(item) for item in items]
    todo = ((index, items[index]) for index in sorted(range(len(items)), key=lambda index: -sizes[index]))
    try:
        while True:
            for index, item in itertools.islice(todo, 4 * threads + 1 - len(ahead)):
                ahead.append(pool.submit(_hear_one, index, item, encoder, cache))
            if not ahead:
                return
            yield ahead.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _hear_one(index: int, item: Sound, encoder: Encoder, cache: FeatureCache | None) -> _Heard:
    try:
        return _look_up_or_decode(index, item, encoder, cache)
    except (UserError, OSError) as error:
        return _Heard(index, error=_reason(error, str(_place(item)[0]) if not isinstance(item, bytes) else ""))


def _reason(error: Exception, path: str) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    # Whoever lists it names the path beside it.
    return str(error).removeprefix(f"{path}: ")


def _look_up_or_decode(index: int, item: Sound, encoder: Encoder, cache: FeatureCache | None) -> _Heard:
    source, start, end = _place(item)
    part = Part(str(source), start, end, encoder.rate) if isinstance(source, str | os.PathLike) else None
    before = None
    if cache is not None and part is not None:
        before = cache.stamp(part.path)
        content = cache.content(part)
        if content is not None:
            key = key_of(encoder.digest, content)
            rows = cache.get(key)
            if rows is not None:
                return _Heard(index, key, rows)
    sound = source if _is_long(source, start, end) else (reader.read(source, encoder.rate, start, end), encoder.rate)
    if cache is None:
        return _Heard(index, sound=sound)
    content = content_of(_blocks(sound, encoder.rate), encoder.rate)
    if part is not None and before is not None:
        cache.remember(part, content, before)
    key = key_of(encoder.digest, content)
    # Two files may hold the same sound; another process may have been here.
    rows = cache.get(key)
    return _Heard(index, key, rows) if rows is not None else _Heard(index, key, sound=sound)


def _is_long(source: reader.Item, start: float, end: float | None) -> bool:
    if not isinstance(source, str | os.PathLike) or start != 0.0 or end is not None:
        return False
    return os.path.getsize(outer_of(source)) > _SURELY_SHORT_BYTES and probe(source).seconds > _HELD_SECONDS


def _blocks(sound: reader.Item, rate: int) -> Iterator[np.ndarray]:
    if isinstance(sound, tuple):
        yield sound[0]
        return
    start, short = 0.0, round(_HASHED_SECONDS * rate) - 1
    while True:
        try:
            block = reader.read(sound, rate, start, start + _HASHED_SECONDS)
        except AudioError:
            # The sound ended with the stretch before.
            if start == 0.0:
                raise
            return
        yield block
        if len(block) < short:
            return
        start += _HASHED_SECONDS


def _size(item: Sound) -> float:
    """Roughly the seconds of a sound, as far as they can be told without opening it."""
    source, start, end = _place(item)
    if end is not None:
        return end - start
    if isinstance(source, tuple):
        return float(np.shape(source[0])[-1]) / source[1]
    try:
        return (len(source) if isinstance(source, bytes) else os.path.getsize(source)) / _BYTES_A_SECOND
    except OSError:
        return 0.0


def _place(item: Sound) -> tuple[reader.Item, float, float | None]:
    if isinstance(item, Clip):
        return item.audio, item.start, item.end
    return item, 0.0, None
