"""Classification against scikit-learn and by hand."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, confusion_matrix, top_k_accuracy_score
from sklearn.preprocessing import StandardScaler

from supclap.evaluation import linear, zeroshot
from supclap.schema import UserError

LABELS = [f"class_{k}" for k in range(9)]


def made(clips=200, noise=1.2, seed=0, width=16):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(77).standard_normal((len(LABELS), width))
    truth = rng.integers(0, len(LABELS), clips)
    return centres[truth] + noise * rng.standard_normal((clips, width)), centres, truth


def test_zero_shot_equals_scikit_learn():
    audio, centres, truth = made()
    found = zeroshot.evaluate(audio * 3, centres, [LABELS[k] for k in truth], LABELS)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (audio, centres)]
    scores = unit[0] @ unit[1].T
    for k in (1, 5):
        assert found[f"top{k}"] == pytest.approx(100 * top_k_accuracy_score(truth, scores, k=k))
    assert 20 < found["top1"] < 95
    matrix = confusion_matrix(truth, scores.argmax(1))
    assert np.array_equal(found["confusion"], matrix)
    assert found["top1"] == pytest.approx(100 * np.trace(matrix) / matrix.sum())
    for k, label in enumerate(LABELS):
        row = found["per_class"][label]
        assert row["AP"] == pytest.approx(100 * average_precision_score(truth == k, scores[:, k]))
        assert row["top1"] == pytest.approx(100 * matrix[k, k] / matrix[k].sum())
    assert found["mAP"] == pytest.approx(np.mean([row["AP"] for row in found["per_class"].values()]))
    worst = found.confused(1)[0]
    off = matrix - np.diag(np.diag(matrix))
    assert worst[2] == off.max() and off[LABELS.index(worst[0]), LABELS.index(worst[1])] == off.max()
    low, high = found.interval()
    assert low < found["top1"] < high
    json.dumps(found.to_dict())


def test_several_labels_a_clip():
    rng = np.random.default_rng(1)
    audio, centres, _ = made(seed=2)
    table = rng.random((200, len(LABELS))) < 0.25
    table[np.arange(200), rng.integers(0, len(LABELS), 200)] = True
    truth = [[LABELS[k] for k in np.flatnonzero(row)] for row in table]
    found = zeroshot.evaluate(audio, centres, truth, LABELS)
    assert found["mAP"] == pytest.approx(100 * average_precision_score(table, found.scores, average="macro"))
    best = found.scores.argmax(1)
    assert found["top1"] == pytest.approx(100 * table[np.arange(200), best].mean())
    assert "confusion" not in found
    with pytest.raises(UserError, match="one label a clip"):
        found.confusion()


def test_a_collapsed_classifier_scores_zero():
    row = np.random.default_rng(0).standard_normal(33)
    audio, labels = np.tile(row, (40, 1)), np.tile(row, (9, 1)) * np.linspace(0.1, 3, 9)[:, None]
    found = zeroshot.evaluate(audio, labels, [LABELS[k % 9] for k in range(40)], LABELS)
    assert found["top1"] == 0 and found["top5"] == 0
    assert np.trace(found["confusion"]) == 0
    assert found["per_class"][LABELS[0]]["AP"] < 25


def test_templates_are_averaged_as_unit_rows():
    texts = zeroshot.prompts(["dog_bark", "rain"], ["A {label}.", "This is {label}"])
    assert texts == [["A dog bark.", "This is dog bark"], ["A rain.", "This is rain"]]
    rows = np.array([[[2.0, 0.0], [0.0, 5.0]], [[1.0, 0.0], [3.0, 0.0]]])
    assert zeroshot.averaged(rows) == pytest.approx(np.array([[np.sqrt(0.5), np.sqrt(0.5)], [1.0, 0.0]]))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: zeroshot.prompts(["a"], ["no place"]), "no {label}"),
        (lambda: zeroshot.prompts(["a"], []), "templates is empty"),
        (lambda: zeroshot.evaluate(np.eye(2), np.eye(2), ["a"], ["a", "b"]), "1 entries for 2 rows"),
        (lambda: zeroshot.evaluate(np.eye(2), np.eye(2), ["a", "c"], ["a", "b"]), "'c', which is not among the 2"),
        (lambda: zeroshot.evaluate(np.eye(2), np.eye(2), ["a", []], ["a", "b"]), "no label"),
        (lambda: zeroshot.evaluate(np.eye(2), np.eye(2), ["a", "a"], ["a", "a"]), "twice"),
        (lambda: zeroshot.evaluate(np.eye(2), np.eye(3)[:2], ["a", "a"], ["a", "b"]), "2 wide and label_rows 3"),
        (lambda: zeroshot.evaluate(np.eye(2), np.eye(2), ["a", "b"], ["a", "b", "c"]), "2 rows for 3 labels"),
        (lambda: linear.fit(np.eye(2), ["a", "a"]), "two or more"),
        (lambda: linear.fit(np.eye(2), ["a", "b"], C=0), "above 0"),
        (lambda: linear.few_shot(np.eye(2), ["a", "b"], np.eye(2), ["a", "b"], shots=[2]), "a class has 1 clips"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(UserError, match=says):
        call()


@pytest.mark.parametrize("c", [0.05, 1.0])
def test_linear_probe_equals_scikit_learn(c):
    audio, _, truth = made(clips=240)
    audio[:, 3] = 7.0  # a dead unit
    names = [LABELS[k] for k in truth]
    probe = linear.fit(audio[:160], names[:160], C=c)
    scaler = StandardScaler().fit(audio[:160])
    theirs = LogisticRegression(C=c, max_iter=5000, tol=1e-8).fit(scaler.transform(audio[:160]), names[:160])
    ours = probe.scores(audio[160:])
    logits = theirs.decision_function(scaler.transform(audio[160:]))
    assert ours - ours.mean(1, keepdims=True) == pytest.approx(logits - logits.mean(1, keepdims=True), abs=2e-3)
    found = probe.evaluate(audio[160:], names[160:])
    assert found["top1"] == pytest.approx(100 * theirs.score(scaler.transform(audio[160:]), names[160:]))
    with pytest.raises(UserError, match="3 wide"):
        probe.scores(np.ones((1, 3)))


def test_few_shot_grows_with_shots_and_repeats_itself():
    audio, _, truth = made(clips=400, noise=1.5)
    names = [LABELS[k] for k in truth]
    call = dict(shots=(1, 16), draws=3)
    found = linear.few_shot(audio[:300], names[:300], audio[300:], names[300:], **call)
    assert found[16]["top1"] > found[1]["top1"] + 5 and found[1]["sd"] > 0
    assert linear.few_shot(audio[:300], names[:300], audio[300:], names[300:], **call) == found


def test_rounding_does_not_decide_average_precision():
    """Scores that differ in the last digit are equal, and of equals the wrong ones come first."""
    right = np.array([True, False, False, True])
    scores = 0.3 + 1e-16 * np.array([4.0, 0.0, 2.0, 6.0])
    assert zeroshot.average_precision(scores, right) == pytest.approx((1 / 3 + 2 / 4) / 2)
