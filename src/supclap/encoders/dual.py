"""The dual model: an audio tower and a text tower with their heads, in one space.

Shapes: n rows, t samples, d width.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import NonNegativeInt, PositiveFloat
from torch import Tensor, nn

from supclap.encoders import stream
from supclap.encoders.folder import push, save
from supclap.encoders.heads import HEADS, MlpHead
from supclap.encoders.languages import check
from supclap.encoders.lora import LoraSettings, inject
from supclap.encoders.people import (
    Floats,
    best_labels,
    gather,
    label_texts,
    languages_of,
    several,
    texts_of,
    whole_number,
)
from supclap.encoders.stream import Sound, Windows, inference
from supclap.encoders.towers import AUDIO_TOWERS, TEXT_TOWERS
from supclap.encoders.weights import bytes_of
from supclap.schema import Batch, Embedded, Label, UserError, unknown
from supclap.settings import kind_of, settings, write

TEMPLATE = "This is a sound of {label}"


@settings
class DualSettings:
    """What a dual model is made of, and which of its parts learn."""

    audio_tower: kind_of(AUDIO_TOWERS) = AUDIO_TOWERS["mn04"]()  # type: ignore[valid-type]
    text_tower: kind_of(TEXT_TOWERS) = TEXT_TOWERS["minilm"]()  # type: ignore[valid-type]
    head: kind_of(HEADS) = MlpHead()  # type: ignore[valid-type]
    scale: PositiveFloat = 1 / 0.07
    bias: float = 0.0
    learn_scale: bool = False
    learn_bias: bool = False
    freeze_audio: bool = False
    freeze_text: bool = False
    freeze_audio_parts: NonNegativeInt = 0  # the first so many parts of the tower
    freeze_text_parts: NonNegativeInt = 0
    lora: LoraSettings | None = None
    checkpointing: bool = False

    def build(self, texts: Sequence[str] | None = None) -> DualModel:
        """The model with its towers' weights; ``texts`` are the captions a small vocabulary is learned from."""
        model = DualModel(self, self.audio_tower.build(), self.text_tower.build(texts=texts))
        model.note_origins()
        return model


class DualModel(nn.Module):
    """Sounds and texts to rows of one space."""

    def __init__(self, config: DualSettings, audio: nn.Module, text: nn.Module) -> None:
        super().__init__()
        self.config, self.audio, self.text = config, audio, text
        self.audio_head = config.head.build(self.audio_tower.width)
        self.text_head = config.head.build(self.text_tower.width)
        self.width = _width(self.audio_head, self.audio_tower.width)
        if (other := _width(self.text_head, self.text_tower.width)) != self.width:
            raise UserError(f"head=none: the towers are {self.width} and {other} wide; choose head=mlp or head=linear")
        self.log_scale = nn.Parameter(torch.tensor(math.log(config.scale)), requires_grad=config.learn_scale)
        self.offset = nn.Parameter(torch.tensor(config.bias), requires_grad=config.learn_bias)
        self.calibration: dict[str, float] | None = None
        self.card: dict[str, Any] = {}
        self.origins: dict[str, str] = {}  # frozen towers that can be found again by name -> their digest
        if config.lora is not None:
            inject(self, config.lora)
        self._freeze()
        if config.checkpointing:
            self._checkpoint()

    # -- parts ---------------------------------------------------------------------------------------------------------

    @property
    def audio_tower(self) -> Any:
        """The audio tower."""
        return self.audio

    @property
    def text_tower(self) -> Any:
        """The text tower."""
        return self.text

    @property
    def sample_rate(self) -> int:
        """What the audio tower hears."""
        return int(self.audio_tower.sample_rate)

    @property
    def window_seconds(self) -> float:
        """The longest stretch that the audio tower hears at once."""
        return float(self.audio_tower.window_seconds)

    @property
    def max_tokens(self) -> int:
        """The longest text that the text tower reads."""
        return int(self.text_tower.max_tokens)

    @property
    def scale(self) -> Tensor:
        """What cosines are multiplied with, at most 100."""
        return self.log_scale.clamp(max=math.log(100.0)).exp()

    @property
    def bias(self) -> Tensor:
        """What is added to scaled cosines."""
        return self.offset

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.log_scale.device

    @property
    def frozen_audio(self) -> bool:
        """Whether nothing of the audio tower learns."""
        return _still(self.audio)

    @property
    def frozen_text(self) -> bool:
        """Whether nothing of the text tower learns."""
        return _still(self.text)

    def _freeze(self) -> None:
        config = self.config
        for tower, whole, count, field in (
            (self.audio, config.freeze_audio, config.freeze_audio_parts, "freeze_audio_parts"),
            (self.text, config.freeze_text, config.freeze_text_parts, "freeze_text_parts"),
        ):
            if whole:
                tower.requires_grad_(False)
            if count:
                parts = tower.parts() if hasattr(tower, "parts") else []  # type: ignore[operator]
                if count > len(parts):
                    raise UserError(f"{field}={count}, but {type(tower).__name__} has {len(parts)} parts")
                for part in parts[:count]:
                    part.requires_grad_(False)

    def _checkpoint(self) -> None:
        able = [tower for tower in (self.audio, self.text) if hasattr(tower, "checkpoint")]
        if not able:
            raise UserError("checkpointing=True: neither tower can recompute its activations; leave it out")
        for tower in able:
            try:
                tower.checkpoint()  # type: ignore[operator]
            except ValueError as error:  # transformers, of a model without it
                raise UserError(f"checkpointing=True: {error}; leave it out") from error

    def train(self, mode: bool = True) -> DualModel:
        """Training mode for what learns; frozen parts stay in evaluation mode, their batch statistics untouched."""
        super().train(mode)
        if mode:
            for tower in (self.audio, self.text):
                parts = tower.parts() if hasattr(tower, "parts") else []  # type: ignore[operator]
                for part in [tower] if _still(tower) else [part for part in parts if _still(part)]:
                    part.eval()
        return self

    # -- batches -------------------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> Batch:
        """Tokenise, in a loader's worker."""
        if batch.text_features is None:
            batch.prepared["text"] = self.text_tower.tokenize(batch.texts, batch.languages)
        if batch.anchors is not None:
            batch.prepared["anchors"] = self.text_tower.tokenize(batch.anchors, ["eng"] * len(batch.anchors))
        return batch

    def encode_audio(self, batch: Batch) -> Tensor:
        """[n, d] rows of a batch's sounds, of any length."""
        if batch.audio_features is not None:
            return self.project_audio(batch.audio_features.to(self.device))
        if batch.samples is None:
            raise UserError("batch.samples is None and there are no audio_features; give one of them")
        if batch.sample_rate != self.sample_rate:
            raise UserError(f"batch.sample_rate={batch.sample_rate}; this model hears {self.sample_rate} Hz")
        samples, lengths = batch.samples, batch.lengths
        if lengths is not None and bool((lengths == samples.shape[1]).all()):
            lengths = None
        lengths = None if lengths is None else lengths.to(self.device)
        return self.project_audio(self.audio(samples.to(self.device), lengths))

    def encode_text(self, batch: Batch) -> Tensor:
        """[n, d] rows of a batch's texts."""
        if batch.text_features is not None:
            return self.project_text(batch.text_features.to(self.device))
        tokens = batch.prepared.get("text") or self.text_tower.tokenize(batch.texts, batch.languages)
        return self.encode_tokens(tokens)

    def encode_anchors(self, batch: Batch) -> Tensor:
        """[n, d] rows of a batch's English anchors."""
        if batch.anchors is None:
            raise UserError("batch.anchors is None; the loader gives them with captions='triple'")
        tokens = batch.prepared.get("anchors") or self.text_tower.tokenize(batch.anchors, ["eng"] * len(batch.anchors))
        return self.encode_tokens(tokens)

    def encode_tokens(self, tokens: dict[str, Tensor]) -> Tensor:
        """[n, d] rows of what the text tower's ``tokenize`` gave."""
        return self.project_text(self.text(**{name: value.to(self.device) for name, value in tokens.items()}))

    def project_audio(self, features: Tensor) -> Tensor:
        """[n, d] rows of the audio tower's vectors."""
        return self.audio_head(features)  # type: ignore[no-any-return]

    def project_text(self, features: Tensor) -> Tensor:
        """[n, d] rows of the text tower's vectors."""
        return self.text_head(features)  # type: ignore[no-any-return]

    # -- people's sounds and texts -------------------------------------------------------------------------------------

    def iter_audio(
        self, items: Iterable[Sound], *, batch_size: int = 32, workers: int = 0, windows: Windows = "each"
    ) -> Iterator[Embedded]:
        """Unit rows of any number of sounds, lazily and in order; a bad item is an Embedded with its error."""
        if windows not in ("mean", "each"):
            raise unknown("windows", windows, ("mean", "each"))
        whole_number("batch_size", batch_size, 1)
        whole_number("workers", workers, 0)
        found = stream.vectors(self.audio, items, batch_size=batch_size, workers=workers, device=self.device)
        for window in stream.merged(found, self._unit_audio, windows):
            vector = None if window.vector is None else window.vector.numpy()
            yield Embedded(window.index, window.start, window.end, vector, window.error)

    def _unit_audio(self, features: Tensor) -> Tensor:
        with inference(self.audio_head):
            held = features.to(self.device, self.log_scale.dtype)
            return F.normalize(self.project_audio(held).float(), dim=-1).cpu().clone()

    def embed_audio(
        self,
        items: Iterable[Sound],
        *,
        batch_size: int = 32,
        workers: int = 0,
        on_error: str = "raise",
        windows: Windows = "mean",
    ) -> Any:
        """Unit rows [n, d], one per item; windows="each": a list of [windows, d]."""
        return gather(
            self.iter_audio(several(items), batch_size=batch_size, workers=workers, windows=windows),
            self.width,
            on_error,
            windows,
        )

    def embed_text(
        self, texts: Iterable[str], language: str | Iterable[str] = "eng", *, batch_size: int = 64
    ) -> Floats:
        """Unit rows [n, d]; ``language`` is one code for all or one for each."""
        held = texts_of(texts)
        languages = languages_of(language, len(held))
        check(languages, len(held))
        whole_number("batch_size", batch_size, 1)
        rows = np.empty((len(held), self.width), np.float32)
        with inference(self):
            for first in range(0, len(held), batch_size):
                part = slice(first, first + batch_size)
                tokens = self.text_tower.tokenize(held[part], languages[part])
                rows[part] = F.normalize(self.encode_tokens(tokens).float(), dim=-1).cpu().numpy()
        if not np.isfinite(rows).all():
            raise UserError(f"texts: {stream.NOT_FINITE}")
        return rows

    def classify(
        self,
        items: Iterable[Sound],
        labels: Sequence[str],
        *,
        template: str = TEMPLATE,
        top: int = 1,
        language: str = "eng",
        batch_size: int = 32,
        workers: int = 0,
    ) -> list[list[Label]]:
        """The best labels of each sound; scores are a softmax over the labels."""
        rows = self.embed_audio(items, batch_size=batch_size, workers=workers)
        return best_labels(rows, labels, self._label_rows(labels, template, language), float(self.scale.detach()), top)

    def _label_rows(self, labels: Sequence[str], template: str, language: str) -> Floats:
        return self.embed_text(label_texts(labels, template), language)

    # -- on disk -------------------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """A hash of everything that decides a row: weights, front end, vocabulary and window rule."""
        digest = hashlib.sha256(json.dumps(["windows-1", write(self.config.head)]).encode())
        for tower in (self.audio_tower, self.text_tower):
            digest.update(tower.digest().encode())
        for head in (self.audio_head, self.text_head):
            for key, value in sorted(head.state_dict().items()):
                digest.update(key.encode() + bytes_of(value))
        return digest.hexdigest()

    def note_origins(self) -> None:
        """Remember the frozen towers whose weights can be found again by name: ``save`` refers to them."""
        for part, tower, still, config in (
            ("audio", self.audio_tower, self.frozen_audio, self.config.audio_tower),
            ("text", self.text_tower, self.frozen_text, self.config.text_tower),
        ):
            if still and getattr(config, "published", None):
                self.origins[part] = tower.digest()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model: config.json, model.safetensors, tokenizer files and a card."""
        save(self, folder)

    def push_to_hub(self, name: str, *, private: bool = False) -> str:
        """Save the model to the Hugging Face hub; its address comes back."""
        return push(self, name, private)


def _still(module: nn.Module) -> bool:
    return not any(value.requires_grad for value in module.parameters())


def _width(head: nn.Module, come: int) -> int:
    linear = [part for part in head.modules() if isinstance(part, nn.Linear)]
    return linear[-1].out_features if linear else come
