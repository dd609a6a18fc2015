import csv
from functools import lru_cache

import numpy as np
import pytest
import soundfile as sf
import torch

from supclap.encoders import hub, pretrained
from supclap.encoders.bridge import CALLED, BridgeModel, load_bridge, load_folder, parts_of
from supclap.schema import UserError


@pytest.fixture(scope="module")
def weights(shared):
    """The files that a bridge needs, in the tests' own cache."""
    return shared / "weights"


@pytest.fixture
def at_hand(weights):
    for name, file in (("mn04", "mn04_as_mAP_432.pt"), ("audioset-labels", "audioset_class_labels_indices.csv")):
        try:
            pretrained.locate(name)
        except UserError:
            pretrained.add(name, weights / file)


@lru_cache(maxsize=1)
def loaded():
    return load_bridge()


@pytest.fixture
def bridge(at_hand):
    return loaded()


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def sentences(tower, texts):
    with torch.no_grad():
        rows = [tower(**tower.tokenize([text], ["eng"]))[0].double().numpy() for text in texts]
    return unit(np.stack(rows))


def said(bridge, weights):
    """(labels, unit(l - mu), mu) in float64, from the published label file."""
    with (weights / "audioset_class_labels_indices.csv").open(encoding="utf8") as file:
        tags = [row["display_name"] for row in csv.DictReader(file)]
    rows = sentences(bridge.text_tower.tower, [f"the sound of {tag}" for tag in tags])
    return tags, unit(rows - rows.mean(0)), rows.mean(0)


def heard(bridge, path):
    samples = torch.from_numpy(sf.read(path, dtype="float32")[0])[None]
    tower = bridge.audio_tower.tagger.tower
    with torch.no_grad():
        return torch.sigmoid(tower.tag(tower(samples)))[0].double().numpy()


def some(shared, count=6):
    return sorted((shared / "data" / "esc50" / "audio").rglob("*.ogg"))[:: 1600 // count][:count]


@pytest.mark.shared
def test_rows_and_classes_are_the_formulas(bridge, weights, shared):
    assert isinstance(bridge, BridgeModel)
    tags, anchors, mean = said(bridge, weights)
    paths = some(shared)
    p = np.stack([heard(bridge, path) for path in paths])
    np.testing.assert_allclose(bridge.embed_audio(paths), unit(p @ anchors), atol=2e-5)
    names = ["dog", "rain on a roof", "church bells"]
    texts = unit(sentences(bridge.text_tower.tower, names) - mean)
    np.testing.assert_allclose(bridge.embed_text(names), texts, atol=2e-5)
    weight = np.exp(anchors @ texts.T / 0.05)
    expected = p @ (weight / weight.sum(0))
    np.testing.assert_allclose(bridge.tag_scores(paths, names), expected, rtol=2e-3, atol=1e-6)
    for row, labels in zip(expected, bridge.classify(paths, names, top=3), strict=True):
        assert [label.name for label in labels] == [names[k] for k in np.argsort(-row)]
        assert sum(label.score for label in labels) == pytest.approx(1.0)
    assert bridge.tags == tags


@pytest.mark.shared
def test_a_long_sound_is_the_mean_of_its_windows(bridge, shared):
    rate = 32000
    pieces = [sf.read(path, dtype="float32")[0] for path in some(shared, 3)]
    whole = np.concatenate([*pieces, pieces[0]])  # 20 s: two windows
    p = bridge.tag_probabilities([(whole[: 10 * rate], rate), (whole[10 * rate :], rate)])
    np.testing.assert_allclose(bridge.tag_probabilities([(whole, rate)])[0], p.mean(0), atol=1e-5)
    rows = bridge.embed_audio([(whole, rate)], windows="each")
    assert rows[0].shape == (2, bridge.width)


@pytest.mark.shared
def test_it_hears_what_there_is(bridge, shared):
    with (shared / "data" / "esc50" / "meta" / "esc50.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["category"] in {"dog", "rain", "church_bells", "siren"}]
    names = ["dog", "rain", "church bells", "siren"]
    paths = [shared / "data" / "esc50" / "audio" / row["filename"].replace(".wav", ".ogg") for row in rows[:80]]
    found = bridge.classify(paths, names)
    right = [label[0].name == row["category"].replace("_", " ") for label, row in zip(found, rows, strict=False)]
    assert np.mean(right) > 0.95


@pytest.mark.shared
def test_saved_it_is_a_name_and_comes_back_only_on_its_own_weights(bridge, tmp_path):
    bridge.calibration = {"slope": 3.0, "intercept": -1.0}
    bridge.save(tmp_path / "b")
    again = load_folder(tmp_path / "b")
    assert again.calibration == bridge.calibration
    assert again.fingerprint() == bridge.fingerprint()
    assert hub.load(str(tmp_path / "b")).fingerprint() == bridge.fingerprint()
    bridge.calibration = None
    config = tmp_path / "b" / "config.json"
    config.write_text(config.read_text().replace(bridge.fingerprint(), "0" * 64))
    with pytest.raises(UserError, match="another bridge"):
        load_folder(tmp_path / "b")


@pytest.mark.shared
def test_by_use_it_reads_french(at_hand, shared):
    bridge = hub.load("bridge:use")
    assert bridge.width == 512
    paths = [path for path in sorted((shared / "data" / "esc50" / "audio").rglob("*.ogg")) if path.stem.endswith("-0")][
        :20
    ]
    found = bridge.classify(paths, ["chien qui aboie", "pluie", "cloches d'église"], language="fra")
    assert np.mean([labels[0].name == "chien qui aboie" for labels in found]) > 0.9


@pytest.mark.shared
def test_it_says_what_it_is(bridge):
    assert bridge.about == CALLED == "AudioSet-supervised tagger, label bridge"
    assert "zero-shot" not in str(bridge.card)


def test_names():
    assert parts_of("bridge") == ("minilm", "mn04")
    assert parts_of("bridge:use") == ("use", "mn04")
    assert parts_of("bridge:minilm:mn10") == ("minilm", "mn10")
    for name, words in (("bridge:bert", "minilm"), ("bridge:use:ced", "mn04"), ("bridge:use:mn04:x", "a bridge is")):
        with pytest.raises(UserError, match=words):
            parts_of(name)


def test_weights_that_are_not_here_are_all_named_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path))
    with pytest.raises(UserError) as caught:
        hub.load("bridge")
    line = str(caught.value)
    assert "\n" not in line
    for words in (
        "mn04_as_mAP_432.pt",
        "4.1 MB",
        "models add mn04",
        "audioset_class_labels_indices.csv",
        str(tmp_path),
    ):
        assert words in line
