"""The card of a saved model: what it is, what it was trained on, how it scored, and under which licences it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supclap.encoders import pretrained
from supclap.settings import write

if TYPE_CHECKING:
    from supclap.encoders.dual import DualModel


def card(model: DualModel, name: str = "THIS FOLDER") -> str:
    """The card in Markdown."""
    held = model.card
    lines = [
        "---",
        "library_name: supclap",
        "tags: [audio-text, contrastive, clap]",
        "---",
        "",
        "# Audio-text model",
        "",
    ]
    lines += ["Sounds and texts in one space, trained with supclap.", "", "```python", "import supclap", ""]
    lines += [f'model = supclap.load("{name}")', 'model.embed_text(["a dog barks"])', "```", "", "## Parts", ""]
    lines += ["| part | what | parameters | learned | licence |", "|---|---|---|---|---|"]
    for part in ("audio", "text"):
        config, tower = getattr(model.config, f"{part}_tower"), getattr(model, part)
        kind = write(model.config)[f"{part}_tower"]["kind"]
        total = sum(value.numel() for value in tower.parameters())
        learned = sum(value.numel() for value in tower.parameters() if value.requires_grad)
        lines.append(f"| {part} | {kind} | {total:,} | {learned:,} | {licence(config)} |")
    lines += [f"| head | {write(model.config)['head']['kind']}, {model.width} wide | | | |", ""]
    lines += [
        f"It hears {model.sample_rate} Hz, {model.window_seconds:g} s at a time; longer sounds are the mean of their "
        "windows, weighted by length.",
        "",
    ]
    for title in ("recipe", "data", "scores", "notes"):
        if title in held:
            section = _scores if title == "scores" else _section
            lines += [f"## {title.capitalize()}", "", *section(held[title]), ""]
    return "\n".join(lines)


def licence(config: Any) -> str:
    """The licence of a tower's published weights."""
    source = getattr(config, "published", None) or getattr(config, "model", None) or getattr(config, "weights", None)
    # A part of published weights, such as half of SONAR's depth, stands under their licence as well.
    if source in pretrained.WEIGHTS:
        return pretrained.WEIGHTS[source].licence
    return f"that of {Path(source).name if Path(source).exists() else source}" if source else "from scratch, yours"


def _scores(value: Any) -> list[str]:
    """Scores of retrieval with their intervals and protocol; any others as they are."""
    if not isinstance(value, Mapping) or not {"protocol", "t2a", "a2t", "intervals"} <= value.keys():
        return _section(value)
    lines = [f"Protocol {value['protocol']}, split {value.get('split')}, {value.get('clips')} clips, "
             f"{value.get('captions')} captions; in brackets 95 % intervals, by clip.", ""]  # fmt: skip
    lines += ["| | text to audio | audio to text |", "|---|---|---|"]
    for metric in value["t2a"]:
        cells = [_cell(value[side].get(metric), value["intervals"][side].get(metric)) for side in ("t2a", "a2t")]
        lines.append(f"| {metric} | {' | '.join(cells)} |")
    return lines


def _cell(value: Any, interval: Any) -> str:
    if not isinstance(value, int | float):
        return ""
    return f"{value:.2f}" + (f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else "")


def _section(value: Any) -> list[str]:
    if isinstance(value, Mapping) and value and not any(isinstance(held, Mapping | list) for held in value.values()):
        return ["| | |", "|---|---|", *(f"| {key} | {held} |" for key, held in value.items())]
    if isinstance(value, str):
        return [value]
    return ["```json", json.dumps(value, indent=1, ensure_ascii=False, default=str), "```"]
