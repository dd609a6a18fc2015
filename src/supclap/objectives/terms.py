"""Who matches whom: the global batch as this rank sees it, and the products that terms share.

Shapes: n rows of this rank, k keys of all ranks, d width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from supclap.objectives.gather import Ranks, gather_rows
from supclap.schema import Term

SameClip = Literal["exclude", "negative"]


@dataclass(frozen=True)
class Relation:
    """For each of this rank's rows the column of its positive, and the pairs that are neither right nor wrong."""

    positive: Tensor  # [n] int64
    excluded: Tensor | None  # [n, k] bool, never the positive
    first: int  # this rank's first row in the global batch
    keys: int  # rows of the global batch


def relate(rows: int, clip_ids: Tensor | None, here: Ranks, same_clip: SameClip, device: torch.device) -> Relation:
    """Row i belongs to key i of the global batch; further keys of its clip are left out, or stay negatives."""
    first, keys = here.rank * rows, here.world * rows
    positive = torch.arange(first, first + rows, device=device)
    if clip_ids is None or same_clip == "negative":
        return Relation(positive, None, first, keys)
    excluded = clip_ids[:, None] == gather_rows(clip_ids, here)[None, :]
    return Relation(positive, excluded.scatter(1, positive[:, None], False), first, keys)


def with_positive(relation: Relation) -> Tensor:
    """The excluded pairs and the positives: what is left are the other clips."""
    if relation.excluded is None:
        out = torch.zeros(len(relation.positive), relation.keys, dtype=torch.bool, device=relation.positive.device)
    else:
        out = relation.excluded
    return out.scatter(1, relation.positive[:, None], True)


def positive_first(matrix: Tensor, positive: Tensor) -> Tensor:
    """Each row as [its positive, the others in batch order]; in a square the positives are the diagonal."""
    count = len(matrix)
    if matrix.shape[1] == count:
        # What follows a positive up to the next one is one row of this view.
        others = matrix.flatten()[1:].view(count - 1, count + 1)[:, :-1].reshape(count, count - 1)
        return torch.cat([matrix.diagonal()[:, None], others], dim=1)
    column = torch.arange(matrix.shape[1] - 1, device=matrix.device)
    others = torch.where(column < positive[:, None], matrix[:, :-1], matrix[:, 1:])
    return torch.cat([matrix.gather(1, positive[:, None]), others], dim=1)


@dataclass
class Pairs:
    """The cosines of every term, each product computed once and each distinct key tensor gathered once."""

    relation: Relation
    here: Ranks
    _keys: dict[int, Tensor] = field(default_factory=dict)
    _cosines: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def keys(self, term: Term) -> Tensor:
        """[k, d] the term's keys on all ranks."""
        if id(term.key) not in self._keys:
            self._keys[id(term.key)] = gather_rows(term.key, self.here)
        return self._keys[id(term.key)]

    def cosines(self, term: Term) -> Tensor:
        """[n, k] query . key."""
        forth, back = (id(term.query), id(term.key)), (id(term.key), id(term.query))
        if forth not in self._cosines:
            if self.here.group is None and back in self._cosines:
                self._cosines[forth] = self._cosines[back].T
            else:
                self._cosines[forth] = term.query @ self.keys(term).T
        return self._cosines[forth]

    def logits(self, term: Term, queries: Tensor | None = None) -> Tensor:
        """[n, k] scale * cosine + bias, of the term's own queries or of others that stand in for them."""
        cosines = self.cosines(term) if queries is None else queries @ self.keys(term).T
        return term.scale * cosines + term.bias
