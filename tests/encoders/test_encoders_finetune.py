"""Other people's CLAPs under SVR through ``supclap train``'s own way, and what their cards then say."""

import csv

import numpy as np
import pytest
import soundfile
import torch
from encoder_cases import noise

import supclap
from supclap.encoders.card import licence
from supclap.encoders.mobilenet import MobileNetSettings
from supclap.encoders.sonar import SonarSettings
from supclap.encoders.text import HfTextSettings
from supclap.schema import UserError

pytest.importorskip("transformers")
from test_encoders_whole import write_clap

FIELDS = {"objective": "bi-dynamic", "epochs": 2, "batch_size": 4, "lr": 1e-3, "device": "cpu"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rows = [["audio", "caption", "split"]]
    for place in range(12):
        soundfile.write(folder / f"{place}.wav", noise(24000, place), 48000)
        rows.append([f"{place}.wav", f"sound {place} of a dog", "train" if place < 8 else "val"])
    with (folder / "data.csv").open("w", newline="") as held:
        csv.writer(held).writerows(rows)
    write_clap(folder / "clap")
    return folder


def halves(kind, folder):
    return {f"{part}_tower": {"kind": f"{kind}-{part}", "model": str(folder)} for part in ("audio", "text")}


def test_a_clap_model_is_fine_tuned_with_svr(table, tmp_path):
    fields = FIELDS | halves("clap", table / "clap") | {"head": "none", "data": str(table / "data.csv")}
    run = supclap.train(supclap.recipe("small", **fields), out=tmp_path / "run")
    steps = [record for record in run.records if record["event"] == "step"]
    assert len(steps) == 4 and all({"base", "svr", "constraint"} <= record["parts"].keys() for record in steps)
    before, after = supclap.load(f"hf:{table / 'clap'}"), supclap.load(tmp_path / "run")
    moved = [
        name
        for name, value in before.state_dict().items()
        if value.is_floating_point() and not torch.equal(value, after.state_dict()[name])
    ]
    assert any(name.startswith("audio.") for name in moved) and any(name.startswith("text.") for name in moved)
    sounds = [str(table / "0.wav")]
    assert np.abs(before.embed_audio(sounds) - after.embed_audio(sounds)).max() > 1e-4
    card = (tmp_path / "run" / "README.md").read_text()
    for words in ("that of clap", "| train clips | 8 |", "Protocol mlclap, split val, 4 clips, 4 captions", " to "):
        assert words in card
    line = next(line for line in card.splitlines() if line.startswith("| R@1 |"))
    assert line.count("(") == 2
    assert '"kind": "svr"' in card


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (SonarSettings(), "non-commercial"),
        (SonarSettings(layers=12), "non-commercial"),
        (MobileNetSettings(), "MIT"),
        (MobileNetSettings(weights=None), "from scratch"),
        (HfTextSettings(model="somebody/bert"), "that of somebody/bert"),
    ],
)
def test_the_card_says_under_which_licence_a_tower_stands(settings, words):
    assert words in licence(settings)


def test_a_frozen_sentence_transformers_model_trains_its_heads(table, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    library.SentenceTransformer(str(table / "clap"), device="cpu").save_pretrained(str(tmp_path / "st"))
    fields = FIELDS | halves("st", tmp_path / "st") | {"head": "linear", "epochs": 1, "data": str(table / "data.csv")}
    run = supclap.train(supclap.recipe("small", **fields), out=tmp_path / "run")
    assert [record["event"] for record in run.records].count("step") == 2
    again = supclap.load(tmp_path / "run")
    assert {name for name, value in again.named_parameters() if value.requires_grad} <= {
        "audio_head.weight", "audio_head.bias", "text_head.weight", "text_head.bias",
    }  # fmt: skip


def test_a_model_of_which_nothing_learns_is_refused(table, tmp_path):
    fields = FIELDS | halves("clap", table / "clap") | {"head": "none", "data": str(table / "data.csv")}
    fields |= {"train.freeze_audio": True, "train.freeze_text": True}
    with pytest.raises(UserError, match="nothing of the model learns.*head=mlp"):
        supclap.train(supclap.recipe("small", **fields), out=tmp_path / "run")
