"""A checkpoint with ML-CLAP's keys is the model that its parts make."""

import numpy as np
import pytest
import torch
from encoder_cases import noise, settle
from test_encoders_adapters import LANGUAGES, TEXTS, write_sonar
from torch import nn

from supclap.encoders.ced import CedSettings
from supclap.encoders.hub import load
from supclap.encoders.mlclap import load_mlclap
from supclap.encoders.sonar import SonarSettings, to_fairseq2
from supclap.schema import UserError

pytest.importorskip("transformers")
SOUNDS = [(noise(count, count), 16000) for count in (1, 9000, 16000, 16000 * 23)]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """(folder, parts) with the checkpoint in the published form, made from parts that are at hand."""
    torch.manual_seed(0)
    folder = write_sonar(tmp_path_factory.mktemp("sonar"))
    audio = CedSettings(weights=None, width=128, depth=2, heads=2).build()
    settle(audio)
    text = SonarSettings(model=str(folder), layers=3).build().eval()
    heads = [nn.Sequential(nn.Linear(come, 24), nn.ReLU(), nn.Linear(24, 20)) for come in (128, 16)]
    state = {f"audio_encoder.model.{key.replace('init_bn.', 'init_bn.1.')}": value
             for key, value in audio.state_dict().items() if not key.startswith("outputlayer.")}  # fmt: skip
    state["audio_encoder.model.front_end.0.mel_scale.fb"] = torch.zeros(257, 64)
    state |= {f"text_encoder.model.{key}": value for key, value in to_fairseq2(text.model.state_dict()).items()}
    for side, head in zip(("audio", "text"), heads, strict=True):
        state |= {f"{side}_proj.{key}": value for key, value in head.state_dict().items()}
    state["temperature"] = torch.tensor(0.05)
    torch.save({"model": state}, folder / "ml-clap.pt")
    return folder, (audio, text, *heads), state


def test_a_checkpoint_is_the_model_of_its_parts(parts, tmp_path):
    folder, (audio, text, audio_head, text_head), _ = parts
    model = load_mlclap(folder / "ml-clap.pt", sonar=str(folder))
    assert model.scale.item() == pytest.approx(20.0) and len(model.text.model.layers) == 3
    unit = torch.nn.functional.normalize
    with torch.no_grad():
        sound = unit(audio_head(audio(torch.from_numpy(SOUNDS[2][0])[None])), dim=-1).numpy()
        rows = unit(text_head(text(**text.tokenize(TEXTS, LANGUAGES))), dim=-1).numpy()
    assert np.abs(model.embed_audio(SOUNDS[2:3]) - sound).max() < 1e-6
    assert np.abs(model.embed_text(TEXTS, LANGUAGES) - rows).max() < 1e-6
    model.save(tmp_path)
    again = load(tmp_path)
    assert np.array_equal(again.embed_audio(SOUNDS), model.embed_audio(SOUNDS))
    assert np.array_equal(again.embed_text(TEXTS, LANGUAGES), model.embed_text(TEXTS, LANGUAGES))
    assert "not for commercial use" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.pop("temperature"), "no checkpoint of ML-CLAP; it has no temperature"),
        (lambda state: state.pop("text_proj.2.bias"), r"it has no text_proj\.2\.bias"),
        (lambda state: state.update(other=torch.ones(1)), "more than ML-CLAP's parts: other"),
        (lambda state: state.update(temperature=torch.tensor(-1.0)), "temperature=-1.0"),
        (lambda state: state.pop("audio_encoder.model.norm.bias"), r"missing: norm\.bias"),
        (lambda state: state.pop("text_encoder.model.layer_norm.bias"), r"missing: layer_norm\.bias"),
    ],
)
def test_what_does_not_fit_is_named(parts, tmp_path, change, words):
    folder, _, state = parts
    held = dict(state)
    change(held)
    torch.save(held, tmp_path / "bad.pt")
    with pytest.raises(UserError, match=words):
        load_mlclap(tmp_path / "bad.pt", sonar=str(folder))


def test_by_name_it_wants_its_tokenizer(parts):
    with pytest.raises(UserError, match="models fetch sonar"):
        load(f"mlclap:{parts[0] / 'ml-clap.pt'}")
    with pytest.raises(UserError, match="no such weights file"):
        load("mlclap:nowhere.pt")
