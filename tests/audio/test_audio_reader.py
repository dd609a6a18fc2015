"""Reading for a model: mono at its rate, arrays and their usual mistakes, addresses, hashes, windows."""

import tarfile

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from test_audio_decode import plain, tone

from supclap.audio.decode import AudioError, decode
from supclap.audio.reader import content_hash, read, sound_files
from supclap.audio.resample import Stream, resample
from supclap.audio.window import spans
from supclap.schema import UserError

pytest.importorskip("soundfile")


def test_mono_is_the_mean_of_the_channels():
    samples = tone(0.5, channels=3)
    got = read(plain(samples, 16000, format="WAV", subtype="FLOAT"), 16000)
    assert got.dtype == np.float32 and np.allclose(got, samples.mean(0), atol=1e-7)


@pytest.mark.parametrize("rate_in,rate_out", [(44100, 16000), (8000, 32000), (384000, 4000), (22050, 48000)])
def test_resampling_keeps_a_tone(rate_in, rate_out):
    t_in, t_out = np.arange(rate_in) / rate_in, np.arange(rate_out) / rate_out
    got = resample(np.sin(2 * np.pi * 500 * t_in), rate_in, rate_out)
    expected = np.sin(2 * np.pi * 500 * t_out)
    edge = rate_out // 10
    assert len(got) == rate_out and np.abs(got - expected)[edge:-edge].max() < 1e-3


def test_resampling_removes_what_the_new_rate_cannot_hold():
    t = np.arange(44100) / 44100
    assert np.abs(resample(np.sin(2 * np.pi * 12000 * t), 44100, 16000)[1000:-1000]).max() < 1e-3


def test_resampling_against_scipy():
    noise = scipy.signal.lfilter(*scipy.signal.butter(6, 0.1), np.random.default_rng(0).standard_normal(48000))
    ours, theirs = resample(noise, 48000, 16000), scipy.signal.resample_poly(noise, 1, 3)
    assert np.abs(ours - theirs)[500:-500].max() < 5e-3


def test_a_long_sound_in_blocks_is_the_short_way_at_once(monkeypatch):
    data = plain(tone(9.0, 44100, channels=2), 44100, format="WAV")
    at_once = read(data, 16000)
    monkeypatch.setattr("supclap.audio.reader.AT_ONCE", 50_000)
    monkeypatch.setattr("supclap.audio.plain.BLOCK", 30_000)
    in_blocks = read(data, 16000)
    assert in_blocks.shape == at_once.shape and np.abs(in_blocks - at_once).max() < 1e-6


def test_stream_at_the_same_rate_passes_through():
    stream = Stream(16000, 16000)
    assert stream.push(np.ones(5, np.float32)).tolist() == [1] * 5 and len(stream.finish()) == 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_few_samples(count):
    got = read((np.full(count, 0.5, np.float32), 48000), 16000)
    assert len(got) == 1 and np.isfinite(got).all()


def test_a_part_of_a_file_and_of_an_array_agree():
    samples = tone(3.0)
    data = plain(samples, 16000, format="WAV", subtype="FLOAT")
    assert np.array_equal(read(data, 8000, 0.5, 1.75), read((samples, 16000), 8000, 0.5, 1.75))


def test_integers_are_scaled_by_their_width():
    half = {np.int16: 1 << 14, np.int32: 1 << 30, np.int8: 64, np.uint8: 192}
    for kind, value in half.items():
        assert read((np.full(8, value, kind), 16000), 16000).tolist() == [0.5] * 8


@pytest.mark.parametrize("samples,rate,reason", [
    (np.zeros((48000, 2)), 48000, "give samples.T"), (np.zeros((2, 2, 2)), 48000, "time"), (np.zeros(5), 0, "rate"),
    (np.zeros(5), "fast", "rate"), (np.zeros(5), float("nan"), "rate"), (np.zeros(5, complex), 8000, "type complex"),
    (np.array(["a"]), 8000, "type"), (np.zeros(5, bool), 8000, "type bool"), (np.float32(1), 8000, "shape"),
    (np.zeros(5), True, "rate"), (np.zeros((10, 6)), 8000, "samples.T"),
])  # fmt: skip
def test_mistakes_with_arrays(samples, rate, reason):
    with pytest.raises(UserError, match=reason) as caught:
        read((samples, rate), 16000)
    assert not isinstance(caught.value, AudioError)


@pytest.mark.parametrize("samples", [np.zeros(0), np.zeros((2, 0)), np.array([0, np.nan]), np.array([np.inf, 0, 1])])
def test_arrays_that_hold_no_sound(samples):
    with pytest.raises(AudioError):
        read((samples, 16000), 16000)


@pytest.mark.parametrize("item", [None, 5, ["a.wav"], object()])
def test_what_is_no_sound_at_all(item):
    with pytest.raises(UserError, match="a sound is a path, bytes or"):
        read(item, 16000)


def test_members_of_a_shard_are_read_like_files(tmp_path):
    data = plain(tone(0.5), 16000, format="FLAC")
    (tmp_path / "a.flac").write_bytes(data)
    with tarfile.open(tmp_path / "x.tar", "w") as shard:
        shard.add(tmp_path / "a.flac", "deep/a.flac")
    address = f"{tmp_path}/x.tar::deep/a.flac"
    assert np.array_equal(read(address, 16000), read(data, 16000))
    assert content_hash(address) == content_hash(data) == content_hash(tmp_path / "a.flac")
    with pytest.raises(AudioError, match="no member"):
        read(f"{tmp_path}/x.tar::b.flac", 16000)
    # A shard that has changed is indexed anew.
    with tarfile.open(tmp_path / "x.tar", "w") as shard:
        shard.add(tmp_path / "a.flac", "b.flac")
    assert len(read(f"{tmp_path}/x.tar::b.flac", 16000)) == 8000
    (tmp_path / "y.tar").write_bytes(b"no tar" * 500)
    with pytest.raises(AudioError, match="tar"):
        read(f"{tmp_path}/y.tar::a.flac", 16000)


def test_hashes_tell_contents_and_spans_apart(tmp_path):
    one, two = plain(tone(seed=1), 16000, format="WAV"), plain(tone(seed=2), 16000, format="WAV")
    (tmp_path / "a.wav").write_bytes(one)
    (tmp_path / "b.wav").write_bytes(one)
    assert content_hash(tmp_path / "a.wav") == content_hash(str(tmp_path / "b.wav")) == content_hash(one)
    array = (tone(), 16000)
    different = [content_hash(one), content_hash(two), content_hash(one, 0.5), content_hash(one, 0.5, 1.0),
                 content_hash(one, 0.0, 1.0), content_hash(array), content_hash((array[0], 8000))]  # fmt: skip
    assert len(set(different)) == len(different)
    with pytest.raises(AudioError):
        content_hash(tmp_path / "none.wav")


def test_sound_files_are_sorted_and_hidden_ones_left_out(tmp_path):
    for name in ["b.WAV", "a/c.flac", "a/notes.txt", ".hidden/d.wav", "a/.e.wav", "z.m4a"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [str(path.relative_to(tmp_path)) for path in sound_files(tmp_path)] == ["a/c.flac", "b.WAV", "z.m4a"]
    with pytest.raises(UserError, match="no such folder"):
        sound_files(tmp_path / "none")


@settings(derandomize=True, deadline=None)
@given(st.integers(0, 500), st.integers(1, 60), st.data())
def test_windows_cover_every_sample_once_in_order(count, window, data):
    hop = data.draw(st.integers(1, window))
    found = spans(count, window, hop)
    assert {i for first, last in found for i in range(first, last)} == set(range(count))
    assert all(
        first == number * hop and last == min(first + window, count) for number, (first, last) in enumerate(found)
    )
    assert all(last < count for _, last in found[:-1])


@pytest.mark.parametrize("window,hop", [(0, None), (4, 0), (4, 5)])
def test_windows_that_would_leave_samples_out(window, hop):
    with pytest.raises(UserError):
        spans(10, window, hop)


@pytest.mark.shared
def test_the_recordings_at_hand_are_all_read(shared):
    files = sound_files(shared / "data" / "sounds")
    assert len(files) == 764
    for path in files[::10]:
        samples, rate = decode(path)
        expected = max(1, round(samples.shape[1] * 16000 / rate))
        assert abs(len(read(path, 16000)) - expected) <= 1
