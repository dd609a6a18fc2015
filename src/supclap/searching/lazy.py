"""A model by name that is loaded only when something has to be computed: what is cached is answered without torch."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from supclap.audio.reader import Item
from supclap.embedding.cache import FeatureCache, Rows, text_key
from supclap.embedding.rows import Encoder
from supclap.embedding.sparing import batch_size, beside_decoders
from supclap.encoders import pretrained
from supclap.schema import Embedded, UserError
from supclap.searching import minilm
from supclap.settings import cache_folder, write_json

# The bridge's own (encoders.bridge, which imports torch).
TAG_TEMPERATURE = 0.05
EVIDENCE_FLOOR = 1e-3  # what is less likely than this differs no more
# The files of a package that decide its vectors.
_PACKAGE_FILES = {"minilm": ("model.safetensors", "tokenizer.json"), "use": ("weights.npz", "sp.model")}
_FOLDER_FILES = ("config.json", "model.safetensors")
_FOLDER_PARTS = ("audio", "text")  # vocabularies and tokenizers


class LazyModel:
    """A dual model, or the name of one. ``fingerprint`` and ``rate`` are remembered for unchanged weights."""

    def __init__(self, model: Any, cache: FeatureCache) -> None:
        self.name = os.fspath(model) if isinstance(model, str | os.PathLike) else str(getattr(model, "name", "model"))
        self._model = None if isinstance(model, str | os.PathLike) else model
        self._given = self._model is not None
        self._cache = cache
        self._saved_bridge = not self._given and _is_saved_bridge(self.name)
        facts = self._facts()
        self.fingerprint: str = facts["fingerprint"]
        self.rate: int = facts["rate"]

    @property
    def loaded(self) -> Any:
        """The model itself."""
        if self._model is None:
            # Here and not at the top: torch takes seconds to import, and a repeated question needs none of it.
            from supclap.encoders import hub

            self._model = hub.load(self.name)
        return self._model

    def _facts(self) -> dict[str, Any]:
        place = None if self._model is not None else _memo_of(self.name)
        if place is not None and place.is_file():
            try:
                facts: dict[str, Any] = json.loads(place.read_text(encoding="utf8"))
                return {"fingerprint": str(facts["fingerprint"]), "rate": int(facts["rate"])}
            except (ValueError, KeyError, TypeError):
                place.unlink(missing_ok=True)
        facts = {"fingerprint": self.loaded.fingerprint(), "rate": int(self.loaded.sample_rate)}
        if place is not None:
            write_json(facts, place)
        return facts

    def encoder(self) -> Encoder:
        """The model as an encoder of windows; it is loaded when the first sound has to be computed."""

        def encode(sounds: Iterable[Item]) -> Iterator[Embedded]:
            waiting = iter(sounds)
            first = next(waiting, None)
            if first is None:
                return
            yield from beside_decoders(self._windows(_with(first, waiting)))

        return Encoder(f"model/{self.fingerprint}/each" + "+tags" * self.tagged, self.rate, encode)

    def _windows(self, sounds: Iterator[Item]) -> Iterator[Embedded]:
        # A generator: the model is loaded with the first window, when the decoding threads are at work already.
        size = batch_size(self.loaded.device.type)
        if self.tagged:
            yield from self.loaded.iter_tagged(sounds, batch_size=size)
        else:
            yield from self.loaded.iter_audio(sounds, batch_size=size, windows="each")

    @property
    def tagged(self) -> bool:
        """Whether a window's vector is followed by the probabilities of a tagger: a bridge."""
        if self._given:
            return hasattr(self._model, "iter_tagged")
        return self._saved_bridge or self.name.split(":")[0] == "bridge"

    @property
    def width(self) -> int:
        """How many numbers of a tagged window are its vector."""
        return int(self.embed_text(["sound"], "eng").shape[1])

    def tag_weights(self, texts_nd: np.ndarray) -> np.ndarray:
        """[k, n] how much each tag says of each text, from the texts' vectors."""
        key = text_key(self.fingerprint, "vectors of the tags", "")
        anchors = self._cache.get(key)
        if anchors is None:
            rows = self.loaded.audio_tower.anchors.cpu().numpy()
            anchors = Rows(rows, np.zeros((len(rows), 2)))
            self._cache.put([(key, anchors)])
        weights = np.exp(anchors.vectors @ texts_nd.T / TAG_TEMPERATURE)
        shares: np.ndarray = weights / weights.sum(0)
        return shares

    def evidence(self, windows_nd: np.ndarray, texts_nd: np.ndarray) -> np.ndarray | None:
        """[windows, texts] the log of what a tagger says of each text; None for a model that is no tagger."""
        width = texts_nd.shape[1]
        if windows_nd.shape[1] <= width:
            return None
        said: np.ndarray = np.log(windows_nd[:, width:] @ self.tag_weights(texts_nd) + EVIDENCE_FLOOR)
        return said

    def embed_text(self, texts: Sequence[str], language: str) -> np.ndarray:
        """[n, d] unit rows; a text that was asked before is not computed again."""
        keys = [text_key(self.fingerprint, text, language) for text in texts]
        known = self._cache.get_many(keys)
        missing = [place for place, key in enumerate(keys) if key not in known]
        if missing:
            rows = self._text([texts[place] for place in missing], language)
            entries = [(keys[place], _one(row)) for place, row in zip(missing, rows, strict=True)]
            self._cache.put(entries)
            known.update(entries)
        return np.concatenate([known[key].vectors for key in keys])

    def _text(self, texts: list[str], language: str) -> np.ndarray:
        mean_key = text_key(self.fingerprint, "mean of the labels", "")
        text_tower = self.name.split(":")[1] if ":" in self.name else "minilm"
        if self.name.split(":")[0] != "bridge" or text_tower != "minilm" or language != "eng":
            return np.asarray(self.loaded.embed_text(texts, language=language))
        mean = self._cache.get(mean_key)
        if mean is None:
            mean = _one(self.loaded.text_tower.mean.cpu().numpy())
            self._cache.put([(mean_key, mean)])
        rows = minilm.embed(texts) - mean.vectors
        unit: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return unit

    def calibration(self) -> dict[str, Any] | None:
        """The saved calibration, or None; UserError where it was fitted for other weights."""
        if self._given:
            place, found = Path(self.name), getattr(self._model, "calibration", None)
        else:
            place = calibration_file(self.name, self.fingerprint)
            found = _kept_in(place)
        if found is not None and found.get("fingerprint") not in (None, self.fingerprint):
            raise UserError(
                f"{place}: calibrated for other weights than these; run `supclap calibrate {self.name} DATA` again"
            )
        # An older calibration knows a single score alone: it says nothing of a place in a collection.
        if found is None or "threshold" not in found:
            return None
        # Fitted with a tagger's evidence, it says nothing of vectors alone.
        return dict(found) if self.tagged or "evidence" not in found else None

    def calibrate(self, curve: dict[str, Any]) -> Path:
        """Keep a curve for these weights; its place comes back."""
        place, held = calibration_file(self.name, self.fingerprint), {**curve, "fingerprint": self.fingerprint}
        if place.name == "config.json":
            held = {**json.loads(place.read_text(encoding="utf8")), "calibration": held}
        write_json(held, place)
        return place


def calibration_file(name: str, fingerprint: str) -> Path:
    """Where a model's calibration is kept: in its folder; for a model without a folder, in the cache."""
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder / "config.json"
    return cache_folder("calibration") / f"{fingerprint}.json"


def _kept_in(place: Path) -> dict[str, Any] | None:
    """The calibration in a file, or None."""
    try:
        held = json.loads(place.read_text(encoding="utf8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise UserError(f"{place}: damaged ({error}); remove it, or save or calibrate the model again") from error
    found = held.get("calibration") if isinstance(held, dict) and place.name == "config.json" else held
    if not isinstance(found, dict | None):
        raise UserError(f"{place}: its calibration is no object; run `supclap calibrate` again")
    return found


def _is_saved_bridge(name: str) -> bool:
    """Whether a name is that of a folder that ``BridgeModel.save`` wrote."""
    place = Path(name).expanduser() / "config.json"
    try:
        held = json.loads(place.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return False
    return isinstance(held, dict) and held.get("kind") == "bridge"


def _with(first: Item, others: Iterator[Item]) -> Iterator[Item]:
    yield first
    yield from others


def _one(row: np.ndarray) -> Rows:
    return Rows(np.asarray(row, np.float32)[None], np.zeros((1, 2)))


def _memo_of(name: str) -> Path | None:
    """Where the facts of a model are remembered, by the state of its files; None for a name without files here."""
    files = _files_of(name)
    if not files or not all(file.is_file() for file in files):
        return None
    stats = [
        (str(file), (stat := file.stat()).st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino) for file in files
    ]
    digest = hashlib.sha256(repr((version("supclap"), name, stats)).encode()).hexdigest()
    return cache_folder("search") / f"{digest[:32]}.json"


def _files_of(name: str) -> list[Path]:
    kind, *rest = name.split(":")
    if kind == "bridge":
        text, tagger = (rest + ["minilm", "mn04"][len(rest) :])[:2]
        if text not in _PACKAGE_FILES or tagger not in pretrained.WEIGHTS:
            return []
        try:
            package = pretrained.locate(text)
            return [
                pretrained.locate(tagger),
                pretrained.locate("audioset-labels"),
                *_inside(package, _PACKAGE_FILES[text]),
            ]
        except UserError:
            return []
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return []
    assets = (file for part in _FOLDER_PARTS for file in sorted((folder / part).glob("*")) if file.is_file())
    return [*_inside(folder, _FOLDER_FILES), *assets]


def _inside(folder: Path, names: Sequence[str]) -> list[Path]:
    return [folder / name for name in names]
