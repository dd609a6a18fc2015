"""The mel front ends against a slow definition, and each row against itself alone."""

import math

import numpy as np
import pytest
import torch

from supclap.encoders.mel import CedMel, EfficientMel, kaldi_bank, mirror


def noise(count, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=count).astype(np.float32) * 0.1)


@pytest.mark.parametrize("length", [300, 512, 4001])
def test_mirror_is_reflection(length):
    x = noise(length)[None]
    expected = torch.nn.functional.pad(x[:, None], (256, 256), mode="reflect")[:, 0]
    assert torch.equal(mirror(x, None, 256), expected)
    padded = torch.cat([x, torch.full((1, 77), 9.0)], 1)
    assert torch.equal(mirror(padded, torch.tensor([length]), 256)[:, : length + 512], expected)


def slow_ced(x):
    """Frame by frame, bin by bin, as the formulas say."""
    x = np.pad(x.astype(np.float64), 256, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(512) / 512)
    to_hz = lambda mel: 700 * (10 ** (mel / 2595) - 1)  # noqa: E731
    corners = to_hz(np.linspace(0, 2595 * math.log10(1 + 8000 / 700), 66))
    bins = np.arange(257) * 8000 / 256
    rows = []
    for first in range(0, len(x) - 511, 160):
        power = np.abs(np.fft.rfft(x[first : first + 512] * window)) ** 2
        row = []
        for low, mid, high in zip(corners, corners[1:], corners[2:], strict=False):
            rise, fall = (bins - low) / (mid - low), (high - bins) / (high - mid)
            row.append(power @ np.clip(np.minimum(rise, fall), 0, None))
        rows.append(10 * np.log10(np.maximum(row, 1e-10)))
    level = np.array(rows).T
    return np.maximum(level, level.max() - 120)


def test_ced_mel_is_its_definition():
    x = noise(5000)
    mel, frames = CedMel()(x[None])
    expected = slow_ced(x.numpy())
    assert frames is None and mel.shape == (1, 64, 1 + 5000 // 160)
    assert np.abs(mel[0].numpy() - expected).max() < 2e-3


def test_top_db_cuts():
    x = torch.cat([1e-7 * noise(4000), 3 * noise(4000)])
    mel, _ = CedMel()(x[None])
    assert mel.max() - mel.min() == pytest.approx(120, abs=1e-3) or mel.min() > -100
    assert CedMel(top_db=40)(x[None])[0].min().item() == pytest.approx(mel.max().item() - 40, abs=1e-4)


def test_kaldi_bank_by_hand():
    bank = kaldi_bank(1024, 128, 32000, 0.0, 15000.0)
    mel = lambda f: 1127 * math.log(1 + f / 700)  # noqa: E731
    step = mel(15000) / 129
    for k, b in [(0, 1), (0, 2), (40, 60), (127, 470)]:
        place = mel(b * 31.25) / step - k
        expected = max(0.0, min(place, 2 - place))
        assert bank[b, k].item() == pytest.approx(expected, abs=2e-4)
    assert bank[512].abs().sum() == 0


@pytest.mark.parametrize("front", [CedMel(), EfficientMel()])
def test_a_row_is_what_it_is_alone(front):
    for length in (1, 200, 1023, 5000, 7999):
        x = torch.full((3, 9000), 5.0)
        x[0, :length] = noise(length, 1)
        x[1] = 30 * noise(9000, 2)
        x[2] = 0
        mel, frames = front(x, torch.tensor([length, 9000, 9000]))
        alone, none = front(x[:1, :length])
        count = int(frames[0])
        assert count == (alone.shape[2] if none is None else int(none[0]))
        assert (mel[0, :, :count] - alone[0, :, :count]).abs().max() < 1e-4
        assert torch.isfinite(mel).all()


def test_the_batch_form_is_what_the_row_form_avoids():
    quiet, loud = 1e-6 * noise(4000, 1), 30 * noise(4000, 2)
    both = torch.stack([quiet, loud])
    row, batch = CedMel(), CedMel(batch_cutoff=True)
    assert torch.allclose(row(both)[0][0], row(quiet[None])[0][0])
    assert (batch(both)[0][0] - batch(quiet[None])[0][0]).abs().max() > 5


def test_mel_is_float32_under_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mel, _ = CedMel()(noise(4000)[None])
    assert mel.dtype == torch.float32
    assert torch.allclose(mel, CedMel()(noise(4000)[None])[0])
