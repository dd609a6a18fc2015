"""What the label bridge is worth without any training; the figures of docs/bridge.md.

    python benchmarks/bridge.py --shared FOLDER [--only esc50 us8k languages scenes] [--keep FOLDER] [--json OUT]

FOLDER holds data/esc50 and data/us8k in their official layouts, and weights/. Settings are picked on UrbanSound8K and
confirmed on ESC-50.
"""

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from supclap.data.scenes.corpora import scenes_esc50
from supclap.encoders import hub, pretrained
from supclap.searching.clauses import split
from supclap.searching.scan import likeness, together

# The 50 names of ESC-50, in the order of the English ones.
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
POWERS = (1.0, 0.7)
TEMPERATURES = (0.05, 0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["us8k", "esc50", "languages", "scenes"])
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1, help="of the scenes; the floor of a clause was picked with 0")
    parser.add_argument("--keep", type=Path, help="keeps what the tagger heard, so that other settings are quick")
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    get_weights(words.shared / "weights")
    keep = words.keep or Path(tempfile.mkdtemp())
    jobs = {
        "us8k": lambda: corpus("us8k", *us8k(words.shared), keep),
        "esc50": lambda: corpus("esc50", *esc50(words.shared), keep),
        "languages": lambda: languages(words.shared, keep),
        "scenes": lambda: scenes(words.shared, words.scenes, words.seed),
    }
    results = {}
    for name in words.only:
        results[name] = jobs[name]()
        print(name, json.dumps(results[name], indent=1, ensure_ascii=False), flush=True)
    if words.json:
        words.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf8")


def get_weights(folder):
    for name, file in (("mn04", "mn04_as_mAP_432.pt"), ("audioset-labels", "audioset_class_labels_indices.csv")):
        if not pretrained._target(name, pretrained.entry_of(name)).exists():
            pretrained.add(name, folder / file)


def table(path, name, label):
    with path.open(encoding="utf8") as file:
        rows = list(csv.DictReader(file))
    labels = [row[label] for row in rows]
    names = sorted(set(labels))
    return [row[name] for row in rows], np.array([names.index(label) for label in labels]), names


def esc50(shared):
    root = shared / "data" / "esc50"
    files, truth, names = table(root / "meta" / "esc50.csv", "filename", "category")
    return (
        [root / "audio" / file.replace(".wav", ".ogg") for file in files],
        truth,
        [n.replace("_", " ") for n in names],
    )


def us8k(shared):
    root = shared / "data" / "us8k"
    with (root / "metadata" / "UrbanSound8K.csv").open(encoding="utf8") as file:
        folds = [row["fold"] for row in csv.DictReader(file)]
    files, truth, names = table(root / "metadata" / "UrbanSound8K.csv", "slice_file_name", "class")
    paths = [
        root / "audio" / f"fold{fold}" / file.replace(".wav", ".ogg") for fold, file in zip(folds, files, strict=True)
    ]
    return paths, truth, [name.replace("_", " ") for name in names]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def tags(bridge, name, paths, keep):
    """[clips, tags] probabilities, heard once."""
    file = keep / f"{name}.npy"
    if not file.exists():
        keep.mkdir(parents=True, exist_ok=True)
        np.save(file, bridge.tag_probabilities(paths))
    return np.load(file).astype(np.float64)


def corpus(name, paths, truth, names, keep):
    """Shipped settings, then the other forms that were tried."""
    bridge = hub.load("bridge")
    p = tags(bridge, name, paths, keep)
    anchors = bridge.audio_tower.anchors.numpy().astype(np.float64)
    asked = [f"the sound of {name}" for name in names]
    queries = bridge.embed_text(asked).astype(np.float64)
    shipped = {
        "clips": len(paths),
        "classify top-1": percent(((p @ bridge.label_weights(names)).argmax(1) == truth).mean()),
        **retrieval(unit(p @ anchors) @ queries.T, truth),
    }
    labels = bridge.embed_text(names).astype(np.float64)
    cosines = unit(p @ anchors) @ queries.T
    searched = retrieval(likeness(p @ bridge.label_weights(asked), cosines), truth)
    return {
        "shipped": shipped,
        "supclap search": searched,
        "other forms": other_forms(p, anchors, labels, queries, truth),
    }


def other_forms(p, anchors, labels, queries, truth):
    forms = {f"p^{power:g}": p**power for power in POWERS}
    forms["log-odds above 1e-4"] = np.log(p / (1 - p) + 1e-4) - np.log(1e-4)
    rows = {}
    for name, q in forms.items():
        for temperature in TEMPERATURES:
            weights = np.exp(anchors @ labels.T / temperature)
            top = ((q @ (weights / weights.sum(0))).argmax(1) == truth).mean()
            rows[f"{name}, T {temperature:g}"] = {
                "classify top-1": percent(top),
                **retrieval(unit(q @ anchors) @ queries.T, truth),
            }
    return rows


def retrieval(scores, truth):
    precision, first = [], []
    for k in range(scores.shape[1]):
        right = truth[np.argsort(-scores[:, k], kind="stable")] == k
        precision.append((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())
        first.append(right[:10].mean())
    return {"class-name mAP": percent(np.mean(precision)), "P@10": percent(np.mean(first))}


def languages(shared, keep):
    paths, truth, names = esc50(shared)
    bridge = hub.load("bridge:use")
    p = tags(bridge, "esc50", paths, keep)
    rows = {}
    for code, own in (("eng", names), ("fra", FRENCH), ("jpn", JAPANESE)):
        rows[code] = percent(((p @ bridge.label_weights(own, "{label}", code)).argmax(1) == truth).mean())
    return rows


def scenes(shared, count, seed):
    """T2A R@1 over composed scenes of ESC-50's fold 4, a query whole and in clauses."""
    bridge = hub.load("bridge")
    with tempfile.TemporaryDirectory() as out:
        clips = scenes_esc50(shared / "data" / "esc50", out, train=1, val=1, test=count, seed=seed)
        clips = [clip for clip in clips if clip.split == "test"]
        p = bridge.tag_probabilities([clip.audio for clip in clips]).astype(np.float64)
    audio = unit(p @ bridge.audio_tower.anchors.numpy())
    captions = [(row, c.text) for row, clip in enumerate(clips) for c in clip.captions if c.language == "eng"]
    hits = {"whole": [], "clauses": [], "clauses, mean cosine": []}
    for row, text in captions:
        parts = split(text)
        hits["whole"].append(first(audio @ bridge.embed_text([text])[0], row))
        hits["clauses, mean cosine"].append(first((audio @ bridge.embed_text(parts).T).mean(1), row))
        hits["clauses"].append(first(together(np.sqrt(p) @ bridge.label_weights(parts)), row))
    rates = {f"T2A R@1 {name}": percent(np.mean(right)) for name, right in hits.items()}
    return {"scenes": len(clips), "captions": len(captions), **rates, "example": captions[0][1]}


def first(scores, row):
    """Whether the right clip is alone in front: ties count against."""
    return (scores >= scores[row]).sum() == 1


def percent(share):
    return round(100 * float(share), 1)


if __name__ == "__main__":
    sys.exit(main())
