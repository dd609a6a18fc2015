"""What `supclap train my.csv` does when nobody says how: the recipe that fits the table and this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from supclap.encoders import pretrained
from supclap.schema import Clip, UserError
from supclap.training.config import RunConfig, changed

FEW = 5000  # pairs; with fewer, towers are trained from scratch only when asked


@dataclass(frozen=True)
class Choice:
    """A recipe's name, and why it."""

    recipe: str
    reason: str


def choose(clips: Sequence[Clip]) -> Choice:
    """Frozen pretrained towers where their weights are, else small ones from scratch for a large table."""
    others = sorted({caption.language for clip in clips for caption in clip.captions} - {"eng"})
    text, name = ("use", "frozen-multilingual") if others else ("minilm", "frozen")
    missing = [line for tower in ("mn04", text) if (line := _missing(tower))]
    if not missing:
        said = f"captions in {', '.join(['eng', *others])}" if others else "English captions"
        return Choice(name, f"frozen mn04 and {text} over the feature cache ({said})")
    pairs = sum(len(clip.captions) for clip in clips)
    if pairs < FEW:
        raise UserError(
            f"{missing[0]}. With {pairs} pairs (under {FEW}) towers are trained from scratch only when asked: "
            "--recipe small"
        )
    return Choice("small", f"SMALL TOWERS FROM SCRATCH, because pretrained weights are missing: {'; '.join(missing)}")


def _missing(name: str) -> str | None:
    try:
        pretrained.locate(name)
    except UserError as error:
        return str(error)
    return None


def fitted(config: RunConfig, clips: int, given: Mapping[str, Any]) -> tuple[RunConfig, str | None]:
    """The recipe's batch made smaller for a table too small for it, unless the size was asked for."""
    size = config.train.batch_size
    if clips >= 2 * size or clips < 4 or "batch_size" in given or "train.batch_size" in given:
        return config, None
    smaller = max(2, clips // 4)
    return changed(config, {"batch_size": smaller}), f"batch_size={smaller}: {clips} clips are few for {size}"
