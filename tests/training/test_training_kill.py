"""The real thing: `supclap train` in a process of its own, killed from outside, then resumed."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from supclap.training import checkpoint, records

pytestmark = pytest.mark.slow

FIELDS = (
    "audio_tower.channels=[4,8,8,8]", "audio_tower.width=16", "text_tower.width=16", "text_tower.depth=1",
    "text_tower.heads=2", "text_tower.vocabulary=300", "text_tower.max_tokens=128",
    "head.width=16", "batch_size=8", "epochs=8", "device=cpu",
    "train.checkpoint_every=3",
)  # fmt: skip


def start(*words):
    command = [sys.executable, "-m", "supclap", "train", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def begin(table, out):
    return start(table, "--recipe", "small", "--out", out, *FIELDS)


def done(process):
    out, talk = process.communicate(timeout=300)
    assert process.returncode == 0, talk
    return out


def wait_for_step(process, folder, step):
    until = time.monotonic() + 120
    while time.monotonic() < until:
        ended = process.poll() is not None
        if any(line.get("step", 0) >= step for line in records.read(folder)):
            return
        if ended:
            break
        time.sleep(0.002)
    pytest.fail(f"step {step} was never reached: {process.communicate()[1]}")


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    done(begin(corpus[1], folder))
    return folder


def assert_same(one, other):
    (tensors, state), (others, other_state) = checkpoint.load(one), checkpoint.load(other)
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)
    assert {**state, "records": 0} == {**other_state, "records": 0}
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


@pytest.mark.parametrize("step", [2, 17, 33])
def test_kill_9_then_resume_is_the_run_left_alone(alone, corpus, tmp_path, step):
    process = begin(corpus[1], tmp_path / "run")
    wait_for_step(process, tmp_path / "run", step)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done(start("--resume", tmp_path / "run"))
    assert_same(alone, tmp_path / "run")
    done(start("--resume", tmp_path / "run"))
    assert_same(alone, tmp_path / "run")


@pytest.mark.promise
@pytest.mark.parametrize("point", range(20))
def test_kill_9_at_twenty_random_points(alone, corpus, tmp_path, point):
    """From before the first step to behind the last, twice in one run: the resumed run is killed as well."""
    draw = random.Random(point)
    first, second = sorted(draw.sample(range(40), 2))
    process = begin(corpus[1], tmp_path / "run")
    for step in (first, second):
        wait_for_step(process, tmp_path / "run", step)
        time.sleep(draw.uniform(0, 0.15))
        process.kill()
        process.communicate()
        if step == first:
            process = start("--resume", tmp_path / "run")
    done(start("--resume", tmp_path / "run"))
    assert_same(alone, tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_exits(alone, corpus, tmp_path, number):
    process = begin(corpus[1], tmp_path / "run")
    wait_for_step(process, tmp_path / "run", 10)
    process.send_signal(number)
    _, talk = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert "supclap train --resume" in talk
    assert "Traceback" not in talk
    stopped = checkpoint.load(tmp_path / "run")[1]["step"]
    # Nothing is lost: the last step of the journal is the one that was saved.
    assert stopped == records.last(records.read(tmp_path / "run"), "step")["step"] >= 10
    out = json.loads(done(start("--resume", tmp_path / "run", "--json")))
    assert out["best_step"] is not None
    assert_same(alone, tmp_path / "run")
