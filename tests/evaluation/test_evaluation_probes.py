"""Probes: right sentences are true, wrong ones are not, and a model is scored as it deserves."""

import json
import re
from collections import Counter

import numpy as np
import pytest
import torch

from supclap import cli
from supclap.data.scenes import write
from supclap.data.scenes.compose import scripts
from supclap.data.scenes.grammar import tell_all
from supclap.encoders.dual import DualSettings
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings
from supclap.evaluation import probes
from supclap.schema import UserError


@pytest.fixture(scope="module")
def truths():
    return {script.id: script.truth for script in scripts(150, 0, "test", languages=["eng"])}


@pytest.mark.parametrize("language", ["eng", "jpn"])
def test_right_is_true_and_wrong_is_not(truths, language):
    """Against the grammar's list of everything that is true of a scene."""
    asked = probes.questions(truths, language=language)
    kinds = Counter(question.kind for question in asked)
    assert set(kinds) == set(probes.KINDS) - ({"negation"} if language != "eng" else set())
    assert min(kinds.values()) > 30
    for question in asked:
        if question.kind != "negation":
            true = tell_all(truths[question.clip], language)
            assert question.right in true
            assert not set(question.wrong) & set(true)
        assert 1 <= len(question.wrong) <= 3 and len(set(question.wrong)) == len(question.wrong)
    assert probes.questions(truths, language=language) == asked


def test_each_kind_changes_one_thing(truths):
    def words(text):
        return Counter(re.findall(r"[a-z-]+", text.lower()))

    number = {"one", "two", "three", "four", "twice", "times", "over", "again", "in", "a", "row", "total", "of"}
    for question in probes.questions(truths):
        for wrong in question.wrong:
            gone, come = words(question.right) - words(wrong), words(wrong) - words(question.right)
            if question.kind == "negation":
                assert not gone and not come, "the same words in another order"
            if question.kind == "count":
                assert set(gone) | set(come) <= number, question
            if question.kind == "order":
                assert sum(gone.values()) + sum(come.values()) <= 6, question


def test_negations_name_what_is_there_and_what_is_not(truths):
    from supclap.data.scenes.grammar import LANGUAGES
    from supclap.data.scenes.grammar.language import Said

    for question in probes.questions(truths, kinds=["negation"])[:60]:
        here, gone = question.right.lower().split(", without ")
        present = [
            LANGUAGES["eng"].noun(Said(label, {}, False, 0), "plain").lower()
            for label in truths[question.clip].labels()
        ]
        assert here in present and gone not in present


def rows_for(asked, kind, rng):
    """Audio rows and sentence rows of a model that knows everything, nothing, or answers always the same."""
    clips = sorted({question.clip for question in asked})
    audio = {name: rng.standard_normal(64) for name in clips}
    text = {}
    for question in asked:
        for sentence in (question.right, *question.wrong):
            if sentence not in text:
                text[sentence] = rng.standard_normal(64)
        if kind == "knows":
            text[question.right] = text[question.right] * 0.1 + audio[question.clip]
    if kind == "same":
        text = dict.fromkeys(text, np.ones(64))
    return np.stack([audio[name] for name in clips]), clips, text


def test_scores_of_known_models(truths):
    asked = [question for question in probes.questions(truths) if question.kind != "negation"]
    # A sentence may be true of two clips: only the first keeps it, so that "knows" is well defined.
    first = {}
    asked = [question for question in asked if first.setdefault(question.right, question.clip) == question.clip]
    rng = np.random.default_rng(0)
    audio, clips, text = rows_for(asked, "same", rng)
    same = probes.evaluate(audio, clips, asked, text)
    assert all(score.accuracy == 0 for score in same), "ties count against the model"
    audio, clips, text = rows_for(asked, "knows", rng)
    assert all(score.accuracy > 95 for score in probes.evaluate(audio, clips, asked, text))
    audio, clips, text = rows_for(asked, "guesses", rng)
    for score in probes.evaluate(audio, clips, asked, text):
        assert score.low - 6 < score.chance < score.high + 6
        assert 25 <= score.chance <= 50 and score.low <= score.accuracy <= score.high


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("probes") / "scenes"
    write(path, train=0, val=0, test=12, seconds=4.0, languages=["eng"], workers=1)
    torch.manual_seed(0)
    settings = DualSettings(
        audio_tower=SmallAudioSettings(channels=(8, 8, 16, 16), width=32),
        text_tower=SmallTextSettings(vocabulary=300, width=32, depth=1, heads=2, max_tokens=512),
    )
    settings.build(texts=["a dog barks"]).save(path.parent / "model")
    return path


def test_a_real_model_on_real_scenes(folder, capsys):
    try:
        status = cli.run(["evaluate", str(folder.parent / "model"), str(folder), "--task", "probes", "--json"])
    except SystemExit as left:
        status = left.code
    found = json.loads(capsys.readouterr().out)["probes"]
    assert status == 0 and {row["kind"] for row in found} <= set(probes.KINDS) and len(found) >= 3
    assert all(0 <= row["low"] <= row["accuracy"] <= row["high"] <= 100 for row in found)


def test_bad_input_is_named(truths):
    with pytest.raises(UserError, match="kind='colour'"):
        probes.questions(truths, kinds=["colour"])
    with pytest.raises(UserError, match="language='english'"):
        probes.questions(truths, language="english")
    asked = probes.questions(truths)[:1]
    with pytest.raises(UserError, match="has no row of audio"):
        probes.evaluate(np.eye(2), ["x", "y"], asked, {})
    with pytest.raises(UserError, match="2 rows for 1 clips"):
        probes.evaluate(np.eye(2), ["x"], asked, {})
    with pytest.raises(UserError, match="corpus compose"):
        probes.evaluate_model(None, [], truths)
