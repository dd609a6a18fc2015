"""`torchrun -m supclap train`: 2 and 4 processes are 1, for every step; one that dies ends all."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import supclap
from supclap.data import manifest
from supclap.data.scenes.write import write
from supclap.settings import read as read_settings
from supclap.training import checkpoint, records
from supclap.training.config import RunConfig

pytestmark = pytest.mark.slow

FIELDS = (
    "audio_tower.channels=[4,8,8,8]", "audio_tower.width=16", "text_tower.width=16", "text_tower.depth=1",
    "text_tower.heads=2", "text_tower.vocabulary=300", "text_tower.max_tokens=96",
    "head.width=16", "batch_size=8", "epochs=2", "device=cpu", "evaluate.limit=7",
    # Adam divides a gradient by its size: at 1e-8 the rounding of one that is zero (a key's bias) would be a step.
    "optim.eps=1e-3",
)  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Clips that speak two languages, so that which caption is drawn matters; 27 do not divide by 8."""
    folder = tmp_path_factory.mktemp("scenes")
    clips = write(folder, 27, 9, 9, seconds=3.0, rate=16000, languages=("eng", "fra"), workers=0)
    return manifest.write(clips, folder / "table.csv")


def start(world, *words):
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)] if world > 1 else []
    command = [sys.executable, *launch, "-m", "supclap", "train", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def done(process):
    out, talk = process.communicate(timeout=300)
    assert process.returncode == 0, talk
    return out


@pytest.fixture(scope="module")
def alone(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("alone") / "run"
    done(start(1, table, "--recipe", "small", "--out", out, *FIELDS))
    return out


@pytest.mark.parametrize("world", [2, 4])
def test_many_processes_are_one(alone, table, tmp_path, world):
    out = tmp_path / "run"
    said = done(start(world, table, "--recipe", "small", "--out", out, *FIELDS))
    assert said.count("\nreport  ") == 1
    one, many = records.read(alone), records.read(out)
    assert (
        [line["event"] for line in many]
        == [line["event"] for line in one]
        == ["start", *(["step"] * 3 + ["eval"]) * 2, "end"]
    )
    assert (one[0]["weights"], one[0]["batches"]) == (many[0]["weights"], many[0]["batches"])
    for mine, theirs in zip(one, many, strict=True):
        if mine["event"] == "step":
            # The same clips, captions and languages in the same rows, and the same numbers.
            assert mine["batches"] == theirs["batches"]
            for name in ("loss", "gradient_norm"):
                assert theirs[name] == pytest.approx(mine[name], rel=1e-5)
            for name in ("parts", "radius", "share"):
                assert theirs[name] == pytest.approx(mine[name], rel=1e-5)
        if mine["event"] == "eval":
            assert theirs["scores"] == mine["scores"]
    (left, _), (right, _) = checkpoint.load(alone), checkpoint.load(out)
    for name in left:
        if name.startswith("model/"):
            torch.testing.assert_close(right[name], left[name], rtol=1e-5, atol=1e-5)
    assert supclap.load(out).embed_text(["a dog barks"]).shape == (1, 16)
    # One process and many may follow each other.
    assert done(start(world, "--resume", out)).count("best    step") == 1


def follows(whole, out):
    """Step by step the batches and numbers of the run left alone, over the change of processes."""
    one, many = ([line for line in records.read(folder) if line["event"] == "step"] for folder in (whole, out))
    assert [line["batches"] for line in many] == [line["batches"] for line in one]
    assert [line["loss"] for line in many] == pytest.approx([line["loss"] for line in one], rel=1e-4)


def test_a_signal_to_torchrun_saves_and_one_process_goes_on_in_mid_epoch(alone, table, tmp_path):
    """And what one process left in mid-epoch, two take up."""
    out = tmp_path / "run"
    # Slow enough that a signal finds it in the middle of an epoch.
    process = start(2, table, "--recipe", "small", "--out", out, *FIELDS, "train.checkpoint_every=1")
    until = time.monotonic() + 240
    while not any(line.get("step", 0) >= 1 for line in records.read(out)):
        assert time.monotonic() < until and process.poll() is None, process.communicate()[1]
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    _, talk = process.communicate(timeout=120)
    assert process.returncode != 0 and "--resume" in talk, talk
    # torchrun speaks of the signal in its own words; the run says one thing.
    state = checkpoint.load(out)[1]
    assert state["step"] == records.last(records.read(out), "step")["step"] < 6
    done(start(1, "--resume", out))
    follows(alone, out)


class Dies:
    def on_step(self, state, out):
        if state.step == 2:
            raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:a text of")
def test_two_processes_take_up_what_one_left_in_mid_epoch(alone, table, tmp_path):
    config = read_settings(RunConfig, alone / "run.json")
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, checkpoint_every=1))
    with pytest.raises(KeyboardInterrupt):
        supclap.train(config, out=tmp_path / "run", callbacks=[Dies()])
    assert checkpoint.load(tmp_path / "run")[1]["step"] == 1
    done(start(2, "--resume", tmp_path / "run"))
    follows(alone, tmp_path / "run")


def test_accelerate_launch_is_torchrun(alone, table, tmp_path):
    """Its several-GPU launcher starts processes as torchrun does; `device=cpu` keeps them off the GPU."""
    out = tmp_path / "run"
    launch = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]  # fmt: skip
    words = ["-m", "supclap", "train", table, "--recipe", "small", "--out", out, *FIELDS]
    command = [sys.executable, "-m", *launch, *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert json.loads((out / "environment.json").read_text())["processes"] == 2
    follows(alone, out)


def test_one_that_dies_ends_all_with_a_reason(table, tmp_path):
    out = tmp_path / "run"
    process = start(2, table, "--recipe", "small", "--out", out, *FIELDS, "epochs=400")
    until = time.monotonic() + 180
    while not any(line.get("step", 0) >= 4 for line in records.read(out)):
        # The first epoch's checkpoint lies between its third step and the fourth.
        assert time.monotonic() < until and process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    assert len(children) == 2
    began = time.monotonic()
    os.kill(int(children[1]), signal.SIGKILL)
    _, talk = process.communicate(timeout=60)
    assert process.returncode != 0
    assert time.monotonic() - began < 60
    assert "SIGKILL" in talk or "Signal 9" in talk
    # What was saved goes on, in one process.
    state = checkpoint.load(out)[1]
    assert state["step"] >= 3
