"""SpecAugment: stretches of frames and bands of a training clip's spectrogram become its mean."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import NonNegativeInt
from torch import Tensor, nn

from supclap.schema import UserError
from supclap.settings import settings


@settings
class MaskSettings:
    """How many stretches of time and bands of frequency are masked, and the largest share each may take."""

    times: NonNegativeInt = 0
    time_share: float = 0.1
    bands: NonNegativeInt = 0
    band_share: float = 0.2

    def __post_init__(self) -> None:
        for name in ("time_share", "band_share"):
            if not 0 < getattr(self, name) < 1:
                raise UserError(f"train.mask.{name}={getattr(self, name)!r} must lie between 0 and 1")

    @property
    def active(self) -> bool:
        """Whether anything is masked."""
        return bool(self.times or self.bands)

    def attach(self, tower: nn.Module) -> None:
        """Mask what the tower's front end gives, in training mode only."""
        front: Any = getattr(tower, "mel", None)
        if not isinstance(front, nn.Module):
            raise UserError(
                f"train.mask: {type(tower).__name__} has no spectrogram of its own; set its times and bands to 0"
            )
        front.register_forward_hook(self.masked)

    def masked(self, module: nn.Module, _: Any, output: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
        """The front end's ([n, m, f], true frames) with stretches of each row at the row's mean.

        Drawn from torch's global generator, which a step seeds: a resumed run and a second pass draw the same.
        """
        mel_nmf, frames_n = output
        if not module.training:
            return output
        n, m, f = mel_nmf.shape
        true_n = torch.full((n,), f) if frames_n is None else frames_n.cpu()
        hidden_nf = _stretches(true_n, f, self.times, self.time_share)
        hidden_nm = _stretches(torch.full((n,), m), m, self.bands, self.band_share)
        hidden = (hidden_nf[:, None, :] | hidden_nm[:, :, None]).to(mel_nmf.device)
        inside_n1f = (torch.arange(f) < true_n[:, None])[:, None].to(mel_nmf.device)
        mean = (mel_nmf * inside_n1f).sum((1, 2), keepdim=True) / (inside_n1f.sum((1, 2), keepdim=True) * m)
        return torch.where(hidden, mean, mel_nmf), frames_n


def _stretches(true_n: Tensor, size: int, count: int, share: float) -> Tensor:
    """[n, size] True within ``count`` stretches a row, each at most ``share`` of the row's true length."""
    place = torch.arange(size)
    hidden = torch.zeros(len(true_n), size, dtype=torch.bool)
    for _ in range(count):
        length = (torch.rand(len(true_n)) * share * true_n).long()
        start = (torch.rand(len(true_n)) * (true_n - length + 1)).long()
        hidden |= (place >= start[:, None]) & (place < (start + length)[:, None])
    return hidden
