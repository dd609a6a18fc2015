"""A model as a folder: what was saved is what is loaded, now and in later versions."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from encoder_cases import FIXTURE_SOUNDS, FIXTURE_TEXTS, noise
from safetensors.torch import load_file, save_file
from test_encoders_text import write_folder

from supclap.encoders.dual import DualSettings
from supclap.encoders.hub import load
from supclap.schema import UserError
from supclap.settings import make, settings

FIXTURE = Path(__file__).parent / "fixtures" / "format-1"
SOUNDS = [(noise(9000, 1), 16000), (noise(170000, 2), 16000)]


class Loudness(torch.nn.Module):
    """A tower of a user's own: levels of a few stretches."""

    sample_rate, window_seconds = 16000, 10.0

    def __init__(self, width):
        super().__init__()
        self.width, self.out = width, torch.nn.Linear(2, width)

    def forward(self, samples, lengths=None):
        lengths = torch.full((len(samples),), samples.shape[1]) if lengths is None else lengths
        inside = torch.arange(samples.shape[1]) < lengths[:, None]
        power, size = (samples.square() * inside).sum(1) / lengths, (samples.abs() * inside).sum(1) / lengths
        return self.out(torch.stack([power, size], 1))

    def digest(self):
        return str([value.tolist() for value in self.parameters()])


@settings
class OwnSettings:
    width: int = 4

    def build(self):
        return Loudness(self.width)


def same(one, two):
    assert np.array_equal(one.embed_audio(SOUNDS), two.embed_audio(SOUNDS))
    assert np.array_equal(one.embed_text(["a dog", "rain"]), two.embed_text(["a dog", "rain"]))
    assert one.fingerprint() == two.fingerprint()


def test_a_folder_of_format_1_still_loads():
    model = load(FIXTURE)
    expected = json.loads((FIXTURE / "expected.json").read_text())
    assert np.abs(model.embed_audio(FIXTURE_SOUNDS) - np.array(expected["audio"])).max() < 1e-4
    assert np.abs(model.embed_text(FIXTURE_TEXTS) - np.array(expected["text"])).max() < 1e-4
    assert model.calibration == {"slope": 5.0, "intercept": -2.0}  # kept as it was written
    assert model.card["recipe"] == "random weights" and not model.training
    assert sum(file.stat().st_size for file in FIXTURE.rglob("*")) < 300_000


@pytest.mark.parametrize("name", ["small", "normed"])
def test_round_trip(name, request, tmp_path):
    model = request.getfixturevalue(name)
    model.save(tmp_path)
    same(model, load(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["format"] == 1 and config["referred"] == {}
    # No pickle, ever: every file is JSON, text or safetensors.
    assert {file.suffix for file in tmp_path.rglob("*") if file.is_file()} == {".json", ".md", ".safetensors"}


def test_a_fine_tuned_transformers_tower_travels_with_its_folder(tmp_path):
    folder = write_folder(tmp_path / "bert")
    torch.manual_seed(0)
    fields = {"audio_tower": "small-audio", "text_tower": {"kind": "hf", "model": str(folder)}, "head": "linear"}
    model = make(DualSettings, fields).build()
    with torch.no_grad():
        model.text.model.embeddings.word_embeddings.weight += 0.1
    model.save(tmp_path / "saved")
    for file in folder.iterdir():
        file.unlink()
    same(model.eval(), load(tmp_path / "saved"))


def test_lora_travels(tmp_path):
    pytest.importorskip("peft")
    torch.manual_seed(0)
    fields = {
        "audio_tower": {"kind": "ced-tiny", "weights": None, "depth": 1},
        "text_tower": "small-text",
        "head": "linear",
        "lora": {"rank": 2},
    }
    model = make(DualSettings, fields).build(["a dog"])
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.normal_()
    model.save(tmp_path)
    same(model.eval(), load(tmp_path))


@pytest.mark.shared
def test_frozen_towers_are_referred_to(mn04, tmp_path):
    fields = {"freeze_audio": True, "freeze_text": True, "head": {"kind": "linear", "width": 16}}
    model = make(DualSettings, fields).build().eval()
    model.save(tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_size < 200_000
    assert set(json.loads((tmp_path / "config.json").read_text())["referred"]) == {"audio", "text"}
    card = (tmp_path / "README.md").read_text()
    assert "MIT" in card and "Apache-2.0" in card and "32000 Hz" in card
    same(model, load(tmp_path))
    # A frozen tower that is not the published one any more is saved whole.
    with torch.no_grad():
        model.audio.classifier[2].bias += 1
        model.audio.features[16][0].weight *= 1.5
    model.save(tmp_path)
    assert set(json.loads((tmp_path / "config.json").read_text())["referred"]) == {"text"}
    same(model, load(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    config["referred"]["text"] = "0" * 64
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="text tower is minilm with other weights"):
        load(tmp_path)


def test_cards_say_what_the_model_is(small, tmp_path):
    small.card = {
        "recipe": "small",
        "scores": {"t2a R@1": "61.2 [58.0, 64.4], mlclap, 200 clips"},
        "data": {"clips": 1500},
    }
    small.save(tmp_path)
    card = (tmp_path / "README.md").read_text()
    small.card = {}
    for words in ("small-audio", "| clips | 1500 |", "61.2 [58.0, 64.4], mlclap", "library_name: supclap"):
        assert words in card


def test_broken_folders(small, tmp_path):
    small.save(tmp_path)
    weights, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    data, held = weights.read_bytes(), json.loads(config.read_text())

    def raises(words):
        with pytest.raises(UserError, match=words):
            load(tmp_path)

    weights.write_bytes(data[:-500])
    raises("model.safetensors")
    weights.write_bytes(pickle.dumps({"a": 1}))
    raises("model.safetensors")
    weights.unlink()
    raises("no such weights file")
    state = {key: value for key, value in small.state_dict().items() if key != "audio.out.bias"}
    save_file({**state, "audio.more": torch.ones(1)}, weights)
    raises("missing: audio.out.bias; unknown: audio.more")
    weights.write_bytes(data)
    for change, words in (
        ({"format": 2}, "format=2.*newer supclap"),
        ({"kind": "tripod"}, "tripod"),
        ({"model": held["model"] | {"audio_tower": {"kind": "mn05x"}}}, "did you mean 'mn05'"),
        ({"model": held["model"] | {"depth": 3}}, "depth"),
    ):
        config.write_text(json.dumps(held | change))
        raises(words)
    config.write_text(json.dumps(held))
    (tmp_path / "text" / "tokenizer.json").unlink()
    raises("tokenizer.json")
    config.unlink()
    raises("no config.json")


def test_a_folder_names_code_and_it_is_not_imported(small, tmp_path, monkeypatch):
    small.save(tmp_path)
    held = json.loads((tmp_path / "config.json").read_text())
    proof = tmp_path / "proof"
    (tmp_path / "evil_module.py").write_text(f"open({str(proof)!r}, 'w')\nclass Tower: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    for kind in ("evil_module:Tower", "os:system", "subprocess:Popen"):
        held["model"]["audio_tower"] = {"kind": kind, "command": f"touch {proof}"}
        (tmp_path / "config.json").write_text(json.dumps(held))
        with pytest.raises(UserError, match=kind):
            load(tmp_path)
    assert not proof.exists()


def test_a_tower_of_ones_own_is_known_once_it_is_imported(tmp_path):
    fields = {"audio_tower": {"kind": f"{OwnSettings.__module__}:OwnSettings", "width": 6}, "text_tower": "small-text"}
    model = make(DualSettings, fields).build(["a dog"])
    model.save(tmp_path)
    same(model.eval(), load(tmp_path))


def test_saving_over_a_model_is_whole_or_not_at_all(small, normed, tmp_path, monkeypatch):
    small.save(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        small.save(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert load_file(tmp_path / "model.safetensors").keys() == small.state_dict().keys()
