"""EfficientAT's MobileNet (``mn``) at any width: a convolutional tagger over mel frames, and a tower.

Padding is masked before every spatial convolution and left out of every mean, so a row is what it is alone.
Shapes: n clips, c channels, h mel rows, f frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from supclap.encoders import pretrained
from supclap.encoders.mel import EfficientMel, Lengths, inside
from supclap.encoders.weights import fit, sha_of, tensors
from supclap.schema import UserError
from supclap.settings import settings

# kernel, expanded, out, squeeze-and-excitation, hard swish, stride: MobileNetV3-large
_BLOCKS = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


def divisible(channels: float, by: int = 8) -> int:
    """The nearest multiple of ``by`` that is not more than a tenth below."""
    nearest = max(by, int(channels + by / 2) // by * by)
    return nearest + by if nearest < 0.9 * channels else nearest


class Convolution(nn.Sequential):
    """Convolution, batch norm, activation; ``stride`` says how it shortens the frames."""

    def __init__(
        self, come: int, go: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = None
    ) -> None:
        super().__init__(
            nn.Conv2d(come, go, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
            nn.BatchNorm2d(go, eps=0.001, momentum=0.01),
            *([act()] if act else []),
        )
        self.kernel, self.stride = kernel, stride

    def run(self, x_nchf: Tensor, frames_n: Lengths) -> tuple[Tensor, Lengths]:
        """The output and its true lengths; what lies beyond a row's length enters as the zeros of the border."""
        if frames_n is None:
            return self(x_nchf), None
        if self.kernel > 1:
            x_nchf = x_nchf * inside(x_nchf.shape[3], frames_n)[:, None, None, :]
        return self(x_nchf), (frames_n - 1) // self.stride + 1


def frame_mean(x_nchf: Tensor, frames_n: Lengths) -> Tensor:
    """[n, c] means over mel rows and true frames."""
    if frames_n is None:
        return x_nchf.mean(dim=(2, 3))
    weight_nf = inside(x_nchf.shape[3], frames_n) / frames_n[:, None]
    return torch.einsum("nchf,nf->nc", x_nchf, weight_nf) / x_nchf.shape[2]


class Squeeze(nn.Module):
    """Channel attention from the mean of each channel."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(channels, squeezed), nn.Linear(squeezed, channels)

    def forward(self, x_nchf: Tensor, frames_n: Lengths) -> Tensor:
        """The same shape, each channel scaled."""
        gate = self.fc2(self.fc1(frame_mean(x_nchf, frames_n)).relu()).sigmoid()
        gated: Tensor = x_nchf * gate[:, :, None, None]
        return gated


class Squeezes(nn.Module):
    """The published keys hold the channel attention in a list of one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conc_se_layers = nn.ModuleList([Squeeze(channels, divisible(channels // 4))])

    def forward(self, x_nchf: Tensor, frames_n: Lengths) -> Tensor:
        """The same shape, each channel scaled."""
        return self.conc_se_layers[0](x_nchf, frames_n)  # type: ignore[no-any-return]


class Block(nn.Module):
    """An inverted residual block."""

    def __init__(self, come: int, kernel: int, wide: int, go: int, squeeze: bool, swish: bool, stride: int) -> None:
        super().__init__()
        act: type[nn.Module] = nn.Hardswish if swish else nn.ReLU
        layers: list[nn.Module] = [Convolution(come, wide, act=act)] if wide != come else []
        layers.append(Convolution(wide, wide, kernel, stride, groups=wide, act=act))
        if squeeze:
            layers.append(Squeezes(wide))
        layers.append(Convolution(wide, go))
        self.block = nn.ModuleList(layers)
        self.residual = stride == 1 and come == go

    def run(self, x_nchf: Tensor, frames_n: Lengths) -> tuple[Tensor, Lengths]:
        """The output and its true lengths."""
        y, frames = x_nchf, frames_n
        for layer in self.block:
            if isinstance(layer, Convolution):
                y, frames = layer.run(y, frames)
            else:
                y = layer(y, frames)
        return (y + x_nchf if self.residual else y), frames


class MobileNetTower(nn.Module):
    """Samples at 32 kHz to the mean of the last feature map; ``classifier`` is the 527-class tagger's head."""

    sample_rate = EfficientMel.rate

    def __init__(self, width_factor: float = 1.0, window_seconds: float = 10.0, classes: int = 527) -> None:
        super().__init__()
        self.window_seconds = window_seconds
        self.mel = EfficientMel()
        channels = divisible(16 * width_factor)
        layers: list[nn.Module] = [Convolution(1, channels, 3, 2, act=nn.Hardswish)]
        for kernel, wide, go, squeeze, swish, stride in _BLOCKS:
            sizes = divisible(wide * width_factor), divisible(go * width_factor)
            layers.append(Block(channels, kernel, *sizes, squeeze, swish, stride))
            channels = sizes[1]
        self.width = 6 * channels
        layers.append(Convolution(channels, self.width, act=nn.Hardswish))
        self.features = nn.ModuleList(layers)
        hidden = divisible(1280 * width_factor)
        self.classifier = nn.Sequential(
            nn.Identity(),
            nn.Identity(),
            nn.Linear(self.width, hidden),
            nn.Hardswish(),
            nn.Dropout(0.2),
            nn.Linear(hidden, classes),
        )

    def forward(self, samples: Tensor, lengths: Lengths = None) -> Tensor:
        """[n, t] samples to [n, width]."""
        mel, frames = self.mel(samples, lengths)
        return self.pooled(mel, frames)

    def pooled(self, mel_nhf: Tensor, frames_n: Lengths = None) -> Tensor:
        """[n, width] from mel frames."""
        x = mel_nhf[:, None]
        for layer in self.features:
            assert isinstance(layer, Convolution | Block)
            x, frames_n = layer.run(x, frames_n)
        return frame_mean(x, frames_n)

    def tag(self, embedding: Tensor) -> Tensor:
        """[n, width] embeddings to [n, 527] AudioSet logits."""
        return self.classifier(embedding)  # type: ignore[no-any-return]

    def parts(self) -> list[nn.Module]:
        """The layers from the sound to the embedding, for freezing the first of them."""
        return list(self.features)

    def digest(self) -> str:
        """Weights and front end, hashed."""
        return sha_of(self, self.mel.describe(), f"window={self.window_seconds}")


def load_published(
    state: Mapping[str, Tensor], window_seconds: float = 10.0, source: str = "weights"
) -> MobileNetTower:
    """A tower of the width that a published state dict has."""
    if "features.16.0.weight" not in state or "classifier.5.weight" not in state:
        raise UserError(f"{source}: no EfficientAT mn state dict (it has no features.16.0.weight)")
    wanted = state["features.16.0.weight"].shape[0]
    for factor in (tenths / 10 for tenths in range(1, 61)):
        stem, hidden = divisible(16 * factor), divisible(1280 * factor)
        found = len(state["features.0.0.weight"]), len(state["classifier.2.weight"])
        if (6 * divisible(160 * factor), stem, hidden) == (wanted, *found):
            tower = MobileNetTower(factor, window_seconds, classes=len(state["classifier.5.weight"]))
            fit(tower, state, source)
            return tower
    raise UserError(f"{source}: an mn of unknown width (its last feature block has {wanted} channels)")


@settings
class MobileNetSettings:
    """EfficientAT's MobileNet. ``weights``: a name of ``supclap models list``, a file, or None for random weights."""

    weights: str | None = "mn04"
    width_factor: float = 0.4
    window_seconds: float = 10.0

    def build(self) -> MobileNetTower:
        """The tower with its weights."""
        if self.weights is None:
            return self.skeleton()
        path = pretrained.find(self.weights)
        tower = load_published(tensors(path), self.window_seconds, str(path))
        expected = 6 * divisible(160 * self.width_factor)
        if tower.width != expected:
            raise UserError(
                f"width_factor={self.width_factor} makes {expected} channels, but {path.name} has {tower.width}; "
                "give the width of the file"
            )
        return tower

    @property
    def published(self) -> str | None:
        """The name the weights can be found by again."""
        return self.weights if self.weights in pretrained.WEIGHTS else None

    def skeleton(self, folder: Path | None = None) -> MobileNetTower:
        """The same shape with random weights."""
        return MobileNetTower(self.width_factor, self.window_seconds)


@settings
class Mn01Settings(MobileNetSettings):
    """Width 0.1."""

    weights: str | None = "mn01"
    width_factor: float = 0.1


@settings
class Mn02Settings(MobileNetSettings):
    """Width 0.2."""

    weights: str | None = "mn02"
    width_factor: float = 0.2


@settings
class Mn05Settings(MobileNetSettings):
    """Width 0.5."""

    weights: str | None = "mn05"
    width_factor: float = 0.5


@settings
class Mn10Settings(MobileNetSettings):
    """Width 1."""

    weights: str | None = "mn10"
    width_factor: float = 1.0


@settings
class Mn20Settings(MobileNetSettings):
    """Width 2."""

    weights: str | None = "mn20"
    width_factor: float = 2.0


@settings
class Mn30Settings(MobileNetSettings):
    """Width 3."""

    weights: str | None = "mn30"
    width_factor: float = 3.0


@settings
class Mn40Settings(MobileNetSettings):
    """Width 4."""

    weights: str | None = "mn40"
    width_factor: float = 4.0
