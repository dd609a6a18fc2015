"""The loop: its records, its determinism, what it refuses, and what it does with numbers that are none."""

import dataclasses
import json

import numpy as np
import pytest
import torch

import supclap
from supclap.evaluation.model import evaluate_model
from supclap.schema import Clip, UserError
from supclap.training import checkpoint, loop, records
from supclap.training.loop import resume, train


def weights(folder):
    return checkpoint.load(folder)[0]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def without_times(lines):
    return [{k: v for k, v in line.items() if k not in ("clips_per_s", "wait")} for line in lines]


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, train(tiny(), out=folder)


def test_a_run_is_a_saved_model_with_its_records(finished, corpus):
    folder, run = finished
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "run.json", "environment.json", "records.jsonl", "checkpoints"} <= names
    lines = records.read(folder)
    assert [line["event"] for line in lines] == ["start", *(["step"] * 5 + ["eval"]) * 3, "end"]
    steps = [line for line in lines if line["event"] == "step"]
    assert [line["step"] for line in steps] == list(range(1, 16))
    assert [line["epoch"] for line in steps] == [0] * 5 + [1] * 5 + [2] * 5
    for line in steps:
        parts = line["parts"]
        assert line["loss"] == pytest.approx(parts["base"] + parts["svr"] + 0.01 * parts["constraint"], rel=1e-5)
        assert set(line["radius"]) == {"t2a", "a2t"}
        assert line["clips_per_s"] > 0
    # What was saved is what was scored best: loaded again it scores the same.
    best = max((line for line in lines if line["event"] == "eval"), key=lambda line: line["selected"])
    val = [clip for clip in corpus[0] if clip.split == "val"]
    again = evaluate_model(supclap.load(folder), val)
    assert again["t2a"]["R@1"] == best["scores"]["t2a"]["R@1"] == run.best["t2a"]["R@1"]
    assert again["a2t"]["mAP10"] == pytest.approx(best["scores"]["a2t"]["mAP10"], abs=1e-9)


def test_training_learns(finished):
    steps = [line for line in records.read(finished[0]) if line["event"] == "step"]
    # Fifteen steps of a tiny model: below a constant embedding's 2 ln 8 for the base.
    assert np.mean([line["parts"]["base"] for line in steps[-3:]]) < 2 * np.log(8) - 0.1


def test_the_same_seed_gives_the_same_bits_and_another_does_not(finished, tiny, tmp_path):
    train(tiny(), out=tmp_path / "again")
    train(tiny(seed=1, epochs=1), out=tmp_path / "other")
    assert same(weights(finished[0]), weights(tmp_path / "again"))
    assert without_times(records.read(finished[0])) == without_times(records.read(tmp_path / "again"))
    starts = [records.read(tmp_path / name)[0] for name in ("again", "other")]
    assert starts[0]["weights"] != starts[1]["weights"]
    assert starts[0]["batches"] != starts[1]["batches"]


@pytest.mark.parametrize("objective", ["infonce", "uni-static", "siglip-bi-dynamic"])
def test_an_objective_moves_neither_weights_nor_batches(finished, tiny, tmp_path, objective):
    train(tiny(objective=objective, epochs=1), out=tmp_path / "run")
    one, other = records.read(finished[0]), records.read(tmp_path / "run")
    assert (one[0]["weights"], one[0]["batches"]) == (other[0]["weights"], other[0]["batches"])
    assert [line["batches"] for line in one if line["event"] == "step"][:5] == [
        line["batches"] for line in other if line["event"] == "step"
    ]


def test_first_epoch_is_as_the_start_record_said(finished):
    lines = records.read(finished[0])
    assert lines[0]["batches"] == next(line["batches"] for line in lines if line.get("step") == 5)


def test_callbacks_hear_and_move_nothing(finished, tiny, tmp_path):
    heard = []

    class Ear:
        def on_start(self, state):
            heard.append("start")

        def on_step(self, state, out):
            torch.rand(3)
            heard.append(state.step)
            assert float(out.loss.detach()) == pytest.approx(state.last["loss"])

        def on_eval(self, state, scores):
            heard.append(scores["clips"])

        def on_end(self, state):
            heard.append("end")

    train(tiny(), out=tmp_path / "run", callbacks=[Ear(), object()])
    assert heard == ["start", *range(1, 6), 12, *range(6, 11), 12, *range(11, 16), 12, "end"]
    assert same(weights(finished[0]), weights(tmp_path / "run"))


def test_gradient_cache_in_the_loop_is_the_whole_batch(tiny, tmp_path):
    config = tiny(epochs=1, lr=1e-3)
    train(config, out=tmp_path / "whole")
    train(dataclasses.replace(config, train=dataclasses.replace(config.train, chunk=3)), out=tmp_path / "chunks")
    one, other = ([x for x in records.read(tmp_path / n) if x["event"] == "step"] for n in ("whole", "chunks"))
    assert [x["loss"] for x in one] == pytest.approx([x["loss"] for x in other], rel=2e-4)
    assert one[0]["gradient_norm"] == pytest.approx(other[0]["gradient_norm"], rel=1e-5)


def test_accumulated_batches_make_one_step(tiny, tmp_path):
    run = train(tiny({"train.accumulate": 2}, epochs=1), out=tmp_path / "run")
    # Five batches: two, two, one.
    assert [line["step"] for line in run.records if line["event"] == "step"] == [1, 2, 3]


def test_steps_end_a_run_before_its_epochs(tiny, tmp_path):
    run = train(tiny(steps=7), out=tmp_path / "run")
    assert run.records[-1] == {
        "event": "end",
        "step": 7,
        "best": run.records[-1]["best"],
        "best_step": run.records[-1]["best_step"],
    }
    assert run.records[-2]["event"] == "eval"


# -- frozen towers ---------------------------------------------------------------------------------------------------


def test_frozen_towers_train_from_features_as_from_sounds(tiny, tmp_path):
    frozen = {"train.freeze_audio": True, "train.freeze_text": True, "epochs": 2, "lr": 1e-2}
    cached = train(tiny(frozen), out=tmp_path / "cached")
    plain = train(tiny({**frozen, "train.features": False}), out=tmp_path / "plain")
    one, other = ([x for x in r.records if x["event"] == "step"] for r in (cached, plain))
    assert [x["batches"] for x in one] == [x["batches"] for x in other]
    assert [x["loss"] for x in one] == pytest.approx([x["loss"] for x in other], rel=1e-3)
    assert one[-1]["loss"] < one[0]["loss"]
    names = set(weights(tmp_path / "cached"))
    assert not [name for name in names if name.startswith(("model/model.audio.stages", "model/model.text.blocks"))]


# -- numbers that are none -------------------------------------------------------------------------------------------


class Poison:
    """Breaks one step in its own way, and heals the model after it."""

    def __init__(self, how, at):
        self.how, self.at = how, set(at)

    def on_start(self, state):
        self.state = state
        parameter = next(value for value in state.model.parameters() if value.requires_grad)
        if self.how == "gradient":
            parameter.register_hook(self.hook)
        else:
            forward = state.model.encode_audio
            state.model.encode_audio = lambda batch: (
                forward(batch) * (float("nan") if state.step + 1 in self.at and torch.is_grad_enabled() else 1.0)
            )

    def hook(self, gradient):
        return gradient * float("inf") if self.state.step + 1 in self.at else gradient


@pytest.mark.parametrize("how", ["gradient", "embedding"])
def test_a_step_that_is_not_finite_is_skipped_and_counted(tiny, tmp_path, corpus, how):
    run = train(tiny(), out=tmp_path / "run", callbacks=[Poison(how, [4, 9])])
    skips = [line for line in run.records if line["event"] == "skip"]
    assert [line["step"] for line in skips] == [4, 9]
    assert [line["skipped"] for line in skips] == [1, 2]
    known = {clip.id for clip in corpus[0] if clip.split == "train"}
    assert all(len(line["clips"]) == 8 and set(line["clips"]) <= known for line in skips)
    assert all(value.isfinite().all() for value in weights(tmp_path / "run").values() if value.is_floating_point())
    assert len([line for line in run.records if line["event"] == "step"]) == 13


def test_too_many_of_them_stop_the_run_with_its_state_saved(tiny, tmp_path):
    with pytest.raises(UserError, match="4 of 4 steps.*not finite.*saved"):
        train(tiny(), out=tmp_path / "run", callbacks=[Poison("embedding", range(1, 20))])
    assert checkpoint.load(tmp_path / "run")[1]["step"] == 4


# -- refusals --------------------------------------------------------------------------------------------------------


def test_a_finished_run_is_resumed_without_change(finished):
    folder, run = finished
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = resume(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert again.best == run.best


def test_refusals(finished, tiny, tmp_path, corpus):
    with pytest.raises(UserError, match="run.json"):
        resume(tmp_path)
    with pytest.raises(UserError, match="holds a run already"):
        train(tiny(), out=finished[0])
    with pytest.raises(UserError, match="batch_size=64.*40 clips"):
        train(tiny(batch_size=64), out=tmp_path / "large")
    assert not (tmp_path / "large" / loop.RUN).exists()
    with pytest.raises(UserError, match="triple"):
        train(tiny(objective="cacl"), out=tmp_path / "cacl")
    with pytest.raises(UserError, match="data is missing"):
        train(tiny(data=""), out=tmp_path / "none")


def test_a_changed_table_is_refused_with_the_difference(tiny, tmp_path, corpus):
    clips = list(corpus[0])
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), out=tmp_path / "run", data=clips, callbacks=[Stop(3)])
    other = [
        dataclasses.replace(clips[0], captions=clips[1].captions),
        *clips[2:],
        Clip("new", clips[0].audio, split="val"),
    ]
    with pytest.raises(UserError, match=f"1 gone .{clips[1].id}.*1 new .new.*1 changed .{clips[0].id}"):
        resume(tmp_path / "run", data=other)
    resume(tmp_path / "run", data=clips)


class Stop:
    """Dies in the middle, without a word."""

    def __init__(self, step):
        self.step = step

    def on_step(self, state, out):
        if state.step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("dies", "every"), [(3, None), (7, None), (9, 4), (14, 1)])
def test_what_died_goes_on_bit_for_bit(finished, tiny, tmp_path, dies, every):
    config = tiny({"train.checkpoint_every": every})
    with pytest.raises(KeyboardInterrupt):
        train(config, out=tmp_path / "run", callbacks=[Stop(dies)])
    run = resume(tmp_path / "run")
    assert same(weights(finished[0]), weights(tmp_path / "run"))
    saved = [(folder / "model.safetensors").read_bytes() for folder in (finished[0], tmp_path / "run")]
    assert saved[0] == saved[1]
    kept = 5 * (dies // 5) if every is None else every * ((dies - 1) // every)
    whole = without_times(records.read(finished[0]))
    resumed = [line for line in without_times(run.records) if line["event"] != "resume"]
    assert resumed == whole
    assert [line["step"] for line in run.records if line["event"] == "resume"] == [kept]


def test_unreadable_clips_are_put_aside_and_counted(tiny, tmp_path, corpus):
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"this is no sound")
    clips = [clip for clip in corpus[0] if clip.split != "train"]
    clips += [
        dataclasses.replace(clip, audio=str(bad)) if k == 5 else clip
        for k, clip in enumerate(c for c in corpus[0] if c.split == "train")
    ]
    frozen = {"train.freeze_audio": True, "train.freeze_text": True, "epochs": 1}
    for name, fields in (("decoded", {"epochs": 1}), ("features", frozen)):
        train(tiny(fields), out=tmp_path / name, data=clips)
        assert "bad.wav" in (tmp_path / name / "quarantine.csv").read_text()
        with pytest.raises(UserError, match="bad.wav"):
            train(tiny({**fields, "data.strict": True}), out=tmp_path / f"{name}-strict", data=clips)


def test_records_survive_a_torn_line(tmp_path):
    journal = records.Records(tmp_path)
    journal.write("start", seed=0, value=float("nan"))
    size = journal.size()
    journal.write("step", step=1)
    journal.close()
    with (tmp_path / records.NAME).open("ab") as file:
        file.write(b'{"event": "st')
    assert [line["event"] for line in records.read(tmp_path)] == ["start", "step"]
    assert json.loads((tmp_path / records.NAME).read_bytes().split(b"\n")[0])["value"] is None
    journal = records.Records(tmp_path)
    journal.cut(size)
    journal.write("resume", step=0)
    assert [line["event"] for line in records.read(tmp_path)] == ["start", "resume"]


def test_decoded_sounds_train_the_same_weights(finished, tiny, tmp_path):
    train(tiny({"data.decoded": str(tmp_path / "kept")}), out=tmp_path / "run")
    assert same(weights(finished[0]), weights(tmp_path / "run"))
    assert len(list((tmp_path / "kept").rglob("*.npy"))) == 40


@pytest.mark.filterwarnings("ignore:a text of")  # two captions as one are longer than the small tower reads
def test_buckets_and_augmentation_reach_the_loader(finished, tiny, tmp_path):
    for number, fields in enumerate(({"data.bucket": 2}, {"data.augment.mix": 0.9, "data.augment.shift_seconds": 0.5})):
        train(tiny({**fields, "train.steps": 2}), out=tmp_path / str(number))
        first = [line["loss"] for line in records.read(tmp_path / str(number)) if line["event"] == "step"]
        assert first != [line["loss"] for line in records.read(finished[0]) if line["event"] == "step"][:2]
