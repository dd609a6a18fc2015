"""What the bridge owes without any training, on names and words alone: docs/bridge.md has the figures."""

import csv

import numpy as np
import pytest

from supclap.data.scenes.corpora import scenes_esc50
from supclap.embedding.cache import FeatureCache
from supclap.embedding.rows import encode_all
from supclap.encoders import hub, pretrained
from supclap.evaluation import calibration
from supclap.schema import UserError
from supclap.searching.clauses import split
from supclap.searching.lazy import LazyModel
from supclap.searching.scan import search

pytestmark = [pytest.mark.slow, pytest.mark.shared, pytest.mark.xdist_group("bridge goals")]

FRENCH = (
    "avion;respiration;brossage de dents;ouverture d'une canette;klaxon de voiture;chat qui miaule;tronçonneuse;"
    "chant d'oiseaux;cloches d'église;applaudissements;réveil qui sonne;tic-tac d'une horloge;toux;vache qui meugle;"
    "feu qui crépite;grillons;corbeau;bébé qui pleure;chien qui aboie;porte en bois qui grince;coups à la porte;"
    "boire à petites gorgées;moteur;feux d'artifice;bruits de pas;grenouille;verre qui se brise;scie à main;"
    "hélicoptère;poule;insectes;frappe au clavier;rires;clic de souris;cochon;eau versée;pluie;coq;vagues de la mer;"
    "mouton;sirène;éternuement;ronflement;orage;chasse d'eau;train;aspirateur;machine à laver;gouttes d'eau;vent"
).split(";")
JAPANESE = (
    "飛行機;呼吸;歯磨き;缶を開ける音;車のクラクション;猫の鳴き声;チェーンソー;鳥のさえずり;教会の鐘;拍手;目覚まし時計;"
    "時計の秒針の音;咳;牛;焚き火;コオロギ;カラス;赤ちゃんの泣き声;犬の吠える声;木のドアのきしむ音;ドアをノックする音;"
    "飲み物をすする音;エンジン;花火;足音;カエル;ガラスが割れる音;のこぎり;ヘリコプター;めんどり;虫;キーボードを打つ音;"
    "笑い声;マウスのクリック;豚;水を注ぐ音;雨;おんどり;海の波;羊;サイレン;くしゃみ;いびき;雷雨;トイレを流す音;電車;"
    "掃除機;洗濯機;水滴;風"
).split(";")


@pytest.fixture
def at_hand(shared):
    for name, file in (("mn04", "mn04_as_mAP_432.pt"), ("audioset-labels", "audioset_class_labels_indices.csv")):
        try:
            pretrained.locate(name)
        except UserError:
            pretrained.add(name, shared / "weights" / file)


class Corpus:
    """A corpus as the bridge hears it, through the cache that search and calibration use."""

    def __init__(self, root, table, place, label):
        with (root / table).open(encoding="utf8") as file:
            rows = list(csv.DictReader(file))
        self.names = sorted({row[label] for row in rows})
        self.truth = np.array([self.names.index(row[label]) for row in rows])
        self.names = [name.replace("_", " ") for name in self.names]
        paths = [str(root / "audio" / place(row)).replace(".wav", ".ogg") for row in rows]
        lazy, vectors = LazyModel("bridge", FeatureCache()), {}
        for answer in encode_all(paths, lazy.encoder(), FeatureCache()):
            spans = answer.rows.spans
            weight = np.diff(spans, axis=1)[:, 0]
            vectors[answer.index] = np.average(answer.rows.vectors.astype(float), axis=0, weights=weight)
        rows = np.stack([vectors[place] for place in range(len(paths))])
        self.audio, self.tags = rows[:, : lazy.width], rows[:, lazy.width :]

    def accuracy(self, bridge, names, language="eng"):
        """Top-1 of ``classify``, in percent."""
        said = self.tags @ bridge.label_weights(names, "{label}", language)
        return 100 * (said.argmax(1) == self.truth).mean()

    def scores(self, bridge):
        """[names, clips] of the question "the sound of NAME"."""
        return bridge.embed_text([f"the sound of {name}" for name in self.names]).astype(float) @ self.audio.T


def retrieval(scores_qn, truth):
    """(mAP, P@10) in percent."""
    precision, first = [], []
    for k, row in enumerate(scores_qn):
        right = truth[np.argsort(-row, kind="stable")] == k
        precision.append((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())
        first.append(right[:10].mean())
    return 100 * np.mean(precision), 100 * np.mean(first)


def esc50(shared):
    return Corpus(shared / "data" / "esc50", "meta/esc50.csv", lambda row: row["filename"], "category")


def us8k(shared):
    place = "fold{fold}/{slice_file_name}".format_map
    return Corpus(shared / "data" / "us8k", "metadata/UrbanSound8K.csv", place, "class")


def test_esc50_in_english_french_and_japanese(at_hand, shared):
    corpus, bridge = esc50(shared), hub.load("bridge")
    assert len(corpus.truth) == 1600
    assert corpus.accuracy(bridge, corpus.names) >= 74
    precision, first = retrieval(corpus.scores(bridge), corpus.truth)
    assert precision >= 74
    assert first >= 84
    # The corpus is a row of probabilities a clip: what classify itself says of a few of them is the same.
    some = sorted((shared / "data" / "esc50" / "audio").rglob("*.ogg"))[:3]
    own = bridge.tag_probabilities(some)
    assert np.abs(own[:, None] - corpus.tags[None]).max(2).min(1).max() < 1e-3
    by_use = hub.load("bridge:use")
    assert corpus.accuracy(by_use, FRENCH, "fra") >= 60
    assert corpus.accuracy(by_use, JAPANESE, "jpn") >= 60


def test_urbansound8k_and_the_probabilities_fitted_on_it(at_hand, shared):
    street, home, bridge = us8k(shared), esc50(shared), hub.load("bridge")
    assert 60 <= street.accuracy(bridge, street.names) <= 66
    fitted, judged = (
        (one.scores(bridge), np.arange(len(one.names))[:, None] == one.truth, evidence(one, bridge))
        for one in (street, home)
    )
    found = calibration.judge(calibration.fit(*fitted), *judged)
    assert found.ece <= 0.05
    assert found.auc >= 0.83 > found.raw_auc - 0.02


def evidence(corpus, bridge):
    weights = bridge.label_weights([f"the sound of {name}" for name in corpus.names])
    return np.log(corpus.tags @ weights + 1e-3).T


def test_clauses_find_composed_scenes(at_hand, shared, tmp_path):
    clips = scenes_esc50(shared / "data" / "esc50", tmp_path / "scenes", train=1, val=1, test=60, seed=23)
    clips = [clip for clip in clips if clip.split == "test"]
    assert len(clips) == 60
    folder = tmp_path / "test"
    folder.mkdir()
    for i, clip in enumerate(clips):
        (folder / f"{i:03d}.wav").symlink_to(clip.audio)
    several = []
    for i, clip in enumerate(clips):
        texts = [caption.text for caption in clip.captions if caption.language == "eng"]
        several += [(i, text) for text in texts[:2] if len(split(text)) > 1]
    right = {
        clauses: [search(folder, text, clauses=clauses, top=1)[0].path.endswith(f"{i:03d}.wav") for i, text in several]
        for clauses in (True, False)
    }
    assert len(several) > 40
    assert 100 * np.mean(right[True]) >= 25
    assert np.mean(right[True]) > np.mean(right[False])
