import csv
import json

import numpy as np
import pytest
from searching_cases import model, sound

from supclap.cli import run as command
from supclap.data import manifest
from supclap.embedding import curve as curves
from supclap.encoders import pretrained
from supclap.evaluation import calibration
from supclap.schema import UserError
from supclap.searching.labelling import heard
from supclap.searching.scan import search

CURVE = {"score": 4.0, "background": -2.0, "margin": 0.1, "constant": -1.0, "threshold": 0.5}
LABELS = ["a dog barks", "rain falls", "a dog", "rain"]


def run(words):
    try:
        return command(words)
    except SystemExit as end:
        return end.code


@pytest.fixture
def folder(tmp_path):
    for i in range(6):
        sound(tmp_path / "sounds" / f"{i}.wav", 0.4 + 0.4 * i, seed=i)
    return tmp_path / "sounds"


@pytest.fixture
def saved(tmp_path):
    model().save(tmp_path / "m")
    return tmp_path / "m"


def calibrate(saved, **changes):
    config = saved / "config.json"
    held = json.loads(config.read_text())
    held["calibration"] = {**CURVE, **changes, "fingerprint": model().fingerprint()}
    config.write_text(json.dumps(held))


def test_each_label_has_the_probability_that_a_search_gives_it(folder, saved):
    calibrate(saved, threshold=0.0)
    found = heard(sorted(map(str, folder.glob("*.wav"))), LABELS, saved, template="{label}")
    for label in LABELS:
        asked = {hit.path: hit.probability for hit in search(folder, label, saved, top=6)}
        told = {
            path: next(one.score for one in labels if one.name == label)
            for path, labels in zip(found.paths, found.labels, strict=True)
        }
        assert told == pytest.approx(asked)
    assert not found.alone


def test_labels_are_those_above_the_threshold_and_may_be_none(folder, saved, capsys, tmp_path):
    files = sorted(map(str, folder.glob("*.wav")))
    calibrate(saved, threshold=0.0)
    every = heard(files, LABELS, saved)
    said = np.array([label.score for labels in every.labels for label in labels])
    calibrate(saved, threshold=float(np.median(said)))
    some = heard(files, LABELS, saved)
    for labels, all_labels in zip(some.labels, every.labels, strict=True):
        assert labels == [label for label in all_labels if label.score >= np.median(said)]
    assert 0 < sum(map(len, some.labels)) < len(said)

    words = ["classify", str(folder), "--labels", ",".join(LABELS), "--model", str(saved), "--multi"]
    out = tmp_path / "labels.csv"
    assert run([*words, "--out", str(out)]) == 0
    # A clip of several labels is one clip with a caption for each.
    clips = manifest.read(out)
    assert [[caption.text for caption in clip.captions] for clip in clips] == [
        [f"the sound of {label.name}" for label in labels] for labels in some.labels if labels
    ]
    assert "6 files are few" in capsys.readouterr().err
    calibrate(saved, threshold=1.1)
    assert run(words) == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == ["none"] * 6


def test_without_calibration_scores_are_called_raw_and_no_table_is_written(folder, saved, capsys, tmp_path):
    words = ["classify", str(folder), "--labels", "dog,rain", "--model", str(saved), "--multi"]
    assert run(words) == 0
    told = capsys.readouterr()
    assert "scores are raw" in told.err
    assert all(line.count("\t") == 2 for line in told.out.splitlines())
    assert run([*words, "--out", str(tmp_path / "no.csv")]) == 2
    assert "supclap calibrate" in capsys.readouterr().err
    assert not (tmp_path / "no.csv").exists()


def test_an_example_is_never_given_a_probability_that_was_fitted_on_words(folder, saved):
    calibrate(saved)
    assert search(folder, "rain falls", saved)[0].probability is not None
    assert search(folder, model=saved, by=folder / "1.wav")[0].probability is None


def tagged(seed, queries=12, files=240):
    """Scores that say little, and a tagger's evidence that says much."""
    draw = np.random.default_rng(seed)
    match = draw.integers(0, queries, files)[None] == np.arange(queries)[:, None]
    return draw.normal(size=match.shape) + 0.5 * match, match, draw.normal(size=match.shape) + 3.0 * match


def test_evidence_is_read_beside_the_score_and_in_step_with_the_draw():
    curve = calibration.fit(*tagged(0))
    assert curve["evidence"] > curve["score"] > 0
    assert "background" not in curve
    found = calibration.judge(curve, *tagged(1))
    without = calibration.judge(calibration.fit(*tagged(0)[:2]), *tagged(1)[:2])
    assert found.auc > 0.85 > without.auc + 0.2
    assert found.ece < 0.05
    scores, match, evidence = tagged(2)
    for one in calibration.draw(scores, match, scores + 7.0, draws=3):
        np.testing.assert_array_equal(one.evidence, one.scores + 7.0)
    row = curves.probability(curve, scores[0], evidence[0])
    logit = curve["score"] * scores[0] + curve["evidence"] * evidence[0] + curve["constant"]
    np.testing.assert_allclose(row, 1 / (1 + np.exp(-logit)))
    # A file's probability is its own: the collection around it does not enter.
    np.testing.assert_allclose(curves.probability(curve, scores[0, :1], evidence[0, :1]), row[:1])
    with pytest.raises(UserError, match="differ in shape"):
        calibration.fit(scores, match, evidence[:3])


@pytest.mark.shared
@pytest.mark.slow
def test_a_calibrated_bridge_hears_two_things_in_one_file_and_none_in_another(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    for name, file in (("mn04", "mn04_as_mAP_432.pt"), ("audioset-labels", "audioset_class_labels_indices.csv")):
        pretrained.add(name, shared / "weights" / file)
    esc = shared / "data" / "esc50"
    chosen = ("rain", "thunderstorm", "dog", "church_bells", "siren", "crow")
    with (esc / "meta" / "esc50.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["category"] in chosen and row["fold"] == "1"]
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as file:
        written = csv.writer(file)
        written.writerow(["audio", "label"])
        for row in rows:
            written.writerow([esc / "audio" / row["filename"].replace(".wav", ".ogg"), row["category"]])
    assert run(["calibrate", "bridge", str(table)]) == 0
    weather = shared / "data" / "sounds" / "cdda" / "CC-Sounds" / "environment" / "weather" / "thunderstorm.ogg"
    both, noise = heard([str(weather), str(sound(tmp_path / "noise.wav"))], ["rain", "thunder", "dog", "siren"]).labels
    assert {label.name for label in both} == {"rain", "thunder"}
    assert noise == []
    hits = search(tmp_path, "church bells")
    assert [hit.probability for hit in hits] == [pytest.approx(hits[0].probability)]
    assert hits[0].probability < 0.1
