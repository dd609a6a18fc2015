"""Log-mel front ends on ``torch.stft``: CED's and EfficientAT's, each row at its own true length.

Shapes: n clips, t samples, m mel bands, f frames. Everything is computed in float32, autocast or not, and every row on
its own: neither its batch-mates nor the padding behind it can change it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

Lengths = Tensor | None
"""[n] true lengths; None says that every row is full."""


def mirror(samples_nt: Tensor, lengths_n: Lengths, pad: int) -> Tensor:
    """Reflect ``pad`` samples at both ends of each row's true length; what lies beyond is of no meaning."""
    total = samples_nt.shape[1]
    if lengths_n is None and total > pad:
        return nn.functional.pad(samples_nt[:, None], (pad, pad), mode="reflect")[:, 0]
    device = samples_nt.device
    lengths_n1 = (torch.full((len(samples_nt),), total) if lengths_n is None else lengths_n).to(device)[:, None]
    steps_p = torch.arange(pad, device=device)
    # Only the borders are gathered: a gather of every sample would cost more than the transform.
    left = samples_nt.gather(1, _bounce((steps_p - pad).expand(len(samples_nt), -1), lengths_n1))
    right = samples_nt.gather(1, _bounce(lengths_n1 + steps_p, lengths_n1))
    padded = torch.cat([left, samples_nt, torch.zeros_like(samples_nt[:, :1]).expand(-1, pad)], 1)
    return padded.scatter(1, lengths_n1 + pad + steps_p, right)


def _bounce(place_np: Tensor, lengths_n1: Tensor) -> Tensor:
    """Places outside of 0 .. length - 1, reflected as often as it takes."""
    last = lengths_n1 - 1
    period = (2 * last).clamp(min=1)
    place_np = torch.remainder(place_np, period)
    return torch.minimum(torch.where(place_np > last, period - place_np, place_np).clamp(min=0), last)


def power_spectrum(padded_nt: Tensor, window: Tensor, fft: int, hop: int) -> Tensor:
    """[n, fft / 2 + 1, f] squared magnitudes of rows that are already padded."""
    spectrum = torch.stft(
        padded_nt, fft, hop_length=hop, win_length=window.numel(), window=window, center=False, return_complex=True
    )
    return spectrum.real.square() + spectrum.imag.square()


def htk_bank(bins: int, mels: int, rate: int, low: float, high: float) -> Tensor:
    """[bins, mels] triangles that are even on the HTK mel scale, without normalisation."""

    def to_mel(hertz: float) -> float:
        return 2595.0 * math.log10(1.0 + hertz / 700.0)

    corners = 700.0 * (10.0 ** (torch.linspace(to_mel(low), to_mel(high), mels + 2) / 2595.0) - 1.0)
    hertz = torch.linspace(0, rate // 2, bins)
    width = corners.diff()
    slope = corners[None, :] - hertz[:, None]
    return torch.minimum(-slope[:, :-2] / width[:-1], slope[:, 2:] / width[1:]).clamp(min=0)


def kaldi_bank(fft: int, mels: int, rate: int, low: float, high: float) -> Tensor:
    """[fft / 2 + 1, mels] triangles drawn on the mel axis, as Kaldi does; the Nyquist bin stays empty."""

    def to_mel(hertz: float) -> float:
        return 1127.0 * math.log(1.0 + hertz / 700.0)

    step = (to_mel(high) - to_mel(low)) / (mels + 1)
    left = to_mel(low) + torch.arange(mels) * step
    place = 1127.0 * (1.0 + rate / fft * torch.arange(fft // 2) / 700.0).log()
    rise = (place[:, None] - left) / step
    bank = torch.minimum(rise, 2.0 - rise).clamp(min=0)
    return torch.cat([bank, torch.zeros(1, mels)])


def fill(samples_nt: Tensor, lengths_n: Lengths, shortest: int) -> tuple[Tensor, Lengths]:
    """Zeros behind each true length, and rows shorter than ``shortest`` taken as zero-padded to it."""
    if samples_nt.shape[1] < shortest:
        if lengths_n is None:
            lengths_n = torch.full((len(samples_nt),), samples_nt.shape[1], device=samples_nt.device)
        samples_nt = nn.functional.pad(samples_nt, (0, shortest - samples_nt.shape[1]))
    if lengths_n is None:
        return samples_nt, None
    lengths_n = lengths_n.to(samples_nt.device)
    inside = torch.arange(samples_nt.shape[1], device=samples_nt.device) < lengths_n[:, None]
    return samples_nt * inside, lengths_n.clamp(min=shortest)


class CedMel(nn.Module):
    """CED's front end: 16 kHz, 64 HTK bands in decibels. ``batch_cutoff`` takes one floor for a whole batch."""

    window: Tensor
    bank: Tensor
    rate = 16000

    def __init__(
        self, *, mels: int = 64, top_db: float = 120.0, batch_cutoff: bool = False, shortest: int = 512, hop: int = 160
    ) -> None:
        super().__init__()
        self.hop = hop
        self.mels, self.top_db, self.batch_cutoff, self.shortest = mels, top_db, batch_cutoff, shortest
        self.register_buffer("window", torch.hann_window(512), persistent=False)
        self.register_buffer("bank", htk_bank(257, mels, self.rate, 0.0, 8000.0), persistent=False)

    def forward(self, samples_nt: Tensor, lengths_n: Lengths = None) -> tuple[Tensor, Lengths]:
        """[n, t] at 16 kHz to [n, m, f] decibels and the true number of frames."""
        with torch.autocast(samples_nt.device.type, enabled=False):
            samples_nt, lengths_n = fill(samples_nt.float(), lengths_n, self.shortest)
            power = power_spectrum(mirror(samples_nt, lengths_n, 256), self.window, 512, self.hop)
            mel = (power.transpose(1, 2) @ self.bank).transpose(1, 2)
            frames = None if lengths_n is None else 1 + lengths_n // self.hop
            return self.decibels(mel, frames), frames

    def decibels(self, mel_nmf: Tensor, frames_n: Lengths) -> Tensor:
        """10 log10, not lower than ``top_db`` under the loudest value of the row (or of the batch)."""
        level = 10.0 * mel_nmf.clamp(min=1e-10).log10()
        inside = level
        if frames_n is not None:
            beyond = torch.arange(level.shape[2], device=level.device) >= frames_n[:, None, None]
            inside = level.masked_fill(beyond, -torch.inf)
        loudest = inside.amax() if self.batch_cutoff else inside.amax(dim=(1, 2), keepdim=True)
        return torch.maximum(level, loudest - self.top_db)

    def describe(self) -> str:
        """What decides the numbers, in one line."""
        return f"ced-mel {self.rate} 512/512/{self.hop} {self.mels} htk 0-8000 top_db={self.top_db} {self.batch_cutoff}"


class EfficientMel(nn.Module):
    """EfficientAT's front end: 32 kHz, pre-emphasis, 128 Kaldi bands, log, shifted to about unit range."""

    window: Tensor
    bank: Tensor
    rate = 32000
    hop = 320

    def __init__(self, mels: int = 128, low: float = 0.0, high: float = 15000.0) -> None:
        super().__init__()
        self.mels, self.low, self.high = mels, low, high
        self.register_buffer("window", torch.hann_window(800, periodic=False), persistent=False)
        self.register_buffer("bank", kaldi_bank(1024, mels, self.rate, low, high), persistent=False)

    def forward(self, samples_nt: Tensor, lengths_n: Lengths = None) -> tuple[Tensor, Lengths]:
        """[n, t] at 32 kHz to [n, m, f] and the true number of frames."""
        with torch.autocast(samples_nt.device.type, enabled=False):
            samples_nt, lengths_n = fill(samples_nt.float(), lengths_n, 1024)
            sharp = samples_nt[:, 1:] - 0.97 * samples_nt[:, :-1]
            after = None if lengths_n is None else lengths_n - 1
            power = power_spectrum(mirror(sharp, after, 512), self.window, 1024, self.hop)
            mel = (power.transpose(1, 2) @ self.bank).transpose(1, 2)
            frames = None if after is None else 1 + after // self.hop
            return ((mel + 1e-5).log() + 4.5) / 5.0, frames

    def describe(self) -> str:
        """What decides the numbers, in one line."""
        return f"efficient-mel {self.rate} .97 1024/800/{self.hop} {self.mels} kaldi {self.low}-{self.high}"


def inside(count: int, frames_n: Tensor) -> Tensor:
    """[n, count] 1 where a frame is within its row's true length, else 0."""
    return (torch.arange(count, device=frames_n.device) < frames_n[:, None]).float()
