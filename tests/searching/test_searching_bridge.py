import subprocess
import sys

import numpy as np
import pytest
import soundfile as sf
from searching_cases import sound

from supclap.encoders import hub, pretrained
from supclap.encoders.text import MiniLmSettings
from supclap.schema import UserError
from supclap.searching import minilm
from supclap.searching.scan import search


@pytest.fixture
def at_hand(shared):
    for name, file in (("mn04", "mn04_as_mAP_432.pt"), ("audioset-labels", "audioset_class_labels_indices.csv")):
        try:
            pretrained.locate(name)
        except UserError:
            pretrained.add(name, shared / "weights" / file)


def test_numpy_minilm_is_the_text_tower():
    tower = MiniLmSettings().build()
    texts = ["rain", "Thunder rolls far away, then a dog barks twice.", "", "Grüße, 雨!", "wind " * 400]
    rows = tower(**tower.tokenize(texts, ["eng"] * len(texts))).detach().numpy()
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(minilm.embed(texts), rows, atol=2e-5)


@pytest.mark.shared
def test_bells_and_dogs_are_found_in_a_plain_folder(at_hand, shared, tmp_path):
    folder = tmp_path / "sounds"
    folder.mkdir()
    for name in ("church_bells_01", "dog_bark", "glass", "airplane_prop", "apple_bite"):
        for file in (shared / "data" / "sounds" / "antumdeluge").rglob(f"*{name}*.ogg"):
            (folder / file.name).symlink_to(file)
    assert "bells" in search(folder, "church bells ring")[0].path
    assert "dog" in search(folder, "a dog barks")[0].path
    assert "airplane" in search(folder, "le moteur d'un avion", "bridge:use", language="fra")[0].path


@pytest.mark.shared
def test_a_new_question_to_known_sounds_loads_no_torch(at_hand, tmp_path):
    sound(tmp_path / "a.wav")
    first = {hit.path: hit.score for hit in search(tmp_path, "rain")}
    code = (
        "import sys; from supclap.searching.scan import search\n"
        f"hits = search({str(tmp_path)!r}, 'thunder far away')\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
        "print(float(hits[0].score))\n"
        f"assert float(search({str(tmp_path)!r}, 'rain')[0].score) == {float(next(iter(first.values())))!r}\n"
    )
    told = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    model = hub.load("bridge")
    expected = likeness_of(model, [tmp_path / "a.wav"], "thunder far away")[0]
    assert float(told.stdout) == pytest.approx(expected, abs=1e-5)


def test_weights_that_are_not_here_are_named(tmp_path, monkeypatch):
    sound(tmp_path / "sounds" / "a.wav")
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=r"mn04_as_mAP_432\.pt \(4\.1 MB.*supclap models add mn04"):
        search(tmp_path / "sounds", "rain")


@pytest.mark.shared
def test_clauses_ask_the_tagger_for_every_event(at_hand, shared, tmp_path):
    """A file of bells and a dog answers "bells and a dog"; a louder bell alone does not."""
    esc = shared / "data" / "esc50" / "audio"
    bells, dog = sf.read(esc / "4-125825-A-46.ogg")[0], sf.read(esc / "4-182395-A-0.ogg")[0]
    for name, samples in (("bells", bells), ("dog", dog), ("both", 0.5 * bells + 0.5 * dog)):
        sf.write(tmp_path / f"{name}.wav", samples, 32000)
    hits = search(tmp_path, "church bells ring while a dog barks", clauses=True)
    assert hits[0].path.endswith("both.wav")
    model = hub.load("bridge")
    weights = model.label_weights(["church bells ring", "a dog barks"])
    for hit in hits:
        evidence = np.sqrt(model.tag_probabilities([hit.path])[0]) @ weights + 0.003
        assert hit.score == pytest.approx(float(np.sqrt(evidence.prod()) - 0.003), abs=1e-4)
        assert hit.probability is None
    whole = {hit.path: hit.score for hit in search(tmp_path, "church bells ring")}
    rows = likeness_of(model, sorted(whole), "church bells ring")
    np.testing.assert_allclose([whole[path] for path in sorted(whole)], rows, atol=1e-5)
    without = {hit.path: hit.score for hit in search(tmp_path, "church bells ring", not_="a dog barks")}
    rows -= likeness_of(model, sorted(whole), "a dog barks")
    np.testing.assert_allclose([without[path] for path in sorted(whole)], rows, atol=1e-5)


def likeness_of(model, files, text):
    """What the docs say a bridge's score is: sqrt(p . softmax + .001) e^(cos - 1)."""
    shared = model.tag_probabilities(files) @ model.label_weights([text])[:, 0]
    return np.sqrt(shared + 1e-3) * np.exp(model.embed_audio(files) @ model.embed_text([text])[0] - 1)
