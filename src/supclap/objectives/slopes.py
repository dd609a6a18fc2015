"""Costs of many rows and their derivatives by the logits, written over the logits.

Shapes: g groups of m rows (of all n), k keys. The base's own rows come first, then those of its support vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from supclap.objectives.cacl import CACL
from supclap.objectives.sigmoid import SigLIP
from supclap.objectives.softmax import DCL, InfoNCE, lonely_rows
from supclap.objectives.terms import Relation, with_positive
from supclap.schema import BaseLoss

Slopes = Callable[[Tensor, int, int], Tensor]
"""(logits [g, m, k], first row, how many groups are the base's) -> costs [g, m]; logits become derivatives."""


class SoftmaxSlopes:
    """Of ``softmax_cost``; ``bare`` groups leave the positive out of the denominator."""

    def __init__(self, relation: Relation, base_bare: bool, support_bare: bool) -> None:
        self.excluded, self.base_bare, self.support_bare = relation.excluded, base_bare, support_bare
        self.lonely = None if relation.excluded is None else lonely_rows(relation.positive, relation.excluded)

    def __call__(self, logits: Tensor, first: int, bases: int) -> Tensor:
        """See `Slopes`."""
        last = first + logits.shape[1]
        positives = logits.diagonal(first, 1, 2)
        target = positives.clone()
        if self.excluded is not None:
            logits.masked_fill_(self.excluded[first:last], -torch.inf)
        if self.base_bare or self.support_bare:
            positives[0 if self.base_bare else bases :].fill_(-torch.inf)
        peak = logits.amax(2, keepdim=True)
        total = logits.sub_(peak).exp_().sum(2, keepdim=True)
        logits.div_(total)
        positives.sub_(1.0)
        cost = total.log_().add_(peak).squeeze(2).sub_(target)
        if self.lonely is not None:
            lonely = self.lonely[first:last]
            cost.masked_fill_(lonely, 0.0)
            logits.masked_fill_(lonely[:, None], 0.0)
        return cost


class SigmoidSlopes:
    """Of ``sigmoid_cost``."""

    def __init__(self, relation: Relation) -> None:
        self.excluded = relation.excluded

    def __call__(self, logits: Tensor, first: int, bases: int) -> Tensor:
        """See `Slopes`."""
        positives = logits.diagonal(first, 1, 2)
        positives.neg_()
        cost = F.logsigmoid(-logits).neg_()
        logits.sigmoid_()
        positives.neg_()
        if self.excluded is not None:
            out = self.excluded[first : first + logits.shape[1]]
            cost.masked_fill_(out, 0.0)
            logits.masked_fill_(out, 0.0)
        return cost.sum(2)


class AutogradSlopes:
    """Of any cost without learnable numbers of its own."""

    def __init__(self, base: BaseLoss, relation: Relation, support_bare: bool) -> None:
        self.base, self.relation = base, relation
        self.support_excluded = with_positive(relation) if support_bare else relation.excluded

    def __call__(self, logits: Tensor, first: int, bases: int) -> Tensor:
        """See `Slopes`."""
        groups, count, keys = logits.shape
        positive = self.relation.positive[first : first + count].repeat(groups)
        with torch.enable_grad():
            leaf = logits.reshape(-1, keys).detach().requires_grad_()
            # A copy, for a cost may work in place.
            cost = self.base.cost(leaf.clone(), positive, self._excluded(first, count, bases, groups))
            (slope,) = torch.autograd.grad(cost.sum(), leaf)
        logits.copy_(slope.view_as(logits))
        return cost.detach().view(groups, count)

    def _excluded(self, first: int, count: int, bases: int, groups: int) -> Tensor | None:
        if self.support_excluded is None:
            return None
        of_support = self.support_excluded[first : first + count]
        of_base = self.relation.excluded
        of_base = torch.zeros_like(of_support) if of_base is None else of_base[first : first + count]
        return torch.cat([of_base] * bases + [of_support] * (groups - bases))


def slopes_of(base: BaseLoss, rows: Tensor, relation: Relation, denominator: str) -> Slopes | None:
    """How to differentiate a base's cost; None where the cost has learnable numbers of its own."""
    bare = denominator == "negatives"
    cost = None if "cost" in vars(base) else getattr(type(base), "cost", None)
    if cost in (InfoNCE.cost, CACL.cost):
        return SoftmaxSlopes(relation, False, bare)
    if cost is DCL.cost:
        return SoftmaxSlopes(relation, True, True)
    if cost is SigLIP.cost:
        return SigmoidSlopes(relation)
    return AutogradSlopes(base, relation, bare) if _reads_logits_alone(base, rows, relation) else None


def _reads_logits_alone(base: BaseLoss, rows: Tensor, relation: Relation) -> bool:
    """Whether the cost of one row is a function of its logits and of nothing else that wants a gradient."""
    logits = rows.new_zeros(1, relation.keys, requires_grad=True)
    excluded = None if relation.excluded is None else relation.excluded[:1]
    # A copy, for a cost may work in place.
    cost = base.cost(logits.clone(), relation.positive[:1], excluded)
    return cost.requires_grad and all(leaf is logits for leaf in _leaves(cost.grad_fn))


def _leaves(node: Any) -> list[Tensor]:
    found, seen, todo = [], set(), [node]
    while todo:
        here = todo.pop()
        if here is None or here in seen:
            continue
        seen.add(here)
        if hasattr(here, "variable"):
            found.append(here.variable)
        todo.extend(following for following, _ in here.next_functions)
    return found
