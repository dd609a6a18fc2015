"""Sounds of any length in bounded memory: the hour itself in the slow tier, shorter ones in the fast."""

import os
import subprocess
import sys
import textwrap
import tracemalloc

import numpy as np
import pytest
import soundfile
from encoder_cases import noise


def write(path, minutes, rate, channels=1):
    """So many minutes, each the same noise at a loudness of its own."""
    minute = noise(60 * rate, 1)
    with soundfile.SoundFile(path, "w", rate, channels, "PCM_16") as file:
        for place in range(minutes):
            block = minute * (0.2 + 0.8 * (place % 7) / 7)
            file.write(np.stack([block] * channels, 1) if channels > 1 else block)
    return path


def peak_of(call):
    """Megabytes that Python's and numpy's allocations reached above what was there before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return (tracemalloc.get_traced_memory()[1] - before) / 1e6
    finally:
        tracemalloc.stop()


def test_a_file_is_never_decoded_whole(small, tmp_path):
    """Six minutes at 48 kHz are 69 MB of samples and 23 MB at the model's rate; a stretch of a minute is 12 and 4."""
    path = write(tmp_path / "long.wav", 6, 48000)
    peak = peak_of(lambda: small.embed_audio([path], batch_size=4))
    assert peak < 45
    whole = soundfile.read(path, dtype="float32")[0]
    assert whole.nbytes / 1e6 > 1.5 * peak


def test_an_array_is_never_copied_whole(small):
    """Twenty minutes of 16-bit stereo are 77 MB; as float32 they would be 154 more."""
    samples = np.tile(np.round(3000 * noise(60 * 16000, 2)).astype(np.int16), (2, 20))
    assert peak_of(lambda: small.embed_audio([(samples, 16000)], batch_size=4)) < 45


HOUR = """
import sys, torch
from supclap.encoders.hub import load

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024

torch.set_num_threads(1)
model, rows = load(sys.argv[1]), {}
for minutes in (10, 60):
    rows[minutes] = model.embed_audio([f"{sys.argv[2]}/{minutes}.{sys.argv[3]}"], windows="each")[0]
    print(peak(), len(rows[minutes]))
print(abs(rows[10] - rows[60][: len(rows[10])])[:-1].max())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("kind", "rate"), [("wav", 44100), ("flac", 22050)])
def test_an_hour_takes_no_more_memory_than_ten_minutes(small, tmp_path, kind, rate):
    """At 16 kHz an hour is 230 MB of float32; ten minutes have filled every buffer that there is."""
    for minutes in (10, 60):
        write(tmp_path / f"{minutes}.{kind}", minutes, rate)
    small.save(tmp_path / "model")
    words = [sys.executable, "-c", textwrap.dedent(HOUR), str(tmp_path / "model"), str(tmp_path), kind]
    # What the C library keeps of freed memory is no matter of ours: every large block goes back at once.
    plain = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=plain)
    ten, hour, difference = done.stdout.splitlines()
    print(kind, "peak MB and windows after 10 and 60 minutes:", ten, hour)
    assert (ten.split()[1], hour.split()[1]) == ("60", "360")
    assert float(hour.split()[0]) - float(ten.split()[0]) < 40
    assert float(difference) < 1e-5
