"""What the bench prints comes from what it measured; no test asserts a time."""

import importlib
import json

import pytest
import torch

from supclap.bench import BENCHES, timing
from supclap.cli import run

bench = importlib.import_module("supclap.bench.objective")


def test_rounds_are_interleaved_and_counted():
    seen = []
    times = timing.in_turns({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, rounds=3, calls=2)
    assert "".join(seen) == "ab" + "aabb" + "bbaa" + "aabb"
    assert {name: len(rounds) for name, rounds in times.items()} == {"a": 3, "b": 3}


def test_a_clock_of_ones_own_counts_what_it_says():
    ticks = iter(range(100))
    times = timing.in_turns({"a": lambda: None}, rounds=2, calls=4, clock=lambda: float(next(ticks)))
    assert times == {"a": [250.0, 250.0]}


def test_ratio_and_quartiles():
    times = {"one": [2.0, 4.0, 9.0], "other": [1.0, 2.0, 3.0]}
    assert timing.ratio(times, "one", "other") == [2.0, 2.0, 3.0]
    assert timing.quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 4.0)


def test_verdicts():
    assert bench.verdict(24, 1.4, 9.0) == "yes"
    assert bench.verdict(24, 1.6, 1.0) == "no: 1.60 ms above"
    assert bench.verdict(512, 50.0, 1.19) == "yes (stretch)"
    assert bench.verdict(512, 50.0, 1.3) == "yes"
    assert bench.verdict(4096, -1.0, 1.36) == "no: 1.36 times"


def test_a_small_run_measures_both_paths():
    found = BENCHES["objective"](rounds=2, sizes=(12,))
    (row,) = found.rows
    assert row["SVR generic ms"] > 0 and row["SVR dense ms"] > 0
    assert 0 < row["error dense e-7"] < 1e4 and 0 < row["error generic e-7"] < 1e4
    # Two paths of unlike arithmetic: exact agreement would mean that one of them was never taken.
    assert row["error dense e-7"] != row["error generic e-7"]
    assert "SVR dense ms" in found.text() and "supclap bench" in found.markdown("supclap bench objective")
    json.dumps(found.plain())


def test_clip_loss_is_the_published_one():
    clip = bench.clip_loss()
    if clip is None:
        pytest.skip("open_clip is not installed")
    audio, text = (torch.nn.functional.normalize(torch.randn(5, 4), dim=1) for _ in range(2))
    logits = 3.0 * audio @ text.T
    target = torch.arange(5)
    cost = torch.nn.functional.cross_entropy
    want = (cost(logits, target) + cost(logits.T, target)) / 2
    torch.testing.assert_close(clip(audio, text, torch.tensor(3.0)), want)


def test_without_open_clip_a_line_says_so(monkeypatch):
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    found = bench.measure(rounds=2, sizes=(8,))
    assert "not installed" in found.notes[0] and found.rows[0]["goal"] is None
    assert "not installed" in found.text()


def test_the_command(monkeypatch, capsys, tmp_path):
    small = BENCHES["objective"]
    monkeypatch.setitem(BENCHES, "objective", lambda **options: small(sizes=(8,), **options))
    out = tmp_path / "deep" / "result.md"
    threads = torch.get_num_threads()
    assert run(["bench", "objective", "--rounds", "2", "--json", "--threads", str(threads), "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["objective"]["rows"][0]["n"] == 8 and found["objective"]["machine"]["threads"] == threads
    assert f"supclap bench objective --rounds 2 --threads {threads}" in out.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["objectiv"], "did you mean 'objective'"),
        (["objective", "--rounds", "0"], "rounds=0"),
        (["--out", "x.md"], "takes one bench"),
    ],
)
def test_mistakes(words, says, capsys):
    assert run(["bench", *words]) == 2
    assert says in capsys.readouterr().err
