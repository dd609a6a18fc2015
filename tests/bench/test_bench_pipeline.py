"""The pipeline bench on a small tower: it measures waiting, and sees a slow loader."""

import importlib
import time

import pytest
import torch

from supclap.bench.pipeline import measure, pipeline, write_clips

pytest.importorskip("soundfile")
# The package names the function as its file.
module = importlib.import_module("supclap.bench.pipeline")


class Tower(torch.nn.Linear):
    sample_rate = 8000

    def __init__(self):
        super().__init__(1, 4)

    def forward(self, samples, lengths):
        return super().forward(samples.mean(1, keepdim=True))


def test_a_row_for_each_format_and_number_of_workers(monkeypatch):
    monkeypatch.setattr(module, "CLIPS", 24)
    monkeypatch.setattr(module, "SECONDS", 0.2)
    result = pipeline(batches=2, build=Tower)
    assert [(row["files"], row["workers"]) for row in result.rows] == [("flac", 0), ("flac", 1), ("ogg", 0), ("ogg", 1)]
    for row in result.rows:
        whole = row["ms waiting a batch"] + row["ms a step"]
        assert row["% of the time waiting"] == pytest.approx(100 * row["ms waiting a batch"] / whole)


def test_a_slow_loader_shows_as_waiting(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "CLIPS", 24)
    monkeypatch.setattr(module, "SECONDS", 0.1)
    clips = write_clips(tmp_path, "flac")
    monkeypatch.setattr("supclap.data.sample.read", lambda *_: time.sleep(0.02) or torch.zeros(800).numpy())
    wait, _ = measure(Tower(), clips, 0, 2, 0)
    assert wait >= 8 * 20
