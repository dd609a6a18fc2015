"""The door: one line and exit 2 for a mistake, results apart from talk, every listed command importable."""

import importlib
import inspect
import json
import subprocess
import sys

import pytest

from supclap.cli import COMMANDS, run
from supclap.cli.app import needs


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["docto"], 'Did you mean "doctor"'),
        (["doctor", "--jso"], "Did you mean --json"),
        (["search"], "requires an argument"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(capsys, argv, line):
    assert run(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("supclap: ") and err.count("\n") == 1
    assert line in err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_and_speaks_json(name):
    module, _, function = COMMANDS[name][0].partition(":")
    command = getattr(importlib.import_module(module), function)
    assert inspect.getdoc(command)
    assert "json" in inspect.signature(command).parameters, "--json everywhere"
    told = {line.strip().removesuffix("_") for line in (inspect.getdoc(command) or "").splitlines()}
    options = {option.removesuffix("_") for option in inspect.signature(command).parameters}
    assert not options - told, "options that --help does not explain"


def test_a_missing_extra_is_named():
    line = needs(ModuleNotFoundError("no soundfile", name="soundfile"))
    assert 'pip install "supclap[train]"' in line
    assert needs(ModuleNotFoundError("no such thing", name="something_else")) is None


def test_the_reader_may_leave_early():
    command = f"{sys.executable} -m supclap doctor | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert result.stdout.startswith("supclap ") and "Traceback" not in result.stderr


def test_doctor_says_what_is_here(capsys):
    import torch

    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["torch"]["version"] == torch.__version__ and found["torch"]["gflops"]["cpu"] > 0
    assert found["extras"]["train"]["present"] and found["install"] == []
    assert {row["name"] for row in found["weights"]} >= {"mn04", "minilm"}
    assert run(["doctor"]) == 0
    assert "nothing is missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["corpus", "compose", "--out", "out", "--count", "4", "--rate", "0"], "rate=0"),
        (["corpus", "compose", "--out", "out", "--count", "4", "--seconds", "0"], "seconds=0"),
        (["corpus", "compose", "--out", "out", "--count", "4", "--workers", "-1"], "workers=-1"),
        (["calibrate", "bridge", "none.csv", "--seed", "-1"], "seed=-1"),
        (["search", ".", "rain", "--page", "."], "is a folder"),
        (["classify", ".", "--labels", "a,b", "--language", "zz"], "language='zz' is not"),
    ],
)
def test_a_value_that_cannot_be_is_no_default(tmp_path, capsys, monkeypatch, words, said):
    """Zero is what was asked for, not a thing left out; it is refused before anything is made."""
    monkeypatch.chdir(tmp_path)
    assert run(words) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert err.count("\n") == 1
    assert out == ""
    assert not list(tmp_path.iterdir())
