"""Does the loader keep a model fed: the share of a training run's time that CED-Tiny waits for its next batch."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from supclap.bench.measured import Measured, machine
from supclap.bench.timing import median
from supclap.data.loader import Loader
from supclap.encoders.ced import CedTinySettings
from supclap.runtime import generator
from supclap.schema import Caption, Clip

CLIPS, SECONDS, RATE, BATCH = 96, 10.0, 44_100, 8
FORMATS = {"flac": ("FLAC", "PCM_16"), "ogg": ("OGG", "VORBIS")}
WORKERS = (0, 1)
GOAL_PERCENT = 10.0


def pipeline(
    rounds: int | None = None,
    say: Callable[[str], None] = lambda line: None,
    batches: int = 6,
    build: Callable[[], Any] | None = None,
) -> Measured:
    """Decoding, resampling, mel and a step of CED-Tiny (forward and backward); ``rounds`` None takes 1."""
    before = machine()
    tower = (build or CedTinySettings(weights=None).build)()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for suffix in FORMATS:
            clips = write_clips(Path(folder), suffix)
            for workers in WORKERS:
                say(f"{suffix}, {workers} workers")
                waits, steps = [], []
                for number in range(rounds or 1):
                    wait, step = measure(tower, clips, workers, batches, number)
                    waits.append(wait)
                    steps.append(step)
                wait, step = median(waits), median(steps)
                rows.append(
                    {
                        "files": suffix,
                        "workers": workers,
                        "ms waiting a batch": wait,
                        "ms a step": step,
                        "% of the time waiting": 100 * wait / (wait + step),
                        "goal": f"{GOAL_PERCENT:g} %" if workers else None,
                    }
                )
    notes = [
        f"{CLIPS} clips of {SECONDS:g} s at {RATE} Hz, mono, batch {BATCH}, {batches} batches after a first one.",
        "A step: mel, forward and backward of CED-Tiny at random weights. 0 workers: decoding takes turns with it.",
    ]
    return Measured("pipeline", "Loader: does the model wait?", rows, notes, before)


def write_clips(folder: Path, suffix: str) -> list[Clip]:
    """Ten-second clips of filtered noise in one format."""
    import soundfile

    kind, width = FORMATS[suffix]
    clips = []
    for number in range(CLIPS):
        path = folder / f"{number}.{suffix}"
        noise = torch.randn(round(SECONDS * RATE), generator=generator(number, "pipeline")).numpy()
        # Noise as it is would be harder to pack than any recording.
        soft = np.convolve(noise, np.hanning(33) / 16, mode="same") * 0.1
        soundfile.write(path, soft, RATE, format=kind, subtype=width)
        clips.append(Clip(path.stem, str(path), captions=(Caption("noise"),)))
    return clips


def measure(tower: Any, clips: list[Clip], workers: int, batches: int, epoch: int) -> tuple[float, float]:
    """Mean milliseconds waiting for a batch, and in a step: one long wait counts in full."""
    loader = Loader(clips, batch_size=BATCH, sample_rate=tower.sample_rate, workers=workers)
    waits: list[float] = []
    steps: list[float] = []
    stream = loader.batches(epoch)
    for number in range(batches + 1):
        start = time.perf_counter()
        _, batch = next(stream)
        ready = time.perf_counter()
        tower(batch.samples, batch.lengths).square().sum().backward()
        done = time.perf_counter()
        # The first batch waits for the workers to start.
        if number:
            waits.append((ready - start) * 1e3)
            steps.append((done - ready) * 1e3)
    loader.close()
    return sum(waits) / len(waits), sum(steps) / len(steps)
