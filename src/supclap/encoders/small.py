"""Small towers that are trained from scratch on a laptop: a convolutional one for sound, a transformer for text.

No batch statistics anywhere: a row never depends on its batch-mates, in training or after it.
Shapes: n rows, c channels, m mel bands, f frames, s tokens, w width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from supclap.encoders.blocks import Block, run
from supclap.encoders.languages import Once, check
from supclap.encoders.mel import CedMel, Lengths, inside
from supclap.encoders.weights import sha_of
from supclap.schema import UserError
from supclap.settings import settings

_TOKENIZER = "tokenizer.json"
_PAD, _BEGIN, _END = 0, 1, 2
_SPECIAL = ("<pad>", "<s>", "</s>")


class ChannelNorm(nn.Module):
    """Divides each place's channels by their root mean square."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x_ncmf: Tensor) -> Tensor:
        """The same shape."""
        return x_ncmf * (x_ncmf.square().mean(1, keepdim=True) + 1e-6).rsqrt() * self.weight


class SmallAudioTower(nn.Module):
    """Mel frames, four strided convolutions, and the mean and the largest value over time."""

    sample_rate = CedMel.rate

    def __init__(self, channels: tuple[int, ...], width: int, window_seconds: float) -> None:
        super().__init__()
        self.width, self.window_seconds = width, window_seconds
        self.mel = CedMel(top_db=80.0, hop=320)
        come = (1, *channels[:-1])
        self.stages = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1, bias=False) for a, b in zip(come, channels, strict=True))
        self.norms = nn.ModuleList(ChannelNorm(channel) for channel in channels)
        rows = self.mel.mels >> len(channels)
        self.out = nn.Linear(2 * channels[-1] * rows, width)

    def forward(self, samples: Tensor, lengths: Lengths = None) -> Tensor:
        """[n, t] samples to [n, width]."""
        mel, frames = self.mel(samples, lengths)
        x = mel[:, None] / 40.0 + 0.5
        for stage, norm in zip(self.stages, self.norms, strict=True):
            if frames is not None:
                x, frames = _cut(x, frames), (frames - 1) // 2 + 1
            x = norm(F.gelu(stage(x)))
        x = x.flatten(1, 2)
        if frames is None:
            mean, most = x.mean(2), x.amax(2)
        else:
            beyond = inside(x.shape[2], frames)[:, None] == 0
            mean = x.masked_fill(beyond, 0.0).sum(2) / frames[:, None]
            most = x.masked_fill(beyond, -torch.inf).amax(2)
        return self.out(torch.cat([mean, most], 1))  # type: ignore[no-any-return]

    def parts(self) -> list[nn.Module]:
        """The convolutions, for freezing the first of them."""
        return list(self.stages)

    def digest(self) -> str:
        """Weights and front end, hashed."""
        return sha_of(self, self.mel.describe(), f"window={self.window_seconds}")


def _cut(x: Tensor, frames_n: Lengths) -> Tensor:
    if frames_n is None:
        return x
    return x * inside(x.shape[-1], frames_n)[:, None, None]


@settings
class SmallAudioSettings:
    """A small convolutional tower, trained from scratch."""

    channels: tuple[int, int, int, int] = (32, 64, 128, 160)
    width: PositiveInt = 256
    window_seconds: float = 10.0

    def build(self) -> SmallAudioTower:
        """The tower with random weights."""
        return SmallAudioTower(self.channels, self.width, self.window_seconds)

    def skeleton(self, folder: Path | None = None) -> SmallAudioTower:
        """The same."""
        return self.build()


class SmallTextTower(nn.Module):
    """Byte-level BPE, learned positions, pre-norm transformer blocks, mean over the true tokens."""

    def __init__(self, tokenizer: Any, width: int, depth: int, heads: int, max_tokens: int, rows: int) -> None:
        super().__init__()
        self.tokenizer, self.width, self.max_tokens = tokenizer, width, max_tokens
        self.once = Once()
        self.embed = nn.Embedding(rows, width)
        self.place = nn.Parameter(torch.randn(max_tokens, width) * 0.02)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def tokenize(self, texts: Sequence[str], languages: Sequence[str]) -> dict[str, Tensor]:
        """Token ids and mask; a text too long is cut, with one warning."""
        check(languages, len(texts))
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch([text.lower() for text in texts])]
        longest = max(map(len, rows), default=0) + 2
        if longest > self.max_tokens:
            self.once("long", f"a text of {longest} tokens was cut to the {self.max_tokens} that small-text reads")
        rows = [[_BEGIN, *row[: self.max_tokens - 2], _END] for row in rows]
        ids = torch.full((len(rows), max(map(len, rows), default=2)), _PAD)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor(row)
        return {"input_ids": ids, "attention_mask": (ids != _PAD).long()}

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[n, s] tokens to [n, w]."""
        x = self.embed(input_ids) * math.sqrt(self.width) + self.place[: input_ids.shape[1]]
        x = run(self.blocks, x, attention_mask > 0, recompute=False)
        mask = attention_mask[:, :, None].to(x.dtype)
        total: Tensor = (self.norm(x) * mask).sum(1)
        return total / mask.sum(1)

    def parts(self) -> list[nn.Module]:
        """Embedding and blocks, for freezing the first of them."""
        return [self.embed, *self.blocks]

    def save_assets(self, folder: Path) -> None:
        """What is needed beside the weights: the vocabulary."""
        self.tokenizer.save(str(folder / _TOKENIZER))

    def digest(self) -> str:
        """Weights and vocabulary, hashed."""
        return sha_of(self, self.tokenizer.to_str(), str(self.max_tokens))


def learn(texts: Sequence[str], vocabulary: int, special: Sequence[str] = _SPECIAL) -> Any:
    """A byte-level BPE tokenizer from captions; without any it knows the 256 bytes alone."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        min_frequency=2,
    )
    tokenizer.train_from_iterator((text.lower() for text in texts), trainer)
    return tokenizer


@settings
class SmallTextSettings:
    """A small text transformer with a vocabulary learned from the captions, trained from scratch."""

    vocabulary: PositiveInt = 1024  # tokens at most; 259 are bytes and marks
    width: PositiveInt = 128
    depth: PositiveInt = 2
    heads: PositiveInt = 4
    max_tokens: PositiveInt = 64

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UserError(f"width={self.width} does not divide by heads={self.heads}; choose a multiple")
        if self.vocabulary < 259:
            raise UserError(f"vocabulary={self.vocabulary} is below 259, the bytes and three marks")

    def build(self, texts: Sequence[str] | None = None) -> SmallTextTower:
        """The tower with random weights and a vocabulary learned from the texts."""
        return self._wrap(learn(texts or (), self.vocabulary))

    def skeleton(self, folder: Path) -> SmallTextTower:
        """The same shape, with the vocabulary that was saved."""
        from tokenizers import Tokenizer

        path = folder / _TOKENIZER
        if not path.is_file():
            raise UserError(f"{path}: no such file; the folder was not saved whole")
        try:
            return self._wrap(Tokenizer.from_file(str(path)))
        except Exception as error:  # the library knows no kind of its own
            raise UserError(f"{path}: no tokenizer can be read from it ({error}); save the model again") from error

    def _wrap(self, tokenizer: Any) -> SmallTextTower:
        # As many rows as asked for, learned or not: the shape never depends on the captions.
        return SmallTextTower(tokenizer, self.width, self.depth, self.heads, self.max_tokens, self.vocabulary)
