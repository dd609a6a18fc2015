"""``supclap evaluate``: every task and every form on a small model, several models on several tables."""

import csv
import io
import json
import shutil
import wave
from dataclasses import replace

import numpy as np
import pytest
import torch

from supclap import cli
from supclap.cli import leaks
from supclap.data import manifest
from supclap.data.scenes import write
from supclap.encoders.dual import DualSettings
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings
from supclap.evaluation import queries
from supclap.evaluation.significance import holm
from supclap.schema import Caption, Clip
from supclap.settings import save
from supclap.training.config import DataSettings, RunConfig

RATE = 16000


def built(seed):
    torch.manual_seed(seed)
    settings = DualSettings(
        audio_tower=SmallAudioSettings(channels=(8, 8, 16, 16), width=32),
        text_tower=SmallTextSettings(vocabulary=300, width=32, depth=1, heads=2, max_tokens=512),
    )
    return settings.build(texts=["a dog barks", "tone"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Composed scenes; two models; a labelled, captioned table of tones; the same with re-translated captions."""
    root = tmp_path_factory.mktemp("evaluate")
    write(root / "scenes", train=0, val=0, test=14, seconds=4.0, languages=["eng"], workers=1)
    for seed, name in enumerate(("one", "two")):
        built(seed).save(root / name)
    time, clips = np.arange(RATE) / RATE, []
    for k in range(16):
        with wave.open(str(root / f"{k}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((9000 * np.sin(2 * np.pi * 200 * (k + 1) * time)).astype(np.int16).tobytes())
        said = (Caption(f"a tone number {k}"), Caption(f"le son {k}", "fra"))
        split = "train" if k % 4 < 2 else "test"
        clips.append(Clip(f"c{k}", str(root / f"{k}.wav"), 0, None, said, f"label_{k % 2}", split, f"s{k}"))
    manifest.write(clips, root / "tones.jsonl")
    folds = [replace(clip, split="abcd"[k // 4], source=f"s{k % 4}") for k, clip in enumerate(clips)]
    manifest.write(folds, root / "folds.jsonl")
    manifest.write([Clip(c.id, c.audio, captions=(Caption(f"tone {k}", "fra"),)) for k, c in enumerate(clips)],
                   root / "again.jsonl")  # fmt: skip
    return root


@pytest.fixture
def run(folder, capsys):
    def call(model, data, *words):
        full = (
            ",".join(str(folder / name) for name in model.split(",")),
            ",".join(str(folder / name) for name in data.split(",")),
        )
        try:
            status = cli.run(["evaluate", *full, *(str(word) for word in words)])
        except SystemExit as left:
            status = left.code
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return call


def test_queries(folder, run, tmp_path):
    status, out, _ = run("one", "scenes", "--task", "queries", "--split", "test", "--json")
    found = json.loads(out)
    assert status == 0 and found["clips"] == 14 and found["split"] == "test"
    assert set(found["queries"]) <= {*queries.KINDS, "words alone", "sound alone"} and len(found["queries"]) >= 7
    for row in found["queries"].values():
        low, high = row["intervals"]["nDCG@10"]
        assert 0 <= low <= row["nDCG@10"] <= high <= 100 and 0 < row["chance"] < 100
    assert "against_caption" in found["queries"]["tags"] and "HNSR@10" in found["queries"]["exclusion"]
    status, out, _ = run("one", "scenes", "--task", "queries")
    assert status == 0 and "paraphrase" in out and "HNSR@10" in out and "14 clips" in out
    (tmp_path / "q.csv").write_text("query,type,clip_id\nrain,tags,test-00000\nwind,tags,nowhere\n")
    status, out, err = run("one", "scenes", "--task", "queries", "--queries", tmp_path / "q.csv", "--json")
    assert json.loads(out)["queries"]["tags"]["queries"] == 1 and "1 of 2 queries" in err
    assert "NaN" not in out and "null" in out, "one clip has no interval"
    status, _, err = run("one", "scenes", "--task", "queries", "--queries", tmp_path / "none.csv")
    assert status == 2 and "none.csv: no such file" in err
    status, _, err = run("one", "scenes", "--queries", tmp_path / "q.csv")
    assert status == 2 and "--task queries" in err


def test_every_form_of_retrieval(run):
    status, out, _ = run("one", "tones.jsonl", "--split", "test", "--json")
    plain = json.loads(out)
    assert (plain["split"], plain["clips"], plain["captions"]) == ("test", 8, 16)
    status, out, _ = run("one", "tones.jsonl", "--split", "test", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["language"] for row in rows] == ["mean", "eng", "fra"] and rows[0]["model"] == "one"
    assert float(rows[0]["T2A R@1"]) == plain["t2a"]["R@1"]
    assert [float(rows[0]["A2T mAP10 low"]), float(rows[0]["A2T mAP10 high"])] == plain["intervals"]["a2t"]["mAP10"]
    assert float(rows[2]["A2T R@5"]) == plain["languages"]["fra"]["a2t"]["R@5"] and rows[2]["split"] == "test"
    status, out, _ = run("one", "tones.jsonl", "--split", "test", "--format", "latex")
    head, row = out.splitlines()
    assert (
        head.startswith("% Model & tones.jsonl T2A R@1 & ") and row.startswith("one & ") and row.endswith(r"\\ \hline")
    )
    numbers = [plain[way][name] for way in ("t2a", "a2t") for name in ("R@1", "R@10")]
    assert [float(cell) for cell in row.removesuffix(r" \\ \hline").split(" & ")[1:]] == pytest.approx(
        numbers, abs=0.005
    )
    status, out, _ = run("one", "tones.jsonl", "--split", "test")
    assert "mlclap, test: 8 clips, 16 captions" in out and " mean " in out and " fra " in out
    status, _, err = run("one", "tones.jsonl", "--format", "xml")
    assert status == 2 and "--format='xml'" in err


def test_the_transfer_matrix_and_holm(run):
    status, out, err = run("one,two", "tones.jsonl,scenes", "--json")
    found = json.loads(out)
    assert (
        status == 0
        and set(found["scores"]) == {"one", "two"}
        and set(found["scores"]["two"]) == {"tones.jsonl", "scenes"}
    )
    _, alone, _ = run("two", "scenes", "--json")
    assert found["scores"]["two"]["scenes"] == json.loads(alone)
    compared = found["compared"]
    assert (
        len(compared) == 4
        and {row["base"] for row in compared} == {"one"}
        and {row["model"] for row in compared} == {"two"}
    )
    assert [row["holm"] for row in compared] == holm([row["p"] for row in compared])
    status, out, _ = run("one,two", "tones.jsonl,scenes")
    assert "Holm" in out and "scenes A2T R@10" in out and "14" in out
    status, out, _ = run("one,two", "tones.jsonl", "--format", "latex")
    assert out.count(r"\\") == 2 and r"\textbf" in out
    status, out, _ = run("one,two", "tones.jsonl", "--format", "csv")
    assert [row["model"] for row in csv.DictReader(io.StringIO(out))] == ["one"] * 3 + ["two"] * 3
    status, _, err = run("one,one", "tones.jsonl")
    assert status == 2 and "twice" in err
    status, _, err = run("one,two", "tones.jsonl", "--task", "zeroshot")
    assert status == 2 and "compared by retrieval" in err


def test_classifiers_on_embeddings(run):
    status, out, _ = run("one", "tones.jsonl", "--task", "linear", "--split", "test", "--json")
    found = json.loads(out)
    assert status == 0 and found["about"] == "linear probe" and found["clips"] == 8 and "confusion" in found
    status, out, _ = run("one", "tones.jsonl", "--task", "linear", "--split", "test", "--format", "csv")
    assert out.splitlines()[0] == "label,clips,top-1,AP" and len(out.splitlines()) == 3
    status, out, _ = run("one", "tones.jsonl", "--task", "fewshot", "--split", "test")
    assert status == 0 and "8 clips, 2 classes" in out and "clips of each class" in out
    # Without --split everything but what was fitted on is tried.
    _, out, _ = run("one", "tones.jsonl", "--task", "linear", "--json")
    assert json.loads(out)["clips"] == 8
    _, out, err = run("one", "folds.jsonl", "--task", "linear", "--split", "d", "--train-split", "a,b", "--json")
    assert json.loads(out)["clips"] == 4 and "4 recordings are among" in err
    status, _, err = run("one", "folds.jsonl", "--task", "linear", "--split", "d", "--train-split", "a,z")
    assert status == 2 and "--train-split='z'" in err
    status, _, err = run("one", "tones.jsonl", "--task", "linear", "--split", "train")
    assert status == 2 and "--train-split train, which is fitted on" in err


def test_re_translated_captions(folder, run):
    status, out, _ = run("one", "tones.jsonl", "--task", "captions", "--again", folder / "again.jsonl", "--json")
    (row,) = json.loads(out)["captions"]
    assert status == 0 and row["language"] == "fra" and row["captions"] == 16 and row["similarity"] <= 1
    status, _, err = run("one", "scenes", "--task", "captions", "--again", folder / "again.jsonl")
    assert status == 2 and "re-translated but is not in the table" in err
    status, _, err = run("one", "tones.jsonl", "--again", folder / "again.jsonl")
    assert status == 2 and "--again goes with --task captions" in err


@pytest.fixture(scope="module")
def trained(folder):
    """A run that says it learned from the training side of the tones; a table with one of those recordings in it."""
    built(0).save(folder / "run")
    save(RunConfig(data=DataSettings(path=str(folder / "tones.jsonl"))), folder / "run" / "run.json")
    clips = manifest.read(folder / "tones.jsonl")
    manifest.write(clips[:1], folder / "heard.jsonl")
    other = [replace(clip, id=f"o{k}", source=f"s{k}" if k in (0, 2) else f"new{k}") for k, clip in enumerate(clips)]
    for clip in other:
        shutil.copy(clip.audio, folder / f"{clip.id}.wav")
    manifest.write([replace(clip, audio=str(folder / f"{clip.id}.wav")) for clip in other], folder / "other.jsonl")
    return folder


def test_recordings_that_a_run_has_learned_from(trained, run):
    """s0 was trained on; s2 is of the test side, and the other sources are new."""
    status, out, err = run("run", "other.jsonl", "--json")
    assert status == 0 and json.loads(out)["clips"] == 16
    assert "1 of 16 clips" in err and "(o0 is one)" in err and "--leaks drop" in err
    status, out, err = run("run", "other.jsonl", "--leaks", "drop", "--json")
    assert json.loads(out)["clips"] == 15 and "they are left out" in err
    status, _, err = run("run", "other.jsonl", "--leaks", "refuse")
    assert status == 2 and err.count("\n") == 1
    status, out, err = run("run", "tones.jsonl", "--split", "test")
    assert status == 0 and "hold recordings" not in err
    _, _, err = run("run", "tones.jsonl")
    assert "7 of 16 clips" in err, "eight of the train side, one of which training lends to validation"
    status, _, err = run("run", "heard.jsonl", "--leaks", "drop")
    assert status == 2 and "none is left to score" in err
    # Side by side, all models are scored on the clips that none of them has heard.
    status, out, err = run("two,run", "other.jsonl", "--leaks", "drop", "--json")
    found = json.loads(out)
    assert [found["scores"][name]["other.jsonl"]["clips"] for name in ("run", "two")] == [15, 15]
    assert found["leaks"] == [{"model": "run", "data": "other.jsonl", "clips": 1, "dropped": True}]


def test_scenes_are_known_by_the_recordings_in_them(folder, tmp_path):
    (tmp_path / "events.json").write_text(json.dumps({"a": {"sources": ["s0", "s9"]}, "b": {"sources": ["s7"]}}))
    clips = [Clip(name, str(tmp_path / f"{name}.flac"), source=name) for name in "ab"]
    found = leaks.recordings([*clips, Clip("c", "/elsewhere/c.wav", source="s0")])
    assert found["a"] & found["c"] == {"source s0"} and not found["b"] & found["c"] and not found["a"] & found["b"]
    (tmp_path / "events.json").write_text(json.dumps({"a": {}}))
    assert leaks.recordings(clips[:1])["a"] == {f"file {tmp_path / 'a.flac'}"}, "a scene's own name is no recording"


def test_a_run_whose_table_is_gone(trained, run):
    config = json.loads((trained / "run" / "run.json").read_text())
    try:
        moved = json.loads(json.dumps(config).replace("tones.jsonl", "gone.jsonl"))
        (trained / "run" / "run.json").write_text(json.dumps(moved))
        status, _, err = run("run", "other.jsonl")
        assert status == 0 and "only equal clips were looked for" in err and "gone.jsonl" in err
    finally:
        (trained / "run" / "run.json").write_text(json.dumps(config))
