"""When a run stops early, which sets it is scored on, what it is tracked by, and what is done to its clips."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch

import supclap
from supclap.data import manifest
from supclap.encoders.small import SmallAudioSettings
from supclap.evaluation.model import evaluate_model
from supclap.schema import UserError
from supclap.training import loop, records, setup, tracking, validate
from supclap.training.loop import resume, train
from supclap.training.masking import MaskSettings


@pytest.fixture
def falling(monkeypatch):
    """Every evaluation after the second one is worse."""
    seen = iter([10.0, 20.0, *([5.0] * 50)])
    monkeypatch.setattr(validate, "selection", lambda found: next(seen))


def test_a_run_stops_when_nothing_better_comes(falling, tiny, tmp_path):
    train(tiny({"evaluate.patience": 2}, epochs=9), out=tmp_path / "run")
    lines = records.read(tmp_path / "run")
    evals = [line["step"] for line in lines if line["event"] == "eval"]
    assert evals == [5, 10, 15, 20]
    end = lines[-1]
    assert (end["step"], end["best_step"]) == (20, 10)
    assert "2 evaluations" in end["stopped"]
    assert resume(tmp_path / "run").best == lines[12]["scores"]


def test_patience_survives_a_kill(falling, tiny, tmp_path):
    train(tiny({"evaluate.patience": 2}, epochs=9), out=tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "last")
    journal = tmp_path / "run" / records.NAME
    journal.write_bytes(journal.read_bytes().rsplit(b'{"event": "end"', 1)[0])
    # From step 15 on: one evaluation without a better one has been, one more ends it.
    resume(tmp_path / "run")
    assert records.read(tmp_path / "run")[-1]["step"] == 20


def test_several_validation_sets_are_scored_and_one_selects(tiny, corpus, tmp_path):
    other = [dataclasses.replace(clip, split=None) for clip in corpus[0] if clip.split == "test"][:6]
    table = manifest.write(other, tmp_path / "others.csv")
    fields = {"evaluate.also": [str(table)], "evaluate.select_on": "others"}
    run = train(tiny(fields, epochs=1), out=tmp_path / "run")
    line = next(line for line in run.records if line["event"] == "eval")
    assert line["split"] == "others"
    assert line["scores"]["clips"] == 6
    assert set(line["also"]) == {"val"}
    assert line["also"]["val"]["clips"] == 12
    assert line["selected"] == pytest.approx((line["scores"]["t2a"]["R@1"] + line["scores"]["a2t"]["R@1"]) / 2)
    model = supclap.load(tmp_path / "run")
    assert evaluate_model(model, other)["t2a"]["MRR"] == pytest.approx(line["scores"]["t2a"]["MRR"])
    # The further set is part of what a run began with.
    manifest.write(other[:5], tmp_path / "others.csv")
    journal = tmp_path / "run" / records.NAME
    journal.write_bytes(journal.read_bytes().rsplit(b'{"event": "end"', 1)[0])
    with pytest.raises(UserError, match="1 gone"):
        resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"evaluate.select_on": "vall"}, "did you mean 'val'"),
        ({"evaluate.also": ["a/x.csv", "b/x.csv"]}, "called 'x'"),
        ({"evaluate.also": ["val.csv"]}, "called 'val'"),
        ({"train.track": ["tensorbord"]}, "track"),
        ({"data.share": 0}, "data.share"),
        ({"train.mask.time_share": 1}, "train.mask.time_share"),
    ],
)
def test_mistakes_are_said(tiny, fields, words):
    with pytest.raises(UserError, match=words):
        tiny(fields)


def test_a_share_is_nested_and_the_same_for_every_seed(tiny):
    def kept(share, seed=0):
        return [clip.id for clip in setup.splits(tiny({"data.share": share}, seed=seed))["train"]]

    quarter, half, whole = kept(0.25), kept(0.5), kept(1.0)
    assert (len(quarter), len(half), len(whole)) == (10, 20, 40)
    assert set(quarter) < set(half) < set(whole)
    assert half == [name for name in whole if name in set(half)] == kept(0.5, seed=3)
    assert half != whole[:20]
    # A limit comes first: what a curve draws its shares from.
    limited = setup.splits(tiny({"data.share": 0.5, "data.limit": 12}))["train"]
    assert len(limited) == 6
    assert {clip.id for clip in limited} < set(whole[:12])


# -- tracking --------------------------------------------------------------------------------------------------------


def test_tensorboard_holds_every_step_and_score(tiny, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train(tiny({"train.track": ["tensorboard"]}, epochs=1), out=tmp_path / "run")
    held = EventAccumulator(str(tmp_path / "run" / tracking.FOLDER / "run"))
    held.Reload()
    steps = [line for line in run.records if line["event"] == "step"]
    scalars = held.Scalars("train/loss")
    assert [one.step for one in scalars] == [line["step"] for line in steps]
    assert [one.value for one in scalars] == pytest.approx([line["loss"] for line in steps], rel=1e-6)
    assert held.Scalars("val/t2a/R@1")[0].value == pytest.approx(run.best["t2a"]["R@1"])
    assert "train/radius/t2a" in held.Tags()["scalars"]


def test_wandb_is_handed_the_same_through_accelerate(tiny, tmp_path, monkeypatch):
    told = []

    class Stand:
        def __init__(self, *names, **more):
            told.append(names)

        start = finish = lambda self: told.append("called")

        def store_init_configuration(self, values):
            told.append(values["seed"])

        def log(self, values, step):
            told.append((step, sorted(values)[0]))

    monkeypatch.setattr(tracking, "check", lambda names: None)
    monkeypatch.setattr("accelerate.tracking.WandBTracker", Stand)
    train(tiny({"train.track": ["wandb"]}, epochs=1), out=tmp_path / "run")
    assert told[:3] == [("supclap",), "called", 0]
    assert [one[0] for one in told[3:-1]] == [1, 2, 3, 4, 5, 5]
    assert told[-1] == "called"


def test_a_tracker_that_is_not_there_stops_the_run_before_it_begins(tiny, tmp_path, monkeypatch):
    real = tracking.importlib.util.find_spec
    monkeypatch.setattr(tracking.importlib.util, "find_spec", lambda name: None if name != "accelerate" else real(name))
    for name, way in (("tensorboard", r"supclap\[tracking\]"), ("wandb", "pip install wandb")):
        with pytest.raises(UserError, match=f"{name}.*not installed.*{way}"):
            train(tiny({"train.track": [name]}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# -- augmentation ----------------------------------------------------------------------------------------------------


def test_augmentation_reaches_the_batches_and_their_order_stays(tiny, tmp_path):
    def first(fields):
        parts = setup.build(tiny(fields), setup.splits(tiny(fields)))
        return next(batch for _, batch in parts.loader.batches(0))

    plain, louder, again = first({}), first({"data.augment.gain_db": [6, 6]}), first({"data.augment.gain_db": [6, 6]})
    assert torch.equal(plain.clip_ids, louder.clip_ids)
    assert torch.allclose(louder.samples, plain.samples * 10 ** (6 / 20), rtol=1e-4)
    assert torch.equal(louder.samples, again.samples)


def test_masks_hide_shares_of_time_and_bands_in_training_alone():
    tower = SmallAudioSettings().build()
    settings = MaskSettings(times=2, time_share=0.3, bands=1, band_share=0.4)
    sound, lengths = torch.randn(16, 16000, generator=torch.Generator().manual_seed(0)), torch.full((16,), 16000)
    lengths[1] = 8000
    tower.eval()
    whole, frames = tower.mel(sound, lengths)
    settings.attach(tower)
    assert torch.equal(tower.mel(sound, lengths)[0], whole)
    tower.train()
    torch.manual_seed(0)
    masked, _ = tower.mel(sound, lengths)
    torch.manual_seed(0)
    assert torch.equal(tower.mel(sound, lengths)[0], masked)
    changed = (masked != whole).numpy()
    assert 0.05 < changed.mean() < 0.7
    for row, count in enumerate(frames.tolist()):
        hidden, true = changed[row], whole[row, :, :count]
        assert np.allclose(masked[row].numpy()[hidden], float(true.mean()), atol=1e-3)
        columns = hidden.all(axis=0)
        assert columns.sum() <= 2 * 0.3 * count
        assert not columns[count:].any()
        assert hidden.all(axis=1).sum() <= 0.4 * whole.shape[1]


def test_masks_move_the_weights_and_a_resumed_run_draws_the_same(tiny, tmp_path):
    fields = {"train.mask.times": 1, "train.mask.bands": 1, "data.augment.noise": 0.5, "train.checkpoint_every": 4}
    train(tiny(fields, epochs=1), out=tmp_path / "whole")
    train(tiny(epochs=1), out=tmp_path / "plain")
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    shutil.rmtree(tmp_path / "again" / "checkpoints" / "last")
    journal = tmp_path / "again" / records.NAME
    journal.write_bytes(journal.read_bytes().rsplit(b'{"event": "end"', 1)[0])
    resume(tmp_path / "again")
    whole, again, plain = (loop.checkpoint.load(tmp_path / name)[0] for name in ("whole", "again", "plain"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert not all(torch.equal(whole[name], plain[name]) for name in whole)


def test_augmenting_what_is_cached_is_refused(tiny):
    for fields, word in (
        ({"data.augment.noise": 0.5}, "data.augment"),
        ({"train.mask.bands": 1}, "train.mask"),
        ({"data.max_seconds": 0.5}, "data.max_seconds"),
    ):
        config = tiny({**fields, "train.freeze_audio": True})
        with pytest.raises(UserError, match=rf"{word}.*features=false"):
            setup.build(config, setup.splits(config))
