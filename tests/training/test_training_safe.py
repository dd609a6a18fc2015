"""What may go wrong around a run: no room, two at once, a file that goes, a worker that dies, a folder that moves."""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import resource
import shutil
import signal
import time

import pytest
import torch

from supclap.cli import train as door
from supclap.data import quarantine
from supclap.encoders.dual import DualModel
from supclap.schema import UserError
from supclap.training import checkpoint, lock, loop, records
from supclap.training.loop import resume, train
from supclap.training.processes import Team


class At:
    """Does something once, after a step."""

    def __init__(self, step, do):
        self.step, self.do = step, do

    def on_step(self, state, out):
        if state.step == self.step:
            self.step = None
            self.do(state)


def die(state):
    raise KeyboardInterrupt


@contextlib.contextmanager
def limited():
    """No file may grow beyond what `set(bytes)` says: the disk refuses, with errno and all, as a full one does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(tiny({"train.checkpoint_every": 2}, epochs=2), out=folder)
    return folder


def assert_same(one, other):
    (tensors, state), (others, other_state) = checkpoint.load(one), checkpoint.load(other)
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)
    # A checkpoint may stand before or after the evaluation of its step; what that found is in the last line below.
    rest = dict.fromkeys(("records", "evaluated", "best", "best_step", "stale"))
    assert {**state, **rest} == {**other_state, **rest}
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    lines = [
        [
            {key: value for key, value in line.items() if key not in ("clips_per_s", "wait")}
            for line in records.read(folder)
            if line["event"] != "resume"
        ]
        for folder in (one, other)
    ]
    assert lines[0] == lines[1]


# -- no room ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["checkpoint", "model", "records"])
def test_a_disk_that_refuses_keeps_the_checkpoint_before(whole, tiny, tmp_path, what):
    """The system itself refuses, so that libraries fail as they do (safetensors: an error that is no OSError)."""
    room = {
        "checkpoint": lambda state: 10_000,
        # The evaluation after step 5: the vocabulary fits, the weights do not.
        "model": lambda state: (whole / "model.safetensors").stat().st_size - 1000,
        "records": lambda state: (state.out / records.NAME).stat().st_size + 50,
    }[what]
    step = {"checkpoint": 5, "model": 5, "records": 7}[what]
    config = tiny({"train.checkpoint_every": 4 if what == "model" else 2}, epochs=2)
    with limited() as limit, pytest.raises(UserError, match="file is too large.*before it is kept.*--resume"):
        train(config, out=tmp_path / "run", callbacks=[At(step, lambda state: limit(room(state)))])
    kept = checkpoint.load(tmp_path / "run")[1]["step"]
    assert kept == {"checkpoint": 4, "model": 4, "records": 6}[what]
    hidden = [path.name for path in (tmp_path / "run").rglob(".*")]
    assert not hidden
    resume(tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_full_disk_is_known_by_its_number():
    assert checkpoint.no_room(OSError(28, "No space left on device")) == "the disk is full"
    assert checkpoint.no_room(Exception("I/O error: No space left on device (os error 28)")) == "the disk is full"
    assert checkpoint.no_room(Exception("I/O error (os error 5)")) is None
    assert checkpoint.no_room(OSError(2, "No such file")) is None


# -- who else is there -----------------------------------------------------------------------------------------------


def test_two_cannot_train_into_one_folder(whole, tiny, tmp_path):
    said = []

    def other(state):
        with pytest.raises(UserError, match="another process trains into it") as found:
            resume(state.out)
        said.append(str(found.value))

    config = tiny({"train.checkpoint_every": 2}, epochs=2)
    train(config, out=tmp_path / "run", callbacks=[At(3, other)])
    assert said
    assert_same(whole, tmp_path / "run")
    assert not [path for path in (tmp_path / "run").iterdir() if "lock" in path.name]


def test_workers_that_outlive_a_killed_run_hold_no_lock(tmp_path):
    ready, tell = os.pipe()
    with lock.locked(tmp_path, Team()):
        child = os.fork()
        if child == 0:
            os.write(tell, b"!")
            time.sleep(60)
            os._exit(0)
    try:
        os.read(ready, 1)
        with lock.locked(tmp_path, Team()):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)


def test_two_cannot_begin_in_one_folder(tiny, tmp_path, monkeypatch):
    """The second comes while the first still prepares: run.json is not there yet."""
    build = loop.setup.build

    def prepares(config, clips, **more):
        monkeypatch.setattr(loop.setup, "build", build)
        with pytest.raises(UserError, match="another process trains into it"):
            train(config, out=tmp_path / "run")
        return build(config, clips, **more)

    monkeypatch.setattr(loop.setup, "build", prepares)
    train(tiny(steps=1), out=tmp_path / "run")


# -- what is gone ----------------------------------------------------------------------------------------------------


@pytest.fixture
def loose(corpus, tmp_path):
    """The corpus with files of its own, that a test may delete."""
    folder = tmp_path / "sounds"
    folder.mkdir()
    clips = []
    for clip in corpus[0]:
        path = folder / os.path.basename(clip.audio)
        shutil.copyfile(clip.audio, path)
        clips.append(dataclasses.replace(clip, audio=str(path)))
    return clips


@pytest.mark.parametrize("workers", [0, 1])
def test_clips_deleted_mid_run_are_put_aside_and_batches_stay_full(tiny, tmp_path, loose, workers, capsys):
    gone = [clip for clip in loose if clip.split == "train"][:3]
    gone += [clip for clip in loose if clip.split == "val"][:1]

    def delete(state):
        for clip in gone:
            os.unlink(clip.audio)

    run = train(
        tiny({"data.workers": workers}, batch_size=4, epochs=2),
        out=tmp_path / "run",
        data=loose,
        callbacks=[At(10, delete)],
    )
    aside = {row.clip_id for row in quarantine.read(tmp_path / "run" / "quarantine.csv")}
    assert {clip.id for clip in gone[:3]} <= aside
    steps = [line for line in run.records if line["event"] == "step"]
    # 40 clips are ten batches of 4, 37 are nine.
    assert [line["epoch"] for line in steps] == [0] * 10 + [1] * 9
    evals = [line["scores"]["clips"] for line in run.records if line["event"] == "eval"]
    assert evals == [11, 11]
    door._summary(run, json=False)
    assert f"aside   {len(aside)} clips could not be read; why: " in capsys.readouterr().out
    door._summary(run, json=True)
    assert json.loads(capsys.readouterr().out)["quarantined"] == len(aside) >= 3


@pytest.mark.parametrize(("workers", "dies"), [(0, 3), (0, 6), (1, 4)])
def test_resume_after_many_clips_were_put_aside_is_the_run_left_alone(tiny, tmp_path, loose, workers, dies):
    """So many that rows passed over are more than a batch: where an epoch stands is not what was read of it."""
    for clip in [clip for clip in loose if clip.split == "train"][:18]:
        with open(clip.audio, "wb") as file:
            file.write(b"no sound")
    config = tiny({"train.checkpoint_every": 1, "data.workers": workers}, batch_size=4, epochs=2)
    train(config, out=tmp_path / "whole", data=loose)
    with pytest.raises(KeyboardInterrupt):
        train(config, out=tmp_path / "run", data=loose, callbacks=[At(dies, die)])
    resume(tmp_path / "run", data=loose)
    assert_same(tmp_path / "whole", tmp_path / "run")


def test_a_worker_that_is_killed_ends_the_run_with_the_reason(whole, tiny, tmp_path):
    began = []

    def kill(state):
        began.append(time.monotonic())
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)

    fields = {"train.checkpoint_every": 2, "data.workers": 1}
    with pytest.raises(UserError, match="a worker died.*fewer workers"):
        train(tiny(fields, epochs=2), out=tmp_path / "run", callbacks=[At(3, kill)])
    assert time.monotonic() - began[0] < 60
    assert checkpoint.load(tmp_path / "run")[1]["step"] == 2
    resume(tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_workers_leave_signals_to_the_run(whole, tiny, tmp_path):
    """Ctrl-C and a scheduler's SIGTERM reach every process of a group: workers must outlive them."""

    def both(state):
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGINT)
            os.kill(child.pid, signal.SIGTERM)
        time.sleep(0.3)

    fields = {"train.checkpoint_every": 2, "data.workers": 1}
    train(tiny(fields, epochs=2), out=tmp_path / "run", callbacks=[At(3, both)])
    assert_same(whole, tmp_path / "run")
    assert not multiprocessing.active_children()


# -- what has changed ------------------------------------------------------------------------------------------------


def stopped(config, folder, step=3, **more):
    with pytest.raises(KeyboardInterrupt):
        train(config, out=folder, callbacks=[At(step, die)], **more)


def test_a_moved_folder_goes_on(whole, tiny, tmp_path):
    stopped(tiny({"train.checkpoint_every": 2}, epochs=2), tmp_path / "run")
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    resume(tmp_path / "elsewhere")
    assert_same(whole, tmp_path / "elsewhere")


def test_a_run_of_a_newer_version_says_so(tiny, tmp_path):
    stopped(tiny({"train.checkpoint_every": 1}, epochs=2), tmp_path)
    held = json.loads((tmp_path / "run.json").read_text())
    held["train"]["sharpness"] = 3
    (tmp_path / "run.json").write_text(json.dumps(held))
    with pytest.raises(UserError, match=r"run.json.*sharpness.*unknown"):
        resume(tmp_path)
    made = json.loads((tmp_path / "environment.json").read_text())
    made["packages"]["supclap"] = "77.0"
    (tmp_path / "environment.json").write_text(json.dumps(made))
    with pytest.raises(UserError, match=r"sharpness.*the run is of supclap 77.0, this is .*resume it with 77.0"):
        resume(tmp_path)
    state = tmp_path / "checkpoints" / "last" / "state.json"
    del held["train"]["sharpness"]
    (tmp_path / "run.json").write_text(json.dumps(held))
    state.write_text(json.dumps({**json.loads(state.read_text()), "format": 99}))
    with pytest.raises(UserError, match="format 99 is newer"):
        resume(tmp_path)


@pytest.mark.parametrize("file", ["state.json", "tensors.safetensors"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_goes_on(whole, tiny, tmp_path, file):
    stopped(tiny({"train.checkpoint_every": 2}, epochs=2), tmp_path / "run", step=7)
    last = tmp_path / "run" / "checkpoints" / "last"
    (last / file).write_bytes((last / file).read_bytes()[:100])
    with pytest.raises(UserError, match="last: damaged.*delete it"):
        resume(tmp_path / "run")
    shutil.rmtree(last)
    resume(tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_records_that_were_cut_by_hand_are_refused(tiny, tmp_path):
    stopped(tiny({"train.checkpoint_every": 2}, epochs=2), tmp_path)
    (tmp_path / records.NAME).write_text("")
    with pytest.raises(UserError, match="records.jsonl: shorter than at the last checkpoint"):
        resume(tmp_path)


# -- between two moments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before scores", "after scores", "before weights", "after weights", "before end"])
def test_killed_around_an_evaluation_the_run_is_the_one_left_alone(whole, tiny, tmp_path, monkeypatch, when):
    with monkeypatch.context() as patch:
        evaluate, save, end = loop.validate.scores, DualModel.save, records.Records.write

        def scores(*args, **kwargs):
            if when == "before scores":
                raise KeyboardInterrupt
            found = evaluate(*args, **kwargs)
            if when == "after scores":
                raise KeyboardInterrupt
            return found

        def weights(model, folder):
            if when == "before weights":
                # Half a folder: its description without its weights.
                (folder / "config.json").write_text("{}")
                raise KeyboardInterrupt
            save(model, folder)
            if when == "after weights":
                raise KeyboardInterrupt

        def write(journal, event, **fields):
            if when == "before end" and event == "end":
                raise KeyboardInterrupt
            return end(journal, event, **fields)

        patch.setattr(loop.validate, "scores", scores)
        patch.setattr(DualModel, "save", weights)
        patch.setattr(records.Records, "write", write)
        with pytest.raises(KeyboardInterrupt):
            train(tiny({"train.checkpoint_every": 2}, epochs=2), out=tmp_path / "run")
    resume(tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_killed_while_features_are_made_the_same_command_goes_on(tiny, tmp_path, monkeypatch):
    """No run.json yet: nothing to resume, nothing in the way; what was heard is not heard again."""
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    config = tiny({"train.freeze_audio": True, "train.freeze_text": True}, epochs=1)
    made = loop.setup.tower_features

    def killed(*args, **kwargs):
        made(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop.setup, "tower_features", killed)
        with pytest.raises(KeyboardInterrupt):
            train(config, out=tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()
    with pytest.raises(UserError, match="no run.json"):
        resume(tmp_path / "run")
    again = train(config, out=tmp_path / "run")
    alone = train(config, out=tmp_path / "alone")
    assert_same(again.path, alone.path)
