"""What a user's folder, cache and words do to a search: each ends in an answer or in one clear line."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
import soundfile as sf
from searching_cases import model, sound

from supclap.cli import run as command
from supclap.embedding.cache import FeatureCache, Rows
from supclap.embedding.embed import embed
from supclap.schema import UserError
from supclap.searching import scan
from supclap.searching.labelling import heard
from supclap.searching.scan import Question, answer, search

CURVE = {"score": 4.0, "background": -2.0, "margin": 0.1, "constant": -1.0, "threshold": 0.5}
TAGGED = {"score": 1.0, "evidence": 1.0, "constant": 0.0, "threshold": 0.5}


def run(words):
    """The exit status of one command line."""
    try:
        return command(words)
    except SystemExit as end:
        return end.code


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    for i in range(6):
        sound(tmp_path / "sounds" / f"{i}.wav", 0.4 + 0.2 * i, seed=i)
    return tmp_path / "sounds"


@pytest.fixture
def saved(tmp_path):
    model().save(tmp_path / "m")
    return tmp_path / "m"


def calibrate(saved, curve):
    config = saved / "config.json"
    held = json.loads(config.read_text())
    held["calibration"] = {**curve, "fingerprint": model().fingerprint()}
    config.write_text(json.dumps(held))


def names_of(folder):
    """Names as they are met: spaces, quotes, a newline, a dash in front, other scripts, and bytes that are no text."""
    plain = ["with space.wav", "quo'te\"s.wav", "new\nline.wav", "-dash.wav", "ünï 雨.wav", "%s.WAV"]
    for i, name in enumerate(plain):
        sound(folder / "x.wav", 0.3, seed=40 + i).rename(folder / name)
    sound(folder / "x.wav", 0.3, seed=50).rename(os.fsdecode(os.fsencode(folder) + b"/latin-\xff.wav"))
    return [*plain, os.fsdecode(b"latin-\xff.wav")]


def test_every_name_is_answered_on_one_line_and_is_known_the_second_time(tmp_path, saved, monkeypatch, capsys):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("supclap.embedding.cache._is_fresh", lambda path: False)
    folder = tmp_path / "in"
    folder.mkdir()
    names = names_of(folder)
    (folder / "loop").symlink_to(folder)
    (folder / "nowhere.wav").symlink_to(folder / "gone.wav")
    (folder / "dir.wav").mkdir()
    os.mkfifo(folder / "pipe.wav")
    (folder / ".hidden").mkdir()
    sound(folder / ".hidden" / "a.wav")
    sound(folder / ".b.wav")
    found = answer(folder, Question("rain"), saved, top=20)
    assert sorted(os.path.basename(hit.path) for hit in found.hits) == sorted(names)
    assert found.unreadable == []
    assert found.computed == 7
    assert answer(folder, Question("rain"), saved, top=20).computed == 0
    for words in (["search", str(folder), "rain", "--top", "20"], ["classify", str(folder), "--labels", "dog,rain"]):
        whole = [sys.executable, "-m", "supclap", *words, "--model", str(saved)]
        told = subprocess.run(whole, check=False, capture_output=True, text=True)
        assert told.returncode == 0, told.stderr
        assert len(told.stdout.splitlines()) == 7
        assert "latin-\\udcff.wav" in told.stdout
        assert "new\\nline.wav" in told.stdout
    monkeypatch.chdir(folder)
    assert run(["search", ".", "rain", "--model", str(saved), "--top", "20"]) == 0
    play = capsys.readouterr().err.split("play: ")[1].split()
    assert play[play.index("-t") + 2].strip("'\"").startswith("./")
    out = tmp_path / "labels.csv"
    assert run(["classify", str(folder), "--labels", "dog,rain", "--model", str(saved), "--out", str(out)]) == 0
    with out.open(newline="", encoding="utf8") as file:
        assert len(list(csv.reader(file))) == 1 + 6
    assert "is no UTF-8; rename it" in capsys.readouterr().err


def test_a_table_that_was_corrected_is_never_written_over(folder, saved, tmp_path, capsys):
    out = tmp_path / "labels.csv"
    out.write_text("hours of corrections")
    assert run(["classify", str(folder), "--labels", "dog,rain", "--model", str(saved), "--out", str(out)]) == 2
    assert "is there; give another name" in capsys.readouterr().err
    assert out.read_text() == "hours of corrections"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--labels", "dog,rain,dog"], "names dog twice"),
        (["--labels", ""], "names 0"),
        (["--labels", "dog"], "names 1"),
        (["--labels", "dog,rain", "--top", "0"], "top=0"),
        (["--labels", "dog,rain", "--workers", "-1"], "workers=-1"),
        (["--labels", "dog,rain", "--template", "a dog"], "template='a dog' has no {label}"),
        (["--labels", "@sounds/0.wav"], "not text in UTF-8"),
    ],
)
def test_mistakes_of_classify_are_named_before_anything_is_heard(folder, saved, capsys, monkeypatch, words, line):
    monkeypatch.chdir(folder.parent)
    assert run(["classify", str(folder), *words, "--model", str(saved)]) == 2
    told = capsys.readouterr().err
    assert line in told
    assert "none of" not in told


def test_a_wrong_question_is_named_before_anything_is_heard(folder, saved, monkeypatch):
    monkeypatch.setattr(scan, "collect", lambda *a, **k: pytest.fail("listened first"))
    for fields, words in (
        ({"by": folder / "nowhere.wav"}, "no such file"),
        ({"by": folder}, "not a file"),
        ({"query": "rain", "language": "xyz"}, "language='xyz'"),
        ({"query": "rain", "workers": -1}, "workers=-1"),
    ):
        with pytest.raises(UserError, match=words):
            search(folder, model=saved, **fields)
    for labels in ([], ["dog", "dog"], "dog"):
        with pytest.raises(UserError, match="each once"):
            heard([str(folder / "0.wav")], labels, saved)


def test_a_damaged_cache_is_set_aside_and_the_answer_is_the_same(folder, saved, tmp_path):
    before = search(folder, "rain", saved)
    database = tmp_path / "cache" / "features" / "features.sqlite"
    whole = database.read_bytes()
    # The first page is sound, so that the file opens; the tables behind it are not.
    database.write_bytes(whole[:4096] + np.random.default_rng(0).bytes(len(whole) - 4096))
    assert search(folder, "rain", saved) == before
    assert database.with_suffix(".broken").exists()
    assert answer(folder, Question("rain"), saved).computed == 0


def test_a_damaged_entry_counts_as_missing(tmp_path):
    cache = FeatureCache(tmp_path)
    rows = Rows(np.ones((2, 6), np.float32), np.zeros((2, 2)))
    for damage in ("width = 5", "width = 0", "vectors = x'00'", "crc = 1"):
        cache.put([(b"key", rows)])
        assert cache.get(b"key") is not None
        other = sqlite3.connect(cache.path)
        other.execute(f"UPDATE rows SET {damage}")
        other.commit()
        other.close()
        assert cache.get(b"key") is None, damage


def test_a_cache_that_cannot_be_written_is_one_line(folder, saved, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SUPCLAP_CACHE", str(folder / "0.wav"))
    assert run(["search", str(folder), "rain", "--model", str(saved)]) == 2
    assert "set SUPCLAP_CACHE to a folder that can be written" in capsys.readouterr().err
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    cache = FeatureCache(tmp_path / "full")
    cache._database.execute("PRAGMA query_only = ON")
    with pytest.raises(UserError, match=r"features\.sqlite: .*readonly.*SUPCLAP_CACHE"):
        search_with(cache, folder, saved)


def search_with(cache, folder, saved):
    return answer(folder, Question("rain"), saved, cache=cache)


def test_two_searches_at_once_over_one_cold_cache(folder, saved):
    words = [sys.executable, "-m", "supclap", "search", str(folder), "rain", "--model", str(saved), "--json"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [one.communicate() for one in both]
    assert [one.returncode for one in both] == [0, 0], told
    first, second = (json.loads(out)["hits"] for out, _ in told)
    assert [hit["path"] for hit in first] == [hit["path"] for hit in second]
    assert [hit["score"] for hit in first] == pytest.approx([hit["score"] for hit in second], abs=1e-6)


@pytest.mark.slow
def test_a_real_ctrl_c_keeps_what_is_embedded(tmp_path, saved, monkeypatch):
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    draw = np.random.default_rng(0)
    (tmp_path / "many").mkdir()
    for i in range(400):
        sf.write(tmp_path / "many" / f"{i}.flac", draw.normal(0, 0.1, 16000 * 12), 16000)
    words = [sys.executable, "-m", "supclap", "search", str(tmp_path / "many"), "rain", "--model", str(saved)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    database = tmp_path / "cache" / "features" / "features.sqlite"
    while process.poll() is None and not rows_in(database):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out == ""
    assert "what is embedded is kept" in err
    assert "Traceback" not in err
    kept = rows_in(database)
    assert 0 < kept
    found = answer(tmp_path / "many", Question("rain"), saved)
    assert found.files == 400
    # Rows of the files, and two of texts.
    assert 400 - found.computed >= kept - 2


def rows_in(database):
    if not database.exists():
        return 0
    other = sqlite3.connect(database, timeout=60)
    try:
        return other.execute("SELECT count(*) FROM rows WHERE length(spans) > 16").fetchone()[0]
    except sqlite3.OperationalError:
        return 0  # its tables are not made yet
    finally:
        other.close()


def test_a_curve_is_used_where_it_was_fitted_for_and_the_reason_is_told_elsewhere(folder, saved, tmp_path, capsys):
    calibrate(saved, CURVE)
    ask = {"text": "rain falls"}
    assert answer(folder, Question(**ask), saved).raw == ""
    for more, reason in (
        ({"by": folder / "0.wav"}, "two sounds"),
        ({"not_": "a dog"}, "without --not"),
        ({"text": "rain and a dog", "clauses": True}, "not of clauses"),
    ):
        found = answer(folder, Question(**{**ask, **more}), saved)
        assert reason in found.raw
        assert found.threshold is found.best is None
        assert all(hit.probability is None for hit in found.hits)
    # Whether nothing matches does not depend on how many hits are shown.
    calibrate(saved, {**CURVE, "score": 0.0, "background": 0.0, "margin": -1.0, "constant": 0.0})
    few, many = (answer(folder, Question(**ask), saved, top=top) for top in (1, 6))
    assert few.best == many.best == max(hit.probability for hit in many.hits)
    # Fitted with a tagger's evidence: nothing can be said of vectors alone.
    calibrate(saved, TAGGED)
    assert "not calibrated" in answer(folder, Question(**ask), saved).raw
    embed(saved, folder, tmp_path / "index", windows="each")
    assert answer(tmp_path / "index", Question(**ask), saved).hits
    loaded = model()
    for curve in ({"slope": 1.0, "intercept": 0.0}, TAGGED):
        loaded.calibration = curve
        assert answer(folder, Question(**ask), loaded).threshold is None
    loaded.calibration = {**CURVE, "fingerprint": "0" * 64}
    with pytest.raises(UserError, match="other weights"):
        search(folder, "rain", loaded)
    (saved / "config.json").write_text("{ half")
    assert run(["search", str(folder), "rain", "--model", str(saved)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_several_questions_and_a_page_of_them(folder, saved, tmp_path, capsys):
    place = tmp_path / "hits.html"
    words = ["search", str(folder), "rain <b>", "a dog barks", "--model", str(saved), "--top", "2"]
    assert run([*words, "--page", str(place)]) == 0
    told = capsys.readouterr()
    assert [line for line in told.out.splitlines() if line.endswith(":")] == ["rain <b>:", "a dog barks:"]
    page = place.read_text(encoding="utf8")
    assert page.count("data:audio/wav;base64,") == 4
    assert "rain &lt;b&gt;" in page
    assert "<b>" not in page
    assert "http://" not in page and "https://" not in page
    assert "scores are raw" in page
    assert run([*words, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert [one["query"] for one in plain] == ["rain <b>", "a dog barks"]
    assert run([*words, "--page", str(tmp_path / "no" / "hits.html")]) == 2


def test_a_page_outlives_a_hit_that_has_gone(folder, saved, tmp_path):
    from supclap.searching.page import page

    question = Question("rain")
    found = answer(folder, question, saved, top=2)
    os.unlink(found.hits[0].path)
    text = page([(question, found)])
    assert text.count("data:audio/wav") == 1
    assert "no such file" in text
