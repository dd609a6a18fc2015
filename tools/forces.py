"""Forces of InfoNCE, SigLIP and bi-Dynamic on real runs over synthesised scenes, drawn.

    python tools/forces.py [--out runs/forces] [--picture docs/img/forces.png] [--steps 150]

Three runs from the same weights over the same batches, measured every 5 steps by the training callback
(dynamics.jsonl), then each saved model over test scenes it was not trained on. Prints the table of the second. Runs
that stand in --out already are drawn again, not trained again.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from supclap.data.scenes.write import write
from supclap.evaluation.model import embed_clips, evaluate_model
from supclap.report import tables
from supclap.report.figures import COLOURS
from supclap.settings import cache_folder
from supclap.training import watching
from supclap.training.config import recipe
from supclap.training.looking import look
from supclap.training.loop import RUN, resume, train

METHODS = {"infonce": "InfoNCE", "siglip": "SigLIP", "bi-dynamic": "bi-Dynamic"}
PANELS = (
    ("drift_t2a", "cosine of force and pull"),
    ("step_drift_t2a", "cosine of real step and pull"),
    ("parallel_t2a", "force along the pull"),
    ("perpendicular_t2a", "force across the pull"),
)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path("runs/forces"))
    arguments.add_argument("--picture", type=Path, default=Path("docs/img/forces.png"))
    arguments.add_argument("--steps", type=int, default=150)
    chosen = arguments.parse_args()
    clips = write(cache_folder("corpora", "forces-600-96"), 600, 0, 96, seconds=3.0, seed=0, languages=("eng",))
    heard, asked = ([clip for clip in clips if clip.split == side] for side in ("train", "test"))
    found, rows = {}, []
    for kind, name in METHODS.items():
        folder = chosen.out / kind
        config = recipe("small", fields(kind, chosen.steps))
        # A finished run is taken as it is.
        run = resume(folder, data=heard) if (folder / RUN).exists() else train(config, out=folder, data=heard)
        scores = evaluate_model(run.model, asked)
        found[name] = watching.read(folder), look(folder, config, embed_clips(run.model, asked))
        share = 100 * watching.cost(found[name][0], run.records, config.train.batch_size)
        recalls = [scores[way]["R@1"] for way in ("t2a", "a2t")]
        print(f"{name}: R@1 {recalls[0]:.1f} / {recalls[1]:.1f}; measuring took {share:.1f} %", file=sys.stderr)
        rows += [[name, *row] for row in found[name][1].table()]
    draw(found, chosen.picture)
    headers = ["objective", "rows", "cosine with pull", "pull", "push", "push along", "push across"]
    print(tables.markdown(rows, headers))


def fields(kind, steps):
    return {
        "objective": kind, "steps": steps, "epochs": steps, "batch_size": 32, "seed": 0, "device": "cpu",
        "evaluate.every": steps, "evaluate.dynamics": 5, "data.val": 0.02, "data.test": 0.0,
        "audio_tower.channels": (16, 48, 96, 160), "text_tower.width": 128,
    }  # fmt: skip


def draw(found, path):
    figure = Figure(figsize=(9.6, 5.4), layout="constrained", dpi=110)
    axes = figure.subplots(2, 3).ravel()
    for place, (name, (lines, seen)) in enumerate(found.items()):
        style = {"color": COLOURS[place], "label": name, "linewidth": 1.6}
        at = [line["step"] for line in lines]
        for panel, (key, title) in zip(axes, PANELS, strict=False):
            panel.plot(at, smooth([line[key] for line in lines]), **style)
            panel.set_title(title, fontsize=10)
            panel.set_xlabel("step")
        axes[4].hist(seen.forces["t2a"].cosine.numpy(), np.linspace(-1, 1, 41), histtype="step", **style)
        for term, dash in zip(seen.radius, ("-", ":"), strict=False):
            share = (seen.radius[term] / seen.distance[term]).numpy()
            axes[5].hist(share, np.linspace(0, 2, 41), histtype="step", linestyle=dash, **(style | {"label": term}))
    axes[4].set_title("cosine of force and pull, by row, at the end", fontsize=10)
    axes[5].set_title("R / d by row, at the end (bi-Dynamic)", fontsize=10)
    axes[3].legend(frameon=False, fontsize=9)
    axes[5].legend(frameon=False, fontsize=9)
    for panel in axes:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})


def smooth(values, width=3):
    padded = np.pad(np.asarray(values, float), width // 2, mode="edge")
    return np.convolve(padded, np.ones(width) / width, mode="valid")


if __name__ == "__main__":
    main()
