"""Any audio encoder of transformers as a tower: its own feature extractor, one row at a time, its own rate.

Shapes: n clips, t samples, s positions, w width.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from supclap.encoders.mel import Lengths
from supclap.encoders.text import line_of, ordered_parts, read_model
from supclap.encoders.weights import sha_of
from supclap.schema import UserError
from supclap.settings import settings

_LONGEST = 30.0


class HfAudioTower(nn.Module):
    """Feature extractor and encoder; the model's own pooled vector, or the mean of the positions a sound fills."""

    def __init__(self, model: Any, extractor: Any, pooling: str, window_seconds: float | None) -> None:
        super().__init__()
        self.config, self.extractor, self.pooling = model.config, extractor, pooling
        # Of an encoder-decoder, such as Whisper, only the encoder hears.
        self.model = model.get_encoder() if getattr(model.config, "is_encoder_decoder", False) else model
        self.width = int(getattr(model.config, "hidden_size", None) or model.config.d_model)
        self.sample_rate = int(extractor.sampling_rate)
        self.fixed = self._fixed_seconds()
        self.window_seconds = float(window_seconds or self.fixed or _LONGEST)
        if self.fixed and self.window_seconds > self.fixed:
            raise UserError(f"window_seconds={window_seconds}: this model hears {self.fixed:g} s at most")

    def _fixed_seconds(self) -> float | None:
        """The stretch that the extractor pads every sound to, or None where it takes any length."""
        if samples := getattr(self.extractor, "n_samples", None):  # Whisper
            return float(samples) / self.sample_rate
        if (frames := getattr(self.extractor, "max_length", None)) and hasattr(self.extractor, "num_mel_bins"):  # AST
            return float(frames) * 0.01
        return None

    def forward(self, samples: Tensor, lengths: Lengths = None) -> Tensor:
        """[n, t] samples to [n, w]; every row alone, so that no padding of a batch reaches it."""
        sizes = [samples.shape[1]] * len(samples) if lengths is None else lengths.tolist()
        rows = samples.detach().cpu().numpy()
        if self.fixed:
            return self._pool(self._run([row[:size] for row, size in zip(rows, sizes, strict=True)], samples), sizes)
        parts = [self._pool(self._run([row[:size]], samples), [size]) for row, size in zip(rows, sizes, strict=True)]
        return torch.cat(parts)

    def _run(self, rows: list[Any], like: Tensor) -> Any:
        # An encoder of raw samples needs a receptive field to hear anything: a tenth of a second is enough for all.
        shortest = self.sample_rate // 10
        rows = [np.pad(row, (0, max(0, shortest - len(row)))) for row in rows]
        held = [self.extractor(row, sampling_rate=self.sample_rate, return_tensors="np") for row in rows]
        name = next(key for key in ("input_values", "input_features") if key in held[0])
        features = np.concatenate([one[name] for one in held]).astype("f4")
        return self.model(torch.from_numpy(features).to(like.device))

    def _pool(self, out: Any, sizes: list[int]) -> Tensor:
        pooled = getattr(out, "pooler_output", None)
        if self.pooling == "auto" and pooled is not None:
            return pooled  # type: ignore[no-any-return]
        states_nsw = out.last_hidden_state
        total = states_nsw.shape[1]
        share = 1.0 / (self.fixed * self.sample_rate) if self.fixed and self.pooling == "auto" else None
        counts = [total if share is None else min(total, max(1, math.ceil(total * size * share))) for size in sizes]
        return torch.stack([row[:count].mean(0) for row, count in zip(states_nsw, counts, strict=True)])

    def parts(self) -> list[nn.Module]:
        """The model's parts in its order, each layer one, for freezing the first of them."""
        return ordered_parts(self.model)

    def checkpoint(self) -> None:
        """Recompute activations in the backward pass."""
        self.model.gradient_checkpointing_enable()

    def save_assets(self, folder: Path) -> None:
        """What is needed beside the weights: config and feature extractor."""
        self.config.save_pretrained(folder)
        self.extractor.save_pretrained(folder)

    def digest(self) -> str:
        """Weights, feature extractor and pooling, hashed."""
        plain = {key: value for key, value in self.extractor.to_dict().items() if not isinstance(value, np.ndarray)}
        words = json.dumps(plain, sort_keys=True, default=str)
        return sha_of(self.model, words, self.pooling, str(self.window_seconds))


@settings
class HfAudioSettings:
    """Any audio encoder of transformers, by folder or hub id."""

    model: str
    pooling: Literal["auto", "mean"] = "auto"  # auto: the model's own pooled vector, else the mean of true positions
    window_seconds: float | None = None

    def build(self) -> HfAudioTower:
        """The tower with its weights."""
        return HfAudioTower(read_model(self.model), self._extractor(self.model), self.pooling, self.window_seconds)

    def skeleton(self, folder: Path) -> HfAudioTower:
        """The same shape with random weights, from the files that ``save_assets`` wrote."""
        from transformers import AutoConfig, AutoModel

        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        model: nn.Module = AutoModel.from_config(config)  # type: ignore[no-untyped-call]
        return HfAudioTower(model.float(), self._extractor(str(folder)), self.pooling, self.window_seconds)

    def _extractor(self, folder: str) -> Any:
        from transformers import AutoFeatureExtractor

        try:
            return AutoFeatureExtractor.from_pretrained(  # type: ignore[no-untyped-call]
                folder, trust_remote_code=False
            )
        except Exception as error:  # the library raises many kinds for one fact
            raise UserError(f"audio_tower={folder}: no feature extractor there ({line_of(error)})") from error
