"""Whole CLAPs of transformers (``ClapModel``) as dual models: each half is a tower that ends in its own projection.

The feature extractor's random crops and its random "is longer" mark are never used: a sound comes in windows that it
takes whole, each one alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from supclap.encoders.languages import Once, check
from supclap.encoders.mel import Lengths
from supclap.encoders.text import all_unknown, ordered_parts, read_model, read_tokenizer, transformer_parts
from supclap.encoders.weights import sha_of
from supclap.schema import UserError
from supclap.settings import settings


class ClapAudioTower(nn.Module):
    """The audio half: feature extractor, audio model, projection."""

    def __init__(self, model: Any, extractor: Any) -> None:
        super().__init__()
        self.config, self.extractor = model.config, extractor
        self.audio_model, self.audio_projection = model.audio_model, model.audio_projection
        self.width = int(model.config.projection_dim)
        self.sample_rate = int(extractor.sampling_rate)
        self.window_seconds = float(extractor.nb_max_samples) / self.sample_rate

    def forward(self, samples: Tensor, lengths: Lengths = None) -> Tensor:
        """[n, t] samples to [n, width]."""
        sizes = [samples.shape[1]] * len(samples) if lengths is None else lengths.tolist()
        limit = int(self.extractor.nb_max_samples)
        rows = [row[: min(size, limit)] for row, size in zip(samples.detach().cpu().numpy(), sizes, strict=True)]
        # One call each: the extractor pads by the clip, and nothing of it is drawn at random below its own length.
        features = np.concatenate([self._features(row) for row in rows])
        held = torch.from_numpy(features).to(samples.device)
        longer = torch.zeros(len(rows), 1, dtype=torch.bool, device=samples.device)
        pooled = self.audio_model(input_features=held, is_longer=longer).pooler_output
        return self.audio_projection(pooled)  # type: ignore[no-any-return]

    def _features(self, row: Any) -> Any:
        return self.extractor(row, sampling_rate=self.sample_rate, return_tensors="np")["input_features"].astype("f4")

    def parts(self) -> list[nn.Module]:
        """The stages in the model's order, for freezing the first of them."""
        return ordered_parts(self.audio_model.audio_encoder)

    def save_assets(self, folder: Path) -> None:
        """What is needed beside the weights: config and feature extractor."""
        self.config.save_pretrained(folder)
        self.extractor.save_pretrained(folder)

    def digest(self) -> str:
        """Weights and feature extractor, hashed."""
        plain = {key: value for key, value in self.extractor.to_dict().items() if not isinstance(value, np.ndarray)}
        return sha_of(self, json.dumps(plain, sort_keys=True, default=str))


class ClapTextTower(nn.Module):
    """The text half: tokenizer, text model, projection."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self.config, self.tokenizer = model.config, tokenizer
        self.text_model, self.text_projection = model.text_model, model.text_projection
        self.width = int(model.config.projection_dim)
        # RoBERTa's positions start behind the padding id.
        self.max_tokens = int(model.config.text_config.max_position_embeddings) - 2
        self.once = Once()
        if all_unknown(tokenizer, "a dog barks while rain falls on a roof"):
            raise UserError("the CLAP's tokenizer turns every word into the unknown token; its vocabulary is missing")

    def tokenize(self, texts: Sequence[str], languages: Sequence[str]) -> dict[str, Tensor]:
        """Token ids and mask; texts too long are cut, with one warning."""
        check(languages, len(texts))
        longest = max(map(len, self.tokenizer(list(texts), verbose=False)["input_ids"]), default=0)
        if longest > self.max_tokens:
            self.once("long", f"a text of {longest} tokens was cut to the {self.max_tokens} that this CLAP reads")
        held = self.tokenizer(
            list(texts), truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt", verbose=False
        )
        return {"input_ids": held["input_ids"], "attention_mask": held["attention_mask"]}

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[n, s] tokens to [n, width]."""
        pooled = self.text_model(input_ids=input_ids, attention_mask=attention_mask).pooler_output
        return self.text_projection(pooled)  # type: ignore[no-any-return]

    def parts(self) -> list[nn.Module]:
        """Embeddings, then the layers, for freezing the first of them."""
        return transformer_parts(self.text_model)

    def save_assets(self, folder: Path) -> None:
        """What is needed beside the weights: config and tokenizer files."""
        self.config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def digest(self) -> str:
        """Weights and vocabulary, hashed."""
        return sha_of(self, repr(sorted(self.tokenizer.get_vocab().items(), key=lambda pair: pair[1])))


def read_extractor(folder: str) -> Any:
    """The feature extractor of a folder or hub id."""
    from transformers import ClapFeatureExtractor

    try:
        return ClapFeatureExtractor.from_pretrained(folder)
    except Exception as error:  # the library raises many kinds for one fact
        raise UserError(f"{folder}: no CLAP feature extractor there ({' '.join(str(error).split())[:160]})") from error


def _shape(folder: Path) -> Any:
    from transformers import ClapConfig, ClapModel

    model: nn.Module = ClapModel(ClapConfig.from_pretrained(folder))
    return model.float()


@settings
class ClapAudioSettings:
    """The audio half of a ClapModel, by folder or hub id."""

    model: str

    def build(self) -> ClapAudioTower:
        """The tower with its weights."""
        return ClapAudioTower(read_model(self.model, "ClapModel"), read_extractor(self.model))

    def skeleton(self, folder: Path) -> ClapAudioTower:
        """The same shape with random weights, from the files that ``save_assets`` wrote."""
        return ClapAudioTower(_shape(folder), read_extractor(str(folder)))


@settings
class ClapTextSettings:
    """The text half of a ClapModel, by folder or hub id."""

    model: str

    def build(self, texts: Sequence[str] | None = None) -> ClapTextTower:
        """The tower with its weights."""
        return ClapTextTower(read_model(self.model, "ClapModel"), read_tokenizer(self.model))

    def skeleton(self, folder: Path) -> ClapTextTower:
        """The same shape with random weights, from the files that ``save_assets`` wrote."""
        return ClapTextTower(_shape(folder), read_tokenizer(str(folder)))
