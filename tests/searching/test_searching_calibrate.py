import csv
import json

import numpy as np
import pytest
from searching_cases import model, sound

from supclap.cli import run as command
from supclap.cli.calibrate import _questions
from supclap.embedding import curve as curves
from supclap.evaluation import calibration
from supclap.schema import Caption, Clip, UserError
from supclap.searching.scan import search


def run(words):
    """The exit status of one command line."""
    try:
        return command(words)
    except SystemExit as end:
        return end.code


def corpus(seed, queries=12, files=240, lift=4.0):
    """Scores of queries with backgrounds of their own; matches stand ``lift`` spreads above them."""
    draw = np.random.default_rng(seed)
    match = draw.integers(0, queries, files)[None] == np.arange(queries)[:, None]
    background = draw.uniform(0.0, 0.4, (queries, 1))
    return background + 0.05 * draw.normal(size=match.shape) + 0.05 * lift * match, match


def test_auc_and_calibration_error_are_their_definitions():
    draw = np.random.default_rng(0)
    values, present = np.round(draw.random(60), 1), draw.random(60) < 0.5
    wins = [(a > b) + 0.5 * (a == b) for a in values[present] for b in values[~present]]
    assert calibration.auc(values, present) == pytest.approx(np.mean(wins))
    said = draw.random(500)
    true = draw.random(500) < said**2
    gaps = 0.0
    for low in np.arange(10) / 10:
        inside = (said >= low) & (said < low + 0.1)
        gaps += inside.sum() / 500 * abs(said[inside].mean() - true[inside].mean())
    assert calibration.ece(said, true) == pytest.approx(gaps)
    assert calibration.ece(np.array([1.0, 0.0]), np.array([True, False])) == 0.0


def test_a_curve_fitted_on_one_corpus_holds_on_another():
    curve = calibration.fit(*corpus(0))
    found = calibration.judge(curve, *corpus(1))
    assert found.ece < 0.03
    assert found.hits_ece < 0.08
    # Queries have backgrounds of their own: the raw score cannot know what is high for one.
    assert found.auc > 0.95 > found.raw_auc
    assert found.missed < 0.15
    assert found.invented < 0.15
    # A background that is high speaks against a score.
    assert curve["score"] > 0 > curve["background"]


def test_background_is_read_only_where_it_helps_on_other_queries():
    """Few queries whose backgrounds tell nothing: a fit that reads them learns the queries by heart."""
    assert "background" in calibration.fit(*corpus(0))
    draw = np.random.default_rng(7)
    for seed in range(3):
        match = draw.integers(0, 6, 240)[None] == np.arange(6)[:, None]
        scores = 0.05 * draw.normal(size=match.shape) + draw.uniform(0.05, 0.3, (6, 1)) * match
        curve = calibration.fit(scores, match, seed=seed)
        assert set(curve) == {"score", "size", "constant", "threshold"}


def test_without_signal_nothing_is_told_apart():
    scores, match = corpus(2, lift=0.0)
    found = calibration.judge(calibration.fit(scores, match), *corpus(3, lift=0.0))
    assert 0.4 < found.auc < 0.6
    assert found.hits_ece < 0.15


def test_half_of_the_collections_have_no_match_and_none_is_of_one_size():
    drawn = list(calibration.draw(*corpus(4)))
    absent = np.mean([not one.match.any() for one in drawn])
    assert 0.3 < absent < 0.5
    assert len({len(one.scores) for one in drawn}) > 50
    assert [len(one.scores) for one in calibration.draw(*corpus(4))] == [len(one.scores) for one in drawn]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, m: (s[:2], m[:2]), "too little"),
        (lambda s, m: (s, m[:3]), "differ in shape"),
        (lambda s, m: (np.where(m, np.nan, s), m), "NaN"),
    ],
)
def test_mistakes_are_named(change, words):
    with pytest.raises(UserError, match=words):
        calibration.fit(*change(*corpus(0)))


def test_the_margin_is_not_widened_by_the_matches():
    scores = np.concatenate([np.linspace(0.0, 0.1, 101), [0.6]])
    alone = curves.features(scores)
    assert alone[-1, 0] == 0.6
    assert alone[0, 1] == pytest.approx(np.log(102))
    assert curves.features(scores[:3])[0, 1] == pytest.approx(np.log(30))
    assert alone[0, 2] == pytest.approx(np.median(scores))
    assert alone[-1, 3] == pytest.approx((0.6 - np.median(scores)) / (np.median(scores) - np.quantile(scores, 0.16)))


def test_search_says_when_nothing_matches_and_refuses_a_curve_of_other_weights(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    saved, table = tmp_path / "m", tmp_path / "in" / "table.csv"
    model().save(saved)
    table.parent.mkdir()
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["audio", "label"])
        for i in range(48):
            rows.writerow([sound(tmp_path / "in" / f"{i}.wav", 0.2, seed=i).name, "abcd"[i % 4]])
    assert run(["calibrate", str(saved), str(table), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["saved"] == str(saved / "config.json")
    held = json.loads((saved / "config.json").read_text())
    assert held["calibration"]["fingerprint"] == model().fingerprint()
    hits = search(tmp_path / "in", "a", str(saved), top=48)
    expected = curves.probability(held["calibration"], np.array([hit.score for hit in hits]))
    np.testing.assert_allclose([hit.probability for hit in hits], expected, atol=1e-6)

    held["calibration"]["threshold"] = 1.1
    (saved / "config.json").write_text(json.dumps(held))
    assert run(["search", str(tmp_path / "in"), "a", "--model", str(saved)]) == 0
    assert "nothing here matches" in capsys.readouterr().out
    held["calibration"]["threshold"] = 0.0
    (saved / "config.json").write_text(json.dumps(held))
    assert run(["search", str(tmp_path / "in"), "a", "--model", str(saved)]) == 0
    told = capsys.readouterr()
    assert "nothing here matches" not in told.out
    assert "raw" not in told.err

    held["calibration"]["fingerprint"] = "0" * 64
    (saved / "config.json").write_text(json.dumps(held))
    with pytest.raises(UserError, match="calibrated for other weights"):
        search(tmp_path / "in", "a", str(saved))


def test_calibrating_without_labels_or_captions_is_named(tmp_path, capsys):
    saved = tmp_path / "m"
    model().save(saved)
    sound(tmp_path / "in" / "a.wav")
    assert run(["calibrate", str(saved), str(tmp_path / "in")]) == 2
    assert "neither labels nor English captions" in capsys.readouterr().err


def table_of(tmp_path, rows):
    """A table of (audio, label or caption, split)."""
    place = tmp_path / "in" / "table.csv"
    place.parent.mkdir(exist_ok=True)
    with place.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(place)


def test_a_better_score_never_lowers_a_probability():
    """Matches score low here: an unbounded fit would turn the answers upside down."""
    scores, match = corpus(5, lift=-4.0)
    curve = calibration.fit(scores, match)
    assert curve["score"] >= 0
    assert curve.get("margin", 0.0) >= 0
    said = curves.probability(curve, np.sort(scores[0]))
    assert (np.diff(said) >= 0).all()


def test_clips_told_of_in_the_same_words_both_match(tmp_path):
    clips = [Clip(f"{i}", f"{i}.wav", captions=(Caption(words),)) for i, words in enumerate(["rain", "a dog", "rain"])]
    queries, match = _questions(clips, "table", "{label}")
    assert queries == ["rain", "a dog"]
    assert match.tolist() == [[True, False, True], [False, True, False]]
    many = [Clip(f"{i}", f"{i}.wav", captions=(Caption(f"sound {i}"),)) for i in range(599)]
    assert len(_questions(many, "table", "{label}")[0]) == 300


def test_mistakes_of_a_table_are_named_before_anything_is_heard(tmp_path, capsys, monkeypatch):
    saved = tmp_path / "m"
    model().save(saved)
    monkeypatch.setattr("supclap.cli.calibrate.encode_all", lambda *a, **k: pytest.fail("listened first"))
    files = [sound(tmp_path / "in" / f"{i}.wav", 0.2, seed=i).name for i in range(4)]
    rows = [["audio", "label", "split"], *([file, "ab"[i % 2], "train"] for i, file in enumerate(files))]
    table = table_of(tmp_path, rows)
    for words, line in (
        ([table, "--template", "a sound"], "template='a sound' has no {label}"),
        ([table, "--split", "val"], "split='val'"),
        ([table, "--judge", str(tmp_path / "nowhere.csv")], "nowhere.csv"),
        ([table, "--judge", table, "--judge-split", "test"], "its splits are train"),
    ):
        assert run(["calibrate", str(saved), *words]) == 2
        assert line in capsys.readouterr().err


def test_a_split_is_all_that_is_heard_and_a_table_of_broken_files_is_named(tmp_path, capsys):
    saved = tmp_path / "m"
    model().save(saved)
    rows = [["audio", "label", "split"]]
    for i in range(100):
        if i < 48:
            sound(tmp_path / "in" / f"{i}.wav", 0.1, seed=i)
        else:
            (tmp_path / "in" / f"{i}.wav").write_bytes(b"no sound")
        rows.append([f"{i}.wav", "abcd"[i % 4], "val" if i < 48 else "train"])
    table = table_of(tmp_path, rows)
    assert run(["calibrate", str(saved), table, "--split", "val", "--json"]) == 0
    assert "cannot be read" not in capsys.readouterr().err
    assert run(["calibrate", str(saved), table, "--split", "train"]) == 2
    assert "none of its 52 clips can be read; one of them" in capsys.readouterr().err
