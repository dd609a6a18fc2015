"""SONAR's text encoder (200 languages) through transformers' M2M100Encoder; its published weights are non-commercial.

Shapes: n texts, s tokens, w width.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from supclap.encoders import pretrained
from supclap.encoders.languages import Once, check, full
from supclap.encoders.text import all_unknown, line_of, read_tokenizer
from supclap.encoders.weights import fit, sha_of, tensors
from supclap.schema import UserError
from supclap.settings import settings

# fairseq2 key -> transformers key, both ways, by whole words between dots.
_NAMES = (
    ("encoder_frontend.embed.", "embed_tokens."),
    ("self_attn.output_proj.", "self_attn.out_proj."),
    ("ffn.inner_proj.", "fc1."),
    ("ffn.output_proj.", "fc2."),
    ("ffn_layer_norm.", "final_layer_norm."),
)
# fairseq2 has <pad> <unk> <s> </s> first, transformers <s> <pad> </s> <unk>.
_ROWS = (1, 3, 0, 2)
_EMBED = "embed_tokens.weight"


def from_fairseq2(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A fairseq2 checkpoint's keys and vocabulary order to those of transformers."""
    ours: dict[str, Tensor] = {}
    for key, value in state.items():
        key = key.removeprefix("encoder.") if key.startswith("encoder.layers.") else key
        for theirs, mine in _NAMES:
            key = key.replace(theirs, mine)
        ours[key] = value
    if _EMBED in ours:
        ours[_EMBED] = _reorder(ours[_EMBED], [_ROWS.index(k) for k in range(4)])
    return ours


def to_fairseq2(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The keys and vocabulary order of transformers to those of fairseq2."""
    theirs: dict[str, Tensor] = {}
    for key, value in state.items():
        renamed = key
        for new, old in _NAMES:
            # Whole words only: self_attn_layer_norm must not be taken for another name's end.
            renamed = re.sub(rf"(^|(?<=\.)){re.escape(old)}", new, renamed)
        renamed = f"encoder.{renamed}" if renamed.startswith("layers.") else renamed
        theirs[renamed] = _reorder(value, list(_ROWS)) if key == _EMBED else value
    return theirs


def _reorder(rows: Tensor, first: list[int]) -> Tensor:
    return torch.cat([rows[first], rows[4:]])


class SonarTower(nn.Module):
    """[language] pieces </s> through the encoder; the mean of all true states, marks included."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.width = int(model.config.d_model)
        self.max_tokens = min(int(model.config.max_position_embeddings), 512)
        self.once = Once()
        if all_unknown(tokenizer, "a dog barks while rain falls on a roof"):
            raise UserError(
                "text_tower=sonar: its tokenizer turns every word into the unknown token; load it from a whole folder"
            )

    def tokenize(self, texts: Sequence[str], languages: Sequence[str]) -> dict[str, Tensor]:
        """Token ids and mask, each text behind its language's mark; texts too long are cut, with one warning."""
        check(languages, len(texts))
        room = self.max_tokens - 2
        rows: list[list[int]] = []
        for text, language in zip(texts, languages, strict=True):
            pieces = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] if text else []
            if len(pieces) > room:
                self.once(
                    "long", f"a text of {len(pieces) + 2} tokens was cut to the {self.max_tokens} that sonar reads"
                )
            rows.append([self._mark(language), *pieces[:room], self.tokenizer.eos_token_id])
        ids = torch.full((len(rows), max(map(len, rows), default=2)), int(self.tokenizer.pad_token_id))
        mask = torch.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor(row)
            mask[place, : len(row)] = 1
        return {"input_ids": ids, "attention_mask": mask}

    def _mark(self, language: str) -> int:
        token = int(self.tokenizer.convert_tokens_to_ids(full(language)))
        if token == self.tokenizer.unk_token_id:
            raise UserError(f"language={language!r}: the tokenizer of this SONAR has no mark {full(language)}")
        return token

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[n, s] tokens to [n, w]."""
        states = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.to(states.dtype)
        total: Tensor = (states * mask[:, :, None]).sum(1)
        return total / (mask.sum(1, keepdim=True) + 1e-7)

    def parts(self) -> list[nn.Module]:
        """Embedding and layers, for freezing the first of them."""
        return [self.model.embed_tokens, *self.model.layers]

    def checkpoint(self) -> None:
        """Recompute activations in the backward pass."""
        self.model.gradient_checkpointing_enable()

    def save_assets(self, folder: Path) -> None:
        """What is needed beside the weights: config and tokenizer files."""
        self.model.config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def digest(self) -> str:
        """Weights and vocabulary size, hashed."""
        return sha_of(self.model, str(len(self.tokenizer)), str(self.max_tokens))


@settings
class SonarSettings:
    """SONAR's text encoder. ``model``: "sonar" or a folder with config and tokenizer; ``layers`` cuts the depth."""

    model: str = "sonar"
    layers: PositiveInt | None = None
    random: bool = False  # the noisy setting: the shape alone
    fairseq2: str | None = None  # a checkpoint of the original code, in place of the folder's weights

    @property
    def published(self) -> str | None:
        """The name the weights can be found by again; a cut or random encoder has none."""
        changed = self.layers or self.random or self.fairseq2
        return None if changed else ("sonar" if self.model == "sonar" else None)

    def build(self, texts: Sequence[str] | None = None) -> SonarTower:
        """The tower with its weights."""
        folder = pretrained.find(self.model)
        model = self._shape(folder)
        if not self.random:
            file = Path(self.fairseq2) if self.fairseq2 else folder / "model.safetensors"
            state = tensors(file)
            state = from_fairseq2(state) if self.fairseq2 else _encoder_of(state)
            fit(model, _cut(state, self.layers), str(file))
        return SonarTower(model, read_tokenizer(str(folder)))

    def skeleton(self, folder: Path) -> SonarTower:
        """The same shape with random weights, from the files that ``save_assets`` wrote."""
        return SonarTower(self._shape(folder), read_tokenizer(str(folder)))

    def _shape(self, folder: Path) -> Any:
        from transformers import AutoConfig
        from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

        try:
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        except Exception as error:  # the library raises many kinds for one fact
            raise UserError(f"{folder}: no M2M100 config there ({line_of(error)})") from error
        if config.model_type != "m2m_100":
            raise UserError(
                f"{folder}: a {config.model_type!r}, not the M2M100 encoder that SONAR is; try text_tower=hf"
            )
        if self.layers is not None and self.layers > config.encoder_layers:
            raise UserError(f"layers={self.layers}, but {folder.name} has {config.encoder_layers}")
        config.encoder_layers = self.layers or config.encoder_layers
        model: nn.Module = M2M100Encoder(config)
        return model.float()


def _encoder_of(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The encoder's keys of a folder that may hold a whole translation model."""
    for prefix in ("model.encoder.", "encoder."):
        inner = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        if inner:
            shared = state.get(prefix.removesuffix("encoder.") + "shared.weight")
            return inner if shared is None else {_EMBED: shared} | inner
    return dict(state)


def _cut(state: Mapping[str, Tensor], layers: int | None) -> dict[str, Tensor]:
    def kept(key: str) -> bool:
        found = re.match(r"layers\.(\d+)\.", key)
        return layers is None or found is None or int(found[1]) < layers

    return {key: value for key, value in state.items() if kept(key)}
