"""The label bridge: an AudioSet tagger and a sentence encoder make a dual model without any training.

    embed_audio = unit(sum_k p_k unit(l_k - mu))     p: the tagger's probabilities of its k = 527 labels
    embed_text  = unit(t - mu)                       l: the sentence vectors of "the sound of {label}", mu: their mean
    classify    = p . softmax_k(cos(l_k - mu, t - mu) / .05)

It knows what the tagger was taught on AudioSet, so it is an "AudioSet-supervised tagger, label bridge", never
"zero-shot CLAP". Shapes: n rows, k tags, w width.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from supclap.encoders import pretrained, stream
from supclap.encoders.dual import DualModel, DualSettings
from supclap.encoders.folder import CONFIG, read_config
from supclap.encoders.heads import NoHead
from supclap.encoders.mobilenet import MobileNetSettings, MobileNetTower
from supclap.encoders.people import gather, label_texts
from supclap.encoders.stream import Sound, inference
from supclap.encoders.towers import TEXT_TOWERS
from supclap.schema import FORMAT, Embedded, Label, UserError, unknown
from supclap.settings import write_json

CALLED = "AudioSet-supervised tagger, label bridge"
TAG_TEMPLATE = "the sound of {label}"
TEMPERATURE = 0.05
TEXTS = ("minilm", "use")
TAGGERS = tuple(name for name in pretrained.WEIGHTS if name.startswith("mn"))


class Tagger(nn.Module):
    """Samples to the probabilities of the tagger's labels."""

    def __init__(self, tower: MobileNetTower) -> None:
        super().__init__()
        self.tower = tower
        self.sample_rate, self.window_seconds = tower.sample_rate, tower.window_seconds

    def forward(self, samples: Tensor, lengths: Tensor | None = None) -> Tensor:
        """[n, t] samples to [n, k] probabilities."""
        return self.tower.tag(self.tower(samples, lengths)).sigmoid()


class BridgeAudio(nn.Module):
    """The audio tower: what the tagger hears, said in the sentence encoder's space."""

    anchors: Tensor

    def __init__(self, tagger: Tagger, anchors_kw: Tensor) -> None:
        super().__init__()
        self.tagger = tagger
        self.register_buffer("anchors", anchors_kw)
        self.sample_rate, self.window_seconds = tagger.sample_rate, tagger.window_seconds
        self.width = int(anchors_kw.shape[1])

    def forward(self, samples: Tensor, lengths: Tensor | None = None) -> Tensor:
        """[n, t] samples to [n, w]: linear in the probabilities, so a mean over windows is one over probabilities."""
        return self.tagger(samples, lengths) @ self.anchors  # type: ignore[no-any-return]

    def digest(self) -> str:
        """Tagger, labels and their vectors, hashed."""
        anchors = self.anchors.cpu().numpy().tobytes()
        return hashlib.sha256(self.tagger.tower.digest().encode() + anchors).hexdigest()


class BridgeText(nn.Module):
    """The text tower: a sentence encoder, seen from the mean of the labels."""

    mean: Tensor

    def __init__(self, tower: Any, mean_w: Tensor) -> None:
        super().__init__()
        self.tower = tower
        self.register_buffer("mean", mean_w)
        self.width, self.max_tokens = int(tower.width), int(tower.max_tokens)

    def tokenize(self, texts: Sequence[str], languages: Sequence[str]) -> dict[str, Tensor]:
        """What the sentence encoder reads."""
        return self.tower.tokenize(texts, languages)  # type: ignore[no-any-return]

    def forward(self, **tokens: Tensor) -> Tensor:
        """Tokens to [n, w]."""
        return F.normalize(self.tower(**tokens), dim=-1) - self.mean

    def digest(self) -> str:
        """Sentence encoder and mean, hashed."""
        return hashlib.sha256(self.tower.digest().encode() + self.mean.cpu().numpy().tobytes()).hexdigest()


class BridgeModel(DualModel):
    """A dual model made of a tagger and a sentence encoder; nothing in it was trained on captions."""

    def __init__(self, name: str, config: DualSettings, tagger: Tagger, text: Any, tags: Sequence[str]) -> None:
        vectors = _vectors(text, [TAG_TEMPLATE.format(label=tag) for tag in tags])
        mean = vectors.mean(0)
        anchors = F.normalize(vectors - mean, dim=-1)
        super().__init__(config, BridgeAudio(tagger, anchors), BridgeText(text, mean))
        self.name, self.tags = name, list(tags)
        self.about = CALLED
        self.card = {"model": CALLED}
        self.requires_grad_(False)
        self.eval()

    def classify(
        self,
        items: Iterable[Sound],
        labels: Sequence[str],
        *,
        template: str = "{label}",
        top: int = 1,
        language: str = "eng",
        batch_size: int = 32,
        workers: int = 0,
    ) -> list[list[Label]]:
        """The best labels of each sound; scores are shares of all labels' scores."""
        if top < 1:
            raise UserError(f"top={top} must be at least 1")
        scores = self.tag_scores(
            items, labels, template=template, language=language, batch_size=batch_size, workers=workers
        )
        shares = scores / scores.sum(1, keepdims=True)
        order = np.argsort(-shares, axis=1, kind="stable")[:, :top]
        return [[Label(labels[k], float(shares[i, k])) for k in row] for i, row in enumerate(order)]

    def tag_scores(
        self,
        items: Iterable[Sound],
        labels: Sequence[str],
        *,
        template: str = "{label}",
        language: str = "eng",
        batch_size: int = 32,
        workers: int = 0,
    ) -> NDArray[np.float64]:
        """[n, labels]: the tagger's probabilities, shared out to each label by the tags that are near it."""
        found = self.tag_probabilities(items, batch_size=batch_size, workers=workers).astype(np.float64)
        scores: NDArray[np.float64] = found @ self.label_weights(labels, template, language)
        return scores

    def label_weights(
        self, labels: Sequence[str], template: str = "{label}", language: str = "eng"
    ) -> NDArray[np.float64]:
        """[k, labels]: how much each tag says of each label; every label's weights sum to one."""
        rows = self.embed_text(label_texts(labels, template), language).astype(np.float64)
        cosines_kl = self.audio_tower.anchors.cpu().numpy().astype(np.float64) @ rows.T
        weight_kl = np.exp((cosines_kl - cosines_kl.max(0)) / TEMPERATURE)
        weights: NDArray[np.float64] = weight_kl / weight_kl.sum(0)
        return weights

    def tag_probabilities(
        self, items: Iterable[Sound], *, batch_size: int = 32, workers: int = 0
    ) -> NDArray[np.float32]:
        """[n, k]: the tagger's probability of each of ``tags``, a mean over the windows of a long sound."""
        tagger = self.audio_tower.tagger
        found = stream.vectors(tagger, items, batch_size=batch_size, workers=workers, device=self.device)
        means = stream.merged(found, lambda row: row, "mean")
        rows: NDArray[np.float32] = gather(_embedded(means), len(self.tags), "raise", "mean")
        return rows

    def iter_tagged(self, items: Iterable[Sound], *, batch_size: int = 32, workers: int = 0) -> Iterator[Embedded]:
        """Windows as ``iter_audio`` gives them, each vector followed by the probabilities of ``tags``: [w + k]."""
        tower = self.audio_tower
        found = stream.vectors(tower.tagger, items, batch_size=batch_size, workers=workers, device=self.device)
        anchors = tower.anchors.cpu()
        for window in stream.merged(found, lambda p: torch.cat([F.normalize(p @ anchors, dim=-1), p], 1), "each"):
            vector = None if window.vector is None else window.vector.numpy()
            yield Embedded(window.index, window.start, window.end, vector, window.error)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the bridge's name and its calibration; the weights are published ones and stay where they are."""
        held = {"format": FORMAT, "kind": "bridge", "model": self.name, "fingerprint": self.fingerprint()}
        write_json({**held, "calibration": self.calibration, "card": self.card}, Path(folder) / CONFIG)


def load_folder(folder: Path) -> BridgeModel:
    """The bridge that ``save`` wrote; UserError where the weights here make another one."""
    held = read_config(folder)
    model = load_bridge(str(held.get("model")))
    if model.fingerprint() != held.get("fingerprint"):
        raise UserError(
            f"{folder}: the weights here make another {held.get('model')} than the saved one; save it again"
        )
    model.calibration, model.card = held.get("calibration"), held.get("card", {})
    return model


def load_bridge(name: str = "bridge") -> BridgeModel:
    """The bridge by name: "bridge", "bridge:minilm", "bridge:use", and with another tagger "bridge:minilm:mn10"."""
    text, tagger = parts_of(name)
    _need(tagger, "audioset-labels", text)
    tower = MobileNetSettings(weights=tagger, width_factor=int(tagger[2:]) / 10).build()
    settings = TEXT_TOWERS[text]()
    config = DualSettings(
        audio_tower=MobileNetSettings(weights=tagger), text_tower=settings, head=NoHead(), scale=1 / TEMPERATURE
    )
    return BridgeModel(name, config, Tagger(tower), settings.build(), pretrained.audioset_labels())


def parts_of(name: str) -> tuple[str, str]:
    """(text tower, tagger) of a bridge's name."""
    words = name.split(":")
    text = words[1] if len(words) > 1 else TEXTS[0]
    tagger = words[2] if len(words) > 2 else "mn04"
    if words[0] != "bridge" or len(words) > 3:
        raise UserError(f"model={name!r}: a bridge is bridge, bridge:TEXT or bridge:TEXT:TAGGER")
    if text not in TEXTS:
        raise unknown("model=bridge:", text, TEXTS)
    if tagger not in TAGGERS:
        raise unknown("model=bridge:TEXT:", tagger, TAGGERS)
    return text, tagger


def _need(*names: str) -> None:
    """One error that names every file that is not here."""
    missing: list[str] = []
    for name in names:
        try:
            pretrained.locate(name)
        except UserError as error:
            missing.append(str(error))
    if missing:
        raise UserError("the bridge needs weights that are not here: " + "; and ".join(missing))


def _vectors(tower: Any, texts: Sequence[str]) -> Tensor:
    rows = []
    with inference(tower):
        for first in range(0, len(texts), 64):
            part = list(texts[first : first + 64])
            rows.append(F.normalize(tower(**tower.tokenize(part, ["eng"] * len(part))).float(), dim=-1))
        return torch.cat(rows).clone()


def _embedded(windows: Iterable[stream.Window]) -> Iterable[Any]:
    for window in windows:
        if window.vector is not None:
            window.vector = window.vector.numpy()  # type: ignore[assignment]
        yield window
