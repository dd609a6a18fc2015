"""The dense path of SVR in one process: when it serves, and the way from terms to pairs of sides and back to parts.

The arithmetic is in `sides`, the costs of the rows and their derivatives in `slopes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from supclap.objectives.rows import transformed
from supclap.objectives.sides import Sides
from supclap.objectives.slopes import Slopes, slopes_of
from supclap.objectives.terms import Pairs
from supclap.schema import Term

if TYPE_CHECKING:
    from supclap.objectives.svr import SVR, Support

_enabled = True


@contextmanager
def switched_off() -> Iterator[None]:
    """Compute by the generic path inside: for comparisons."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before


def slopes_for(svr: SVR, terms: Sequence[Term], pairs: Pairs) -> Slopes | None:
    """How to differentiate the base's cost; None where the generic path is the right one.

    The dense path is for one process in eager mode and the method's own mechanism, without its controls.
    """
    usual = svr.move_u and svr.move_positive and not svr.base_probabilities and svr.constrain == "radius"
    if not _enabled or not usual or pairs.here.group is not None or transformed() or hasattr(svr.base, "plain_cost"):
        return None
    if tuple(term.name for term in terms) != tuple(svr.base.names) or not torch.is_grad_enabled():
        return None
    if not any(rows.requires_grad for term in terms for rows in (term.query, term.key)):
        return None
    ways = {(id(term.query), id(term.key)) for term in terms}
    if len(ways) < len(terms) or any(query == key for query, key in ways):
        return None
    return slopes_of(svr.base, terms[0].query, pairs.relation, svr.denominator)


class Held:
    """The terms on rows that ask for no gradient, pair of sides by pair of sides, for radii to read."""

    def __init__(self, terms: Sequence[Term], pairs: Pairs, directions: Sequence[str]) -> None:
        rows = {id(rows): rows.detach() for term in terms for rows in (term.query, term.key)}
        self._terms = {term.name: replace(term, query=rows[id(term.query)], key=rows[id(term.key)]) for term in terms}
        between: dict[frozenset[int], list[Term]] = {}
        for term in terms:
            between.setdefault(frozenset((id(term.query), id(term.key))), []).append(term)
        self._sides = [Sides(found, self.term, lambda term: term.direction in directions) for found in between.values()]
        self._distances = {id(term): sides.distance for sides in self._sides for term in sides.held if sides.carriers}
        cosines = {ids: found for sides in self._sides for ids, found in sides.cosines().items()}
        self.pairs = Pairs(pairs.relation, pairs.here, _cosines=cosines)

    def term(self, term: Term) -> Term:
        """The same on those rows."""
        return self._terms[term.name]

    def distance(self, term: Term) -> Tensor:
        """From the query to its key, of a held term between sides with support vectors."""
        return self._distances[id(term)]

    def parts(self, svr: SVR, slopes: Slopes, supports: Sequence[Support]) -> dict[str, Tensor]:
        """What the generic path calls parts["base"], parts["svr"] and parts["constraint"]."""
        self.pairs._cosines.clear()
        values = [sides.values(svr, slopes, self.pairs, supports) for sides in self._sides]
        whole = values[0] if len(values) == 1 else [torch.stack(found).sum() for found in zip(*values, strict=True)]
        return dict(zip(("base", "svr", "constraint"), whole, strict=True))
