"""The learning curve, and the trained model beside the untrained bridge."""

import json
from fractions import Fraction

import numpy as np
import pytest

import supclap
from supclap.evaluation import retrieval
from supclap.schema import UserError
from supclap.training import records, setup, untrained
from supclap.training.curve import DRAWING, RESULT, Curve, Point, learning_curve, of_share
from supclap.training.loop import train

LONG = {"text_tower.max_tokens": 200}  # few captions teach few tokens, and texts become long


def scores(good, clips=60, seed=0):
    """Scores of a model that places about so large a share of captions right."""
    draw = np.random.default_rng(seed)
    text = np.eye(clips, dtype=np.float32)
    order = np.arange(clips)
    wrong = draw.permutation(clips)[round(good * clips) :]
    order[wrong] = np.roll(wrong, 1) if len(wrong) > 1 else wrong
    return retrieval.evaluate(text[order], text, np.arange(clips))


def crafted(tmp_path, few, many):
    points = [
        Point(Fraction(1, 2), 50, 100, tmp_path, scores(few, seed=1)),
        Point(Fraction(1), 100, 200, tmp_path, scores(many, seed=1)),
    ]
    return Curve(tmp_path, "val", points, [])


def test_every_share_has_the_steps_of_the_whole_run_and_the_same_clips_to_score(tiny, tmp_path):
    found = learning_curve(tiny(LONG, epochs=2), out=tmp_path / "curve")
    told = json.loads((tmp_path / "curve" / RESULT).read_text())
    assert told["left_out"] == ["1/16"]
    assert [(row["share"], row["train_clips"]) for row in told["points"]] == [("1/4", 10), ("1/2", 20), ("1", 40)]
    assert told["split"] == "test"
    assert told["clips"] == 12
    for row in told["points"]:
        lines = records.read(tmp_path / "curve" / row["run"])
        assert lines[-1]["step"] == 10
        assert sum(line["event"] == "eval" for line in lines) in (2, 3)
        assert row["t2a"]["low"] <= row["t2a"]["R@1"] <= row["t2a"]["high"]
    starts = {records.read(tmp_path / "curve" / row["run"])[0]["clips"]["test"] for row in told["points"]}
    assert starts == {12}
    assert (tmp_path / "curve" / DRAWING).read_text().count("<svg") == 1
    assert found.in_words() == told["in_words"]
    # What is finished is not run again.
    before = (tmp_path / "curve" / "all" / records.NAME).stat().st_mtime_ns
    assert learning_curve(tiny(LONG, epochs=2), out=tmp_path / "curve").to_dict() == found.to_dict()
    assert (tmp_path / "curve" / "all" / records.NAME).stat().st_mtime_ns == before


def test_steps_of_a_share(tiny):
    config = of_share(tiny(epochs=3), Fraction(1, 4), 40)
    assert (config.train.steps, config.train.epochs, config.evaluate.every, config.data.share) == (15, 15, 5, 0.25)
    assert of_share(tiny(epochs=3, steps=7), Fraction(1), 40).train.steps == 7


@pytest.mark.parametrize(
    ("few", "many", "words"),
    [(0.3, 0.7, "will likely help: 400 captions"), (0.5, 0.5, "likely bring little"), (0.7, 0.3, "made it worse")],
)
def test_the_words_say_what_the_interval_says(tmp_path, few, many, words):
    curve = crafted(tmp_path, few, many)
    assert words in curve.in_words()
    assert "From 100 to 200 captions" in curve.in_words()


def test_too_few_clips_make_no_curve(tiny, tmp_path):
    with pytest.raises(UserError, match="batch_size=24"):
        learning_curve(tiny(batch_size=24), out=tmp_path / "curve")
    with pytest.raises(UserError, match="data.share=0.5"):
        learning_curve(tiny({"data.share": 0.5}), out=tmp_path / "curve")


# -- beside the bridge -----------------------------------------------------------------------------------------------


def test_worse_better_and_no_difference_are_told_apart():
    for before, after, words in (
        (0.8, 0.2, "TRAINING MADE IT WORSE (text to audio and audio to text)"),
        (0.2, 0.8, "training made it better"),
        (0.5, 0.5, "no difference"),
    ):
        told = untrained.told_of(scores(before), scores(after), "bridge:minilm")
        assert words in untrained.in_words(told)
        assert told["t2a"]["gain"] == pytest.approx(100 * (after - before), abs=2)
        assert told["t2a"]["worse"] == (after < before)


def test_both_models_are_scored_on_the_rows_that_selected(tiny, tmp_path, monkeypatch):
    config = tiny(epochs=1)
    run = train(config, out=tmp_path / "run")
    other = supclap.load(train(tiny(epochs=1, seed=5), out=tmp_path / "other").path)
    other.name = "stand-in"
    monkeypatch.setattr(untrained, "load_bridge", lambda name: other)
    told = untrained.beside(tmp_path / "run", run.model, config, setup.splits(config))
    assert told["clips"] == 12
    assert told["t2a"]["trained"] == pytest.approx(run.best["t2a"]["R@1"])
    theirs = untrained.score(other, config, setup.splits(config)["val"], "val")
    assert told["a2t"]["untrained"] == pytest.approx(theirs["a2t"]["R@1"])
    assert untrained.read(tmp_path / "run") == told


def test_without_the_bridges_weights_the_reason_is_said(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    told = untrained.beside(tmp_path, None, tiny(), setup.splits(tiny()))
    assert "mn04" in untrained.in_words(told)
    assert untrained.read(tmp_path) is None


@pytest.mark.shared
def test_the_real_bridge_is_loaded_by_the_language_of_the_captions(tiny, corpus, tmp_path, shared, monkeypatch):
    from supclap.encoders import pretrained

    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    pretrained.add("mn04", shared / "weights" / "mn04_as_mAP_432.pt")
    pretrained.add("audioset-labels", shared / "weights" / "audioset_class_labels_indices.csv")
    config = tiny({"evaluate.limit": 6}, epochs=1)
    run = train(config, out=tmp_path / "run")
    told = untrained.beside(tmp_path / "run", run.model, config, setup.splits(config))
    assert (told["model"], told["clips"]) == ("bridge:minilm", 6)
