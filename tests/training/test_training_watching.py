"""Forces and drift while a run trains: what is written is what is true, and the run does not notice."""

import json
import math

import pytest
import torch
import torch.nn.functional as F

from supclap import dynamics
from supclap.data.scenes.write import write
from supclap.training import records
from supclap.training.loop import resume, train
from supclap.training.watching import NAME, Dynamics, cost, read


class Witness:
    """Keeps, at every step, what is needed to work the newest line out again by hand."""

    def __init__(self):
        self.steps = {}

    def on_batch(self, state, batch):
        self.batch, self.before = batch, self.encode(state.model, batch)

    def on_step(self, state, out):
        self.steps[state.step] = (self.before, self.encode(state.model, self.batch), state.seen, out)

    @staticmethod
    def encode(model, batch):
        was = model.training
        model.eval()
        with torch.no_grad():
            found = model.encode_audio(batch), model.encode_text(batch)
        model.train(was)
        return found


def flat_cosine(moved, mine, partner):
    """Cosine of a move with the way to the partner, one row at a time, in the plane that touches the sphere."""
    found = []
    for step, row, other in zip(moved.double(), mine.double(), partner.double(), strict=True):
        plane = torch.eye(len(row), dtype=torch.float64) - torch.outer(row, row)
        a, b = plane @ step, plane @ other
        found.append(float(a @ b / (a.norm() * b.norm())))
    return found


@pytest.fixture(scope="module")
def watched(tiny, tmp_path_factory):
    witness, folder = Witness(), tmp_path_factory.mktemp("watched") / "run"
    run = train(tiny({"evaluate.dynamics": 4}, objective="bi-dynamic"), out=folder, callbacks=[witness])
    return run, witness


def test_lines_come_at_the_cadence_and_hold_what_the_steps_did(watched):
    run, witness = watched
    lines = read(run.path)
    assert [line["step"] for line in lines] == [1, 4, 8, 12]
    for line in lines:
        before, after, seen, out = witness.steps[line["step"]]
        audio, text = (F.normalize(rows) for rows in before)
        audio_now, text_now = (F.normalize(rows) for rows in after)
        expected = {
            "step_drift_t2a": flat_cosine((text_now - text)[:4], text[:4], audio[:4]),
            "step_drift_a2t": flat_cosine((audio_now - audio)[:4], audio[:4], text[:4]),
        }
        for name, values in expected.items():
            assert line[name] == pytest.approx(sum(values) / 4, abs=2e-3), (name, line["step"])
        for term in ("t2a", "a2t"):
            # Of the very rows and the very radius that the step was made from, not of what came behind it.
            assert line[f"radius_{term}"] == pytest.approx(float(out.radius[term].detach().mean()), rel=1e-5)
        cosines = F.cosine_similarity(seen["audio"], seen["text"])
        assert line["positive_similarity"] == pytest.approx(float(cosines.mean()), rel=1e-5)
        assert -1 <= line["drift_t2a"] <= 1 and line["base_drift_t2a"] != line["drift_t2a"]
        assert line["seconds"] > 0


def test_forces_are_those_of_the_objective_at_that_step(tiny, tmp_path):
    """At step 1 the objective has not moved: forces by the long way, from autograd in float64."""
    witness = Witness()
    run = train(tiny({"evaluate.dynamics": 1}, objective="siglip", epochs=1), out=tmp_path / "run", callbacks=[witness])
    line, (_, _, seen, _) = read(run.path)[0], witness.steps[1]
    objective = run_objective(tiny, "siglip")
    found = dynamics.forces(objective, **seen)
    for way, one in found.items():
        assert line[f"drift_{way}"] == pytest.approx(float(one.cosine.mean()), abs=1e-3)
        assert line[f"parallel_{way}"] == pytest.approx(float(one.parallel.mean()), rel=1e-2, abs=1e-4)


def run_objective(tiny, name):
    return tiny(objective=name).objective.build()


@pytest.mark.parametrize("objective", ["bi-dynamic", "siglip-bi-static", "siglip"])
def test_a_run_that_is_watched_is_the_run_that_is_not(tiny, tmp_path, objective):
    runs = [
        train(tiny({"evaluate.dynamics": every}, objective=objective), out=tmp_path / str(every)) for every in (1, 0)
    ]
    losses = [[line["loss"] for line in run.records if line["event"] == "step"] for run in runs]
    assert losses[0] == losses[1]
    models = [(run.path / "model.safetensors").read_bytes() for run in runs]
    assert models[0] == models[1]
    assert not (runs[1].path / NAME).exists()


def test_frozen_towers_and_averaged_batches(tiny, tmp_path):
    run = train(
        tiny({"evaluate.dynamics": 1, "train.accumulate": 2, "train.chunk": 3, "train.freeze_audio": True}, epochs=1),
        out=tmp_path / "run",
    )
    lines = read(run.path)
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(math.isfinite(line["step_drift_a2t"]) for line in lines)


def test_resume_forgets_what_lies_behind_the_checkpoint(tiny, tmp_path):
    class Killed(Exception):
        pass

    class Kill:
        def on_step(self, state, out):
            if state.step == 8:
                raise Killed

    config = tiny({"evaluate.dynamics": 1, "train.checkpoint_every": 6})
    whole = train(config, out=tmp_path / "whole")
    with pytest.raises(Killed):
        # The callback of the user stands before the measuring one: step 8 is not measured.
        train(config, out=tmp_path / "run", callbacks=[Kill()])
    assert [line["step"] for line in read(tmp_path / "run")] == list(range(1, 8))
    with (tmp_path / "run" / NAME).open("a") as file:
        file.write('{"step": 8, "torn')
    again = resume(tmp_path / "run")

    def plain(folder):
        return [{name: value for name, value in line.items() if name != "seconds"} for line in read(folder)]

    assert plain(again.path) == plain(whole.path)


def test_cost_is_the_share_of_the_training_time(tmp_path):
    lines = [{"event": "step", "clips_per_s": 16.0}] * 100 + [{"event": "eval"}]
    assert cost([{"seconds": 0.1}] * 4, lines, 8) == pytest.approx(0.4 / 50)
    assert cost([], [], 8) == 0.0


@pytest.mark.parametrize(("cost_of_one", "expected"), [(0.2, [1, 50, 75, 100, 125]), (0.6, [1, 125]), (99.0, [1])])
def test_without_a_cadence_it_stays_within_one_percent(monkeypatch, cost_of_one, expected):
    """A clock of our own: a step takes a second, a look what it is given."""
    clock = [0.0]
    monkeypatch.setattr("supclap.training.watching.time.perf_counter", lambda: clock[0])
    watch, looked = Dynamics(), []
    for step in range(1, 126):
        if watch._is_due(step):
            looked.append(step)
            watch.rows.append({})
            watch.spent += cost_of_one
        clock[0] += 1.0
    assert looked == expected
    assert len(looked) == 1 or watch.spent <= 0.01 * clock[0]


def test_what_cannot_be_measured_ends_the_measuring_and_not_the_run(tiny, tmp_path, monkeypatch, capsys):
    def refuses(objective, **rows):
        raise RuntimeError("no second look")

    monkeypatch.setattr("supclap.training.watching.measure", refuses)
    run = train(tiny({"evaluate.dynamics": 1}, epochs=1), out=tmp_path / "run")
    assert records.last(run.records, "end") is not None and read(run.path) == []
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dynamics:")]
    assert len(said) == 1 and "step 1 on: RuntimeError: no second look" in said[0]


def test_a_skipped_step_is_not_measured(tmp_path):
    class Model(torch.nn.Linear):
        def encode_audio(self, batch):
            return self(batch.samples)

        encode_text = encode_audio

    from supclap.schema import Batch
    from supclap.training.callbacks import State

    model = Model(3, 3)
    batch = Batch(torch.randn(8, 3), None, 16000, ["x"] * 8, ["eng"] * 8, torch.arange(8))
    state = State(None, tmp_path, model, torch.nn.Identity(), torch.optim.SGD(model.parameters(), lr=0.1), {})
    watch = Dynamics(1)
    watch.on_start(state)
    watch.on_batch(state, batch)
    assert model.training, "BatchNorm and dropout must not notice"
    state.last = {"event": "skip"}
    watch.on_step(state, None)
    assert watch.rows == [] and (tmp_path / NAME).read_text() == ""
    assert json.loads(json.dumps(records.plain({"a": float("nan")}))) == {"a": None}


def test_an_objective_of_two_languages_is_measured_with_its_anchors(tiny, tmp_path):
    clips = write(tmp_path / "scenes", 16, 4, 0, seconds=3.0, languages=("eng", "fra"), workers=0)
    fields = {"evaluate.dynamics": 1, "data.captions": "triple", "text_tower.max_tokens": 256}
    run = train(tiny(fields, objective="cacl-bi-dynamic", epochs=1), out=tmp_path / "run", data=clips)
    lines = read(run.path)
    assert [line["step"] for line in lines] == [1, 2]
    steps = {line["step"]: line for line in run.records if line["event"] == "step"}
    for line in lines:
        for term in ("e2a", "a2e", "o2a", "a2o"):
            assert line[f"radius_{term}"] == pytest.approx(steps[line["step"]]["radius"][term], rel=1e-4)
