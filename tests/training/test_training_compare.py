"""Recipes beside each other: the same start asserted, the statistics those of the evaluation, nothing run twice."""

import dataclasses
import json
import multiprocessing
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats

import supclap
from supclap import cli
from supclap.evaluation import significance
from supclap.evaluation.model import evaluate_model
from supclap.schema import UserError
from supclap.training import cells, records
from supclap.training import compare as room
from supclap.training.compare import compare

FIELDS = [
    "audio_tower.channels=[4,8,8,8]", "audio_tower.width=16", "text_tower.width=16", "text_tower.depth=1",
    "text_tower.heads=2", "text_tower.vocabulary=300", "text_tower.max_tokens=128",
    "head.width=16", "batch_size=8", "epochs=1", "device=cpu",
]  # fmt: skip


@pytest.fixture(scope="module")
def pair(tiny):
    """Two recipes that differ in the objective alone."""
    return {name: tiny(objective=name, epochs=2) for name in ("infonce", "bi-dynamic")}


@pytest.fixture(scope="module")
def found(pair, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared")
    return out, compare(pair, out=out, seeds=[0, 1, 2])


def test_runs_lie_by_recipe_and_seed_and_start_alike(found):
    out, compared = found
    for seed in (0, 1, 2):
        starts = [records.read(out / name / f"seed-{seed}")[0] for name in ("infonce", "bi-dynamic")]
        assert starts[0]["weights"] == starts[1]["weights"]
        assert starts[0]["batches"] == starts[1]["batches"]
        assert starts[0]["seed"] == seed
    told = json.loads((out / room.RESULT).read_text())
    assert told["recipes"]["bi-dynamic"]["runs"][2]["run"] == "bi-dynamic/seed-2"
    assert len({row["weights"] for row in told["recipes"]["infonce"]["runs"]}) == 3
    assert told["split"] == compared.split == "test"


def test_statistics_are_those_of_the_saved_models(found, corpus):
    out, compared = found
    test = [clip for clip in corpus[0] if clip.split == "test"]
    scores = {
        name: [evaluate_model(supclap.load(out / name / f"seed-{seed}"), test, split="test") for seed in (0, 1, 2)]
        for name in ("infonce", "bi-dynamic")
    }
    told = json.loads((out / room.RESULT).read_text())
    for way in ("t2a", "a2t"):
        values = {name: np.array([one[way]["R@1"] for one in mine]) for name, mine in scores.items()}
        over = told["recipes"]["bi-dynamic"]["over_seeds"][way]
        assert over["mean"] == pytest.approx(values["bi-dynamic"].mean())
        assert over["sd"] == pytest.approx(values["bi-dynamic"].std(ddof=1))
        interval = stats.t.interval(0.95, 2, values["bi-dynamic"].mean(), stats.sem(values["bi-dynamic"]))
        assert [over["low"], over["high"]] == pytest.approx(interval, nan_ok=True)
        row = next(row for row in told["differences"] if row["direction"] == way)
        many = significance.over_seeds(scores["bi-dynamic"], way, base=scores["infonce"])
        assert row["gain"] == pytest.approx((values["bi-dynamic"] - values["infonce"]).mean())
        assert [row["low"], row["high"]] == pytest.approx(many.two_level)
        assert row["p"] == pytest.approx(stats.ttest_rel(values["bi-dynamic"], values["infonce"]).pvalue, nan_ok=True)


def test_one_seed_is_paired_by_clip(pair, tmp_path, corpus):
    compared = compare(pair, out=tmp_path)
    test = [clip for clip in corpus[0] if clip.split == "test"]
    scores = [evaluate_model(supclap.load(tmp_path / name), test, split="test") for name in pair]
    by_hand = significance.compare(*scores)
    for row in compared.differences():
        one = by_hand[row["direction"]]
        assert (row["gain"], row["low"], row["high"], row["p"]) == (one.gain, one.low, one.high, one.p)
    assert {row["holm"] for row in compared.differences()} == set(
        significance.holm([one.p for one in by_hand.values()])
    )
    assert "bi-dynamic - infonce" in compared.text()


def test_nothing_is_run_twice_and_what_stopped_goes_on(pair, tmp_path):
    class Stop:
        def on_step(self, state, out):
            if state.step == 7:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(pair, out=tmp_path, watch=lambda name: [Stop()] if name == "bi-dynamic" else [])
    journal = (tmp_path / "infonce" / records.NAME).read_bytes()
    steps = []

    class Ear:
        def on_step(self, state, out):
            steps.append(state.step)

    first = compare(pair, out=tmp_path, watch=lambda name: [Ear()])
    assert steps == [6, 7, 8, 9, 10]
    assert (tmp_path / "infonce" / records.NAME).read_bytes() == journal
    again = compare(pair, out=tmp_path, watch=lambda name: [Ear()])
    assert len(steps) == 5
    assert again.to_dict() == first.to_dict()


def test_side_by_side_is_the_same_comparison(found, pair, tmp_path):
    _, one_by_one = found
    said = []
    together = compare(pair, out=tmp_path, seeds=[0], jobs=2, say=said.append)
    assert len(said) == 2
    assert multiprocessing.active_children() == []
    ours, theirs = (json.loads(json.dumps(one.to_dict()["recipes"])) for one in (together, one_by_one))
    assert {name: told["runs"][0] for name, told in ours.items()} == {
        name: told["runs"][0] for name, told in theirs.items()
    }


class Tells:
    """Stands where a cell's answer goes, and says how its process would start workers."""

    def __init__(self, pipe):
        self.pipe = pipe

    def send(self, answer):
        self.pipe.send((str(answer), multiprocessing.get_start_method()))


def in_a_process(pipe, place):
    cells._apart(Tells(pipe), place, {}, [], None, 1)


def test_a_run_in_its_own_process_starts_its_workers_as_any_other(tmp_path):
    """A spawned process hands its start method on; a loader would then send the whole model to each worker."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=in_a_process, args=(there, tmp_path))
    child.start()
    said, method = here.recv()
    child.join()
    assert "no clip is in the train split" in said
    assert method == multiprocessing.get_context().get_start_method()


def test_a_mistake_in_one_of_several_processes_stops_all_with_its_name(tiny, tmp_path):
    """One recipe cannot take a step: its rate leads to what is not finite."""
    both = {"good": tiny(epochs=2), "bad": tiny({"optim.lr": 1e30}, epochs=40)}
    with pytest.raises(UserError, match="^bad seed-0: .*not finite"):
        compare(both, out=tmp_path, seeds=[0], jobs=2)
    with pytest.raises(UserError, match="jobs=0"):
        compare(both, out=tmp_path, seeds=[0], jobs=0)


def test_a_signal_saves_all_of_several_processes(corpus, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from supclap.training.config import recipe\n"
        "def base():\n    return recipe('small', objective='infonce')\n"
        "def other():\n    return recipe('small', objective='uni-static')\n"
    )
    words = ["train", corpus[1], "--recipe", f"{mine}:base,{mine}:other", "--jobs", 2, "--out", tmp_path, *FIELDS]
    command = [sys.executable, "-m", "supclap", *map(str, words), "epochs=200"]
    told = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    journals = [tmp_path / name / records.NAME for name in ("base", "other")]
    until = time.monotonic() + 120
    while time.monotonic() < until and not all(one.exists() and one.read_text().count("\n") > 5 for one in journals):
        time.sleep(0.1)
    told.send_signal(signal.SIGTERM)
    _, talk = told.communicate(timeout=120)
    assert told.returncode == 143, talk
    assert "the same command again" in talk
    for one in journals:
        last = json.loads(one.read_text().splitlines()[-1])
        assert last["event"] != "end"
        state = json.loads((one.parent / "checkpoints" / "last" / "state.json").read_text())
        assert state["step"] == last["step"]


def test_recipes_that_do_not_start_alike_are_refused_before_anything_is_trained(pair, tiny, tmp_path):
    others = {
        "wider": (tiny({"head.width": 32}, epochs=2), "do not start from the same weights"),
        "larger": (tiny(batch_size=4, epochs=2), "do not see the same batches"),
        "seeded": (tiny(seed=5, epochs=2), "weights"),
    }
    for name, (config, said) in others.items():
        with pytest.raises(UserError, match=f"infonce and {name}.*{said}" if "do not" in said else said):
            compare({"infonce": pair["infonce"], name: config}, out=tmp_path / name)
        assert not (tmp_path / name).exists()


def test_journals_that_part_later_are_refused(found):
    _, compared = found
    runs = {name: mine[0] for name, mine in compared.runs.items()}
    room._paired(runs)
    lines = [
        {**line, "batches": "0"} if line.get("step") == 10 and line["event"] == "step" else line
        for line in runs["bi-dynamic"].records
    ]
    with pytest.raises(UserError, match="same batches.*step 10"):
        room._paired({**runs, "bi-dynamic": dataclasses.replace(runs["bi-dynamic"], records=lines)})


def test_refusals(pair, tiny, found, tmp_path):
    with pytest.raises(UserError, match="each once"):
        compare(pair, out=tmp_path, seeds=[1, 1])
    with pytest.raises(UserError, match="differ in evaluate"):
        compare({**pair, "other": tiny({"evaluate.every": 2}, epochs=2)}, out=tmp_path)
    with pytest.raises(UserError, match="other settings .optim."):
        compare({name: dataclasses.replace(one, optim=dataclasses.replace(one.optim, lr=0.5))
                 for name, one in pair.items()}, out=found[0], seeds=[0])  # fmt: skip
    assert not list(tmp_path.iterdir())


def run(argv):
    """The exit status of one command line."""
    try:
        return cli.run([str(word) for word in argv])
    except SystemExit as left:
        return left.code


def test_as_typed(corpus, tmp_path, capsys):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from supclap.training.config import recipe\n"
        "def base():\n    return recipe('small', objective='infonce')\n"
        "def other():\n    return recipe('small', objective='uni-static')\n"
    )
    words = ["train", corpus[1], "--recipe", f"{mine}:base,{mine}:other", "--out", tmp_path / "runs", *FIELDS]
    assert run([*words, "seeds=[0,1]"]) == 0
    said = capsys.readouterr().out
    assert "other - base" in said
    assert "two-level" in said
    assert (tmp_path / "runs" / "other" / "seed-1" / "recipe.py").exists()
    assert run([*words, "seeds=[0,1]", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((tmp_path / "runs" / room.RESULT).read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--recipe", "paper/infonce,real_small/infonce"], "both be called infonce"),
        (["--recipe", "small", "seeds=3"], "seeds=[0,1,2,3,4]"),
        (["--recipe", "small", "seeds=[0,1]", "seed=2"], "give one of them"),
        (["--recipe", "small", "seeds=[]"], "seeds=[0,1,2,3,4]"),
        (["--recipe", "a.py:x,b.py:y"], "into one file"),
        (["--recipe", "small,smal"], "did you mean 'small'"),
    ],
)
def test_mistakes_exit_2_with_one_line(corpus, tmp_path, capsys, words, said):
    assert run(["train", corpus[1], "--out", tmp_path / "run", *words]) == 2
    talk = capsys.readouterr().err
    assert said in talk
    assert talk.count("\n") == 1
    assert not (tmp_path / "run").exists()
