import os
import pickle
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from embedding_cases import RATE, audio_tower, said_by, sound, text_tower

from supclap.audio import reader
from supclap.audio.decode import AudioError
from supclap.embedding import rows
from supclap.embedding.cache import FeatureCache, Rows
from supclap.embedding.features import tower_features
from supclap.schema import Caption, Clip, UserError


@pytest.fixture
def decoded(monkeypatch):
    """The paths that were decoded, in order."""
    seen = []
    read = reader.read

    def spy(item, *args):
        seen.append(Path(item).name)
        return read(item, *args)

    monkeypatch.setattr(rows.reader, "read", spy)
    return seen


@pytest.fixture
def cache(tmp_path):
    return FeatureCache(tmp_path / "cache")


def clips_of(paths, **fields):
    return [Clip(id=path.name, audio=str(path), **fields) for path in paths]


def files(tmp_path, count=5):
    return [sound(tmp_path / f"{i}.wav", 0.3 + 0.25 * i, seed=i) for i in range(count)]


def test_features_are_what_the_tower_says_of_each_file_alone(tmp_path, cache):
    tower, paths = audio_tower(), [*files(tmp_path), sound(tmp_path / "long.wav", 3.7, seed=9)]
    features = tower_features(tower, clips_of(paths), cache=cache)
    for clip, path in zip(clips_of(paths), paths, strict=True):
        np.testing.assert_allclose(features.audio(clip), said_by(tower, path), atol=1e-5)
    assert features.errors == {}


def test_a_span_is_heard_alone_and_kept_apart_from_its_file(tmp_path, cache):
    tower, path = audio_tower(), sound(tmp_path / "a.wav", 2.0)
    part, whole = Clip(id="p", audio=str(path), start=0.5, end=1.25), Clip(id="w", audio=str(path))
    for _ in range(2):
        features = tower_features(tower, [part, whole], cache=cache)
        np.testing.assert_allclose(features.audio(part), said_by(tower, path, 0.5, 1.25), atol=1e-5)
        np.testing.assert_allclose(features.audio(whole), said_by(tower, path), atol=1e-5)


def test_nothing_is_decoded_twice_and_rows_are_the_same_bits(tmp_path, cache, decoded):
    tower, paths = audio_tower(), files(tmp_path)
    first = tower_features(tower, clips_of(paths), cache=cache)
    assert sorted(decoded) == [path.name for path in paths]
    decoded.clear()
    again = tower_features(tower, clips_of(paths), cache=FeatureCache(tmp_path / "cache"))
    assert decoded == []
    for clip in clips_of(paths):
        assert np.array_equal(first.audio(clip), again.audio(clip))


def test_moved_and_copied_files_cost_nothing(tmp_path, cache, decoded):
    tower, paths = audio_tower(), files(tmp_path)
    tower_features(tower, clips_of(paths), cache=cache)
    decoded.clear()
    moved = [path.rename(tmp_path / f"moved-{path.name}") for path in paths]
    features = tower_features(tower, clips_of(moved), cache=cache)
    assert decoded == []
    np.testing.assert_allclose(features.audio(clips_of(moved)[2]), said_by(tower, moved[2]), atol=1e-5)


def test_a_changed_file_is_heard_again_even_with_its_old_size_and_time(tmp_path, cache):
    tower, path = audio_tower(), sound(tmp_path / "a.wav", seed=1)
    clip = clips_of([path])
    # Old enough that the side index trusts it.
    os.utime(path, (1e9, 1e9))
    before = tower_features(tower, clip, cache=cache).audio(clip[0])
    stat = path.stat()
    sound(path, seed=2)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_size == stat.st_size
    after = tower_features(tower, clip, cache=cache).audio(clip[0])
    np.testing.assert_allclose(after, said_by(tower, path), atol=1e-5)
    assert not np.allclose(before, after, atol=1e-3)


def test_the_side_index_is_not_trusted_beyond_what_it_saw(tmp_path, cache):
    """An entry of the side index names a state of the file; any other state is looked at again."""
    from supclap.embedding import cache as module

    path = sound(tmp_path / "a.wav", seed=1)
    part = module.Part(str(path), 0.0, None, RATE)
    cache.remember(part, b"one", "0/0/0/0")
    cache.put([])
    assert cache.content(part) is None
    cache.remember(part, b"two", cache.stamp(str(path)))
    cache.put([])
    assert cache.content(part) == b"two"
    sound(path, seed=3)
    assert cache.content(part) is None


def test_other_weights_are_another_key(tmp_path, cache):
    paths = files(tmp_path, 2)
    tower_features(audio_tower(seed=0), clips_of(paths), cache=cache)
    other = audio_tower(seed=1)
    features = tower_features(other, clips_of(paths), cache=cache)
    np.testing.assert_allclose(features.audio(clips_of(paths)[0]), said_by(other, paths[0]), atol=1e-5)
    with torch.no_grad():
        next(other.parameters()).add_(0.5)
    features = tower_features(other, clips_of(paths), cache=cache)
    np.testing.assert_allclose(features.audio(clips_of(paths)[0]), said_by(other, paths[0]), atol=1e-5)


def test_a_bad_file_never_ends_a_run(tmp_path, cache):
    tower, paths = audio_tower(), files(tmp_path, 3)
    (tmp_path / "bad.wav").write_bytes(b"RIFF of nothing")
    every = clips_of([paths[0], tmp_path / "bad.wav", paths[1], tmp_path / "gone.wav", paths[2]])
    features = tower_features(tower, every, cache=cache)
    assert {Path(place[0]).name for place in features.errors} == {"bad.wav", "gone.wav"}
    assert features.errors[(every[3].audio, 0.0, None)] == "no such file"
    np.testing.assert_allclose(features.audio(every[4]), said_by(tower, paths[2]), atol=1e-5)
    with pytest.raises(AudioError, match=r"bad\.wav"):
        features.audio(every[1])
    with pytest.raises(UserError, match="not among the clips"):
        features.audio(Clip(id="x", audio="other.wav"))


def test_text_is_kept_by_text_and_language_and_tower(tmp_path, cache):
    tower = text_tower()
    captions = (Caption("a dog barks"), Caption("un chien aboie", "fra"))
    clips = [Clip(id="a", audio="a.wav", captions=captions)]
    features = tower_features(tower, clips, cache=cache)
    assert features.audio(clips[0]) is None
    with torch.no_grad():
        expected = tower(**tower.tokenize(["a dog barks"], ["eng"]))[0].numpy()
    np.testing.assert_allclose(features.text("a dog barks", "eng"), expected, atol=1e-5)
    with pytest.raises(UserError, match="is not among"):
        features.text("a dog barks", "fra")
    other = tower_features(text_tower(seed=1), clips, cache=cache)
    assert not np.allclose(other.text("a dog barks", "eng"), expected, atol=1e-3)


def test_both_towers_and_a_copy_for_a_worker(tmp_path, cache):
    tower, paths = audio_tower(), files(tmp_path, 1)
    clips = clips_of(paths, captions=(Caption("rain falls"),))
    features = pickle.loads(pickle.dumps(tower_features(tower, clips, text_tower=text_tower(), cache=cache)))
    assert features.audio(clips[0]).shape == (tower.width,)
    assert features.text("rain falls", "eng").shape == (text_tower().width,)


def test_the_towers_own_mode_comes_back_and_batch_norm_is_at_rest(tmp_path, cache):
    tower, paths = audio_tower(), files(tmp_path, 3)
    expected = said_by(tower, paths[1])
    tower.train()
    features = tower_features(tower, clips_of(paths), cache=cache)
    assert tower.training
    np.testing.assert_allclose(features.audio(clips_of(paths)[1]), expected, atol=1e-5)


def test_what_was_done_before_an_interruption_is_kept(tmp_path, cache, decoded):
    from supclap.embedding.features import tower_encoder

    paths = files(tmp_path, 12)
    run = rows.encode_all(clips_of(paths), tower_encoder(audio_tower(window_seconds=0.2)), cache)
    taken = {next(run).index for _ in range(5)}
    run.close()
    decoded.clear()
    answers = {
        a.index: a for a in rows.encode_all(clips_of(paths), tower_encoder(audio_tower(window_seconds=0.2)), cache)
    }
    assert all(answers[index].cached for index in taken)
    assert len(answers) == 12
    assert 0 < len(decoded) <= 12 - len(taken)


def test_rows_survive_a_kill_and_a_row_half_written_is_missing(tmp_path):
    code = (
        "import os, numpy as np\n"
        "from supclap.embedding.cache import FeatureCache, Rows\n"
        f"cache = FeatureCache({str(tmp_path)!r})\n"
        "cache.put([(b'one', Rows(np.ones((2, 3), np.float32), np.zeros((2, 2))))])\n"
        "cache._database.execute('BEGIN')\n"
        "cache._database.execute('INSERT INTO rows VALUES (?, ?, ?, ?, ?)', (b'two', b'', b'', 1, 0))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    cache = FeatureCache(tmp_path)
    assert np.array_equal(cache.get(b"one").vectors, np.ones((2, 3)))
    assert cache.get(b"two") is None


def test_a_damaged_row_is_missing_and_a_damaged_file_is_set_aside(tmp_path):
    cache = FeatureCache(tmp_path)
    cache.put([(b"k", Rows(np.ones((1, 3), np.float32), np.zeros((1, 2))))])
    cache.close()
    with sqlite3.connect(tmp_path / "features.sqlite") as database:
        database.execute("UPDATE rows SET vectors = ?", (np.zeros(3, np.float32).tobytes(),))
    assert FeatureCache(tmp_path).get(b"k") is None
    (tmp_path / "features.sqlite").write_bytes(b"no database at all" * 100)
    fresh = FeatureCache(tmp_path)
    assert fresh.get(b"k") is None
    fresh.put([(b"k", Rows(np.ones((1, 3), np.float32), np.zeros((1, 2))))])
    assert fresh.get(b"k") is not None
    assert (tmp_path / "features.broken").exists()


def test_a_long_sound_is_never_held_whole(tmp_path, cache, monkeypatch, decoded):
    monkeypatch.setattr(rows, "_HELD_SECONDS", 2.0)
    monkeypatch.setattr(rows, "_HASHED_SECONDS", 1.0)
    monkeypatch.setattr(rows, "_SURELY_SHORT_BYTES", 0)
    tower, path = audio_tower(), sound(tmp_path / "long.wav", 4.0)
    clip = clips_of([path])
    features = tower_features(tower, clip, cache=cache)
    np.testing.assert_allclose(features.audio(clip[0]), said_by(tower, path), atol=1e-5)
    assert len(decoded) >= 4
    decoded.clear()
    tower_features(tower, clip, cache=cache)
    assert decoded == []


def test_a_cache_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "features.sqlite").mkdir()
    with pytest.raises(UserError, match="SUPCLAP_CACHE"):
        FeatureCache(tmp_path)
