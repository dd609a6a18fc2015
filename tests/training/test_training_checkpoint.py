"""Checkpoints: whole or not there, whatever moment a process dies at, and bit-identical after restore."""

import errno
import os
import shutil

import pytest
import torch
from torch import nn

from supclap.objectives.settings import PRESETS
from supclap.schema import UserError
from supclap.training import checkpoint
from supclap.training.optim import OptimSettings


class Dead(BaseException):
    """kill -9, as far as the code under test can tell."""


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.audio = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8))
        self.head = nn.Linear(8, 4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x):
        return self.frozen(self.head(self.audio(x)))


def make(seed=0, preset="siglip-bi-dynamic"):
    torch.manual_seed(seed)
    model, objective = Pair(), PRESETS[preset].build()
    torch.manual_seed(7)
    with torch.no_grad():
        for value in model.frozen.parameters():
            value.fill_(0.3)
    both = nn.ModuleDict({"model": model, "objective": objective})
    optimizer = OptimSettings(name="adamw", lr=1e-2, weight_decay=0.1, radius_lr=0.05).build(model, objective)
    return both, optimizer


def run(both, optimizer, first, last):
    for step in range(first, last):
        draw = torch.Generator().manual_seed(step)
        audio, text = both["model"](torch.randn(12, 6, generator=draw)), torch.randn(12, 4, generator=draw)
        optimizer.zero_grad()
        both["objective"](audio, text).loss.backward()
        optimizer.step()


def bits(both):
    return {name: value.clone() for name, value in both.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def save(folder, both, optimizer, step):
    tensors, plain = checkpoint.capture(both, optimizer)
    checkpoint.save(folder, tensors, {"step": step, "optimizer": plain})


def test_restored_state_goes_on_bit_for_bit(tmp_path):
    both, optimizer = make()
    run(both, optimizer, 0, 5)
    save(tmp_path, both, optimizer, 5)
    run(both, optimizer, 5, 11)
    other, its_optimizer = make(seed=99)
    tensors, state = checkpoint.load(tmp_path)
    checkpoint.restore(other, its_optimizer, tensors, state["optimizer"])
    assert not same(bits(both), bits(other))
    run(other, its_optimizer, 5, 11)
    assert same(bits(both), bits(other))


def test_frozen_parameters_are_not_written(tmp_path):
    both, optimizer = make()
    tensors, _ = checkpoint.capture(both, optimizer)
    assert not [name for name in tensors if "frozen" in name]
    assert [name for name in tensors if "running_mean" in name]


def test_death_at_every_write_leaves_a_whole_checkpoint(tmp_path, monkeypatch):
    """Every call of the write path dies in turn, before it acts; what load() finds is the old or the new, whole."""
    both, optimizer = make()
    states = {}
    for step in (1, 2):
        run(both, optimizer, step - 1, step)
        save(tmp_path / "start", both, optimizer, step)
        states[step] = checkpoint.capture(both, optimizer)[0]
    run(both, optimizer, 2, 3)
    states[3] = checkpoint.capture(both, optimizer)[0]
    points = [(os, "rename"), (checkpoint, "fsync"), (checkpoint, "save_file"), (shutil, "rmtree"), (os, "mkdir")]
    counted = {"left": None, "calls": 0}

    def dying(real):
        def call(*args, **kwargs):
            counted["calls"] += 1
            if counted["left"] is not None:
                counted["left"] -= 1
                if counted["left"] < 0:
                    raise Dead
            return real(*args, **kwargs)

        return call

    for owner, name in points:
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))
    shutil.copytree(tmp_path / "start", tmp_path / "count")
    counted["calls"] = 0
    save(tmp_path / "count", both, optimizer, 3)
    calls, seen = counted["calls"], set()
    assert calls >= 9
    for dies_at in range(calls):
        run_folder = tmp_path / f"at{dies_at}"
        counted["left"] = None
        shutil.copytree(tmp_path / "start", run_folder)
        counted["left"] = dies_at
        with pytest.raises(Dead):
            save(run_folder, both, optimizer, 3)
        counted["left"] = None
        tensors, state = checkpoint.load(run_folder)
        seen.add(state["step"])
        assert state["step"] in (2, 3)
        assert same(tensors, states[state["step"]])
        # And the next save works, over whatever the dead one left behind.
        save(run_folder, both, optimizer, 3)
        assert checkpoint.load(run_folder)[1]["step"] == 3
        assert sorted(os.listdir(run_folder / "checkpoints")) == ["last", "previous"]
    assert seen == {2, 3}


def test_torn_file_under_the_temporary_name_is_never_read(tmp_path):
    both, optimizer = make()
    save(tmp_path, both, optimizer, 1)
    torn = tmp_path / "checkpoints" / ".new"
    torn.mkdir()
    (torn / "tensors.safetensors").write_bytes(b"half")
    assert checkpoint.load(tmp_path)[1]["step"] == 1
    save(tmp_path, both, optimizer, 2)
    assert checkpoint.load(tmp_path)[1]["step"] == 2


def test_full_disk_keeps_the_last_one_and_says_so(tmp_path, monkeypatch):
    both, optimizer = make()
    save(tmp_path, both, optimizer, 1)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UserError, match="disk is full; the checkpoint before it is kept .*last"):
        save(tmp_path, both, optimizer, 2)
    assert checkpoint.load(tmp_path)[1]["step"] == 1
    assert os.listdir(tmp_path / "checkpoints") == ["last"]


def test_refusals(tmp_path):
    assert checkpoint.load(tmp_path) is None
    both, optimizer = make()
    checkpoint.save(tmp_path, checkpoint.capture(both, optimizer)[0], {"format": 99})
    with pytest.raises(UserError, match="newer"):
        checkpoint.load(tmp_path)
    other, its_optimizer = make(preset="infonce")
    tensors, plain = checkpoint.capture(both, optimizer)
    with pytest.raises(UserError, match="does not fit"):
        checkpoint.restore(other, its_optimizer, tensors, plain)
