"""Parity with the published implementations: outputs that they computed, from weights in their own key names."""

import pytest
import torch
from safetensors.torch import load_file

from supclap.encoders.ced import CedSettings, rename
from supclap.encoders.mobilenet import MobileNetSettings

pytestmark = pytest.mark.shared
CLIPS = ("1s", "10s", "exact", "25s")


@pytest.fixture(scope="module")
def golden(shared):
    return load_file(shared / "golden" / "ced_mini_golden_io.safetensors")


def ced(path, **more):
    return CedSettings(weights=str(path), width=48, depth=2, heads=3, **more).build().eval()


@pytest.mark.parametrize("clip", CLIPS)
def test_ced(shared, golden, clip):
    tower = ced(shared / "golden" / "ced_mini_golden_weights.safetensors", published_windows=True)
    wave = golden[f"wave.{clip}"].float()[None]
    with torch.no_grad():
        mel, _ = tower.mel(wave)
        assert (mel[0] - golden[f"logmel.{clip}"].float()).abs().max() < (0.05 if clip == "25s" else 1e-4)
        assert (tower(wave)[0] - golden[f"embedding.{clip}"]).abs().max() < 1e-4
        assert (tower.tag(wave)[0] - golden[f"prob.{clip}"]).abs().max() < 1e-4


def test_ced_true_lengths_differ_from_the_published_windows_on_long_clips_only(shared, golden):
    tower = ced(shared / "golden" / "ced_mini_golden_weights.safetensors")
    with torch.no_grad():
        gaps = {
            clip: (tower(golden[f"wave.{clip}"].float()[None])[0] - golden[f"embedding.{clip}"]).abs().max().item()
            for clip in CLIPS
        }
    assert max(gaps["1s"], gaps["10s"], gaps["exact"]) < 1e-4 < 1e-2 < gaps["25s"]


@pytest.mark.parametrize("kind", ["original", "hub", "mlclap", "pt"])
def test_ced_key_maps(shared, golden, tmp_path, kind):
    from safetensors.torch import save_file

    state = load_file(shared / "golden" / "ced_mini_golden_weights.safetensors")
    if kind == "hub":
        state = {
            (key if key.startswith("outputlayer") else "encoder." + key.replace("init_bn.1.", "init_bn.")): value
            for key, value in state.items()
        }
    if kind == "mlclap":
        state = {f"audio_encoder.model.{k}": v for k, v in state.items() if not k.startswith("outputlayer")}
        state |= {"text_encoder.model.layers.0.weight": torch.ones(3), "temperature": torch.ones(1)}
    path = tmp_path / ("weights.pt" if kind == "pt" else "model.safetensors")
    torch.save({"model": state}, path) if kind == "pt" else save_file(state, path)
    wave = golden["wave.1s"].float()[None]
    with torch.no_grad():
        assert (ced(path)(wave)[0] - golden["embedding.1s"]).abs().max() < 1e-4


def test_rename_leaves_other_parts_out():
    state = {
        "encoder.patch_embed.proj.weight": torch.ones(1),
        "outputlayer.1.bias": torch.ones(1),
        "temperature": torch.ones(1),
    }
    assert set(rename(state)) == {"patch_embed.proj.weight", "outputlayer.1.bias"}


@pytest.mark.parametrize("clip", ["dog", "birds", "rain"])
def test_mn04(shared, mn04, clip):
    golden = load_file(shared / "golden" / "mn04_golden_io.safetensors")
    tower = MobileNetSettings().build().eval()
    wave = golden[f"wave32k.{clip}"].float()[None]
    with torch.no_grad():
        mel, _ = tower.mel(wave)
        rows = tower(wave)
        logits = tower.tag(rows)[0]
    assert (mel[0] - golden[f"mel.{clip}"].float()).abs().max() < 2e-3  # stored in half
    assert (rows[0] - golden[f"embedding.{clip}"]).abs().max() < 1e-4
    assert (logits - golden[f"logits.{clip}"]).abs().max() < 1e-4
    best = {"dog": "Animal", "birds": "Bird", "rain": "Rain"}[clip]
    from supclap.encoders.pretrained import audioset_labels

    assert audioset_labels()[int(logits.argmax())] == best
