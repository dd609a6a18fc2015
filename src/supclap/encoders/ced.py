"""CED (Consistent Ensemble Distillation): a transformer over patches of CED's mel frames.

Long sounds are cut into windows of 1012 frames and their tokens' means weighted by true length; ``published_windows``
does as the published code does instead: equal weights, a zero-padded last window, and, where the frames are an exact
multiple of 1012, a lost last window. Shapes: n clips, m mel bands, f frames, s tokens, w width, k windows a clip.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from supclap.encoders import pretrained
from supclap.encoders.blocks import Block, run
from supclap.encoders.mel import CedMel, Lengths, inside
from supclap.encoders.weights import fit, sha_of, tensors
from supclap.schema import UserError
from supclap.settings import settings

FRAMES = 1012
HOP = 160
PATCH = 16
_SHORTEST = 15 * HOP  # 16 frames: one patch
_WHOLE = 3600.0


class Patches(nn.Module):
    """Patches of 16 x 16 to tokens; the published keys call the convolution ``proj``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(1, width, PATCH, PATCH)

    def forward(self, mel_nmf: Tensor) -> Tensor:
        """[n, w, m / 16, f / 16]."""
        return self.proj(mel_nmf[:, None])  # type: ignore[no-any-return]


class CedTower(nn.Module):
    """Samples at 16 kHz to the mean of the normed tokens; ``outputlayer`` is the published tagger's head."""

    sample_rate = CedMel.rate

    def __init__(
        self,
        width: int,
        depth: int,
        heads: int,
        *,
        mlp_ratio: float = 4.0,
        classes: int = 527,
        published_windows: bool = False,
        batch_cutoff: bool = False,
    ) -> None:
        super().__init__()
        self.width, self.published_windows, self.recompute = width, published_windows, False
        # The longest sound whose frames are not over 1012; the published form wants the whole sound at once.
        self.window_seconds = _WHOLE if published_windows else (FRAMES - 1) * HOP / CedMel.rate
        self.mel = CedMel(batch_cutoff=batch_cutoff, shortest=_SHORTEST)
        self.init_bn = nn.BatchNorm2d(self.mel.mels, momentum=0.01)
        self.patch_embed = Patches(width)
        self.time_pos_embed = nn.Parameter(torch.randn(1, width, 1, FRAMES // PATCH) * 0.02)
        self.freq_pos_embed = nn.Parameter(torch.randn(1, width, self.mel.mels // PATCH, 1) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, mlp_ratio) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.outputlayer = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, samples: Tensor, lengths: Lengths = None) -> Tensor:
        """[n, t] samples to [n, w]."""
        rows_nkw, weight_nk = self.windows(*self.mel(samples, lengths))
        return torch.einsum("nkw,nk->nw", rows_nkw, weight_nk)

    def tag(self, samples: Tensor, lengths: Lengths = None) -> Tensor:
        """[n, classes] probabilities, a weighted mean over the windows of a clip."""
        rows_nkw, weight_nk = self.windows(*self.mel(samples, lengths))
        return torch.einsum("nkc,nk->nc", self.outputlayer(rows_nkw).sigmoid(), weight_nk)

    def windows(self, mel_nmf: Tensor, frames_n: Lengths = None) -> tuple[Tensor, Tensor]:
        """[n, k, w] the mean token of each window, and [n, k] what each window counts."""
        n, m, f = mel_nmf.shape
        x = self.init_bn(mel_nmf[:, :, None])[:, :, 0]
        if f <= FRAMES:
            return self._tokens(x, frames_n)[:, None], torch.ones(n, 1, device=x.device)
        count = -(-f // FRAMES)
        if self.published_windows and f % FRAMES == 0:
            count -= 1
        x = F.pad(x, (0, max(count * FRAMES - f, 0)))[..., : count * FRAMES]
        x = x.view(n, m, count, FRAMES).transpose(1, 2).flatten(0, 1)
        if self.published_windows:
            return self._tokens(x, None).view(n, count, -1), torch.full((n, count), 1 / count, device=x.device)
        frames_n = torch.full((n,), f, device=x.device) if frames_n is None else frames_n
        left_nk = (frames_n[:, None] - FRAMES * torch.arange(count, device=x.device)).clamp(0, FRAMES)
        # A rest of less than a patch is no token, and counts nothing.
        left_nk = left_nk * (left_nk >= PATCH)
        rows = self._tokens(x, left_nk.flatten().clamp(min=PATCH)).view(n, count, -1)
        return rows, left_nk / left_nk.sum(1, keepdim=True)

    def _tokens(self, x_nmf: Tensor, frames_n: Lengths) -> Tensor:
        """[n, w] the mean of the true tokens."""
        x = self.patch_embed(x_nmf)
        steps = x.shape[3]
        x = x + self.time_pos_embed[..., :steps] + self.freq_pos_embed
        x_nsw = x.flatten(2).transpose(1, 2)
        if frames_n is None:
            return self.norm(run(self.blocks, x_nsw, None, self.recompute)).mean(1)  # type: ignore[no-any-return]
        keep_ns = inside(steps, frames_n // PATCH).repeat(1, self.freq_pos_embed.shape[2])
        x_nsw = self.norm(run(self.blocks, x_nsw, keep_ns > 0, self.recompute))
        return torch.einsum("nsw,ns->nw", x_nsw, keep_ns / keep_ns.sum(1, keepdim=True))

    def parts(self) -> list[nn.Module]:
        """The patches, then the blocks, for freezing the first of them."""
        return [self.patch_embed, *self.blocks]

    def checkpoint(self) -> None:
        """Recompute activations in the backward pass."""
        self.recompute = True

    def digest(self) -> str:
        """Weights, front end and window rule, hashed."""
        return sha_of(self, self.mel.describe(), f"published={self.published_windows}")


_PREFIXES = ("audio_encoder.model.", "encoder.")


def rename(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Keys of the original .pt, of the hub's files or of ML-CLAP to ours; other parts of a CLAP are left out."""
    prefix = next((prefix for prefix in _PREFIXES if f"{prefix}patch_embed.proj.weight" in state), "")
    ours: dict[str, Tensor] = {}
    for key, value in state.items():
        inner = key.removeprefix(prefix)
        # The hub keeps the tagger's head outside of the encoder.
        if (prefix and inner == key and not key.startswith("outputlayer.")) or inner.startswith("front_end."):
            continue
        ours[inner.replace("init_bn.1.", "init_bn.")] = value
    return ours


@settings
class CedSettings:
    """CED-Base. ``weights``: a name of ``supclap models list``, a file, or None for random weights."""

    weights: str | None = "ced-base"
    width: PositiveInt = 768
    depth: PositiveInt = 12
    heads: PositiveInt = 12
    mlp_ratio: float = 4.0
    published_windows: bool = False
    batch_cutoff: bool = False  # one decibel floor for a whole batch, as published

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UserError(f"width={self.width} does not divide by heads={self.heads}; choose a multiple")

    @property
    def published(self) -> str | None:
        """The name the weights can be found by again."""
        return self.weights if self.weights in pretrained.WEIGHTS else None

    def build(self) -> CedTower:
        """The tower with its weights."""
        if self.weights is None:
            return self.skeleton()
        path = pretrained.find(self.weights)
        state = rename(tensors(path))
        head = state.get("outputlayer.1.weight")
        tower = self._tower(527 if head is None else len(head))
        if head is None:
            # ML-CLAP's encoder has no tagger's head; ours keeps its random one, which no embedding reads.
            state |= {key: value for key, value in tower.state_dict().items() if key.startswith("outputlayer.")}
        fit(tower, state, str(path))
        return tower

    def skeleton(self, folder: Path | None = None) -> CedTower:
        """The same shape with random weights."""
        return self._tower(527)

    def _tower(self, classes: int) -> CedTower:
        return CedTower(
            self.width,
            self.depth,
            self.heads,
            mlp_ratio=self.mlp_ratio,
            classes=classes,
            published_windows=self.published_windows,
            batch_cutoff=self.batch_cutoff,
        )


@settings
class CedTinySettings(CedSettings):
    """CED-Tiny."""

    weights: str | None = "ced-tiny"
    width: PositiveInt = 192
    heads: PositiveInt = 3


@settings
class CedNanoSettings(CedSettings):
    """A CED of half a million weights, trained from scratch."""

    weights: str | None = None
    width: PositiveInt = 96
    depth: PositiveInt = 4
    heads: PositiveInt = 3


@settings
class CedMiniSettings(CedSettings):
    """CED-Mini."""

    weights: str | None = "ced-mini"
    width: PositiveInt = 256
    heads: PositiveInt = 4


@settings
class CedSmallSettings(CedSettings):
    """CED-Small."""

    weights: str | None = "ced-small"
    width: PositiveInt = 384
    heads: PositiveInt = 6
