"""Checkpoints: whole or not there, whatever moment a process dies at, and bit-identical after restore."""

import errno
import functools
import os
import shutil
import sys

import pytest
import torch
from torch import nn

from supclap.objectives.settings import PRESETS
from supclap.schema import UserError
from supclap.training import checkpoint, records
from supclap.training.optim import OptimSettings


class Dead(BaseException):
    """kill -9, as far as the code under test can tell."""


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.audio = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8))
        self.head = nn.Linear(8, 4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.unused = nn.Linear(2, 2)  # learnable, and no gradient ever reaches it: a tagger's classifier, a pooler

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


def last_breath(work, line):
    """Do the work in a forked child that dies, as by kill -9, when it comes to its n-th line of the write path.

    False where the work was done before: no `finally`, no `except`, nothing is flushed on the way out.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    left = line

    def trace(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.endswith(("training/checkpoint.py", "training/records.py")):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os._exit(9)
        return trace

    try:
        sys.settrace(trace)
        work()
        sys.settrace(None)
        os._exit(0)
    except BaseException:
        os._exit(1)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("before", [0, 1, 2])
def test_death_at_every_line_leaves_a_whole_checkpoint(tmp_path, before):
    """Every line between and around the writes, the first checkpoint too; in a process that is gone at once."""
    both, optimizer = make()
    states = {0: None}
    for step in range(1, before + 2):
        run(both, optimizer, step - 1, step)
        states[step] = checkpoint.capture(both, optimizer)
        if step <= before:
            checkpoint.save(tmp_path / "start", states[step][0], {"step": step})
    tensors, _ = states[before + 1]
    seen, line = set(), 0
    while True:
        folder = tmp_path / f"at{line}"
        if before:
            shutil.copytree(tmp_path / "start", folder)
        if not last_breath(functools.partial(checkpoint.save, folder, tensors, {"step": before + 1}), line):
            break
        found = checkpoint.load(folder)
        seen.add(0 if found is None else found[1]["step"])
        if found is not None:
            assert same(found[0], states[found[1]["step"]][0])
        # And the next one is written over whatever the dead one left behind.
        checkpoint.save(folder, tensors, {"step": before + 1})
        assert checkpoint.load(folder)[1]["step"] == before + 1
        assert not [name for name in os.listdir(folder / "checkpoints") if name.startswith(".")]
        shutil.rmtree(folder)
        line += 1
    assert line >= 25 and seen == {before, before + 1}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_death_in_the_middle_of_a_file(tmp_path, monkeypatch, share):
    both, optimizer = make()
    save(tmp_path, both, optimizer, 1)
    whole = checkpoint.save_file

    def torn(tensors, path):
        whole(tensors, path)
        os.truncate(path, int(os.path.getsize(path) * share))
        raise Dead

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", torn)
        with pytest.raises(Dead):
            save(tmp_path, both, optimizer, 2)
    assert checkpoint.load(tmp_path)[1]["step"] == 1
    save(tmp_path, both, optimizer, 2)
    assert checkpoint.load(tmp_path)[1]["step"] == 2


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_death_at_every_line_of_the_records_cut(tmp_path):
    """Resume cuts the journal back and appends: killed anywhere there, the next resume finds the checkpoint's lines."""
    journal = records.Records(tmp_path)
    journal.write("start", seed=0)
    size = journal.size()
    for step in range(3):
        journal.write("step", step=step)
    journal.close()
    before = (tmp_path / records.NAME).read_bytes()

    def resumed():
        again = records.Records(tmp_path)
        again.cut(size)
        again.write("resume", step=0)
        again.close()

    line = 0
    while last_breath(resumed, line):
        assert (tmp_path / records.NAME).read_bytes()[:size] == before[:size]
        assert records.read(tmp_path)[0]["event"] == "start"
        resumed()
        assert [one["event"] for one in records.read(tmp_path)] == ["start", "resume"]
        (tmp_path / records.NAME).write_bytes(before)
        line += 1
    assert line >= 8


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
