"""A supclap model in mteb's audio tasks (mteb 2.26; ``pip install "supclap[mteb]"``).

    import mteb, supclap
    from supclap.integrations.mteb import Encoder
    mteb.evaluate(Encoder(supclap.load("runs/mine"), "me/mine"), mteb.get_tasks(["ClothoT2ARetrieval"]))

Sounds are decoded by supclap: neither torchcodec nor torchaudio is needed, and a sound is embedded as everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from supclap.data.languages import language
from supclap.evaluation.ranks import unit
from supclap.schema import UserError

MODALITIES = ("audio", "text")


class Encoder:
    """What mteb calls an encoder. A query of a sound and words is the mean of both unit rows."""

    def __init__(self, model: Any, name: str, *, revision: str = "local", batch_size: int = 32) -> None:
        if name.count("/") != 1 or not all(name.split("/")):
            raise UserError(
                f"name={name!r}: mteb files results under owner/model, such as me/{name.strip('/') or 'clap'}"
            )
        self.model, self.name, self.revision, self.batch_size = model, name, revision, batch_size

    @cached_property
    def mteb_model_meta(self) -> Any:
        """What mteb writes beside the results."""
        from mteb.models import ModelMeta

        told = {"name": self.name, "revision": self.revision, "modalities": list(MODALITIES)}
        return ModelMeta.create_empty(told | {"similarity_fn_name": "cosine", "framework": ["PyTorch"]})

    def encode(
        self,
        inputs: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> np.ndarray[Any, Any]:
        """[n, d] unit rows of a data loader of sounds, texts, or both."""
        columns = _columns(inputs.dataset)
        size = batch_size or self.batch_size
        rows = []
        if "audio" in columns:
            rows.append(self._audio(inputs.dataset, size))
        if "text" in columns:
            rows.append(
                self.model.embed_text(list(inputs.dataset["text"]), language=_language(task_metadata, hf_subset))
            )
        if not rows:
            raise UserError(f"{task_metadata.name} asks for {', '.join(columns)}; a supclap model takes audio and text")
        whole = np.asarray(rows[0] if len(rows) == 1 else unit(rows[0]) + unit(rows[1]))
        return np.asarray(unit(whole), np.float32)

    def _audio(self, dataset: Any, size: int) -> np.ndarray[Any, Any]:
        """A few batches decoded at a time: a corpus need not fit in memory."""
        parts = [self.model.embed_audio(items, batch_size=size) for items in _items(dataset, 8 * size)]
        return np.concatenate([np.asarray(part) for part in parts])

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Cosines of all pairs."""
        return _unit(embeddings1) @ _unit(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Cosines row by row."""
        return (_unit(embeddings1) * _unit(embeddings2)).sum(-1)


def _columns(dataset: Any) -> list[str]:
    names = getattr(dataset, "column_names", None)
    if names is None:
        raise UserError(f"mteb handed over {type(dataset).__name__}, not a Dataset with columns; this is for mteb 2.26")
    return [name for name in (*MODALITIES, "image", "video") if name in names]


def _items(dataset: Any, count: int) -> Iterator[list[Any]]:
    """The sounds as they lie in the table, so many at a time: a column that would decode itself is told not to."""
    if _decodes(dataset):
        from datasets import Audio

        dataset = dataset.cast_column("audio", Audio(decode=False))
    for first in range(0, len(dataset), count):
        yield [_item(row, first + place) for place, row in enumerate(dataset[first : first + count]["audio"])]


def _decodes(dataset: Any) -> bool:
    feature = (getattr(dataset, "features", None) or {}).get("audio")
    return bool(getattr(feature, "decode", False))


def _item(row: Any, place: int) -> Any:
    """Bytes, a path, or samples with their rate."""
    if isinstance(row, dict):
        if row.get("array") is not None:
            return np.asarray(row["array"], np.float32), int(row["sampling_rate"])
        found = row.get("bytes") or row.get("path")
        if found:
            return found
    if isinstance(row, (str, bytes)) and row:
        return row
    raise UserError(f"audio row {place} holds no sound: neither bytes, a path, nor an array with its sampling_rate")


def _language(task_metadata: Any, subset: str) -> str:
    """The one language of a subset; English where there are several or none."""
    scripts: Sequence[str] = (getattr(task_metadata, "hf_subsets_to_langscripts", None) or {}).get(subset) or []
    codes = {language(script) for script in scripts if not script.startswith("zxx")}
    return codes.pop() if len(codes) == 1 else "eng"


def _unit(rows: Any) -> Tensor:
    if isinstance(rows, Iterable) and not isinstance(rows, (Tensor, np.ndarray)):
        rows = np.stack([np.asarray(row) for row in rows])
    wide = torch.as_tensor(rows).double()
    return torch.nn.functional.normalize(wide if wide.ndim > 1 else wide[None], dim=-1)
