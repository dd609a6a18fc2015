"""What [train] must do in a bare environment: train from a CSV of sounds, load the run, embed."""

import csv
from pathlib import Path

import numpy as np
import soundfile

import supclap

folder = Path("sounds")
folder.mkdir(exist_ok=True)
rate, rng = 16000, np.random.default_rng(0)
with open("table.csv", "w", newline="") as handle:
    table = csv.writer(handle)
    table.writerow(["audio", "caption"])
    for row in range(40):
        pitch = 200 + 40 * row
        tone = 0.3 * np.sin(2 * np.pi * pitch * np.arange(rate) / rate) + 0.01 * rng.standard_normal(rate)
        soundfile.write(folder / f"{row}.wav", tone, rate)
        table.writerow([f"sounds/{row}.wav", f"a tone of {pitch} hertz"])
run = supclap.train(supclap.recipe("small", data="table.csv", epochs=1, batch_size=8), out="run")
model = supclap.load("run")
rows = model.embed_audio(["sounds/0.wav", "sounds/1.wav"])
assert rows.shape[0] == 2 and np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
print("train: a CSV was trained on, the run loads and embeds")
