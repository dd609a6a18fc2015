"""One sample, a pure function of (seed, epoch, position), and a batch made of samples. This runs in the workers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
import torch

from supclap.audio.decode import AudioError, probe
from supclap.audio.reader import read
from supclap.audio.resample import Samples
from supclap.data.decoded import Decoded, unpacked
from supclap.runtime import generator
from supclap.schema import Batch, Caption, Clip, UserError

Captions = Literal["one", "all", "triple"]
ENGLISH = "eng"
# Decoded samples a worker keeps, in case a bad clip shifts the batches behind it.
KEPT_BYTES = 256 << 20


class Features(Protocol):
    """What a frozen tower says of clips and texts, computed before."""

    def audio(self, clip: Clip) -> Any:
        """The row of a clip, or None where sounds are not cached."""
        ...

    def text(self, text: str, language: str) -> Any:
        """The row of a text, or None where texts are not cached."""
        ...


@dataclass(frozen=True)
class Sample:
    """One row of a batch before it is one."""

    clip: int
    samples: Samples | None
    text: str
    language: str
    anchor: str | None = None
    vector: torch.Tensor | None = None


class Augmentation(Protocol):
    """A change of a sample; every draw comes from ``draw``, and ``other`` is one more sample of the epoch."""

    def __call__(
        self, sample: Sample, rate: int, draw: torch.Generator, other: Callable[[torch.Generator], Sample | None]
    ) -> Sample:
        """The changed sample."""
        ...


@dataclass(frozen=True)
class Task:
    """A batch to be made: (position, item) of its rows. No rows: nothing to do."""

    number: int
    epoch: int
    rows: tuple[tuple[int, int], ...]
    repeats: int = 0


@dataclass(frozen=True)
class Made:
    """What became of a task: a batch, or the items that could not be read, or a user's mistake."""

    task: Task
    batch: Batch | None = None
    bad: tuple[tuple[int, str], ...] = ()
    mistake: str | None = None


@dataclass
class Maker:
    """Everything a worker needs to make batches; travels to spawned workers whole."""

    clips: Sequence[Clip]
    items: Sequence[tuple[int, int]]  # (clip, caption); caption -1: drawn
    ids: Sequence[int]
    sample_rate: int
    seed: int
    captions: Captions = "one"
    max_seconds: float | None = None
    crop: Literal["random", "start"] = "random"
    augment: Augmentation | None = None
    features: Features | None = None
    prepare: Callable[[Batch], Batch] | None = None
    decoded: Decoded | None = None
    rank: int = 0
    world: int = 1
    _kept: OrderedDict[tuple[int, int, int], Sample | str] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def __getitem__(self, task: Task) -> Made:
        """The batch of a task."""
        try:
            # By the place in the whole order: what is drawn is the same for any number of ranks.
            places = [(position * self.world + self.rank, item) for position, item in task.rows]
            found = [self._remembered(task.epoch, place, item) for place, item in places]
            bad = tuple((item, row) for (_, item), row in zip(task.rows, found, strict=True) if isinstance(row, str))
            if bad or not found:
                return Made(task, bad=bad)
            batch = self._collate([row for row in found if isinstance(row, Sample)])
            return Made(task, self.prepare(batch) if self.prepare else batch)
        except UserError as error:
            return Made(task, mistake=str(error))

    def _remembered(self, epoch: int, position: int, item: int) -> Sample | str:
        key = (epoch, position, item)
        if key not in self._kept:
            self._kept[key] = made = self.sample(epoch, position, item)
            self._bytes += _size(made)
            while self._bytes > KEPT_BYTES and len(self._kept) > 1:
                self._bytes -= _size(self._kept.popitem(last=False)[1])
        return self._kept[key]

    def sample(self, epoch: int, position: int, item: int) -> Sample | str:
        """One sample, or why there is none."""
        made = self._plain(epoch, position, item)
        if self.augment is None or isinstance(made, str):
            return made

        def other(draw: torch.Generator) -> Sample | None:
            chosen = int(torch.randint(len(self.items), (1,), generator=draw))
            found = self._plain(epoch, position, chosen)
            return None if isinstance(found, str) or self.ids[found.clip] == self.ids[made.clip] else found

        return self.augment(made, self.sample_rate, generator(self.seed, "augmentation", epoch, position), other)

    def _plain(self, epoch: int, position: int, item: int) -> Sample | str:
        clip, caption = self.items[item]
        text, anchor = self._said(self.clips[clip], caption, epoch, position)
        try:
            vector = None if self.features is None else self.features.audio(self.clips[clip])
            samples = self._samples(self.clips[clip], epoch, position) if vector is None else None
        except AudioError as error:
            return str(error)
        return Sample(clip, samples, text.text, text.language, anchor, None if vector is None else _tensor(vector))

    def _samples(self, clip: Clip, epoch: int, position: int) -> Samples:
        if self.decoded is None:
            return read(clip.audio, self.sample_rate, *self._span(clip, epoch, position, None))
        whole = self.decoded(clip)
        start, end = self._span(clip, epoch, position, len(whole) / self.sample_rate)
        first = round((start - clip.start) * self.sample_rate)
        last = None if end is None else round((end - clip.start) * self.sample_rate)
        return unpacked(whole[first:last])

    def _span(self, clip: Clip, epoch: int, position: int, seconds: float | None) -> tuple[float, float | None]:
        """From where to where a clip is heard; ``seconds``: its length, where that is known."""
        most = self.max_seconds
        if most is None:
            return clip.start, clip.end
        if self.crop == "start":
            return clip.start, clip.start + most if clip.end is None else min(clip.end, clip.start + most)
        if seconds is None:
            seconds = (probe(clip.audio).seconds if clip.end is None else clip.end) - clip.start
        if seconds <= most:
            return clip.start, clip.end
        drawn = float(torch.rand((), generator=generator(self.seed, "crop", epoch, position), dtype=torch.float64))
        first = clip.start + drawn * (seconds - most)
        return first, first + most

    def _said(self, clip: Clip, caption: int, epoch: int, position: int) -> tuple[Caption, str | None]:
        if caption >= 0:
            return clip.captions[caption], None
        languages = sorted({said.language for said in clip.captions})
        if self.captions == "triple":
            languages.remove(ENGLISH)
        language = languages[self._draw(len(languages), "languages", epoch, position)]
        texts = [said for said in clip.captions if said.language == language]
        chosen = self._draw(len(texts), "captions", epoch, position)
        if self.captions != "triple":
            return texts[chosen], None
        english = [said.text for said in clip.captions if said.language == ENGLISH]
        # Translations stand in the order of their originals; where there are not as many, any original is one.
        parallel = len(english) == len(texts)
        return texts[chosen], english[chosen if parallel else self._draw(len(english), "anchors", epoch, position)]

    def _draw(self, count: int, *names: object) -> int:
        return 0 if count == 1 else int(torch.randint(count, (1,), generator=generator(self.seed, *names)))

    def _collate(self, rows: list[Sample]) -> Batch:
        batch = Batch(
            samples=None,
            lengths=None,
            sample_rate=self.sample_rate,
            texts=[row.text for row in rows],
            languages=[row.language for row in rows],
            clip_ids=torch.tensor([self.ids[row.clip] for row in rows], dtype=torch.int64),
            anchors=[row.anchor or "" for row in rows] if self.captions == "triple" else None,
        )
        wrong = [list(self.clips[row.clip].negatives) for row in rows]
        batch = replace(batch, negatives=wrong) if any(wrong) else batch
        sounds = [row.samples for row in rows if row.samples is not None]
        if sounds:
            samples, lengths = padded(sounds)
            batch = replace(batch, samples=samples, lengths=lengths)
        else:
            batch = replace(batch, audio_features=torch.stack([row.vector for row in rows if row.vector is not None]))
        texts = [None if self.features is None else self.features.text(row.text, row.language) for row in rows]
        if any(text is None for text in texts):
            return batch
        return replace(batch, text_features=torch.stack([_tensor(text) for text in texts]))


def padded(rows: Sequence[Samples]) -> tuple[torch.Tensor, torch.Tensor]:
    """[n, t] with zeros behind the shorter ones, and the true lengths."""
    lengths = [len(row) for row in rows]
    out = np.zeros((len(rows), max(lengths)), np.float32)
    for place, row in zip(out, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(out), torch.tensor(lengths, dtype=torch.int64)


def _tensor(value: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(value), dtype=torch.float32)


def _size(row: Sample | str) -> int:
    return 0 if isinstance(row, str) or row.samples is None else row.samples.nbytes
