"""Every kind of file against what was written into it."""

import io
import os

import numpy as np
import pytest

from supclap.audio.decode import AudioError, decode, probe
from supclap.schema import UserError

soundfile = pytest.importorskip("soundfile")
av = pytest.importorskip("av")


def tone(seconds=1.0, rate=16000, channels=1, seed=0):
    t = np.arange(round(seconds * rate)) / rate
    draw = np.random.default_rng(seed)
    rows = [0.4 * np.sin(2 * np.pi * (300 + 100 * c + 50 * t) * t + draw.uniform(0, 6)) for c in range(channels)]
    return np.stack(rows).astype(np.float32)


def plain(samples, rate, **how):
    out = io.BytesIO()
    soundfile.write(out, samples.T, rate, **how)
    return out.getvalue()


def packed(path, samples, rate, container, codec, layout="mono", **options):
    """The samples encoded by PyAV."""
    with av.open(str(path), "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate, layout=layout, options=options)
        kind = "fltp" if codec in ("aac", "libopus") else "s16"
        resampler = av.AudioResampler(format=stream.codec_context.format or kind, layout=layout, rate=rate)
        for first in range(0, samples.shape[1], 1024):
            piece = np.ascontiguousarray(samples[:, first : first + 1024])
            frame = av.AudioFrame.from_ndarray(piece, format="fltp", layout=layout)
            frame.sample_rate, frame.pts = rate, first
            for ready in resampler.resample(frame):
                file.mux(stream.encode(ready))
        file.mux(stream.encode(None))
    return path


STEPS = {"PCM_16": 2**-15, "PCM_24": 2**-23, "PCM_S8": 2**-7, "PCM_32": 2**-30}
KINDS = ["WAV", "AIFF", "FLAC", "W64", "CAF", "AU"]
PAIRS = [(kind, width) for kind in KINDS for width in STEPS if soundfile.check_format(kind, width)]


@pytest.mark.parametrize("kind,width", PAIRS)
def test_integers_come_back_within_one_step(kind, width):
    samples = tone(0.3, channels=2)
    got, rate = decode(plain(samples, 16000, format=kind, subtype=width))
    assert (rate, got.dtype, got.shape) == (16000, np.float32, samples.shape)
    assert np.abs(got - samples).max() <= 1.01 * STEPS[width] + 1e-7


@pytest.mark.parametrize("width", ["PCM_U8", "FLOAT", "DOUBLE", "ULAW", "ALAW", "IMA_ADPCM"])
def test_other_widths_of_wav(width):
    samples = tone(0.5)
    got, _ = decode(plain(samples, 16000, format="WAV", subtype=width))
    near = {"FLOAT": 0, "DOUBLE": 1e-7, "PCM_U8": 2**-7}.get(width, 0.15)
    assert np.abs(got[:, : samples.shape[1]] - samples).max() <= near


@pytest.mark.parametrize("rate", [4000, 8000, 11025, 44100, 96000, 384000])
def test_rates(rate):
    samples = tone(0.1, rate)
    got, came = decode(plain(samples, rate, format="WAV", subtype="FLOAT"))
    assert came == rate and np.array_equal(got, samples)


@pytest.mark.parametrize("channels", [1, 2, 6, 64])
def test_channels_stay_apart(channels):
    samples = tone(0.1, channels=channels)
    got, _ = decode(plain(samples, 16000, format="WAV", subtype="FLOAT"))
    assert np.array_equal(got, samples)


@pytest.mark.parametrize("kind,subtype", [("MP3", None), ("OGG", "VORBIS"), ("FLAC", "PCM_16")])
def test_blocks_join_without_a_seam(kind, subtype):
    data = plain(tone(30.0, 44100), 44100, format=kind, subtype=subtype)
    expected, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    got, _ = decode(data)
    assert np.array_equal(got, expected.T)


def test_one_sample():
    got, _ = decode(plain(np.array([[0.5]], np.float32), 8000, format="WAV", subtype="FLOAT"))
    assert got.tolist() == [[0.5]]


@pytest.mark.parametrize(
    "kind,subtype",
    [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", None), ("AIFF", "DWVW_16"), ("WAV", "GSM610")],
)
@pytest.mark.parametrize("start,end", [(0.0, 1.0), (1.25, 2.5), (7.9, None), (3.0, 99.0)])
def test_a_part_is_a_slice_of_the_whole(tmp_path, kind, subtype, start, end):
    path = tmp_path / f"a.{kind.lower()}"
    path.write_bytes(plain(tone(8.0, 44100), 44100, format=kind, subtype=subtype))
    whole, rate = decode(path)
    part, _ = decode(path, start, end)
    expected = whole[:, round(start * rate) : None if end is None else round(end * rate)]
    assert part.shape == expected.shape
    assert np.abs(part - expected).max() <= 1e-6


CONTAINERS = [
    ("m4a", "ipod", "aac", 44100), ("mp4", "mp4", "aac", 48000), ("webm", "webm", "libopus", 48000),
    ("mka", "matroska", "pcm_s16le", 22050), ("mov", "mov", "pcm_s16le", 44100),
]  # fmt: skip


@pytest.mark.parametrize("suffix,container,codec,rate", CONTAINERS)
def test_what_soundfile_does_not_know(tmp_path, suffix, container, codec, rate):
    samples = tone(20.0, rate)
    path = packed(tmp_path / f"a.{suffix}", samples, rate, container, codec)
    got, came = decode(path)
    assert came == rate and abs(got.shape[1] / rate - 20.0) < 0.1
    # Codecs delay: the best alignment within 0.1 s must be near to what was written.
    middle = samples[0, rate : 2 * rate]
    errors = [np.abs(got[0, rate + d : 2 * rate + d] - middle).mean() for d in range(-2200, 2201, 1)]
    assert min(errors) < 0.02
    assert abs(probe(path).seconds - 20.0) < 0.2


@pytest.mark.parametrize("suffix,container,codec,rate", CONTAINERS)
def test_parts_of_containers(tmp_path, suffix, container, codec, rate):
    path = packed(tmp_path / f"a.{suffix}", tone(20.0, rate), rate, container, codec)
    whole, _ = decode(path)
    for start, end in ((0.5, 1.5), (12.3, 14.0), (18.0, None)):
        part, _ = decode(path, start, end)
        expected = whole[:, round(start * rate) : None if end is None else round(end * rate)]
        assert abs(part.shape[1] - expected.shape[1]) <= 0.03 * rate
        # Matroska counts in milliseconds, so that a part may begin one early or late.
        slack = 2 * rate // 1000 if suffix in ("webm", "mka") else 0
        count = min(part.shape[1], expected.shape[1]) - 2 * slack
        inner = expected[0, slack : slack + count]
        assert min(np.abs(part[0, d : d + count] - inner).mean() for d in range(2 * slack + 1)) < 1e-3


@pytest.mark.parametrize("kind", ["amr", "adts"])
def test_without_a_length_in_the_header(tmp_path, kind):
    codec, rate = ("libopencore_amrnb", 8000) if kind == "amr" else ("aac", 16000)
    if codec not in av.codecs_available:
        pytest.skip(f"no {codec} here")
    path = packed(tmp_path / f"a.{kind}", tone(2.0, rate), rate, kind, codec)
    got, _ = decode(path)
    assert abs(got.shape[1] / rate - 2.0) < 0.15 and abs(probe(path).seconds - 2.0) < 0.3


@pytest.mark.parametrize("start,end", [(-1, None), (float("nan"), None), (2, 2), (3, 1), (0, float("nan"))])
def test_spans_that_are_none(start, end):
    with pytest.raises(UserError, match="give seconds"):
        decode(plain(tone(), 16000, format="WAV"), start, end)


def test_each_bad_source_says_why(tmp_path):
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("this is no sound at all" * 50)
    (tmp_path / "none.wav").write_bytes(plain(np.zeros((1, 0), np.float32), 16000, format="WAV"))
    (tmp_path / "nan.wav").write_bytes(plain(np.full((1, 9), np.nan, np.float32), 16000, format="WAV", subtype="FLOAT"))
    (tmp_path / "raw.raw").write_bytes(b"\x01\x02" * 5000)
    os.mkfifo(tmp_path / "pipe.wav")
    whole = plain(tone(4.0), 16000, format="FLAC")
    (tmp_path / "cut.flac").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "second.wav").write_bytes(plain(tone(1.0), 16000, format="WAV"))
    for name, reason in {
        "gone.wav": "no such file", "empty.wav": "empty", "text.wav": "no sound", "none.wav": "no samples",
        "nan.wav": "NaN", "pipe.wav": "not a file", ".": "folder", "raw.raw": "no sound", "cut.flac": "cut off|broken",
    }.items():  # fmt: skip
        with pytest.raises(AudioError, match=reason):
            decode(tmp_path / name)
    with pytest.raises(AudioError, match="beyond its end"):
        decode(tmp_path / "second.wav", 1.5)
    with pytest.raises(AudioError, match="empty"):
        decode(b"")


def test_silence_is_a_sound():
    got, _ = decode(plain(np.zeros((1, 800), np.float32), 16000, format="FLAC"))
    assert got.shape == (1, 800) and not got.any()


def test_a_picture_in_a_sound_file_and_a_film_without_sound(tmp_path):
    path = tmp_path / "film.mp4"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        for _ in range(5):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")))
        file.mux(stream.encode(None))
    with pytest.raises(AudioError, match="holds no sound"):
        decode(path)


def test_a_playlist_may_not_open_other_files(tmp_path):
    packed(tmp_path / "secret.ts", tone(2.0, 44100), 44100, "mpegts", "aac")
    lines = ["#EXTM3U", "#EXT-X-TARGETDURATION:2", "#EXTINF:2,", str(tmp_path / "secret.ts"), "#EXT-X-ENDLIST", ""]
    (tmp_path / "list.m3u8").write_text("\n".join(lines))
    with pytest.raises(AudioError):
        decode(tmp_path / "list.m3u8")
    (tmp_path / "list.txt").write_text(f"ffconcat version 1.0\nfile {tmp_path / 'secret.ts'}\n")
    with pytest.raises(AudioError):
        decode(tmp_path / "list.txt")
