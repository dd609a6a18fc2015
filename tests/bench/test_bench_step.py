"""The step bench compares whole training steps that differ in their objective alone; no test asserts a time."""

import functools
import importlib
import json

import pytest
import torch

from supclap.bench import BENCHES, timing
from supclap.encoders.ced import CedSettings
from supclap.schema import UserError

bench = importlib.import_module("supclap.bench.step")


def test_a_small_run_prints_every_objective_beside_infonce():
    found = BENCHES["step"](rounds=2, sizes=("heads",), device="cpu")
    assert [row["objective"] for row in found.rows] == list(bench.objectives())
    first = found.rows[0]
    assert (first["more %"], first["low"], first["high"]) == (0, 0, 0)
    for row in found.rows:
        assert row["ms"] > 0 and row["low"] <= row["more %"] <= row["high"] and row["rounds"] == 2
    assert "more %" in found.text() and "bi-Dynamic" in found.markdown("supclap bench step")
    json.dumps(found.plain())


@pytest.mark.parametrize("name", ["heads", "small", "paper"])
def test_what_is_timed_is_a_step_that_learns(name, monkeypatch):
    """Everything that takes part moves, a radius too; the radii of other objectives do not."""
    shape = bench.Sonar(rows=300, width=32, layers=2, heads=2, hidden=64)
    monkeypatch.setattr(bench, "Sonar", lambda: shape)
    monkeypatch.setattr(bench, "CedSettings", functools.partial(CedSettings, width=24, depth=1, heads=2))
    timed = bench._Bench(name, torch.device("cpu"))
    before = [value.detach().clone() for value in timed.model.parameters()]
    radii = {kind: [v.detach().clone() for v in one.parameters()] for kind, one in timed.objectives.items()}
    timed._step(timed.objectives["bi-Dynamic"], "fp32")()
    moved = [
        inner
        for (inner, value), old in zip(timed.model.named_parameters(), before, strict=True)
        if not torch.equal(value, old)
    ]
    still = {inner for inner, _ in timed.model.named_parameters()} - set(moved)
    # The model's own scale belongs to a trainer that uses it; CED's tagger is no part of an embedding. The shift of a
    # key moves no attention.
    assert {inner for inner in still if "outputlayer" not in inner and "k_proj.bias" not in inner} == {
        "log_scale",
        "offset",
    }
    for kind, old in radii.items():
        same = [torch.equal(a, b) for a, b in zip(timed.objectives[kind].parameters(), old, strict=True)]
        assert not any(same) if kind == "bi-Dynamic" else all(same)


def test_the_papers_text_tower_is_sonars_encoder():
    with torch.device("meta"):
        whole = bench.SonarShape(bench.Sonar())
    assert sum(value.numel() for value in whole.parameters()) == pytest.approx(766e6, rel=0.01)
    small = bench.SonarShape(bench.Sonar(rows=300, width=32, layers=2, heads=2, hidden=64)).eval()
    tokens = bench._tokens(4, 300, torch.Generator().manual_seed(0))
    rows = small(**tokens)
    assert rows.shape == (4, 32)
    # What stands behind a text's end is not read.
    tokens["input_ids"] = torch.where(tokens["attention_mask"] > 0, tokens["input_ids"], 2)
    torch.testing.assert_close(small(**tokens), rows)


def test_a_skipped_step_is_not_timed():
    timed = bench._Bench("heads", torch.device("cpu"))
    timed.batch.audio_features[0] = torch.nan
    with pytest.raises(UserError, match="skipped .*input is not finite"):
        timed._step(timed.objectives["InfoNCE"], "fp32")()


def test_an_unknown_size():
    with pytest.raises(UserError, match="size='papre'.*did you mean 'paper'"):
        bench.measure(2, sizes=("papre",), device="cpu")


def test_the_interval_covers_the_median_as_often_as_it_says():
    draw = torch.Generator().manual_seed(0)
    for count, least in ((9, 0.95), (21, 0.95), (61, 0.95)):
        # Skewed, as times are: the median of an exponential is ln 2.
        rounds = torch.empty(4000, count).exponential_(generator=draw).tolist()
        inside = [low <= 0.6931 <= high for low, high in map(timing.middle, rounds)]
        assert least - 0.012 < sum(inside) / 4000 < 0.99
    assert timing.middle([3.0, 1.0, 2.0]) == (1.0, 3.0)


@pytest.mark.gpu
def test_on_a_gpu_in_both_precisions():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    found = bench.measure(2, sizes=("heads", "small"), device="cuda")
    assert {row["precision"] for row in found.rows} == {"fp32", "bf16"}
    assert all(row["peak MB"] > 0 for row in found.rows)
