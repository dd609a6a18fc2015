"""A real small model on real sound files: the path from a table to scores."""

import json
import wave
from dataclasses import replace

import numpy as np
import pytest
import torch

from supclap import cli
from supclap.data import manifest
from supclap.encoders.dual import DualSettings
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings
from supclap.evaluation import model as evaluation
from supclap.evaluation import retrieval, zeroshot
from supclap.schema import Caption, Clip, UserError

RATE = 16000
TEXTS = [f"a tone number {k} sounds" for k in range(8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Eight tones of a second, and one file that is no sound."""
    root = tmp_path_factory.mktemp("tones")
    time = np.arange(RATE) / RATE
    for k in range(8):
        sound = (0.4 * np.sin(2 * np.pi * 220 * (k + 1) * time) * 32767).astype(np.int16)
        with wave.open(str(root / f"{k}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(sound.tobytes())
    (root / "broken.wav").write_bytes(b"this is no sound")
    return root


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    settings = DualSettings(
        audio_tower=SmallAudioSettings(channels=(8, 8, 16, 16), width=32),
        text_tower=SmallTextSettings(vocabulary=300, width=32, depth=1, heads=2),
    )
    return settings.build(texts=TEXTS).eval()


@pytest.fixture
def clips(folder):
    return [
        Clip(
            id=f"clip-{k}",
            audio=str(folder / f"{k}.wav"),
            captions=(Caption(TEXTS[k]), Caption(f"le son {k}", "fra"), Caption("the same for all")),
            label=f"tone_{k % 4}",
            split="test" if k < 6 else "val",
        )
        for k in range(8)
    ]


def test_scores_are_those_of_the_models_own_rows(model, clips):
    english = [replace(clip, captions=clip.captions[::2]) for clip in clips]
    scores = evaluation.evaluate_model(model, english)
    audio = model.embed_audio([clip.audio for clip in english])
    text = model.embed_text([caption.text for clip in english for caption in clip.captions])
    expected = retrieval.evaluate(audio, text, np.repeat(np.arange(8), 2)).to_dict(intervals=False)
    found = scores.to_dict(intervals=False)
    assert "8 captions stand at more than one clip" in found.pop("notes")[0], "the same words for all"
    assert found == expected
    assert scores["clips"] == 8 and scores["captions"] == 16 and scores["split"] is None


def test_languages_splits_and_stretches(model, clips):
    scores = evaluation.evaluate_model(model, clips, split="test")
    assert (scores["split"], scores["clips"], scores["captions"]) == ("test", 6, 18)
    assert set(scores["languages"]) == {"eng", "fra"}
    assert evaluation.evaluate_model(model, clips[:6])["split"] == "test", "the only split there is"
    halves = [replace(clip, id=f"{clip.id}-{s}", start=s, end=s + 0.5) for clip in clips[:2] for s in (0.0, 0.5)]
    seen = evaluation.embed_clips(model, halves)
    whole = model.embed_audio([clips[0].audio])
    assert seen.audio.shape[0] == 4 and not np.allclose(seen.audio[0], whole[0], atol=1e-4)
    with pytest.raises(UserError, match="split='tset'.*did you mean 'test'"):
        evaluation.evaluate_model(model, clips, split="tset")
    with pytest.raises(UserError, match="split='fold1': the table names no splits"):
        evaluation.evaluate_model(model, [replace(clip, split=None) for clip in clips], split="fold1")


class Cached:
    """What frozen towers say, from a dict."""

    def __init__(self, model, clips):
        self.rows = {}
        for clip in clips:
            samples = torch.tensor(np.asarray(_sound(clip.audio)))[None]
            with torch.inference_mode():
                self.rows[clip.audio] = model.audio_tower(samples, None)[0].numpy()
        self.model = model

    def audio(self, clip):
        return self.rows[clip.audio]

    def text(self, text, language):
        return None


def _sound(path):
    with wave.open(path) as file:
        return np.frombuffer(file.readframes(RATE), np.int16).astype(np.float32) / 32768


def test_features_stand_in_for_towers(model, clips):
    seen = evaluation.embed_clips(model, clips, features=Cached(model, clips))
    plain = evaluation.embed_clips(model, clips)
    unit = seen.audio / np.linalg.norm(seen.audio, axis=1, keepdims=True)
    assert unit == pytest.approx(plain.audio, abs=1e-4)
    assert np.array_equal(seen.text, plain.text)
    assert not model.training


def test_zero_shot_by_hand(model, clips):
    templates = ("This is a sound of {label}", "{label}")
    found = evaluation.evaluate_zeroshot(model, clips, templates=templates)
    names = [f"tone_{k}" for k in range(4)]
    rows = [model.embed_text([t.format(label=f"tone {k}") for t in templates]).mean(0) for k in range(4)]
    audio = model.embed_audio([clip.audio for clip in clips])
    expected = zeroshot.evaluate(audio, np.stack(rows), [clip.label for clip in clips], names)
    assert found["top1"] == expected["top1"] and np.array_equal(found["confusion"], expected["confusion"])
    assert found.labels == names and "This is a sound of" in found["about"]
    several = [replace(clip, label=f"{clip.label}; tone_0") for clip in clips]
    assert evaluation.evaluate_zeroshot(model, several, separator=";").several


def test_transfer_goes_both_ways(model, clips):
    torch.manual_seed(9)
    other = DualSettings(audio_tower=model.config.audio_tower, text_tower=model.config.text_tower).build(texts=TEXTS)
    found = evaluation.transfer({"a": model, "b": other}, {"front": clips[:4], "back": clips[4:]}, split=None)
    assert {name: set(row) for name, row in found.items()} == {"a": {"front", "back"}, "b": {"front", "back"}}
    assert found["a"]["back"]["clips"] == 4
    assert found["a"]["front"].ranks["t2a"].tolist() != found["b"]["front"].ranks["t2a"].tolist()


def test_unreadable_clips_are_an_error_or_are_counted(model, clips, folder):
    broken = [*clips, Clip(id="bad", audio=str(folder / "broken.wav"), captions=(Caption("nothing"),))]
    with pytest.raises(UserError, match="broken.wav"):
        evaluation.evaluate_model(model, broken)
    scores = evaluation.evaluate_model(model, broken, on_error="drop")
    assert scores["clips"] == 8 and "1 of 9 clips were left out (bad: " in scores["notes"][-1]
    assert "broken.wav" in scores["notes"][-1]
    with pytest.raises(UserError, match="none of 1 clips"):
        evaluation.evaluate_model(model, broken[-1:], on_error="drop")
    with pytest.raises(UserError, match="on_error='ignore'"):
        evaluation.evaluate_model(model, broken, on_error="ignore")


def test_bad_tables_are_named(model, clips):
    with pytest.raises(UserError, match="no clips"):
        evaluation.evaluate_model(model, [])
    with pytest.raises(UserError, match=r"2 clips have the same id \(clip-0\)"):
        evaluation.evaluate_model(model, [*clips, clips[0]])
    with pytest.raises(UserError, match="same stretch of sound"):
        evaluation.evaluate_model(model, [*clips, replace(clips[0], id="again")])
    with pytest.raises(UserError, match=r"1 of 8 clips have no caption \(first: clip-3\)"):
        evaluation.evaluate_model(model, [replace(c, captions=()) if c.id == "clip-3" else c for c in clips])
    with pytest.raises(UserError, match=r"have no label \(first: clip-3\)"):
        evaluation.evaluate_zeroshot(model, [replace(c, label=None) if c.id == "clip-3" else c for c in clips])


def run(words):
    try:
        return cli.run(words)
    except SystemExit as left:
        return left.code


@pytest.fixture
def saved(model, clips, tmp_path):
    model.save(tmp_path / "model")
    manifest.write(clips, tmp_path / "table.jsonl")
    return str(tmp_path / "model"), str(tmp_path / "table.jsonl")


def test_evaluate_command(saved, clips, model, capsys):
    assert run(["evaluate", *saved, "--split", "test", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    expected = evaluation.evaluate_model(model, clips, split="test")
    assert plain["t2a"]["R@1"] == expected["t2a"]["R@1"] and plain["clips"] == 6 and plain["split"] == "test"
    assert run(["evaluate", *saved, "--protocol", "laion"]) == 0
    shown = capsys.readouterr()
    assert "laion: 8 clips, 24 captions" in shown.out and "fra" in shown.out and "unsorted" in shown.err


def test_evaluate_command_classifies(saved, capsys):
    assert run(["evaluate", *saved, "--task", "zeroshot", "--template", "a {label}", "--template", "{label}"]) == 0
    shown = capsys.readouterr().out
    assert "zero-shot, a {label}; {label}: 8 clips, 4 classes" in shown and "tone_3" in shown
    assert run(["evaluate", *saved, "--task", "zeroshot", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == 4
    assert run(["evaluate", *saved, "--task", "retreival"]) == 2
    assert "did you mean 'retrieval'" in capsys.readouterr().err


def test_evaluate_command_chooses_by_the_table(saved, clips, tmp_path, capsys):
    manifest.write([replace(clip, captions=()) for clip in clips], tmp_path / "labels.jsonl")
    assert run(["evaluate", saved[0], str(tmp_path / "labels.jsonl")]) == 0
    shown = capsys.readouterr()
    assert "4 classes" in shown.out and "zero-shot classification" in shown.err
    manifest.write([replace(clip, captions=(), label=None) for clip in clips], tmp_path / "bare.jsonl")
    assert run(["evaluate", saved[0], str(tmp_path / "bare.jsonl")]) == 2
