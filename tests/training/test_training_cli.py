"""`supclap train` and `supclap report` as typed."""

import json
import os
import re

import pytest

from supclap import cli
from supclap.training import records

FIELDS = [
    "audio_tower.channels=[4,8,8,8]", "audio_tower.width=16", "text_tower.width=16", "text_tower.depth=1",
    "text_tower.heads=2", "text_tower.vocabulary=300", "text_tower.max_tokens=128",
    "head.width=16", "batch_size=8", "epochs=1", "device=cpu",
]  # fmt: skip


def run(argv):
    """The exit status of one command line."""
    try:
        return cli.run(argv)
    except SystemExit as left:
        return left.code


def test_train_resume_report(corpus, tmp_path, capsys):
    out = tmp_path / "run"
    assert run(["train", str(corpus[1]), "--recipe", "small", "--out", str(out), "--json", *FIELDS]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["best"]["clips"] == 12
    assert result["run"] == str(out)
    assert result["report"] == str(out / "report.html")
    assert "mn04" in result["untrained"].get("reason", "") or result["untrained"]["clips"] == 12
    assert run(["train", "--resume", str(out)]) == 0
    said = capsys.readouterr().out
    assert "R@1" in said
    assert "report.html" in said
    # A report of the run's middle is written anew when the run has gone on.
    (out / "report.html").write_text("Not finished", encoding="utf8")
    os.utime(out / "report.html", ns=(0, 0))
    assert run(["train", "--resume", str(out)]) == 0
    assert "Finished after 5 steps" in (out / "report.html").read_text(encoding="utf8")
    capsys.readouterr()
    assert run(["report", str(out)]) == 0
    page = (out / "report.html").read_text(encoding="utf8")
    assert page.startswith("<!doctype html>")
    assert page.count("<audio") >= 2
    assert page.count("<svg") >= 4
    assert "Finished after 5 steps" in page
    # Self-contained: nothing is fetched.
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)


def test_dry_run_writes_nothing(corpus, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["train", str(corpus[1]), "--recipe", "small", "--dry-run", "--json", *FIELDS]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["clips"] == {"train": 40, "val": 12, "test": 12}
    assert told["steps"] == 5
    assert told["seconds_a_step"] > 0
    assert 0 < told["parameters"]["learned"] <= told["parameters"]["all"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train"], "DATA is missing"),
        (["train", "none.csv", "--out", "run", "--recipe", "small"], "none.csv"),
        (["train", "TABLE", "--recipe", "small"], "--out is missing"),
        (["train", "TABLE", "--out", "run", "--recipe", "smal"], "did you mean 'small'"),
        (["train", "TABLE", "--out", "run", "--recipe", "small", "eposh=3"], "did you mean 'epochs'"),
        (["train", "TABLE", "--out", "run", "--recipe", "small", "three"], "name=value"),
        (["train", "--resume", "nowhere"], "run.json"),
        (["train", "TABLE", "--resume", "run"], "--resume takes"),
        (
            ["train", "TABLE", "--out", "run", "--recipe", "small", "--curve", "seeds=[0,1]", "batch_size=8"],
            "one recipe and one seed",
        ),
        (
            ["train", "TABLE", "--out", "run", "--recipe", "small", "batch_size=8", 'train.track=["wandb"]'],
            "pip install wandb",
        ),
        (["train", "TABLE", "--out", "run", "--recipe", "small", "--curve", "--jobs", "2"], "--curve takes neither"),
        (["train", "TABLE", "--recipe", "small", "--curve", "--dry-run"], "--curve takes neither"),
        (["report", "nowhere"], "run.json"),
    ],
)
def test_mistakes_exit_2_with_one_line(corpus, tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    assert run([str(corpus[1]) if word == "TABLE" else word for word in words]) == 2
    talk = capsys.readouterr().err
    assert said in talk
    assert talk.count("\n") == 1


def test_without_weights_few_pairs_are_not_trained_from_scratch(corpus, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    assert run(["train", str(corpus[1]), "--out", str(tmp_path / "run")]) == 2
    talk = capsys.readouterr().err
    assert "mn04" in talk
    assert "--recipe small" in talk


def test_a_recipe_file_travels_with_the_run(corpus, tmp_path, capsys):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from supclap.settings import settings\n"
        "from supclap.objectives import InfoNCE\n"
        "from supclap.training.config import recipe\n"
        "@settings\n"
        "class Warm:\n"
        "    temperature: float = 0.2\n"
        "    def build(self):\n"
        "        return InfoNCE(self.temperature)\n"
        "def warm():\n"
        "    return recipe('small', {'objective': Warm()})\n"
    )
    out = tmp_path / "run"
    assert run(["train", str(corpus[1]), "--recipe", f"{mine}:warm", "--out", str(out), *FIELDS]) == 0
    mine.unlink()
    assert json.loads((out / "run.json").read_text())["objective"] == {
        "kind": "supclap_recipe:Warm",
        "temperature": 0.2,
    }
    journal = (out / records.NAME).read_bytes()
    # Unfinished again: the copy in the run is what is read.
    (out / records.NAME).write_bytes(journal[: journal.rindex(b'{"event": "end"')])
    assert run(["train", "--resume", str(out)]) == 0
    assert records.read(out)[-1]["event"] == "end"


def test_curve_as_typed(corpus, tmp_path, capsys):
    out = tmp_path / "curve"
    argv = ["train", str(corpus[1]), "--recipe", "small", "--curve", "--out", str(out), *FIELDS, "batch_size=16"]
    assert run([*argv, "text_tower.max_tokens=200"]) == 0
    said = capsys.readouterr().out
    assert "left out for want of clips to fill a batch: 1/16, 1/4" in said
    assert "captions R@1 changed by" in said
    assert (out / "curve.svg").exists()


def test_lora_and_frozen_parts_from_the_command_line(corpus, tmp_path, capsys):
    out = tmp_path / "run"
    fields = ["train.lora.rank=2", 'train.lora.towers=["text"]', "train.freeze_audio_parts=2", "optim.head_lr=1e-4"]
    assert run(["train", str(corpus[1]), "--recipe", "small", "--out", str(out), *FIELDS, *fields]) == 0
    step = next(line for line in records.read(out) if line["event"] == "step")
    assert {"audio_tower", "text_tower", "heads", "radius"} <= set(step["lr"])
    assert step["lr"]["heads"] < step["lr"]["audio_tower"]
    learned, whole = records.read(out)[0]["parameters"], json.loads((out / "run.json").read_text())
    assert whole["train"]["lora"]["rank"] == 2
    assert run(["train", str(corpus[1]), "--recipe", "small", "--out", str(tmp_path / "all"), *FIELDS]) == 0
    assert learned < records.read(tmp_path / "all")[0]["parameters"]
