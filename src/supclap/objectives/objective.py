"""The walk of every objective: check, normalise, relate, sum the parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from supclap.objectives import check, watch
from supclap.objectives.gather import ProcessGroup, Ranks, agree, exchange, gather_rows, in_step, ranks
from supclap.objectives.rows import transformed, unit
from supclap.objectives.terms import Pairs, Relation, SameClip, relate
from supclap.schema import BaseLoss, Direction, LossOutput, Term, UserError

Number = Tensor | float | None


@dataclass(frozen=True)
class Call:
    """What an objective was called with."""

    audio: Tensor
    text: Tensor
    clip_ids: Any = None
    anchor_text: Tensor | None = None
    scale: Number = None
    bias: Number = None

    def checked(self, world: int) -> Call:
        """The same after the checks that need no values: ids as a tensor, numbers as the rows' own type."""
        check.shapes(self.audio, self.text, self.anchor_text, world)
        wide = torch.promote_types(self.audio.dtype, torch.float32)
        return replace(
            self,
            clip_ids=check.ids(self.clip_ids, self.audio),
            scale=check.number("scale", self.scale, self.audio.device, wide),
            bias=check.number("bias", self.bias, self.audio.device, wide),
        )

    def held(self) -> Call:
        """The same without the graph, to be looked at later."""
        anchor_text = None if self.anchor_text is None else self.anchor_text.detach()
        scale, bias = (x.detach() if isinstance(x, Tensor) else x for x in (self.scale, self.bias))
        return replace(
            self, audio=self.audio.detach(), text=self.text.detach(), anchor_text=anchor_text, scale=scale, bias=bias
        )

    def check_values(self) -> None:
        """UserError for what is broken in the rows or the numbers."""
        check.values(audio=self.audio, text=self.text, anchor_text=self.anchor_text)
        check.finite(scale=self.scale, bias=self.bias)


class Objective(nn.Module):
    """Common ground of all objectives. Inputs may arrive at any length; row i of audio and text is one pair.

    ``process_group``: "auto" takes all ranks whenever torch.distributed runs with more than one; a ProcessGroup; None:
    this rank's rows only. ``validate``: values (NaN, zero rows) are checked at the "first" call and again when a loss
    is not finite (on a GPU at a later call, which names the one it was: nothing waits for the device); or "always" or
    "never". ``same_clip``: pairs of one clip are left out ("exclude") or stay "negative".
    """

    def __init__(
        self, *, process_group: ProcessGroup | None = "auto", validate: str = "first", same_clip: SameClip = "exclude"
    ) -> None:
        super().__init__()
        check.one_of("validate", validate, check.VALIDATE)
        check.one_of("same_clip", same_clip, ("exclude", "negative"))
        self.process_group, self.validate, self.same_clip = process_group, validate, same_clip
        self._seen = self._agreed = False
        self._watch = watch.Watch()

    def forward(
        self,
        audio: Tensor,
        text: Tensor,
        *,
        clip_ids: Any = None,
        anchor_text: Tensor | None = None,
        scale: Number = None,
        bias: Number = None,
    ) -> LossOutput:
        """The loss of one batch and what it is made of."""
        call = Call(audio, text, clip_ids, anchor_text, scale, bias)
        here = ranks(self.process_group)
        if here.world > 1:
            across: LossOutput = self._across(here, call)
            return across
        call = self._inspected(call, here)
        self._seen = self._seen or not torch.compiler.is_compiling()
        return self._walk(here, call)

    def _inspected(self, call: Call, here: Ranks) -> Call:
        if self.validate == "first" and not transformed():
            self._watch.look()
        call = call.checked(here.world)
        if self.validate == "always" or (self.validate == "first" and not self._seen):
            if not torch.compiler.is_compiling():
                call.check_values()
        return call

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _across(self, here: Ranks, call: Call) -> LossOutput:
        """The same where several ranks share the batch: one rank's mistake is raised on all, none is left waiting."""
        trouble: UserError | None = None
        try:
            call = self._inspected(call, here)
        except UserError as error:
            trouble = error
        exchange(call.audio, call.clip_ids is not None, call.anchor_text is not None, trouble, here, not self._agreed)
        # Whether a rank was called alone before is its own affair: here all count together.
        if not self._agreed:
            agree(self, here)
            for module in self.modules():
                if isinstance(module, Objective):
                    module._forget()
        self._seen = self._agreed = True
        walk = _Walk(self)
        out: LossOutput = torch.func.functional_call(walk, in_step(walk, here), (here, call))
        return out

    def _walk(self, here: Ranks, call: Call) -> LossOutput:
        with torch.autocast(call.audio.device.type, enabled=False):
            out = self._compute(here, call)
        if self.validate == "first" and not torch.compiler.is_compiling():
            self._after(out.loss, call)
        return out

    def _after(self, loss: Tensor, call: Call) -> None:
        """A loss that is not finite leads back to the values: at once, or at a later call where that would wait."""
        if watch.waits(loss.device):
            if not (transformed() or watch.capturing()):
                self._watch.note(loss, call.held().check_values)
        elif loss.device.type != "meta" and not math.isfinite(loss.item()):
            call.check_values()

    def _compute(self, here: Ranks, call: Call) -> LossOutput:
        base = self._base()
        audio, text = unit(call.audio), unit(call.text)
        anchor_text = None if call.anchor_text is None else unit(call.anchor_text)
        relation = relate(len(audio), call.clip_ids, here, self.same_clip, audio.device)
        begin = getattr(base, "begin", None)
        if begin is not None:
            begin(audio, text, relation, here, call.scale, call.bias)
        terms = base.terms(audio, text, anchor_text=anchor_text, scale=call.scale, bias=call.bias)
        return self._sum(terms, Pairs(relation, here))

    def _forget(self) -> None:
        """Buffers have been written from outside: what was read of them before may be wrong."""

    def _base(self) -> BaseLoss:
        raise TypeError(f"{type(self).__name__} names no base")

    def _sum(self, terms: list[Term], pairs: Pairs) -> LossOutput:
        parts, weights = base_parts(self._base(), terms, pairs)
        return LossOutput(total(parts, weights), parts, weights)

    def check_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """UserError if a learnable number of this objective (a radius, a temperature) is missing from the optimizer."""
        check.in_optimizer(self, optimizer)


class _Walk(nn.Module):
    """An objective's walk as a module of its own, so that it can be run on parameters that stand in for its own."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective

    def forward(self, here: Ranks, call: Call) -> LossOutput:
        return self.objective._walk(here, call)


class Base(Objective):
    """A contrastive loss by its terms and the cost of a row; works alone and under SVR.

    A subclass gives ``names``, ``terms`` and ``cost``; ``directions`` tells SVR which terms run from text to audio.
    """

    names: tuple[str, ...] = ()
    directions: dict[str, Direction | None]
    has_denominator = True
    takes_support = True

    def _base(self) -> BaseLoss:
        return self

    def terms(
        self, audio: Tensor, text: Tensor, *, anchor_text: Tensor | None, scale: Number, bias: Number
    ) -> list[Term]:
        """Terms of this rank's rows, in the order of ``names``."""
        raise TypeError(f"{type(self).__name__} gives no terms")

    def cost(self, logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
        """[rows] costs; a row's cost depends on that row alone."""
        raise TypeError(f"{type(self).__name__} gives no cost")


def base_parts(base: BaseLoss, terms: list[Term], pairs: Pairs) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The base's own value, and plain InfoNCE beside it where the base reports it."""
    if tuple(term.name for term in terms) != tuple(base.names):
        raise UserError(
            f"terms() gave {[term.name for term in terms]} but names is {list(base.names)}; they must agree"
        )
    parts = {"base": weighted(base.cost, terms, pairs)}
    weights = {"base": 1.0}
    plain = getattr(base, "plain_cost", None)
    if plain is not None:
        parts["infonce"], weights["infonce"] = weighted(plain, terms, pairs), 0.0
    return parts, weights


def weighted(cost: Any, terms: list[Term], pairs: Pairs) -> Tensor:
    """Sum over terms of weight * mean cost of a row."""
    relation = pairs.relation
    costs = []
    for term in terms:
        rows = cost(pairs.logits(term), relation.positive, relation.excluded)
        if rows.shape != relation.positive.shape:
            raise UserError(
                f"cost() gave shape {list(rows.shape)} for {term.name!r}; it must give one number a row, "
                f"{list(relation.positive.shape)}"
            )
        costs.append(term.weight * rows.mean())
    return torch.stack(costs).sum()


def total(parts: dict[str, Tensor], weights: dict[str, float]) -> Tensor:
    """Sum of weight * part."""
    first, *others = parts
    value = parts[first] if weights[first] == 1.0 else weights[first] * parts[first]
    for name in others:
        value = torch.add(value, parts[name], alpha=weights[name])
    return value


__all__ = ["Base", "Objective", "Relation", "gather_rows", "unit"]
