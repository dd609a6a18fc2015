"""MiniLM's forward pass in numpy, for one question: the same rows as the text tower's, without importing torch.

Shapes: s tokens, w width, h heads.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.special import erf

from supclap.encoders import pretrained

_MAX_TOKENS = 256


def embed(texts: Sequence[str]) -> np.ndarray:
    """[n, w] unit rows."""
    model = _load(pretrained.locate("minilm"))
    for text in texts:
        if (count := model.count(text)) > _MAX_TOKENS:
            warnings.warn(f"a text of {count} tokens was cut to the {_MAX_TOKENS} that minilm reads", stacklevel=2)
    return np.stack([model.row(text) for text in texts])


@lru_cache(maxsize=1)
def _load(folder: Path) -> MiniLm:
    return MiniLm(folder)


class MiniLm:
    """A BERT encoder with mean pooling, read from its folder."""

    def __init__(self, folder: Path) -> None:
        from safetensors import safe_open
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text(encoding="utf8"))
        self.layers, self.heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self.epsilon = float(config["layer_norm_eps"])
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(_MAX_TOKENS)
        # Memory-mapped: of the 30,000 word vectors only the asked ones are read.
        self._file = cast(Any, safe_open(folder / "model.safetensors", "np"))
        self._held: dict[str, np.ndarray] = {}
        self._words = self._file.get_slice("embeddings.word_embeddings.weight")

    def count(self, text: str) -> int:
        """The tokens of a text, those beyond the longest one too."""
        whole = self.tokenizer.encode(text)
        return len(whole.ids) + sum(len(rest.ids) - 2 for rest in whole.overflowing)

    def row(self, text: str) -> np.ndarray:
        """[w] the unit row of one text."""
        ids = self.tokenizer.encode(text).ids
        x_sw = np.concatenate([self._words[token : token + 1] for token in ids])
        x_sw = x_sw + self._("embeddings.position_embeddings.weight")[: len(ids)]
        x_sw = self._norm(x_sw + self._("embeddings.token_type_embeddings.weight")[0], "embeddings.LayerNorm")
        for layer in range(self.layers):
            x_sw = self._layer(x_sw, f"encoder.layer.{layer}")
        mean_w = x_sw.mean(0)
        unit: np.ndarray = mean_w / max(float(np.linalg.norm(mean_w)), 1e-12)
        return unit

    def _layer(self, x_sw: np.ndarray, at: str) -> np.ndarray:
        x_sw = self._norm(x_sw + self._attention(x_sw, at), f"{at}.attention.output.LayerNorm")
        wide = self._linear(x_sw, f"{at}.intermediate.dense")
        wide = wide * (0.5 * (1.0 + erf(wide / np.float32(np.sqrt(2.0)))))
        return self._norm(x_sw + self._linear(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")

    def _attention(self, x_sw: np.ndarray, at: str) -> np.ndarray:
        query, key, value = (
            self._linear(x_sw, f"{at}.attention.self.{name}").reshape(len(x_sw), self.heads, -1).swapaxes(0, 1)
            for name in ("query", "key", "value")
        )
        logits_hss = query @ key.swapaxes(1, 2) / np.float32(np.sqrt(query.shape[2]))
        weights = np.exp(logits_hss - logits_hss.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed_sw = (weights @ value).swapaxes(0, 1).reshape(len(x_sw), -1)
        return self._linear(mixed_sw, f"{at}.attention.output.dense")

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        out: np.ndarray = x @ self._(f"{name}.weight").T + self._(f"{name}.bias")
        return out

    def _norm(self, x_sw: np.ndarray, name: str) -> np.ndarray:
        centred = x_sw - x_sw.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(self.epsilon))
        out: np.ndarray = centred / spread * self._(f"{name}.weight") + self._(f"{name}.bias")
        return out

    def _(self, name: str) -> np.ndarray:
        if name not in self._held:
            self._held[name] = self._file.get_tensor(name)
        return self._held[name]
