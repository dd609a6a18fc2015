"""Text encoders of transformers as towers: any folder or hub id, own pooling and prefix; MiniLM as the default.

Shapes: n texts, s tokens, w width.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from supclap.encoders import pretrained
from supclap.encoders.languages import Once, check
from supclap.encoders.weights import sha_of
from supclap.schema import UserError
from supclap.settings import settings

Pooling = Literal["auto", "mean", "cls", "last"]
_PROBE = "a dog barks while rain falls on a roof"
_POOLS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "last"}
_PLAIN = {"Transformer", "Pooling", "Normalize"}


def pool(states_nsw: Tensor, mask_ns: Tensor, how: str) -> Tensor:
    """[n, w] from the last states: the mean over true tokens, the first or the last of them."""
    mask = mask_ns.to(states_nsw.dtype)
    if how == "cls":
        # Left-padded rows begin at their first true token.
        return states_nsw[range(len(mask)), mask_ns.long().argmax(1)]
    if how == "last":
        place = states_nsw.shape[1] - 1 - mask_ns.long().flip(1).argmax(1)
        return states_nsw[range(len(mask)), place]
    return (states_nsw * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1.0)


class HfTextTower(nn.Module):
    """A transformers text model and its tokenizer."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        pooling: str = "mean",
        prefix: str = "",
        max_tokens: int = 256,
        languages: frozenset[str] | None = None,
        name: str = "hf",
    ) -> None:
        super().__init__()
        self.model, self.tokenizer, self.pooling, self.prefix = model, tokenizer, pooling, prefix
        config: Any = model.config
        self.width: int = int(getattr(config, "hidden_size", None) or config.d_model)
        self.max_tokens, self.languages, self.name = max_tokens, languages, name
        self.once = Once()
        if all_unknown(tokenizer, _PROBE):
            raise UserError(
                f"text_tower={name}: its tokenizer turns every word into the unknown token; its vocabulary files are "
                "missing or not those of the model"
            )

    def tokenize(self, texts: Sequence[str], languages: Sequence[str]) -> dict[str, Tensor]:
        """Token ids and mask; texts over ``max_tokens`` are cut, with one warning."""
        check(languages, len(texts))
        self.once.foreign(languages, self.languages, self.name)
        whole = [self.prefix + text for text in texts]
        ids = self.tokenizer(whole, truncation=False, verbose=False)["input_ids"]
        if (longest := max(map(len, ids), default=0)) > self.max_tokens:
            self.once("long", f"a text of {longest} tokens was cut to the {self.max_tokens} that {self.name} reads")
        held = self.tokenizer(
            whole, truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt", verbose=False
        )
        return {"input_ids": held["input_ids"], "attention_mask": held["attention_mask"]}

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[n, s] tokens to [n, w]."""
        states = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return pool(states, attention_mask, self.pooling)

    def parts(self) -> list[nn.Module]:
        """Embeddings, then the layers, for freezing the first of them."""
        return transformer_parts(self.model)

    def checkpoint(self) -> None:
        """Recompute activations in the backward pass."""
        self.model.gradient_checkpointing_enable()  # type: ignore[operator]

    def save_assets(self, folder: Path) -> None:
        """What is needed beside the weights: config and tokenizer files."""
        self.model.config.save_pretrained(folder)  # type: ignore[union-attr, operator]
        self.tokenizer.save_pretrained(folder)

    def digest(self) -> str:
        """Weights, pooling and vocabulary, hashed."""
        vocabulary = sorted(self.tokenizer.get_vocab().items(), key=lambda pair: pair[1])
        return sha_of(self.model, self.pooling, self.prefix, str(self.max_tokens), repr(vocabulary))


def transformer_parts(model: nn.Module) -> list[nn.Module]:
    """Embeddings and layers of a transformers model, in order; empty where it is built in another way."""
    stack = next(
        (module for name, module in model.named_modules() if isinstance(module, nn.ModuleList) and "layer" in name),
        None,
    )
    embeddings = [module for name, module in model.named_children() if "embed" in name]
    return embeddings + list(stack) if stack is not None else []


def ordered_parts(model: nn.Module) -> list[nn.Module]:
    """What a model is made of, in its order: each layer of its stacks is a part, and each module beside them."""
    parts: list[nn.Module] = []
    for name, child in model.named_children():
        if isinstance(child, nn.ModuleList):
            parts += list(child)
        else:
            parts += ordered_parts(child) if name == "encoder" else [child]
    return [part for part in parts if any(True for _ in part.parameters())]


def all_unknown(tokenizer: Any, text: str) -> bool:
    """Whether nothing of a text is known to a tokenizer."""
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    unknown = getattr(tokenizer, "unk_token_id", None)
    return not ids or (unknown is not None and all(token == unknown for token in ids))


def read_tokenizer(folder: str) -> Any:
    """The tokenizer of a folder or hub id."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # the library raises many kinds for one fact
        raise UserError(f"text_tower={folder}: no tokenizer there ({line_of(error)})") from error


def read_model(folder: str, kind: str = "AutoModel") -> nn.Module:
    """The model of a folder or hub id, without any code of its own."""
    import transformers

    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model: nn.Module = getattr(transformers, kind).from_pretrained(
            folder, trust_remote_code=False, use_safetensors=True
        )
    except Exception as error:  # the library raises many kinds for one fact
        raise UserError(f"{folder}: cannot be loaded with transformers ({line_of(error)})") from error
    return model.float()


def line_of(error: Exception) -> str:
    """An exception as one line."""
    return " ".join(str(error).split())[:200]


@settings
class HfTextSettings:
    """Any text encoder of transformers, by folder or hub id."""

    model: str
    pooling: Pooling = "auto"  # auto: what a sentence-transformers folder says, else the mean
    prefix: str = ""  # "query: " for E5
    max_tokens: int | None = None

    def build(self, texts: Sequence[str] | None = None) -> HfTextTower:
        """The tower with its weights."""
        return self._wrap(read_model(self.model), read_tokenizer(self.model), Path(self.model))

    def skeleton(self, folder: Path) -> HfTextTower:
        """The same shape with random weights, from the files that ``save_assets`` wrote."""
        from transformers import AutoConfig, AutoModel

        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        model: nn.Module = AutoModel.from_config(config)  # type: ignore[no-untyped-call]
        return self._wrap(model.float(), read_tokenizer(str(folder)), folder)

    def _wrap(self, model: nn.Module, tokenizer: Any, folder: Path) -> HfTextTower:
        pooling, limit = self.pooling, self.max_tokens
        if pooling == "auto":
            pooling = _pooling_of(folder)
        positions = getattr(model.config, "max_position_embeddings", 0) or 512
        # RoBERTa's positions start behind the padding id, so two of them are never used.
        usable = positions - 2 if getattr(model.config, "model_type", "") in {"roberta", "xlm-roberta"} else positions
        limit = min(limit or _limit_of(folder) or usable, usable)
        return HfTextTower(model, tokenizer, pooling=pooling, prefix=self.prefix, max_tokens=limit, name=self.model)


def module_kinds(folder: Path) -> list[str]:
    """The classes that a sentence-transformers folder lists; none where it lists none."""
    path = folder / "modules.json"
    if not path.is_file():
        return []
    held = _plain(path)
    if not isinstance(held, list) or not all(isinstance(entry, dict) and "type" in entry for entry in held):
        raise UserError(f"{path}: no list of modules; the folder is damaged")
    return [str(entry["type"]) for entry in held]


def _plain(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}); the folder is damaged") from error


def _pooling_of(folder: Path) -> Pooling:
    if kinds := {kind.rsplit(".", 1)[-1] for kind in module_kinds(folder)}:
        if more := kinds - _PLAIN:
            raise UserError(
                f"{folder}: its {', '.join(sorted(more))} is not part of an hf tower; load it as st:{folder}"
            )
    config = folder / "1_Pooling" / "config.json"
    if not config.is_file():
        return "mean"
    held = _plain(config)
    chosen = [name for key, name in _POOLS.items() if isinstance(held, dict) and held.get(key)]
    if len(chosen) != 1:
        raise UserError(f"{config}: a pooling that this tower has not; say pooling=mean, cls or last")
    return chosen[0]  # type: ignore[return-value]


def _limit_of(folder: Path) -> int | None:
    config = folder / "sentence_bert_config.json"
    held = _plain(config) if config.is_file() else None
    return held.get("max_seq_length") if isinstance(held, dict) else None


@settings
class MiniLmSettings:
    """MiniLM sentence encoder (English, 384 wide), from the package that carries it."""

    max_tokens: int | None = None
    published = "minilm"

    def build(self, texts: Sequence[str] | None = None) -> HfTextTower:
        """The tower with its weights."""
        return self._named(HfTextSettings(model=str(pretrained.locate("minilm")), max_tokens=self.max_tokens).build())

    def skeleton(self, folder: Path) -> HfTextTower:
        """The same shape with random weights, from the files that ``save_assets`` wrote."""
        inner = HfTextSettings(model="minilm", pooling="mean", max_tokens=self.max_tokens or 256)
        return self._named(inner.skeleton(folder))

    def _named(self, tower: HfTextTower) -> HfTextTower:
        tower.languages, tower.name = frozenset({"eng"}), "minilm"
        return tower
