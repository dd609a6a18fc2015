"""Folders that are damaged, foreign or from another day: each ends in one line that names the file."""

import json
import shutil

import numpy as np
import pytest
import torch
from encoder_cases import noise
from safetensors.torch import load_file, save_file

from supclap.encoders.dual import DualSettings
from supclap.encoders.hub import load
from supclap.schema import UserError
from supclap.settings import make

SOUND = [(noise(16000, 1), 16000)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with adapters in both towers."""
    torch.manual_seed(0)
    ced = {"kind": "ced-tiny", "weights": None, "width": 48, "heads": 3, "depth": 2}
    head = {"kind": "linear", "width": 16}
    fields = {"audio_tower": ced, "text_tower": "small-text", "head": head, "lora": {"rank": 2}}
    model = make(DualSettings, fields).build(["a dog barks", "rain falls"] * 3).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_" in name:
                value.normal_(0, 0.1)
    folder = tmp_path_factory.mktemp("saved")
    model.save(folder)
    return model, folder


@pytest.fixture
def copy(saved, tmp_path):
    shutil.copytree(saved[1], tmp_path / "copy")
    return tmp_path / "copy"


def test_adapters_travel(saved):
    model, folder = saved
    again = load(folder)
    assert np.array_equal(again.embed_audio(SOUND), model.embed_audio(SOUND))
    assert np.array_equal(again.embed_text(["a dog", ""]), model.embed_text(["a dog", ""]))
    assert again.fingerprint() == model.fingerprint()
    assert {n for n, v in again.named_parameters() if v.requires_grad} == {
        n for n, v in model.named_parameters() if v.requires_grad
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *(({"format": form}, "is no format of supclap") for form in (0, "1", None, 1.5, True, [1], float("nan"))),
        ({"format": 2}, "format=2.*install a newer supclap"),
        ({"kind": "dualx"}, "kind='dualx'"),
        ({"model": {}}, "says nothing of its towers"),
        ({"model": 3}, "model=3 is no object"),
        ({"card": [1]}, r"card=\[1\] is no object"),
        ({"referred": {"audio": "abc"}}, "referred='audio' has no published weights"),
        ({"referred": {"foo": "abc"}}, "referred='foo'"),
        ({"calibration": "x"}, "calibration='x' is no fitted curve"),
        ({"calibration": {"slope": float("nan")}}, "is no fitted curve"),
        ({"calibration": {"slope": 1.0, "intercept": [0]}}, "is no fitted curve"),
        ({"model.extra": 1}, "field='extra' is unknown"),
        ({"model.audio_tower.extra": 1}, "field='extra' is unknown"),
        ({"model.audio_tower.kind": "CED-Tiny"}, "did you mean 'ced-tiny'"),
        ({"model.audio_tower.kind": "os:system"}, "code that a folder cannot bring"),
        ({"model.audio_tower.depth": 3}, r"missing: audio\.blocks\.2"),
        ({"model.head.width": 8}, r"audio_head\.weight \(16, 48\) for \(8, 48\)"),
        ({"model.scale": 0.0}, "scale=0.0"),
        ({"model.scale": -3}, "scale=-3"),
        ({"model.lora": None}, r"unknown: .*lora_A"),
    ],
)
def test_configs(copy, change, words):
    held = json.loads((copy / "config.json").read_text())
    for name, value in change.items():
        *parents, last = name.split(".")
        here = held
        for step in parents:
            here = here[step]
        here[last] = value
    (copy / "config.json").write_text(json.dumps(held))
    with pytest.raises(UserError, match=words) as error:
        load(copy)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.update(a=torch.zeros(1)), "unknown: a"),
        (lambda state: state.pop("audio_head.weight"), "missing: audio_head.weight"),
        (lambda state: state["audio_head.weight"].fill_(torch.nan), "not finite: audio_head.weight; has its training"),
        (lambda state: state["text.norm.bias"].fill_(torch.inf), "not finite: text.norm.bias"),
        (lambda state: state.update({"audio_head.bias": torch.zeros(16).int()}), "audio_head.bias int32"),
    ],
)
def test_weights(copy, change, words):
    state = load_file(copy / "model.safetensors")
    change(state)
    save_file(state, copy / "model.safetensors")
    with pytest.raises(UserError, match=words):
        load(copy)


def test_files(copy):
    for content, words in (("{", "no tokenizer can be read"), ('{"version": "1.0"}', "no tokenizer can be read")):
        (copy / "text" / "tokenizer.json").write_text(content)
        with pytest.raises(UserError, match=words):
            load(copy)
    (copy / "config.json").unlink()
    (copy / "config.json").mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        load(copy)


@pytest.mark.parametrize("name", [None, 5, ""])
def test_names_that_are_none(name):
    with pytest.raises(UserError, match="give a run, a saved model"):
        load(name)


def test_a_folder_that_cannot_be_made(saved, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be made a folder"):
        saved[0].save(tmp_path / "file")


def test_a_model_that_has_diverged_gives_no_silent_nan(saved):
    model = load(saved[1])
    with torch.no_grad():
        model.audio_head.bias.fill_(torch.nan)
        model.text_head.bias.fill_(torch.nan)
    for windows in ("mean", "each"):
        row = next(iter(model.iter_audio(SOUND, windows=windows)))
        assert row.vector is None and "not finite" in row.error
    with pytest.raises(UserError, match="not finite; has its training diverged"):
        model.embed_text(["a dog"])


def test_other_precisions(saved, tmp_path):
    """float64 computes; half precision is saved and read as it is, and its fingerprint is its own."""
    model = load(saved[1])
    rows, texts, mark = model.embed_audio(SOUND), model.embed_text(["a dog"]), model.fingerprint()
    model.double()
    assert np.abs(model.embed_audio(SOUND) - rows).max() < 1e-5
    assert np.abs(model.embed_text(["a dog"]) - texts).max() < 1e-5
    model.to(torch.bfloat16)
    assert model.fingerprint() != mark
    model.save(tmp_path / "half")
    again = load(tmp_path / "half")
    assert again.log_scale.dtype == torch.float32
    assert np.abs(again.embed_text(["a dog"]) - texts).max() < 0.05
