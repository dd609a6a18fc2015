"""Forces and radii of a saved run, row by row: its model and objective over batches of clips it was not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from supclap.dynamics import Forces, forces, local_and_global
from supclap.dynamics.forces import run
from supclap.evaluation.model import Embeddings
from supclap.schema import Direction, LossOutput, UserError
from supclap.training import checkpoint
from supclap.training.config import RunConfig
from supclap.training.step import needs_anchor

MOST = 8  # batches
PREFIX = "model/objective."


@dataclass(frozen=True)
class Look:
    """What drives each row, by direction, over several batches laid behind each other; radii by term."""

    rows: int
    batch_size: int
    forces: Mapping[Direction, Forces]
    similarity: Tensor  # [rows] cosine of each positive pair
    radius: dict[str, Tensor]
    distance: dict[str, Tensor]
    against: (
        Mapping[Direction, dict[str, float]] | None
    )  # mini-batch forces of the base against those of all rows at once

    def table(self) -> list[list[object]]:
        """Means over rows: name, drift, pull, push, and the push along and across the way to the partner."""
        keys = ("cosine", "pull", "push", "push_parallel", "push_perpendicular")
        names = {"t2a": "text", "a2t": "audio"}
        return [[names[way], *(one.summary()[key] for key in keys)] for way, one in self.forces.items()]


def look(folder: Path, config: RunConfig, seen: Embeddings) -> Look:
    """Forces of a saved run; ``seen`` are its model's rows of clips, each taken with its first caption."""
    objective = saved_objective(folder, config)
    if needs_anchor(objective):
        raise UserError("the objective compares two languages; its forces are measured in training alone")
    audio, text = pairs(seen)
    size = min(config.train.batch_size, len(audio))
    if size < 2:
        raise UserError(f"{len(audio)} clip is no batch; give the split that is looked at two or more")
    count = min(len(audio) // size, MOST) * size
    parts = [
        (forces(objective, *rows), run(objective, *rows))
        for rows in zip(audio[:count].split(size), text[:count].split(size), strict=True)  # type: ignore[no-untyped-call]
    ]
    base = getattr(objective, "base", objective)
    terms = parts[0][1].radius
    return Look(
        count,
        size,
        {way: _joined([found[way] for found, _ in parts]) for way in parts[0][0]},
        (audio[:count] * text[:count]).sum(1),
        {term: _each(parts, "radius", term) for term in terms},
        {term: _each(parts, "distance", term) for term in terms},
        local_and_global(base, audio[:count], text[:count], batch_size=size) if count >= 2 * size else None,
    )


def pairs(seen: Embeddings) -> tuple[Tensor, Tensor]:
    """Each captioned clip with its first caption, in an order that has nothing to do with the table's."""
    owners, first = np.unique(seen.caption_clip, return_index=True)
    order = torch.randperm(len(owners), generator=torch.Generator().manual_seed(0)).numpy()
    rows = (seen.audio[owners[order]], seen.text[first[order]])
    audio, text = (nn.functional.normalize(torch.as_tensor(side).double()) for side in rows)
    return audio, text


def saved_objective(folder: Path, config: RunConfig) -> nn.Module:
    """The objective of a run, its radius and temperature as of the last checkpoint."""
    objective: nn.Module = config.objective.build()
    found = checkpoint.load(folder)
    if found is None:
        raise UserError(f"{folder}: there is no checkpoint, so what the objective learned is not known")
    state = {name[len(PREFIX) :]: value for name, value in found[0].items() if name.startswith(PREFIX)}
    missing, unknown = objective.load_state_dict(state, strict=False)
    frozen = {name for name, value in objective.named_parameters() if not value.requires_grad}
    if unknown or set(missing) - frozen:
        raise UserError(f"{folder}: its checkpoint is of another objective ({', '.join([*unknown, *missing][:3])})")
    return objective.double()


def _joined(found: list[Forces]) -> Forces:
    names = ("force", "pull", "push", "u", "distance")
    return Forces(*(torch.cat([getattr(one, name) for one in found]) for name in names))


def _each(parts: list[tuple[Any, LossOutput]], name: str, term: str) -> Tensor:
    return torch.cat([getattr(out, name)[term].detach() for _, out in parts])
