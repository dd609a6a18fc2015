"""The composer: the same everywhere, true to its plan, and told apart by words alone."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from supclap.data.scenes import EVENTS, Placed, Truth, compose, read_truths, write
from supclap.data.scenes.compose import scripts
from supclap.data.scenes.grammar import LANGUAGES, tell_all
from supclap.data.scenes.plan import plan
from supclap.data.scenes.render import play, render
from supclap.schema import UserError

FINGERPRINT = Path(__file__).with_name("fingerprint.json")


def digest():
    """Labels, captions and times of every split."""
    told = [
        (script.id, script.truth.to_dict(), [(caption.language, caption.text) for caption in script.captions])
        for split in ("train", "val", "test")
        for script in scripts(15, 7, split)
    ]
    return hashlib.sha256(json.dumps(told, ensure_ascii=False).encode()).hexdigest()


def coarse(samples):
    """Loudness in dB of eight stretches and three bands: moves by far less than .01 when a sample moves by one step."""
    out = []
    for part in np.array_split(samples.astype(np.float64), 8):
        power = np.abs(np.fft.rfft(part * np.hanning(len(part)))) ** 2
        edges = [0, len(power) // 16, len(power) // 4, len(power)]
        out += [10 * np.log10(power[a:b].sum() + 1e-3) for a, b in zip(edges, edges[1:], strict=False)]
    return [round(float(value), 3) for value in out]


def measured():
    return {
        "digest": digest(),
        "sounds": [coarse(scene.samples) for scene in compose(6, 7, "train", languages=("eng",))],
    }


def test_labels_captions_and_times_are_the_same_in_another_process_and_on_another_day():
    code = "import test_scenes_compose as t; print(t.digest())"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == digest() == json.loads(FINGERPRINT.read_text())["digest"]


def test_sounds_are_those_of_every_machine():
    stands = json.loads(FINGERPRINT.read_text())["sounds"]
    assert np.allclose(measured()["sounds"], stands, atol=0.02)


def test_neither_the_number_of_workers_nor_that_of_scenes_changes_a_scene():
    alone, shared = compose(34, 1, "train", workers=0), compose(40, 1, "train", workers=2)
    for one, other in zip(alone, shared, strict=False):
        assert one.truth == other.truth and one.captions == other.captions
        assert np.array_equal(one.samples, other.samples)
    assert compose(2, 2, "train")[0].truth != alone[0].truth


def test_a_longer_corpus_begins_with_the_shorter_one():
    few, many = scripts(30, 3, "test"), scripts(60, 3, "test")
    assert few == many[:30]


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_sounds_within_its_times_and_varies_with_its_seed(name):
    event = Placed(name, 1.0, 1.0 + EVENTS[name].seconds[1], 0)
    samples = play(event, 16000, 1)
    assert len(samples) == round(EVENTS[name].seconds[1] * 16000)
    assert np.isfinite(samples).all() and 1e-3 < np.sqrt(np.mean(samples**2)) and np.abs(samples).max() <= 0.86
    assert not np.allclose(samples, play(event, 16000, 2), atol=1e-3)
    scene = render(Truth(5.0, (event,)), 16000, 1).astype(np.float64)
    before, inside = scene[:15000], scene[16000 : 16000 + len(samples)]
    assert np.mean(before**2) < 0.1 * np.mean(inside**2)


@pytest.mark.parametrize(
    ("attribute", "less", "more"), [("pitch", "low", "high"), ("loudness", "soft", "loud"), ("speed", "slow", "fast")]
)
def test_attributes_are_in_the_sound(attribute, less, more):
    """Centre of gravity of the spectrum, loudness, and how much sooner the second stroke comes."""
    for name, event in EVENTS.items():
        if attribute != "loudness" and attribute not in event.attributes:
            continue
        if attribute == "speed" and event.period is None:
            continue
        values = []
        for value in (less, more):
            found = []
            for seed in range(2):
                attributes = {attribute: value} | ({"count": "3"} if attribute == "speed" else {})
                decibels = {"soft": -13.0, "loud": 8.0}.get(value, 0.0)
                found.append(_measure(attribute, name, attributes, decibels, seed))
            values.append(np.mean(found))
        assert values[0] < values[1], name


def _measure(attribute, name, attributes, decibels, seed):
    if attribute == "speed":
        from supclap.data.scenes.plan import stroke_period

        return -stroke_period(EVENTS[name], attributes)
    event = Placed(name, 0.0, EVENTS[name].seconds[1], 0, attributes, decibels=decibels)
    samples = play(event, 16000, seed)
    if attribute == "loudness":
        return 20 * np.log10(np.sqrt(np.mean(samples**2)))
    power = np.abs(np.fft.rfft(samples)) ** 2
    # The middle of the energy on a logarithmic scale: noise far above the tone must not drown it.
    hertz = np.fft.rfftfreq(len(samples), 1 / 16000)[1:]
    weight = np.sqrt(power[1:])
    return float(np.sum(np.log(hertz) * weight) / np.sum(weight))


def test_strokes_can_be_counted():
    for name in ("knock", "beep", "dog", "hammer", "drum"):
        for count in ("1", "2", "3", "4"):
            kind = EVENTS[name]
            seconds = kind.seconds[1] + (int(count) - 1) * kind.period
            samples = play(Placed(name, 0.0, seconds, 0, {"count": count}), 16000, 5)
            steps = [
                np.abs(samples[round(i * kind.period * 16000) :][: round(0.08 * 16000)]).max()
                for i in range(int(count))
            ]
            assert min(steps) > 0.3 * max(steps), (name, count)


def test_a_scene_holds_one_to_four_events_of_every_kind_of_arrangement():
    truths = [plan(0, "train", index, 5.0) for index in range(600)]
    sizes = {len(truth.events) for truth in truths}
    assert sizes == {1, 2, 3, 4}
    assert {event.label for truth in truths for event in truth.events} == set(EVENTS)
    for kind in (lambda t: t.background, lambda t: t.together(), lambda t: t.repeated(), lambda t: len(t.steps) >= 3):
        assert 0.05 < np.mean([bool(kind(truth)) for truth in truths]) < 0.6
    for truth in truths:
        for event in truth.events:
            assert 0 <= event.start < event.end <= 5.0
            assert len(event.attributes) <= 2
        for first, second in zip(truth.steps, truth.steps[1:], strict=False):
            assert max(event.end for event in first) <= min(event.start for event in second)
        for step in truth.steps:
            assert len(step) < 2 or max(e.start for e in step) < min(e.end for e in step)


@pytest.mark.parametrize("language", LANGUAGES)
def test_who_reads_only_the_truth_finds_every_clip_and_is_lost_when_two_captions_are_swapped(language):
    told = scripts(200, 0, "test", languages=(language,))
    assert len({script.truth.signature for script in told}) == 200
    captions = [[caption.text for caption in script.captions] for script in told]
    assert {len(texts) for texts in captions} == {5} and all(len(set(texts)) == 5 for texts in captions)
    assert reader_score(told, captions) == 100.0
    captions[3], captions[90] = captions[90], captions[3]
    assert reader_score(told, captions) == 99.0


def reader_score(told, captions):
    """R@1, in percent, of a program that lists what is true of each clip and looks captions up."""
    owner = {}
    for number, script in enumerate(told):
        for sentence in tell_all(script.truth, script.captions[0].language):
            assert sentence not in owner, "one sentence is true of two clips"
            owner[sentence] = number
    return 100 * np.mean([all(owner[text] == number for text in texts) for number, texts in enumerate(captions)])


def test_the_folder_says_what_memory_says(tmp_path):
    from supclap.audio.reader import read
    from supclap.data import manifest

    clips = write(tmp_path / "a", train=4, val=2, test=2, seed=5, workers=0)
    scenes = [scene for split, n in (("train", 4), ("val", 2), ("test", 2)) for scene in compose(n, 5, split)]
    truths = read_truths(tmp_path / "a")
    for clip, scene in zip(clips, scenes, strict=True):
        assert (clip.id, clip.split, clip.captions) == (scene.id, scene.split, scene.captions)
        assert truths[clip.id] == scene.truth
        assert np.array_equal(read(clip.audio, 16000), scene.samples)
    assert {len(clip.captions) for clip in clips if clip.split == "train"} == {len(LANGUAGES)}
    assert {len(clip.captions) for clip in clips if clip.split != "train"} == {5 * len(LANGUAGES)}
    assert manifest.read(tmp_path / "a") == clips
    stamp = (tmp_path / "a" / clips[0].audio).stat().st_mtime_ns
    assert write(tmp_path / "a", train=4, val=2, test=2, seed=5) == clips
    assert (tmp_path / "a" / clips[0].audio).stat().st_mtime_ns == stamp
    with pytest.raises(UserError, match="another seed"):
        write(tmp_path / "a", train=4, val=2, test=2, seed=6)


def test_an_interrupted_corpus_is_finished_not_believed(tmp_path):
    clips = write(tmp_path / "a", train=3, val=0, test=0, workers=0)
    (tmp_path / "a" / "scenes.json").unlink()
    Path(clips[1].audio).write_bytes(b"half")
    again = write(tmp_path / "a", train=3, val=0, test=0, workers=0)
    assert again == clips and Path(clips[1].audio).stat().st_size > 1000


def test_mistakes_are_one_line():
    for call, words in (
        (lambda: compose(1, 0, "tset"), "split='tset'"),
        (lambda: compose(-1, 0, "train"), "count=-1"),
        (lambda: compose(1, 0, "train", languages=("eng", "fre")), "language='fre'"),
        (lambda: compose(1, 0, "train", seconds=0.5), "seconds=0.5"),
        (lambda: compose(1, 0, "train", seconds=float("nan")), "seconds=nan"),
        (lambda: compose(1, 0, "train", rate=1), "rate=1"),
        (lambda: compose(1, 0, "train", captions=9), "captions=9"),
        (lambda: write("x", train=0, val=0, test=0), "no scene is asked for"),
    ):
        with pytest.raises(UserError) as caught:
            call()
        assert words in str(caught.value) and "\n" not in str(caught.value)


def test_questions_of_order_count_binding_and_absence():
    truth = Truth(
        5.0,
        (
            Placed("dog", 0.2, 0.8, 0, {"count": "2"}),
            Placed("bell", 1.0, 2.0, 1, {"pitch": "low"}),
            Placed("saw", 1.1, 2.2, 1),
            Placed("dog", 3.0, 3.6, 2, {"count": "2"}, again=True),
            Placed("rain", 0.0, 5.0, -1),
        ),
    )
    assert truth.background.label == "rain" and truth.order() == (("dog",), ("bell", "saw"), ("dog",))
    assert truth.labels() == ("rain", "dog", "bell", "saw") and truth.together() == (("bell", "saw"),)
    assert truth.before("bell", "dog") is None and truth.before("bell", "saw") is None
    assert truth.count("dog") == 4 and truth.count("cat") == 0 and truth.repeated() == ("dog",)
    assert truth.attribute("bell", "pitch") == "low" and truth.attribute("saw", "pitch") is None
    assert truth.absent(["dog", "cat"]) == ("cat",)
    ordered = Truth(5.0, (Placed("cat", 0, 1, 0), Placed("cow", 2, 3, 1)))
    assert ordered.before("cat", "cow") is True and ordered.before("cow", "cat") is False
    assert Truth.from_dict(json.loads(json.dumps(truth.to_dict()))) == truth


if __name__ == "__main__":
    FINGERPRINT.write_text(json.dumps(measured(), indent=1) + "\n")
