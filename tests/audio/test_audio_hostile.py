"""Damaged and malicious files: an answer or AudioError, in bounded time and memory, never a crash."""

import io
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_audio_decode import packed, plain, tone

from supclap.audio.decode import AudioError, decode, probe
from supclap.audio.reader import read

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("av")

# Run apart: a crash in a decoder would take the tests with it. Prints one line before and after each file.
CHILD = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from supclap.audio.reader import read
from supclap.audio.decode import AudioError
for path in sys.argv[1:]:
    start = time.perf_counter()
    try:
        outcome = f"{len(read(path, 16000))} samples"
    except AudioError as error:
        outcome = f"AudioError {error}"
    except MemoryError:
        outcome = "MemoryError"
    # Not ru_maxrss, which begins with what the parent of this process held.
    peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
    print(json.dumps([path, outcome, time.perf_counter() - start, peak]), flush=True)
"""


def seeds(folder):
    """Real encodings of several formats: (suffix, bytes)."""
    samples = tone(2.0, 44100, channels=2)
    for kind, width in [("WAV", "PCM_16"), ("WAV", "FLOAT"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", None),
                        ("AIFF", "PCM_24"), ("CAF", "PCM_16"), ("OGG", "OPUS"), ("W64", "PCM_16")]:  # fmt: skip
        rate = 48000 if width == "OPUS" else 44100
        yield kind.lower(), plain(samples, rate, format=kind, subtype=width)
    for suffix, container, codec in [("m4a", "ipod", "aac"), ("webm", "webm", "libopus"), ("aac", "adts", "aac")]:
        path = packed(folder / f"seed.{suffix}", samples, 48000, container, codec, "stereo")
        yield suffix, path.read_bytes()


def damaged(data, draw):
    """One of: some bytes turned, a stretch of noise, cut off, a stretch left out, a header field made huge."""
    body = bytearray(data)
    kind = draw.integers(5)
    if kind == 0:
        for place in draw.integers(0, len(body), draw.integers(1, 40)):
            body[place] ^= int(draw.integers(1, 256))
    elif kind == 1:
        first = int(draw.integers(0, len(body)))
        body[first : first + 200] = draw.bytes(200)
    elif kind == 2:
        del body[int(draw.integers(0, len(body))) :]
    elif kind == 3:
        first = int(draw.integers(0, len(body)))
        del body[first : first + int(draw.integers(1, 5000))]
    else:
        first = int(draw.integers(0, min(len(body), 400)))
        body[first : first + 4] = b"\xff\xff\xff\x7f"
    return bytes(body)


def write_damaged(folder, count):
    draw = np.random.default_rng(7)
    kinds = list(seeds(folder))
    paths = []
    for number in range(count):
        suffix, data = kinds[number % len(kinds)]
        paths.append(folder / f"{number:04d}.{suffix}")
        paths[-1].write_bytes(damaged(data, draw))
    return paths


def read_apart(paths, seconds):
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, paths)], capture_output=True, timeout=seconds, check=False
    )
    answers = [json.loads(line) for line in child.stdout.splitlines() if line.startswith(b"[")]
    last = answers[-1][0] if answers else "none"
    assert child.returncode == 0, f"died with {child.returncode} after {last}: {child.stderr[-500:]!r}"
    return answers


def check_answers(answers, paths):
    assert [answer[0] for answer in answers] == [str(path) for path in paths]
    assert not [answer for answer in answers if answer[1] == "MemoryError"]
    slow = [answer for answer in answers if answer[2] > 10]
    assert not slow, slow
    assert answers[-1][3] < 1 << 20, "more than 1 GiB"
    good = [answer for answer in answers if not answer[1].startswith("AudioError")]
    # Both happen: damage that a decoder lives through, and damage that it names.
    assert len(paths) / 10 < len(good) < len(paths) * 0.95
    reasons = [answer[1].removeprefix(f"AudioError {answer[0]}: ") for answer in answers if answer not in good]
    assert all(len(reason) > 5 and "\n" not in reason for reason in reasons)


def test_a_thousand_damaged_files(tmp_path):
    paths = write_damaged(tmp_path, 1000)
    check_answers(read_apart(paths, 600), paths)


def test_a_header_that_claims_an_hour():
    data = bytearray(plain(tone(1.0), 16000, format="WAV"))
    struct.pack_into("<I", data, 40, 16000 * 2 * 3600)
    assert decode(bytes(data))[0].shape == (1, 16000)
    flac = bytearray(plain(tone(1.0), 16000, format="FLAC"))
    # STREAMINFO: the number of samples is the low 36 bits of bytes 21 to 25.
    struct.pack_into(">I", flac, 22, 16000 * 3600)
    assert probe(bytes(flac)).seconds == 3600
    with pytest.raises(AudioError, match="says 3600.00 s and ends after 1.00 s"):
        decode(bytes(flac))
    assert decode(bytes(flac), 0.25, 0.5)[0].shape == (1, 4000)


def test_four_billion_channels():
    au = bytearray(plain(tone(0.1), 16000, format="AU"))
    struct.pack_into(">I", au, 20, 0xFFFFFFFF)
    wav = bytearray(plain(tone(0.1), 16000, format="WAV"))
    struct.pack_into("<H", wav, 22, 0xFFFF)
    struct.pack_into("<I", wav, 28, 16000 * 2 * 0xFFFF % 2**32)
    for data in (au, wav):
        with pytest.raises(AudioError):
            decode(bytes(data))
    many = io.BytesIO()
    soundfile.write(many, np.zeros((10, 65), np.float32), 16000, format="WAV")
    with pytest.raises(AudioError, match="65 channels; 1 to 64"):
        decode(many.getvalue())


@pytest.mark.parametrize("rate", [0, 1, 999, 2_000_000_000])
def test_rates_that_no_sound_has(rate):
    wav = bytearray(plain(tone(0.1), 16000, format="WAV"))
    struct.pack_into("<I", wav, 24, rate)
    with pytest.raises(AudioError):
        read(bytes(wav), 16000)


def crc(data, width, polynomial):
    value = 0
    for byte in data:
        value ^= byte << (width - 8)
        for _ in range(8):
            value = (value << 1) ^ polynomial if value >> (width - 1) else value << 1
            value &= (1 << width) - 1
    return value.to_bytes(width // 8, "big")


def bomb(frames):
    """A FLAC file of frames that each say, in 40 bytes, that 65,535 samples of eight channels are zero."""
    info = struct.pack(">HH", 65535, 65535) + bytes(6) + ((48000 << 44) | (7 << 41) | (15 << 36)).to_bytes(8, "big")
    data = [b"fLaC", b"\x80\x00\x00\x22", info + bytes(16)]
    for number in range(frames):
        coded = bytes([number]) if number < 128 else bytes([0xC0 | number >> 6, 0x80 | number & 63])
        head = b"\xff\xf8\x70\x70" + coded + struct.pack(">H", 65534)
        frame = head + crc(head, 8, 0x07) + b"\x00\x00\x00" * 8
        data.append(frame + crc(frame, 16, 0x8005))
    return b"".join(data)


def test_a_decompression_bomb():
    data = bomb(1500)
    assert len(data) < 64_000, "and it unpacks to 3 GB"
    with pytest.raises(AudioError, match="unpack to more than"):
        read(data, 16000)
    assert len(read(data, 16000, 0.0, 10.0)) == 160_000


def test_the_limits_pass_ten_quiet_hours(tmp_path):
    path: Path = tmp_path / "night.flac"
    with soundfile.SoundFile(path, "w", 4000, 1, format="FLAC", subtype="PCM_16") as file:
        for _ in range(600):
            file.write(np.zeros(60 * 4000, np.int16))
    assert probe(path).seconds == 36_000
    assert len(read(path, 4000, 35_990.0)) == 40_000
