"""What a frozen tower says of each clip and caption, computed once and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from supclap.audio.decode import AudioError
from supclap.audio.reader import Item
from supclap.embedding.cache import FeatureCache, Rows, text_key
from supclap.embedding.rows import Encoder, Progress, encode_all
from supclap.embedding.sparing import batch_size, beside_decoders
from supclap.encoders import stream
from supclap.encoders.stream import inference
from supclap.schema import Clip, Embedded, UserError

__all__ = ["FeatureCache", "Features", "tower_features"]

Place = tuple[str, float, float | None]
"""Where a clip lies: path, start, end."""

_TEXTS_A_BATCH = 128


class Features:
    """What the loader takes as ``features``: plain arrays behind two dicts, the same in every worker."""

    def __init__(
        self, audio: dict[Place, np.ndarray], text: dict[tuple[str, str], np.ndarray], errors: dict[Place, str]
    ) -> None:
        self._audio = audio
        self._text = text
        self.errors = errors  # place (path, start, end) -> why there is no vector

    def audio(self, clip: Clip) -> np.ndarray | None:
        """The [w] vector of a clip, or None where no audio tower was given."""
        if not self._audio and not self.errors:
            return None
        place = (clip.audio, clip.start, clip.end)
        vector = self._audio.get(place)
        if vector is None:
            raise AudioError(f"{clip.audio}: {self.errors.get(place, 'not among the clips these features are of')}")
        return vector

    def text(self, text: str, language: str) -> np.ndarray | None:
        """The [w] vector of a caption, or None where no text tower was given."""
        if not self._text:
            return None
        vector = self._text.get((text, language))
        if vector is None:
            raise UserError(f"caption {text!r} ({language}) is not among those these features are of")
        return vector


def tower_features(
    tower: nn.Module | None,
    clips: Sequence[Clip],
    *,
    text_tower: nn.Module | None = None,
    workers: int = 0,
    progress: Progress | None = None,
    cache: FeatureCache | None = None,
) -> Features:
    """The features of clips (an audio tower), of their captions (a text tower), or of both.

    A long clip is heard in windows of the tower's ``window_seconds``, weighted by their true length. A clip that
    cannot be read is listed in ``errors``.
    """
    audio_tower, text_tower = (None, tower) if hasattr(tower, "tokenize") else (tower, text_tower)
    cache = FeatureCache() if cache is None else cache
    audio: dict[Place, np.ndarray] = {}
    errors: dict[Place, str] = {}
    if audio_tower is not None:
        audio, errors = _audio(audio_tower, clips, cache, workers, progress)
    text = {} if text_tower is None else _text(text_tower, clips, cache)
    return Features(audio, text, errors)


def _audio(
    tower: nn.Module, clips: Sequence[Clip], cache: FeatureCache, workers: int, progress: Progress | None
) -> tuple[dict[Place, np.ndarray], dict[Place, str]]:
    # Clips of several captions or rows are heard once.
    places = list({(clip.audio, clip.start, clip.end): clip for clip in clips}.items())
    audio: dict[Place, np.ndarray] = {}
    errors: dict[Place, str] = {}
    answers = encode_all([clip for _, clip in places], tower_encoder(tower), cache, workers=workers)
    for done, answer in enumerate(answers, 1):
        place = places[answer.index][0]
        if answer.rows is None:
            errors[place] = answer.error or "no sound"
        else:
            audio[place] = mean_row(answer.rows)
        if progress is not None:
            progress(done, len(places))
    return audio, errors


def mean_row(rows: Rows) -> np.ndarray:
    """[w] the mean over windows, each weighted by its length."""
    seconds = np.maximum(rows.spans[:, 1] - rows.spans[:, 0], 1e-9)
    if len(seconds) == 1:
        return np.array(rows.vectors[0])
    mean: np.ndarray = np.average(rows.vectors.astype(np.float64), axis=0, weights=seconds).astype(np.float32)
    return mean


def tower_encoder(tower: Any) -> Encoder:
    """An audio tower as an encoder of windows: the path that every embedding takes."""

    def encode(sounds: Iterable[Item]) -> Iterator[Embedded]:
        device = _device(tower)
        found = stream.vectors(tower, sounds, batch_size=batch_size(device.type), device=device)
        for window in beside_decoders(stream.merged(found, lambda row: row, "each")):
            vector = None if window.vector is None else window.vector.numpy()
            yield Embedded(window.index, window.start, window.end, vector, window.error)

    return Encoder(f"tower/{tower.digest()}", int(tower.sample_rate), encode)


def _text(tower: Any, clips: Sequence[Clip], cache: FeatureCache) -> dict[tuple[str, str], np.ndarray]:
    captions = list({(caption.text, caption.language): None for clip in clips for caption in clip.captions})
    return text_rows(tower, captions, cache)


def text_rows(
    tower: Any, captions: Sequence[tuple[str, str]], cache: FeatureCache
) -> dict[tuple[str, str], np.ndarray]:
    """(text, language) -> [w], each text read once."""
    digest = f"text/{tower.digest()}"
    keys = {caption: text_key(digest, *caption) for caption in captions}
    known = cache.get_many(list(keys.values()))
    missing = [caption for caption in captions if keys[caption] not in known]
    with inference(tower):
        for first in range(0, len(missing), _TEXTS_A_BATCH):
            chunk = missing[first : first + _TEXTS_A_BATCH]
            tokens = tower.tokenize([text for text, _ in chunk], [language for _, language in chunk])
            device = _device(tower)
            out = tower(**{name: value.to(device) for name, value in tokens.items()}).float().cpu().numpy()
            entries = [
                (keys[caption], Rows(row[None], np.zeros((1, 2)))) for caption, row in zip(chunk, out, strict=True)
            ]
            cache.put(entries)
            known.update(entries)
    return {caption: known[key].vectors[0].copy() for caption, key in keys.items()}


def _device(tower: nn.Module) -> torch.device:
    return next((value.device for value in _tensors(tower)), torch.device("cpu"))


def _tensors(tower: nn.Module) -> Iterator[torch.Tensor]:
    # A frozen tower may hold buffers alone.
    yield from tower.parameters()
    yield from tower.buffers()
