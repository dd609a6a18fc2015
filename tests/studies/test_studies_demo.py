"""The demo at a tiny size: real runs, real scores, a report that stands alone; and its pieces against oracles."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import supclap
from browser import check_page, needs_chromium
from supclap.data import manifest
from supclap.evaluation.model import Embeddings, embed_clips, evaluate_model
from supclap.schema import Caption, Clip, Hit, UserError
from supclap.studies.asking import Query, ask, threshold
from supclap.studies.demo import METHODS, DemoSettings, clear, run_demo
from supclap.studies.demo_report import QUERIES, verdict, write_report
from supclap.training import records, watching
from supclap.training.failures import failures

TINY = DemoSettings(
    train=48, val=12, test=20, seconds=3.0, steps=5, batch_size=12, channels=(4, 8, 8, 8), text_width=16, every=2
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    heard = []
    made = run_demo(folder, TINY, say=heard.append, first=lambda model, seen, val: heard.append("first"))
    # The first answers come before the second model is trained.
    assert heard.index("first") < [k for k, line in enumerate(heard) if line.startswith("infonce")][0]
    return made, write_report(made)


def test_four_runs_and_their_scores(demo):
    made, _ = demo
    results = json.loads((made.folder / "results.json").read_text())
    assert list(results) == ["infonce", "twice", "uni-zero", "bi-dynamic"]
    assert set(results) == set(METHODS)
    test = [clip for clip in manifest.read(made.folder / "scenes.csv") if clip.split == "test"]
    for name, scores in results.items():
        assert scores["clips"] == 20
        assert scores["split"] == "test"
        # The folder that stands there scores what was written.
        again = evaluate_model(supclap.load(made.folder / name), test)
        assert again["t2a"] == pytest.approx(scores["t2a"])
        low, high = scores["intervals"]["t2a"]["R@1"]
        assert low <= scores["t2a"]["R@1"] <= high


def test_only_the_objective_differs(demo):
    made, _ = demo
    starts = [records.read(made.folder / name)[0] for name in METHODS]
    assert len({start["weights"] for start in starts}) == len({start["batches"] for start in starts}) == 1
    first = {
        name: next(line for line in records.read(made.folder / name) if line["event"] == "step") for name in METHODS
    }
    base = first["infonce"]["loss"]
    assert first["twice"]["loss"] == pytest.approx(2 * base, rel=1e-6)
    assert base < first["uni-zero"]["loss"] < 2 * base
    assert first["bi-dynamic"]["parts"]["base"] == pytest.approx(base, rel=1e-6)


def test_curves_compare_the_same_batches(demo):
    made, _ = demo
    rows = {name: watching.read(made.folder / name) for name in METHODS}
    assert [row["step"] for row in rows["infonce"]] == [1, 2, 4]
    # Twice the base has twice its force, in the same direction, until Adam's rounding tells them apart.
    assert rows["twice"][0]["drift_t2a"] == pytest.approx(rows["infonce"][0]["drift_t2a"], abs=1e-4)
    assert rows["twice"][0]["parallel_t2a"] == pytest.approx(2 * rows["infonce"][0]["parallel_t2a"], rel=1e-3)


def test_the_report_stands_alone(demo):
    made, report = demo
    page = report.read_text(encoding="utf8")
    assert report == made.folder / "report.html"
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings == [
        "Ask for a sound", "Did SVR help here?", "What happened in training", "Three failures", "Now yours",
        "How this was made",
    ]  # fmt: skip
    assert 'lang="fra"' in page
    assert page.count("<audio") >= 6
    assert page.count("data:image/png;base64,") == page.count("<audio")
    assert page.count("<svg") >= 4
    assert "supclap train my.csv" in page
    scores = {name: one.scores for name, one in made.trained.items()}
    assert verdict(scores) in page.replace("&#x27;", "'")


def test_a_folder_of_ones_own_comes_second_with_names_as_they_lie_there(demo):
    made, report = demo
    page = report.read_text(encoding="utf8")
    sound = made.clips["test"][0].audio
    hits = [Hit(sound, 0.0, 3.0, 0.75)]
    try:
        again = write_report(made, (Path(sound).parent, [(QUERIES[0], hits), (QUERIES[2], [])])).read_text(
            encoding="utf8"
        )
    finally:
        report.write_text(page, encoding="utf8")
    headings = re.findall(r"<h2>(.*?)</h2>", again)
    assert headings[:2] == ["Ask for a sound", f"The same questions over {Path(sound).parent}"]
    section = again[again.index(headings[1]) : again.index("Did SVR help here?")]
    assert f"<p>{Path(sound).name}</p>" in section and "score 0.75" in section and section.count("<audio") == 1
    assert "Not asked: the multilingual sentence encoder is not here" in section


@needs_chromium
def test_the_report_is_good_on_a_phone_and_on_a_desk(demo, tmp_path):
    made, report = demo
    check_page(report, tmp_path, "demo")


@pytest.mark.slow
def test_every_run_gives_the_same_bits(demo, tmp_path):
    made, _ = demo
    run_demo(tmp_path / "again", TINY, say=lambda line: None)
    assert (tmp_path / "again" / "results.json").read_bytes() == (made.folder / "results.json").read_bytes()
    for name in METHODS:
        one, other = (folder / name / "model.safetensors" for folder in (made.folder, tmp_path / "again"))
        assert one.read_bytes() == other.read_bytes()


def test_the_verdict_says_what_the_intervals_say(demo):
    made, _ = demo
    same = {name: made.trained["infonce"].scores for name in METHODS}
    assert "cannot be said" in verdict(same)
    clips = made.seen.clips
    right = perfect(len(clips))
    better = {**{name: evaluate_model(Fake(shuffled(right)), plain(clips)) for name in METHODS}}
    better["bi-dynamic"] = evaluate_model(Fake(right), plain(clips))
    assert verdict(better).startswith("Here SVR helped")
    worse = {**{name: better["bi-dynamic"] for name in METHODS}, "bi-dynamic": better["infonce"]}
    assert verdict(worse).startswith("Here SVR did harm")


def perfect(count):
    return np.eye(count, dtype=np.float32)


def shuffled(rows):
    return np.roll(rows, 1, axis=0)


def plain(clips):
    return [Clip(str(k), clip.audio, captions=(Caption(str(k)),)) for k, clip in enumerate(clips)]


class Fake:
    """Rows that are given, for clips by place and for captions by their number."""

    def __init__(self, audio):
        self.audio = audio

    def embed_audio(self, items, **options):
        return self.audio[: len(items)]

    def embed_text(self, texts, language="eng", **options):
        return np.eye(len(self.audio), dtype=np.float32)[[int(text) for text in texts]]


def seen_of(audio, text, owner):
    clips = [
        Clip(f"c{k}", f"{k}.wav", captions=tuple(Caption(f"{k}/{j}") for j in range(owner.count(k))))
        for k in range(len(audio))
    ]
    return Embeddings(clips, np.float32(audio), np.float32(text), np.array(owner), ["eng"] * len(text), {})


def test_the_threshold_parts_there_from_gone():
    # Captions lie on their clips (cosine 1); with its clip gone the nearest has cosine 0.
    easy = seen_of(np.eye(4), np.eye(4), [0, 1, 2, 3])
    found = threshold(easy, easy)
    assert 0 < found.value <= 1
    assert (found.answered, found.declined) == (1.0, 1.0)
    # Captions that lie nowhere near their clips cannot be told: one side is always wrong.
    lost = seen_of(np.eye(4), np.roll(np.eye(4), 1, axis=0), [0, 1, 2, 3])
    found = threshold(lost, lost)
    assert found.answered + found.declined == pytest.approx(1.0)


def test_answers_and_nothing():
    seen = seen_of(np.eye(3), np.eye(3), [0, 1, 2])

    class Model:
        def embed_text(self, texts, language):
            return np.float32([[0.6, 0.8, 0.0]])

    (answer,) = ask(Model(), [Query("x")], seen, 0.5)
    assert [clip.id for clip in answer.clips] == ["c1", "c0"]
    assert answer.scores == pytest.approx((0.8, 0.6))
    (nothing,) = ask(Model(), [Query("x")], seen, 0.9)
    assert nothing.clips == ()
    assert nothing.nearest == pytest.approx(0.8)


def test_failures_are_the_worst_ranks_by_counting():
    rng = np.random.default_rng(0)
    audio, text = rng.normal(size=(8, 5)), rng.normal(size=(16, 5))
    owner = [k // 2 for k in range(16)]
    seen = seen_of(audio, text, owner)
    cosines = np.float32(text) @ np.float32(audio).T
    ranks = [1 + sum(cosines[c, k] >= cosines[c, owner[c]] for k in range(8) if k != owner[c]) for c in range(16)]
    found = failures(seen, 3)
    assert [one.rank for one in found][0] == max(ranks)
    assert len({one.right.id for one in found}) == 3
    for one in found:
        caption = [f"{owner[c]}/{c % 2}" for c in range(16)].index(one.text)
        assert one.rank == ranks[caption]
        assert one.found.id == f"c{int(cosines[caption].argmax())}"
    assert failures(seen_of(np.eye(3), np.eye(3), [0, 1, 2])) == []


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "bi-dynamic").mkdir()
    (tmp_path / "bi-dynamic" / "thesis.tex").write_text("mine")
    with pytest.raises(UserError, match="no run"):
        clear(tmp_path / "bi-dynamic")
    assert (tmp_path / "bi-dynamic" / "thesis.tex").exists()


def test_embeddings_of_the_report_are_the_saved_models(demo):
    made, _ = demo
    again = embed_clips(supclap.load(made.folder / "bi-dynamic"), made.clips["test"])
    assert np.abs(again.audio - made.seen.audio).max() < 1e-5
