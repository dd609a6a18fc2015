"""A saved run looked at again: forces by the long way, sounds that are the right ones, and what cannot be said."""

import json
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import supclap
from browser import check_page, needs_chromium
from supclap.dynamics import forces
from supclap.evaluation.model import embed_clips
from supclap.schema import UserError
from supclap.settings import read as read_settings
from supclap.training import setup
from supclap.training.config import RunConfig
from supclap.training.looking import look, pairs, saved_objective
from supclap.training.loop import train
from supclap.training.report import write_report


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "a run"
    return train(tiny({"evaluate.dynamics": 2}, objective="bi-dynamic"), out=folder)


@pytest.fixture(scope="module")
def seen(run):
    config = read_settings(RunConfig, run.path / "run.json")
    return config, embed_clips(run.model, setup.splits(config)["val"])


class End:
    """Keeps the objective of a run."""

    def on_end(self, state):
        self.objective = state.objective


def test_the_saved_objective_is_the_one_the_run_ended_with(tiny, tmp_path):
    end = End()
    for name in ("siglip-bi-dynamic", "bi-static"):
        config = tiny(objective=name, epochs=1)
        train(config, out=tmp_path / name, callbacks=[end])
        found, fresh = saved_objective(tmp_path / name, config), config.objective.build()
        kept = {key: value.double() for key, value in end.objective.state_dict().items() if value.is_floating_point()}
        assert kept and all(torch.equal(value, found.state_dict()[key]) for key, value in kept.items())
        assert any(not torch.equal(value.double(), kept[key]) for key, value in fresh.named_parameters())
    with pytest.raises(UserError, match="another objective"):
        saved_objective(tmp_path / "bi-static", tiny(objective="bi-dynamic"))
    with pytest.raises(UserError, match="no checkpoint"):
        saved_objective(tmp_path, tiny(objective="bi-dynamic"))


def test_look_is_the_forces_of_batches_laid_behind_each_other(run, seen):
    config, embeddings = seen
    found = look(run.path, config, embeddings)
    assert (found.rows, found.batch_size) == (8, 8), "12 clips in batches of 8: one whole batch"
    audio, text = pairs(embeddings)
    by_hand = forces(saved_objective(run.path, config), audio[:8], text[:8])
    for way in ("t2a", "a2t"):
        assert torch.allclose(found.forces[way].force, by_hand[way].force, atol=1e-9)
        assert torch.allclose(found.forces[way].push, by_hand[way].push, atol=1e-9)
    assert torch.allclose(found.similarity, F.cosine_similarity(audio[:8], text[:8]))
    assert found.table()[0][:2] == ["text", pytest.approx(float(by_hand["t2a"].cosine.mean()))]
    distance = (audio[:8] - text[:8]).norm(dim=1)
    assert torch.allclose(found.distance["t2a"], distance) and found.radius["t2a"].shape == (8,)
    assert found.against is None, "one batch has nothing to be held against"
    # Each audio row stands beside a caption of its own clip.
    rows = {tuple(np.round(row, 5)): place for place, row in enumerate(embeddings.audio)}
    owners = [rows[tuple(np.round(row.numpy(), 5).astype(np.float32))] for row in audio]
    first = {clip: row for row, clip in reversed(list(enumerate(embeddings.caption_clip)))}
    expected = torch.as_tensor(embeddings.text[[first[clip] for clip in owners]]).double()
    assert torch.allclose(text, F.normalize(expected), atol=1e-6)


def test_the_report_says_and_plays_all_of_it(run):
    page = write_report(run.path).read_text(encoding="utf8")
    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        "What came out", "Curves", "Forces and drift", "Asked and found", "Failures to listen to", "What was left out",
        "How to run it again", "How this was made",
    ]  # fmt: skip
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    found = page[page.index("Asked and found") : page.index("Failures to listen to")]
    assert found.count("<blockquote") == 3 and found.count("<audio") == 9
    # The right clip is marked where, and only where, the model put it among the first three.
    embeddings = embed_clips(supclap.load(run.path), [c for c in setup.splits(_config(run))["val"] if c.captions])
    cosines = embeddings.text @ embeddings.audio.T
    places = np.unique(np.linspace(0, len(cosines) - 1, 3).round().astype(int))
    right = [embeddings.caption_clip[row] in np.argsort(-cosines[row], kind="stable")[:3] for row in places]
    assert found.count("the clip of this caption") == sum(right)
    assert "real step, text" in page and "R / d" in page and "Where it ended" in page
    assert re.search(r"took \d+\.\d % of the training", page)


@needs_chromium
def test_the_report_is_good_on_a_phone_and_on_a_desk(run, tmp_path):
    check_page(write_report(run.path), tmp_path, "run")


def _config(run):
    return read_settings(RunConfig, run.path / "run.json")


def test_how_to_run_it_again_runs_it_again(run, tmp_path, monkeypatch):
    """The printed lines, as they stand, give the same weights."""
    page = write_report(run.path, listen=False).read_text(encoding="utf8")
    code = next(part for part in re.findall(r"<pre><code>(.*?)</code>", page, re.S) if "import supclap" in part)
    code = code.replace("&#x27;", "'").replace("&quot;", '"')
    exec(compile(code, "printed", "exec"), {})
    again = run.path.with_name("a run-again")
    assert (again / "model.safetensors").read_bytes() == (run.path / "model.safetensors").read_bytes()
    assert "Asked and found" not in page
    assert page.count("<pre>") == 1, "pytest is no command of supclap's"
    held = json.loads((run.path / "environment.json").read_text())
    for first in ("/usr/bin/supclap", "/lib/supclap/__main__.py"):
        (run.path / "environment.json").write_text(json.dumps({**held, "command": [first, "train", "a b.csv"]}))
        page = write_report(run.path, listen=False).read_text(encoding="utf8")
        assert "<code>supclap train &#x27;a b.csv&#x27;</code>" in page
    (run.path / "environment.json").write_text(json.dumps(held))


def test_what_is_missing_is_said(tiny, run, tmp_path):
    config = tiny({"evaluate.dynamics": 0}, objective="infonce", epochs=1)
    plain = train(config, out=tmp_path / "plain")
    page = write_report(plain.path).read_text(encoding="utf8")
    assert "Nothing was measured on the way" in page and "Where it ended" in page
    fields = json.loads((plain.path / "run.json").read_text())
    fields["data"]["path"] = str(tmp_path / "gone.csv")
    (plain.path / "run.json").write_text(json.dumps(fields))
    page = write_report(plain.path).read_text(encoding="utf8")
    assert "The sounds are not here to be played" in page and "gone.csv" in page
