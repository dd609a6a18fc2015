import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from searching_cases import model, sound

from supclap.cli import run as command
from supclap.embedding import rows
from supclap.embedding.embed import embed
from supclap.schema import Hit, UserError
from supclap.searching.clauses import split
from supclap.searching.collection import Collection
from supclap.searching.scan import Question, answer, score, search


def run(words):
    """The exit status of one command line."""
    try:
        return command(words)
    except SystemExit as end:
        return end.code


@pytest.fixture
def folder(tmp_path):
    for i in range(6):
        sound(tmp_path / "sounds" / ("weather" if i % 2 else "animals") / f"{i}.wav", 0.4 + 0.4 * i, seed=i)
    return tmp_path / "sounds"


@pytest.fixture
def decoded(monkeypatch, tmp_path):
    """The names of the files that were decoded, beside a cache of the test's own."""
    monkeypatch.setenv("SUPCLAP_CACHE", str(tmp_path / "cache"))
    seen = []
    read = rows.reader.read
    monkeypatch.setattr(rows.reader, "read", lambda item, *a: (seen.append(Path(item).name), read(item, *a))[1])
    return seen


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    place = tmp_path_factory.mktemp("model") / "m"
    model().save(place)
    return place


def test_hits_are_the_cosines_of_the_best_windows_best_first(folder):
    dual = model()
    hits = search(folder, "a dog barks", dual, top=6)
    query = dual.embed_text(["a dog barks"])[0]
    files = sorted(folder.rglob("*.wav"))
    expected = {str(file): dual.embed_audio([file], windows="each")[0] @ query for file in files}
    assert {hit.path for hit in hits} == set(expected)
    for hit in hits:
        assert hit.score == pytest.approx(expected[hit.path].max(), abs=1e-5)
        assert hit.start == pytest.approx(float(np.argmax(expected[hit.path])), abs=1e-6)
        assert 0 < hit.end - hit.start <= 1.0
        assert hit.probability is None
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert isinstance(hits[0], Hit)
    assert len(search(folder, "a dog barks", dual, top=2)) == 2


def test_an_example_finds_itself_first(folder, tmp_path):
    copy = tmp_path / "copy.wav"
    shutil.copy(folder / "weather" / "1.wav", copy)
    hits = search(folder, model=model(), by=copy)
    assert hits[0].path.endswith("1.wav")
    assert hits[0].score == pytest.approx(1.0, abs=1e-4)


def test_the_second_call_decodes_nothing_and_moved_files_cost_nothing(folder, decoded):
    first = search(folder, "rain falls", model())
    assert len(decoded) == 6
    decoded.clear()
    assert search(folder, "rain falls", model()) == first
    shutil.move(folder / "weather", folder / "storms")
    moved = search(folder, "rain falls", model())
    assert decoded == []
    assert [hit.score for hit in moved] == [hit.score for hit in first]
    assert {hit.path.replace("storms", "weather") for hit in moved} == {hit.path for hit in first}


def test_a_changed_file_is_redone_and_no_other(folder, decoded):
    before = {hit.path: hit.score for hit in search(folder, "rain falls", model())}
    decoded.clear()
    changed = sound(folder / "weather" / "3.wav", 1.6, seed=77)
    after = {hit.path: hit.score for hit in search(folder, "rain falls", model())}
    assert decoded == ["3.wav"]
    assert {path for path in before if before[path] != after[path]} == {str(changed)}


def test_another_model_is_not_answered_from_the_first_ones_rows(folder):
    search(folder, "rain falls", model())
    other = model(seed=5)
    query = other.embed_text(["rain falls"])[0]
    for hit in search(folder, "rain falls", other):
        expected = (other.embed_audio([hit.path], windows="each")[0] @ query).max()
        assert hit.score == pytest.approx(expected, abs=1e-5)


def test_a_file_that_vanishes_or_breaks_is_listed_once_and_never_ends_a_search(folder):
    question = Question("rain falls")
    assert answer(folder, question, model()).files == 6
    (folder / "animals" / "0.wav").unlink()
    (folder / "animals" / "2.wav").write_bytes(b"broken now")
    (folder / "dangling.wav").symlink_to(folder / "nowhere.wav")
    found = answer(folder, question, model())
    assert found.files == 4
    assert [Path(path).name for path, _ in found.unreadable] == ["2.wav"]


def test_a_file_that_vanishes_while_it_is_read_is_listed(folder, monkeypatch):
    from supclap.searching import collection

    files = collection.sound_files
    monkeypatch.setattr(collection, "sound_files", lambda root: [*files(root), Path(root) / "gone.wav"])
    assert answer(folder, Question("x"), model()).unreadable == [(str(folder / "gone.wav"), "no such file")]


def test_ctrl_c_keeps_what_is_embedded(folder, decoded, saved):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(folder, "rain falls", saved, progress=stop)
    done = len(decoded)
    decoded.clear()
    search(folder, "rain falls", saved)
    assert len(decoded) < 6 or done == 6


def test_under_keeps_a_folder(folder):
    assert {Path(hit.path).parent.name for hit in search(folder, "x", model(), under="weather")} == {"weather"}
    assert len(search(folder, "x", model(), under="*/1.wav")) == 1
    with pytest.raises(UserError, match="under='trains'"):
        search(folder, "x", model(), under="trains")


def test_what_is_not_wanted_is_taken_off_only_where_it_is_heard():
    unit = np.eye(3, dtype=np.float32)
    both = (unit[0] + unit[1]) / np.sqrt(2)
    held = Collection(["rain", "both", "opposite"], np.arange(4), np.zeros((3, 2)), np.stack([unit[0], both, -unit[1]]))
    scores, _ = score(held, unit[:1], unit[1:2])
    np.testing.assert_allclose(scores, [1.0, 0.0, 0.0], atol=1e-6)


def test_clauses_may_be_answered_by_different_windows_of_a_file():
    unit = np.eye(3, dtype=np.float32)
    spans = np.array([[0, 1], [1, 2], [0, 1]], float)
    held = Collection(
        ["a", "b"], np.array([0, 2, 3]), spans, np.stack([unit[0], unit[1], (unit[0] + unit[1]) / np.sqrt(2)])
    )
    scores, windows = score(held, unit[:2])
    np.testing.assert_allclose(scores, [1.0, np.sqrt(0.5)], atol=1e-6)
    assert windows.tolist() == [0, 2]
    whole, _ = score(held, ((unit[0] + unit[1]) / np.sqrt(2))[None])
    np.testing.assert_allclose(whole, [np.sqrt(0.5), 1.0], atol=1e-6)


@pytest.mark.parametrize(
    ("query", "clauses"),
    [
        ("a dog barks", ["a dog barks"]),
        ("a dog barks and then rain falls", ["a dog barks", "rain falls"]),
        ("A dog barks, then rain falls while a bell rings.", ["A dog barks", "rain falls", "a bell rings"]),
        ("thunder before rain", ["thunder", "rain"]),
        ("a siren followed by glass breaking after a shout", ["a siren", "glass breaking", "a shout"]),
        ("sand in the wind", ["sand in the wind"]),
        ("rain and rain", ["rain"]),
        ("Then and there", ["there"]),
        ("and", ["and"]),
    ],
)
def test_clauses(query, clauses):
    assert split(query) == clauses


def test_a_folder_of_embeddings_answers_like_the_folder(folder, tmp_path, saved):
    embed(saved, folder, tmp_path / "index", windows="each")
    from_index = search(tmp_path / "index", "a dog barks", saved)
    from_folder = search(folder, "a dog barks", saved)
    assert [Path(hit.path).name for hit in from_index] == [Path(hit.path).name for hit in from_folder]
    for one, other in zip(from_index, from_folder, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert (one.start, one.end) == pytest.approx((other.start, other.end), abs=1e-4)
    with pytest.raises(UserError, match="another model"):
        search(tmp_path / "index", "a dog barks", model(seed=3))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"query": ""}, "the query is empty"),
        ({"query": None}, "the query is empty"),
        ({"query": "x", "top": 0}, "top=0"),
        ({"query": "x", "not_": " "}, "not_ is empty"),
        ({"by": "nowhere.wav"}, "nowhere.wav"),
    ],
)
def test_mistakes_are_named(folder, fields, words):
    with pytest.raises(UserError, match=words):
        search(folder, model=model(), **fields)


def test_folders_without_sounds_are_named(tmp_path):
    with pytest.raises(UserError, match="is empty"):
        search(tmp_path, "rain", model())
    (tmp_path / "notes.txt").write_text("rain")
    with pytest.raises(UserError, match="holds no sound file"):
        search(tmp_path, "rain", model())
    with pytest.raises(UserError, match="no such folder"):
        search(tmp_path / "nowhere", "rain", model())
    with pytest.raises(UserError, match="not a folder"):
        search(tmp_path / "notes.txt", "rain", model())
    (tmp_path / "bad.wav").write_bytes(b"not a sound")
    with pytest.raises(UserError, match=r"none of 1 sound files can be read.*bad\.wav"):
        search(tmp_path, "rain", model())


def test_the_command_prints_hits_on_stdout_and_talk_on_stderr(folder, saved, capsys):
    (folder / "bad.wav").write_bytes(b"no sound")
    assert run(["search", str(folder), "rain falls", "--model", str(saved), "--top", "3", "--not", "a dog barks"]) == 0
    held = capsys.readouterr()
    assert len(held.out.splitlines()) == 3
    assert "scores are raw" in held.err
    assert "play: " in held.err
    assert held.err.count("bad.wav") == 1
    assert run(["search", str(folder), "rain falls", "--model", str(saved), "--json", "--under", "weather"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert len(plain["hits"]) == plain["files"] == 3
    assert plain["calibrated"] is False
    assert set(plain["hits"][0]) == {"path", "start", "end", "score", "probability"}
    assert run(["search", str(folder / "nowhere"), "rain"]) == 2


def test_classify_writes_a_table_that_training_reads(folder, saved, capsys, tmp_path):
    from supclap.data import manifest

    (folder / "bad.wav").write_bytes(b"no sound")
    out = tmp_path / "labels.csv"
    words = ["classify", str(folder), "--labels", "dog,rain", "--model", str(saved), "--out", str(out)]
    assert run(words) == 0
    assert capsys.readouterr().err.count("bad.wav") == 1
    clips = manifest.read(out)
    best = model().classify(sorted(folder.rglob("[0-9].wav")), ["dog", "rain"])
    assert [clip.label for clip in clips] == [labels[0].name for labels in best]
    assert clips[0].captions[0].text == f"the sound of {clips[0].label}"
    assert Path(clips[0].audio).is_file()
    assert run([*words[:6], "--top", "2", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert [len(file["labels"]) for file in plain["files"]] == [2] * 6
    assert run(["classify", str(folder), "--labels", "dog", "--model", str(saved)]) == 2
    assert run(["classify", str(tmp_path / "nowhere"), "--labels", "dog,cat", "--model", str(saved)]) == 2
    assert "two or more" in capsys.readouterr().err


def test_a_sliver_at_the_end_of_a_sound_is_no_answer(tmp_path, saved):
    """A window of 10 ms beside whole ones sounds like anything; a short sound of its own still counts."""
    sound(tmp_path / "in" / "long.wav", 2.01, seed=1)
    sound(tmp_path / "in" / "short.wav", 0.03, seed=2)
    assert model().embed_audio([tmp_path / "in" / "long.wav"], windows="each")[0].shape[0] == 3
    found = answer(tmp_path / "in", Question("rain"), saved)
    assert (found.files, found.windows) == (2, 3)
    embed(saved, tmp_path / "in", tmp_path / "index", windows="each")
    index = answer(tmp_path / "index", Question("rain"), saved)
    assert (index.files, index.windows) == (2, 3)
    assert [hit.score for hit in index.hits] == pytest.approx([hit.score for hit in found.hits], abs=1e-5)
