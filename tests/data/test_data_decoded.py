"""The cache of decoded samples: the same batches, and never those of another file."""

import os
import tarfile

import numpy as np
import pytest
from test_data_loader import RATE, good, loader, plain, sounds  # noqa: F401  (a fixture)

from supclap.audio.reader import read
from supclap.data.decoded import Decoded, packed, unpacked
from supclap.schema import Clip, UserError

soundfile = pytest.importorskip("soundfile")


def tone(path, level=0.5, seconds=0.2):
    soundfile.write(path, level * np.sin(np.arange(int(RATE * seconds)) / 5), RATE, subtype="PCM_16")
    return Clip("a", str(path))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("how", [{}, {"max_seconds": 0.2}, {"max_seconds": 0.2, "crop": "start"}])
def test_batches_are_the_same_bit_for_bit(sounds, tmp_path, how):  # noqa: F811
    """Sixteen bits at the same rate: first read, read again, in workers."""
    expected = plain(loader(sounds, **how).batches(1))
    for workers in (0, 0, 2):
        one = loader(sounds, decoded=tmp_path / "kept", workers=workers, **how)
        assert plain(one.batches(1)) == expected
        one.close()
    assert len(list((tmp_path / "kept").rglob("*.npy"))) >= 36


def test_the_second_epoch_decodes_nothing(sounds, tmp_path, monkeypatch):  # noqa: F811
    one = loader(good(sounds), decoded=tmp_path, drop_last=False)
    list(one.batches(0))
    monkeypatch.setattr("supclap.data.decoded.read", None)
    assert sum(1 for _ in one.batches(1)) == 7


def test_a_changed_file_span_or_rate_is_read_anew(tmp_path):
    kept = Decoded(tmp_path / "kept", RATE)
    clip = tone(tmp_path / "a.wav")
    first = kept(clip)
    tone(tmp_path / "a.wav", level=0.25)
    os.utime(tmp_path / "a.wav", ns=(1, 1))
    assert np.abs(kept(clip)).max() < np.abs(first).max()
    assert len(kept(Clip("a", clip.audio, start=0.1))) == RATE // 10
    assert len(Decoded(tmp_path / "kept", 2 * RATE)(clip)) == 2 * len(first)


def test_a_changed_shard_too(tmp_path):
    clip = Clip("a", f"{tmp_path}/x.tar::a.wav")
    kept = Decoded(tmp_path / "kept", RATE)
    peaks = []
    for level in (0.5, 0.25):
        tone(tmp_path / "a.wav", level)
        with tarfile.open(tmp_path / "x.tar", "w") as shard:
            shard.add(tmp_path / "a.wav", "a.wav")
        os.utime(tmp_path / "x.tar", ns=(int(level * 100), int(level * 100)))
        peaks.append(np.abs(kept(clip)).max())
    assert peaks[1] < 0.6 * peaks[0]


def test_what_a_crash_left_is_not_believed(tmp_path):
    clip = tone(tmp_path / "a.wav")
    kept = Decoded(tmp_path / "kept", RATE)
    expected = np.array(kept(clip))
    (path,) = (tmp_path / "kept").rglob("*.npy")
    whole = path.read_bytes()
    for left in (0, 4, 60, len(whole) - 1):
        path.write_bytes(whole[:left])
        assert np.array_equal(kept(clip), expected) and path.read_bytes() == whole
    assert not list((tmp_path / "kept").rglob("*.tmp"))


@pytest.mark.parametrize("level", [0.3, 0.99999, 1.0])
def test_sixteen_bits_hold_what_they_can(level):
    samples = np.array([-1, -level, 0, 1e-5, level], np.float32)
    assert packed(samples).dtype == np.int16
    assert np.abs(unpacked(packed(samples)) - samples).max() <= 1 / 32768


def test_louder_sounds_keep_every_bit(tmp_path):
    soundfile.write(tmp_path / "loud.wav", 3 * np.sin(np.arange(500) / 5), RATE, subtype="FLOAT")
    clip = Clip("a", str(tmp_path / "loud.wav"))
    kept = Decoded(tmp_path, RATE)
    for _ in range(2):
        assert np.array_equal(unpacked(kept(clip)), read(clip.audio, RATE))


def test_no_place_to_write_is_one_line(tmp_path):
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(UserError, match="is the disk full"):
        Decoded(tmp_path / "kept", RATE)(tone(tmp_path / "a.wav"))
