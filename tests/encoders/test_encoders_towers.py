"""Every audio tower: a row is what it is alone, whatever pads it, and gradients reach every weight."""

import pytest
import torch
from encoder_cases import audio_towers, noise

from supclap.encoders.ced import CedNanoSettings
from supclap.encoders.mobilenet import MobileNetSettings, MobileNetTower, load_published
from supclap.schema import UserError


@pytest.mark.parametrize("name", list(audio_towers()))
def test_padding_and_batch_mates_change_nothing(name):
    tower = audio_towers()[name]
    longest = int(tower.window_seconds * tower.sample_rate) if tower.window_seconds < 60 else 200000
    lengths = [1, 700, 2500, 16001, longest // 2, longest]
    x = torch.full((len(lengths), longest + 999), 3.0)
    for row, length in zip(x, lengths, strict=True):
        row[:length] = torch.from_numpy(noise(length, length))
    with torch.no_grad():
        batch = tower(x, torch.tensor(lengths))
        for place, length in enumerate(lengths):
            alone = tower(x[place : place + 1, :length])[0]
            assert (alone - batch[place]).abs().max() <= 1e-5 * max(1.0, alone.abs().max().item())
    assert batch.shape == (len(lengths), tower.width) and torch.isfinite(batch).all()
    assert (batch[3] - batch[4]).abs().max() > 1e-3


@pytest.mark.parametrize("name", list(audio_towers()))
def test_gradient_reaches_every_weight(name):
    tower = audio_towers()[name].train()
    x = torch.from_numpy(noise(2 * tower.sample_rate * 2, 3)).view(2, -1)
    tower(x, torch.tensor([x.shape[1], x.shape[1] - 5000])).square().sum().backward()
    blind = [key for key, value in tower.named_parameters() if value.grad is None or value.grad.abs().sum() == 0]
    assert [key for key in blind if not key.startswith(("classifier", "outputlayer"))] == []
    tower.eval()


@pytest.mark.parametrize("factor", [0.1, 0.2, 0.4, 0.5, 1.0, 2.0, 3.0, 4.0])
def test_every_width_is_found_from_its_keys(factor):
    with torch.device("meta"):
        made = MobileNetTower(factor)
    state = {key: torch.zeros(value.shape, device="meta") for key, value in made.state_dict().items()}
    widths = {0.1: 96, 0.2: 192, 0.4: 384, 0.5: 480, 1.0: 960, 2.0: 1920, 3.0: 2880, 4.0: 3840}
    assert made.width == widths[factor]
    if factor <= 0.5:
        real = {key: torch.zeros(value.shape) for key, value in state.items()}
        assert load_published(real).width == widths[factor]


def test_a_state_dict_of_something_else():
    with pytest.raises(UserError, match="no EfficientAT mn"):
        load_published({"conv.weight": torch.zeros(3)})
    state = MobileNetTower(0.4).state_dict()
    with pytest.raises(UserError, match=r"missing: features\.4\.block\.1\.0\.weight"):
        load_published({k: v for k, v in state.items() if k != "features.4.block.1.0.weight"})


@pytest.mark.shared
def test_a_width_that_is_not_the_files(mn04):
    with pytest.raises(UserError, match="width_factor=1.0"):
        MobileNetSettings(width_factor=1.0).build()


def test_a_ced_to_train_from_scratch():
    tower = CedNanoSettings().build()
    count = sum(value.numel() for value in tower.parameters())
    assert 200_000 < count < 600_000
    state = {key: value for key, value in tower.state_dict().items() if not key.startswith("mel.")}
    assert {key for key in state if "blocks" not in key} >= {"patch_embed.proj.weight", "time_pos_embed", "norm.weight"}


def test_ced_windows_by_hand():
    """True lengths as weights; the published form loses a full last window and weighs all alike."""
    tower = audio_towers()["ced"]
    mel, _ = tower.mel(torch.from_numpy(noise(16000 * 23, 3))[None])
    parts = [tower.windows(mel[..., first : first + 1012])[0][0, 0] for first in (0, 1012, 2024)]
    weight = torch.tensor([1012.0, 1012.0, mel.shape[2] - 2024.0])
    try:
        with torch.no_grad():
            ours = torch.einsum("nkw,nk->nw", *tower.windows(mel))[0]
            assert (ours - (torch.stack(parts) * weight[:, None]).sum(0) / weight.sum()).abs().max() < 1e-5
            tower.published_windows = True
            exact = torch.einsum("nkw,nk->nw", *tower.windows(mel[..., :2024]))[0]
            assert (exact - parts[0]).abs().max() < 1e-5 < (exact - parts[1]).abs().max()
            padded = torch.nn.functional.pad(
                tower.init_bn(mel[:, :, None])[:, :, 0][..., 2024:], (0, 3 * 1012 - mel.shape[2])
            )
            last = tower._tokens(padded, None)[0]
            long = torch.einsum("nkw,nk->nw", *tower.windows(mel))[0]
            assert (long - (parts[0] + parts[1] + last) / 3).abs().max() < 1e-5
    finally:
        tower.published_windows = False
