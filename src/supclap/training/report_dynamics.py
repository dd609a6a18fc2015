"""The part of a run's report that says what drove the embeddings: on the way, and where it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supclap.dynamics import histogram
from supclap.evaluation.model import Embeddings
from supclap.report import figures, html
from supclap.schema import UserError
from supclap.training import watching
from supclap.training.config import RunConfig
from supclap.training.looking import Look, look

Lines = list[dict[str, Any]]
NAMES = {"t2a": "text rows", "a2t": "audio rows"}
_DRAWN = (
    (
        {"drift_t2a": "force, text rows", "drift_a2t": "force, audio rows",
         "step_drift_t2a": "real step, text", "step_drift_a2t": "real step, audio"},
        "cosine with the pull",
        "How straight rows are driven, and really move, towards their partners: 1 is straight, low is drift.",
    ),
    (
        {"drift_t2a": "whole loss, text rows", "base_drift_t2a": "base alone, text rows",
         "drift_a2t": "whole loss, audio rows", "base_drift_a2t": "base alone, audio rows"},
        "cosine with the pull",
        "The same force with and without what SVR adds: adding any pull raises the first.",
    ),
    (
        {"parallel_t2a": "along, text rows", "perpendicular_t2a": "across, text rows",
         "parallel_a2t": "along, audio rows", "perpendicular_a2t": "across, audio rows"},
        "force",
        "The force along the way to the partner, and across it.",
    ),
    ({"positive_similarity": "cosine"}, "cosine of a pair", "How alike a clip and its caption are, mean of the batch."),
)  # fmt: skip


def section(folder: Path, config: RunConfig, lines: Lines, seen: Embeddings | None) -> str:
    """What was measured while training, and forces and radii of the saved model."""
    return _watched(folder, config, lines) + (_saved(folder, config, seen) if seen is not None else "")


def _watched(folder: Path, config: RunConfig, lines: Lines) -> str:
    rows = watching.read(folder)
    if len(rows) < 2:
        return html.text("Nothing was measured on the way (evaluate.dynamics sets how often).", "soft")
    at = [row["step"] for row in rows]
    body = ""
    for names, label, words in _DRAWN:
        series = {name: (at, _numbers(rows, key)) for key, name in names.items() if key in rows[0]}
        base = "base_drift_t2a" in names
        if series and not (base and "base_drift_t2a" not in rows[0]):
            body += html.figure(figures.curve(series, x="step", y=label), words)
    share = watching.cost(rows, lines, config.train.batch_size * config.train.accumulate)
    return body + html.text(
        f"Measured {len(rows)} times on the batch of the step itself; that took {100 * share:.1f} % of the training "
        "time.",
        "soft",
    )


def _numbers(rows: Lines, key: str) -> list[float]:
    return [float("nan") if row[key] is None else row[key] for row in rows]


def _saved(folder: Path, config: RunConfig, seen: Embeddings) -> str:
    try:
        found = look(folder, config, seen)
    except UserError as error:
        return html.text(f"The forces of the saved model were not worked out: {error}", "soft")
    headers = ("rows", "cosine", "pull", "push", "along", "across")
    table = [[row[0], *(f"{value:.2f}" for value in row[1:])] for row in found.table()]
    return (
        html.heading("Where it ended")
        + html.text(
            f"The saved model over {found.rows} pairs of the {config.evaluate.select_on} split in batches of "
            f"{found.batch_size}; the radius as of the last checkpoint. Cosine: of force and pull; along and across: "
            "parts of the push."
        )
        + html.table(headers, table)
        + _against(found)
        + "".join(html.figure(svg, words) for svg, words in _histograms(found))
    )


def _against(found: Look) -> str:
    if found.against is None:
        return ""
    said = ", ".join(
        f"{NAMES[way]} {one['cosine']:.2f} ({100 * one['wander']:.0f} %)" for way, one in found.against.items()
    )
    return html.text(
        f"Cosine of the base's force in a batch with its force over all {found.rows} pairs, and how far its sideways "
        f"part wanders from batch to batch: {said}.",
        "soft",
    )


def _histograms(found: Look) -> list[tuple[str, str]]:
    cosines = {NAMES[way]: histogram(one.cosine, -1.0, 1.0) for way, one in found.forces.items()}
    drawn = [
        (figures.histogram({"pairs": histogram(found.similarity, -1.0, 1.0)}, x="cosine of a pair"),
         "Clips and their captions."),
        (figures.histogram(cosines, x="cosine with the pull"), "How straight each row is driven."),
    ]  # fmt: skip
    if found.radius:
        shares = {term: radius / found.distance[term].clamp(min=1e-6) for term, radius in found.radius.items()}
        radii = {f"R, {term}": histogram(radius, 0.0, 2.0) for term, radius in found.radius.items()}
        radii |= {f"d, {term}": histogram(found.distance[term], 0.0, 2.0) for term in found.radius}
        drawn += [
            (figures.histogram(radii, x="R and d"), "Radius and distance, row by row."),
            (figures.histogram({term: histogram(value, -0.5, 2.0) for term, value in shares.items()}, x="R / d",
                               mark=1.0),
             "Radius over distance; beyond 1 the support vector lies behind its positive."),
        ]  # fmt: skip
    return drawn
