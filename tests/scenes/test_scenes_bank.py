"""Scenes of recordings: no recording on two sides, what is said is what is heard, and the public banks' own rules."""

import csv
import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from supclap.audio.reader import read
from supclap.data import manifest
from supclap.data.scenes import read_truths
from supclap.data.scenes.bank import active, compose_bank
from supclap.data.scenes.bank_plan import bank_plans
from supclap.data.scenes.corpora import esc50_bank, us8k_bank
from supclap.data.scenes.truth import BACKGROUND
from supclap.schema import Clip, UserError

soundfile = pytest.importorskip("soundfile")
RATE = 16000
TONES = {"dog": 400, "bell": 900, "rain": 1700, "whistle stop": 3100}


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    """Four classes, each a tone of its own, nine recordings each, with silence around."""
    root = tmp_path_factory.mktemp("bank")
    clips = []
    for label, hertz in TONES.items():
        for number in range(9):
            split = ("train", "val", "test")[number % 3]
            time = np.arange(RATE) / RATE
            tone = 0.3 * np.sin(2 * np.pi * (hertz + 3 * number) * time)
            path = root / f"{label}-{number}.wav"
            soundfile.write(path, np.concatenate([np.zeros(8000), tone, np.zeros(8000)]), RATE)
            clips.append(Clip(path.stem, str(path), label=label, split=split, source=f"{label}-{number}"))
    (root / "broken.wav").write_bytes(b"RIFF nothing")
    clips.append(Clip("broken", str(root / "broken.wav"), label="dog", split="train", source="broken"))
    return clips


@pytest.fixture(scope="module")
def made(bank, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    return out, compose_bank(bank, out, counts={"train": 12, "val": 6, "test": 10}, seconds=6.0, rate=RATE, workers=0)


def test_train_and_test_take_their_sounds_from_different_recordings(made, bank):
    out, clips = made
    side = {clip.source: clip.split for clip in bank}
    events = json.loads((out / "events.json").read_text(encoding="utf8"))
    assert {clip.split for clip in clips} == {"train", "val", "test"}
    for clip in clips:
        assert {side[source] for source in events[clip.id]["sources"]} == {clip.split}


def test_what_is_said_to_sound_sounds_then(made):
    out, clips = made
    truths = read_truths(out)
    for clip in clips:
        truth, samples = truths[clip.id], read(clip.audio, RATE).astype(float)
        assert len(samples) == 6 * RATE and np.abs(samples).max() <= 1.0
        for event in truth.events:
            piece = samples[round(event.start * RATE) : round(event.end * RATE)]
            power = np.abs(np.fft.rfft(piece)) ** 2
            hertz = np.fft.rfftfreq(len(piece), 1 / RATE)
            near = np.abs(hertz - TONES[event.label]) < 60
            assert power[near].sum() > 0.005 * power.sum(), (clip.id, event)
        silent = np.ones(len(samples), bool)
        for event in truth.events:
            silent[round(event.start * RATE) : round(event.end * RATE)] = False
        assert not np.abs(samples[silent]).max(initial=0.0) > 1e-4


def test_captions_name_the_sounds_in_order(made):
    out, clips = made
    truths = read_truths(out)
    for clip in clips:
        assert len(clip.captions) == (1 if clip.split == "train" else 5)
        steps = [label for step in truths[clip.id].order() for label in step if label != "whistle stop"]
        words = {"dog": ("a dog ", "a dog"), "bell": ("a church bell",), "rain": ("rain",)}
        for caption in clip.captions:
            text = caption.text.lower()
            assert all(any(word in text for word in words[label]) for label in steps), text
            assert ("whistle stop" in text) == ("whistle stop" in truths[clip.id].labels())


def test_the_same_for_any_number_of_workers_and_read_back_the_same(bank, made, tmp_path):
    out, clips = made
    again = compose_bank(
        bank, tmp_path / "b", counts={"train": 12, "val": 6, "test": 10}, seconds=6.0, rate=RATE, workers=2
    )
    assert [c.captions for c in again] == [c.captions for c in clips]
    assert all(np.array_equal(read(a.audio, RATE), read(b.audio, RATE)) for a, b in zip(again, clips, strict=True))
    assert manifest.read(out) == clips
    assert sorted(p.suffix for p in out.iterdir() if not p.name.endswith(".flac")) == [".json", ".json", ".jsonl"]


def test_test_scenes_differ_and_too_many_are_refused():
    sources = {"dog": [("a", 0, 16000)], "cat": [("b", 0, 16000)]}
    few = bank_plans(sources, 8, 0, "test", 6.0, 16000)
    assert len({scene.truth.signature for scene in few}) == 8
    with pytest.raises(UserError, match="do not give so many"):
        bank_plans(sources, 500, 0, "test", 6.0, 16000)


def test_events_of_a_scene_do_not_run_over_its_end():
    sources = {name: [(name, 0, 160000)] for name in ("dog", "cat", "rain", "bell", "cow")}
    for scene in bank_plans(sources, 300, 1, "train", 10.0, 16000):
        for event in scene.truth.events:
            assert 0 <= event.start < event.end <= 10.0
        steps = scene.truth.steps
        for first, second in zip(steps, steps[1:], strict=False):
            assert max(e.end for e in first) <= min(e.start for e in second)
        assert all(event.step != BACKGROUND or event.label == "rain" for event in scene.truth.events)


def test_silence_is_cut_away():
    sound = np.zeros(16000, np.float32)
    sound[4000:6000] = 0.5
    assert 1900 <= len(active(sound, 16000)) <= 2700
    assert len(active(np.zeros(16000, np.float32), 16000)) == 0 == len(active(np.zeros(0, np.float32), 16000))


def test_mistakes_are_one_line(bank, tmp_path):
    good = bank[0]
    leak = Clip("x", good.audio, label="bell", split="test", source=good.source)
    for clips, options, words in (
        ([Clip("a", "a.wav", split="train")], {}, "no labels"),
        (bank, {"labels": ["wolf"]}, "'wolf' is not in the bank"),
        ([*bank, leak], {}, "two sides"),
        ([Clip("a", "a.wav", label="dog", split="fold1")], {}, "split='fold1'"),
        (bank, {"counts": {"train": -1}}, "train=-1"),
        (bank, {"seconds": 1.0}, "seconds=1.0"),
        ([Clip("a", "nowhere.wav", label="dog", split="train")], {}, "no sound of the bank can be read"),
    ):
        with pytest.raises(UserError) as caught:
            compose_bank(clips, tmp_path / "z", 10, rate=RATE, workers=0, **{"seconds": 6.0, **options})
        assert words in str(caught.value) and "\n" not in str(caught.value)
    assert not list((tmp_path / "z").glob(".bank*")) if (tmp_path / "z").exists() else True


# -- the public banks ------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_esc50_is_split_by_fold_and_recording(shared):
    root = shared / "data" / "esc50"
    clips = esc50_bank(root)
    with (root / "meta" / "esc50.csv").open(encoding="utf8", newline="") as stream:
        rows = {row["filename"].split(".")[0]: row for row in csv.DictReader(stream)}
    sides = {}
    for clip in clips:
        assert clip.split == "train" if rows[clip.id]["fold"] in "123" else clip.split in ("val", "test")
        sides.setdefault(rows[clip.id]["src_file"], set()).add(clip.split)
    assert all(len(side) == 1 for side in sides.values())
    by_class = {label: {c.split for c in clips if c.label == label} for label in {c.label for c in clips}}
    assert len(by_class) == 50 and all({"train", "test"} <= side for side in by_class.values())
    lonely = {r["category"] for r in rows.values()} - {c.label for c in clips if c.split == "val"}
    for label in lonely:
        assert len({r["src_file"] for r in rows.values() if r["category"] == label and r["fold"] == "4"}) == 1
    assert lonely == {"washing_machine"}


@pytest.mark.shared
def test_us8k_leaves_out_what_esc50_has(shared, tmp_path):
    clips = us8k_bank(shared / "data" / "us8k")
    with (shared / "data" / "esc50" / "meta" / "esc50.csv").open(encoding="utf8", newline="") as stream:
        common = {row["src_file"] for row in csv.DictReader(stream)}
    assert not common & {clip.source for clip in clips}
    with (shared / "data" / "us8k" / "metadata" / "UrbanSound8K.csv").open(encoding="utf8", newline="") as stream:
        assert common & {row["fsID"] for row in csv.DictReader(stream)}, "the test has nothing to find"
    sides = {}
    for clip in clips:
        sides.setdefault(clip.source, set()).add(clip.split)
        assert ("fold2" in clip.audio) == (clip.split == "test")
    assert all(len(side) == 1 for side in sides.values())
    assert {label for label in {c.label for c in clips}} == {c.label for c in clips if c.split == "val"}
    (tmp_path / "us8k" / "metadata").mkdir(parents=True)
    (tmp_path / "us8k" / "metadata" / "UrbanSound8K.csv").write_text("slice_file_name,fsID,fold,class\n")
    with pytest.raises(UserError, match="meta/esc50.csv is needed"):
        us8k_bank(tmp_path / "us8k")


@pytest.mark.shared
@pytest.mark.slow
def test_the_command_composes_from_a_user_s_folder(shared, tmp_path):
    bank = shared / "data" / "sounds"
    labels = [label for label, count in Counter(clip.label for clip in manifest.read(bank)).items() if count >= 6][:3]
    command = [sys.executable, "-m", "supclap", "corpus", "compose", "--bank", str(bank), "--labels", ",".join(labels)]
    command += ["--out", str(tmp_path / "o"), "--count", "10", "--seconds", "6", "--rate", "8000", "--json"]
    run = subprocess.run([*command, "--workers", "0"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert said["clips"] == 10 == len(manifest.read(tmp_path / "o")) and said["splits"]["train"] == 8
    assert {event.label for truth in read_truths(tmp_path / "o").values() for event in truth.events} <= set(labels)
    wrong = subprocess.run([*command[:-8], "--labels", "wolf", *command[-7:]], capture_output=True, text=True)
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1, wrong.stderr
