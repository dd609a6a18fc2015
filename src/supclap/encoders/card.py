"""The card of a saved model: what it is, what it was trained on, how it scored, and under which licences it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from supclap.encoders import pretrained
from supclap.settings import write

if TYPE_CHECKING:
    from supclap.encoders.dual import DualModel


def card(model: DualModel) -> str:
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
    lines += ['model = supclap.load("THIS FOLDER")', 'model.embed_text(["a dog barks"])', "```", "", "## Parts", ""]
    lines += ["| part | what | parameters | learned | licence |", "|---|---|---|---|---|"]
    for part in ("audio", "text"):
        config, tower = getattr(model.config, f"{part}_tower"), getattr(model, part)
        name = write(model.config)[f"{part}_tower"]["kind"]
        total = sum(value.numel() for value in tower.parameters())
        learned = sum(value.numel() for value in tower.parameters() if value.requires_grad)
        lines.append(f"| {part} | {name} | {total:,} | {learned:,} | {licence(config)} |")
    lines += [f"| head | {write(model.config)['head']['kind']}, {model.width} wide | | | |", ""]
    lines += [
        f"It hears {model.sample_rate} Hz, {model.window_seconds:g} s at a time; longer sounds are the mean of their "
        "windows, weighted by length.",
        "",
    ]
    for title in ("recipe", "data", "scores", "notes"):
        if title in held:
            lines += [f"## {title.capitalize()}", "", *_section(held[title]), ""]
    return "\n".join(lines)


def licence(config: Any) -> str:
    """The licence of a tower's published weights."""
    name = getattr(config, "published", None)
    return pretrained.WEIGHTS[name].licence if name in pretrained.WEIGHTS else "trained here, or its source's"


def _section(value: Any) -> list[str]:
    if isinstance(value, Mapping) and value and not any(isinstance(held, Mapping | list) for held in value.values()):
        return ["| | |", "|---|---|", *(f"| {key} | {held} |" for key, held in value.items())]
    if isinstance(value, str):
        return [value]
    return ["```json", json.dumps(value, indent=1, ensure_ascii=False, default=str), "```"]
