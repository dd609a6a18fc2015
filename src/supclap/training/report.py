"""A run as one HTML page: what came out, curves, failures to listen to, settings, and how to do it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from supclap.data.quarantine import read as read_quarantine
from supclap.report import figures, html
from supclap.schema import UserError
from supclap.settings import read as read_settings
from supclap.training import records, report_dynamics, report_sounds, setup, untrained
from supclap.training.config import RunConfig
from supclap.training.loop import RUN, load_recipe

NAME = "report.html"
WAYS = {"t2a": "text to audio", "a2t": "audio to text"}

Lines = list[dict[str, Any]]
_DRAWN = (
    ("parts", "loss", "The loss by its parts, unweighted."),
    ("radius", "R", "The radius, mean over the batch."),
    ("share", "R / d", "Radius over distance, mean over the batch."),
    ("distance", "d", "The distance of a pair, mean over the batch."),
)


def write_report(folder: Path, *, listen: bool = True) -> Path:
    """Write RUN/report.html; ``listen`` False leaves the sounds out, which need the data and the model."""
    if not (folder / RUN).exists():
        raise UserError(f"{folder}: no {RUN} in it; supclap report takes a run's folder")
    load_recipe(folder)
    config = read_settings(RunConfig, folder / RUN)
    lines = records.read(folder)
    seen, trouble = report_sounds.heard(folder, config) if listen else (None, "")
    sections = [("What came out", _summary(folder, lines)), ("Curves", _curves(lines))]
    sections.append(("Forces and drift", report_dynamics.section(folder, config, lines, seen)))
    if seen is not None:
        sections += [
            ("Asked and found", report_sounds.found(seen)),
            ("Failures to listen to", report_sounds.failed(seen)),
        ]
    elif trouble:
        sections.append(("Asked and found", html.text(f"The sounds are not here to be played: {trouble}", "soft")))
    sections += [
        ("What was left out", _left_out(folder, lines)),
        ("How to run it again", _again(folder)),
        ("How this was made", _made(folder)),
    ]
    path = folder / NAME
    kind = json.loads((folder / RUN).read_text(encoding="utf8"))["objective"]["kind"]
    subtitle = f"{config.data.path or 'clips from Python'}, objective {kind}, seed {config.seed}"
    path.write_text(html.page(f"Run {folder.name}", sections, subtitle=subtitle), encoding="utf8")
    return path


def in_words(lines: Lines) -> str:
    """The run in two sentences."""
    steps, best = sum(line["event"] == "step" for line in lines), records.best(lines)
    end = records.last(lines, "end")
    said = f"{'Finished' if end else 'Not finished'} after {steps} steps."
    if best is None:
        return f"{said} There was no validation data to score it on."
    scores = best["scores"]
    return (
        f"{said} The saved model is that of step {best['step']}: R@1 {scores['t2a']['R@1']:.1f} text to audio and "
        f"{scores['a2t']['R@1']:.1f} audio to text over {scores['clips']} clips and {scores['captions']} captions "
        f"of the {best['split']} split (chance {100 / scores['clips']:.1f})."
    )


def _summary(folder: Path, lines: Lines) -> str:
    body = html.text(in_words(lines), "lead")
    best = records.best(lines)
    if best is not None and best["split"] == "test":
        body += html.text("The model was selected on the test split, as the paper does: its scores flatter it.", "bad")
    metrics = ("R@1", "R@5", "R@10", "mAP10", "MedR")
    held = json.loads((folder / "config.json").read_text(encoding="utf8")) if (folder / "config.json").exists() else {}
    intervals = held.get("card", {}).get("scores", {}).get("intervals", {})
    if best is not None:
        rows = [[WAYS[way], *(_cell(best["scores"], intervals, way, name) for name in metrics)] for way in WAYS]
        body += html.table(("", *metrics), rows)
        body += html.text("Percent (MedR: rank), with 95 % intervals over clips.", "soft")
        told = untrained.read(folder)
        if told is not None:
            worse = any(told[way]["worse"] for way in WAYS)
            body += html.text(untrained.in_words(told), "bad" if worse else "")
    return body


def _cell(scores: dict[str, Any], intervals: dict[str, Any], way: str, name: str) -> str:
    pair = intervals.get(way, {}).get(name)
    value = f"{scores[way][name]:.1f}"
    return f"{value} [{pair[0]:.1f}, {pair[1]:.1f}]" if pair else value


def _curves(lines: Lines) -> str:
    steps = [line for line in lines if line["event"] == "step"]
    evals = [line for line in lines if line["event"] == "eval"]
    drawn: list[tuple[dict[str, Any], str, str]] = []
    if len(steps) > 1:
        at = [line["step"] for line in steps]
        for key, label, words in _DRAWN:
            series = {name: (at, _smooth([line[key][name] for line in steps])) for name in steps[0][key]}
            drawn.append((series, label, words))
        norms = {"gradient": (at, _smooth([line["gradient_norm"] for line in steps]))}
        drawn.append((norms, "norm", "Norm of the gradient before clipping."))
    if len(evals) > 1:
        at = [line["step"] for line in evals]
        recalls = {words: (at, [line["scores"][way]["R@1"] for line in evals]) for way, words in WAYS.items()}
        drawn.append((recalls, "R@1", f"R@1 on the {evals[0]['split']} split."))
    found = [html.figure(figures.curve(series, x="step", y=label), words) for series, label, words in drawn if series]
    return "".join(found) or html.text("There are too few steps to draw.")


def _smooth(values: Sequence[float | None], most: int = 400) -> np.ndarray:
    """A running mean over a fiftieth of the run."""
    whole = np.array([np.nan if value is None else value for value in values], float)
    width = max(1, len(whole) // 50)
    padded = np.pad(whole, (width // 2, width - 1 - width // 2), mode="edge")
    smoothed: np.ndarray = np.convolve(padded, np.ones(width) / width, mode="valid")
    return smoothed


def _left_out(folder: Path, lines: Lines) -> str:
    bad = read_quarantine(folder / setup.QUARANTINE)
    skips = [line for line in lines if line["event"] == "skip"]
    body = html.text(f"{len(bad)} clips could not be read; {len(skips)} steps were not finite and were skipped.")
    if bad:
        body += html.table(("clip", "file", "reason"), [(row.clip_id, row.audio, row.reason) for row in bad[:20]])
    if skips:
        body += html.table(("step", "reason"), [(line["step"], line["reason"]) for line in skips[:20]])
    return body


def _again(folder: Path) -> str:
    """The command as it was typed, where there was one, and the same settings from Python."""
    environment = _environment(folder)
    typed = environment.get("command") or [""]
    body = ""
    program = Path(typed[0])
    if program.name == "supclap" or program.parts[-2:] == ("supclap", "__main__.py"):
        body = html.code(shlex.join(["supclap", *typed[1:]]))
    run, again = str(folder), f"{folder}-again"
    return (
        body
        + html.text("From Python, with the very settings of run.json:")
        + html.code(
            [
                "import supclap",
                "from supclap.settings import read",
                "from supclap.training.config import RunConfig",
                "",
                f"config = read(RunConfig, {run + '/run.json'!r})",
                f"supclap.train(config, out={again!r})",
            ]
        )
        + html.text(f"Going on with it, had it been stopped: supclap train --resume {shlex.quote(run)}", "soft")
    )


def _made(folder: Path) -> str:
    environment = _environment(folder)
    plain = json.loads((folder / RUN).read_text(encoding="utf8"))
    return (
        html.text(f"Seed {plain['seed']}; commit {environment.get('commit') or 'unknown'}.")
        + html.folded("settings (run.json)", html.listing(plain))
        + html.folded("environment", html.listing(environment))
    )


def _environment(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "environment.json").read_text(encoding="utf8"))
    return found
