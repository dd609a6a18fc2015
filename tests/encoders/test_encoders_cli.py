"""The door: models by name, and a ClapModel folder evaluated end to end."""

import csv
import json

import pytest
import soundfile
from encoder_cases import noise

from supclap.cli import run


def test_models_list(capsys):
    assert run(["models", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["mn04"]["licence"] == "MIT" and rows["mn04"]["bytes"] == 4066513
    assert "non-commercial" in rows["sonar"]["licence"]
    assert run(["models", "list"]) == 0
    assert capsys.readouterr().out.count("\n") == len(rows)


def test_models_add_says_what_is_wrong(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "x.pt").write_bytes(b"nothing")
    for words, said in (
        (["models", "add", "mn04", str(tmp_path / "x.pt")], "7 bytes where"),
        (["models", "add", "mm04", str(tmp_path / "x.pt")], "did you mean 'mn04'"),
    ):
        assert run(words) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1


@pytest.mark.shared
def test_models_add(capsys, tmp_path, monkeypatch, shared):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    assert run(["models", "add", "mn04", str(shared / "weights" / "mn04_as_mAP_432.pt"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["licence"] == "MIT"
    run(["models", "list", "--json"])
    assert {row["name"]: row["here"] for row in json.loads(capsys.readouterr().out)}["mn04"] is True


def test_a_clap_folder_is_evaluated(capsys, tmp_path):
    pytest.importorskip("transformers")
    from test_encoders_whole import write_clap

    write_clap(tmp_path / "clap")
    rows = [["audio", "caption", "split"]]
    for place in range(4):
        soundfile.write(tmp_path / f"{place}.wav", noise(8000 * (place + 1), place), 16000)
        rows.append([f"{place}.wav", f"sound number {place} of a dog", "test"])
    with (tmp_path / "data.csv").open("w", newline="") as held:
        csv.writer(held).writerows(rows)
    capsys.readouterr()
    assert run(["evaluate", f"hf:{tmp_path / 'clap'}", str(tmp_path / "data.csv"), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["clips"] == 4 or scores["scores"]["clips"] == 4
