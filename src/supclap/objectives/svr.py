"""Support Vector Regularization: the base once more, with each query moved towards its positive by a radius."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from supclap.objectives import check, dense
from supclap.objectives.objective import Objective, base_parts, total
from supclap.objectives.radius import DynamicRadius, Radius, RandomRadius
from supclap.objectives.terms import Pairs, positive_first, with_positive
from supclap.schema import BaseLoss, Direction, LossOutput, RadiusLike, Term, UserError

NEAR = 1e-6  # below this distance there is no direction to move in
SHORT = 1e-2  # below this length a support vector is not normalised any further


class SVR(Objective):
    """L = L_base + alpha * L_svr + beta * L_cons, over any base and any radius.

    ``beta`` None is 0.01 for a Dynamic radius, else 0. ``denominator`` "negatives" leaves the positive out of L_svr's
    denominator, as the paper prints it. ``jacobian``, ``probabilities``, ``constrain`` and ``detach`` are controls of
    the mechanism; see docs/equations.md.
    """

    def __init__(
        self,
        base: BaseLoss,
        *,
        radius: RadiusLike,
        alpha: float = 1.0,
        beta: float | None = None,
        directions: Sequence[Direction] = ("t2a", "a2t"),
        renormalize: bool = True,
        denominator: Literal["all", "negatives"] = "all",
        shared_radius: bool = False,
        jacobian: Literal["on", "off"] = "on",
        probabilities: Literal["support", "base"] = "support",
        constrain: Literal["radius", "all"] = "radius",
        detach: Sequence[Literal["positive", "u"]] = (),
        **common: Any,
    ) -> None:
        super().__init__(**common)
        check.one_of("denominator", denominator, ("all", "negatives"))
        check.one_of("jacobian", jacobian, ("on", "off"))
        check.one_of("probabilities", probabilities, ("support", "base"))
        check.one_of("constrain", constrain, ("radius", "all"))
        held = check.some_of("detach", detach, ("positive", "u"))
        ways = check.some_of("directions", directions, ("t2a", "a2t"))
        check.one_of("renormalize", renormalize, (True, False))
        check.one_of("shared_radius", shared_radius, (True, False))
        check.real("alpha", alpha)
        for name, weight in (("alpha", alpha), ("beta", beta)):
            if weight is not None and not math.isfinite(check.real(name, weight)):
                raise UserError(f"{name}={weight!r} is not a finite number")
        _check_base(base, denominator)
        _check_radius(radius)
        if denominator == "negatives" and isinstance(radius, DynamicRadius):
            warnings.warn("denominator='negatives' with a DynamicRadius collapses in training", stacklevel=2)
        self.base = base
        self.alpha = float(alpha)
        self.beta = float((radius.beta if isinstance(radius, Radius) else 0.0) if beta is None else beta)
        self.directions = ways
        self.renormalize, self.denominator, self.constrain = renormalize, denominator, constrain
        self.move_u = jacobian == "on" and "u" not in held
        self.move_positive = "positive" not in held
        self.base_probabilities = probabilities == "base"
        self.shared_radius = shared_radius
        names = _carriers(base, self.directions)
        self.radii = nn.ModuleDict({name: _as_module(radius) for name in (names[:1] if shared_radius else names)})
        self._carries = names

    def radius_of(self, name: str) -> nn.Module:
        """The radius that a term uses."""
        return self.radii[self._carries[0] if self.shared_radius else name]

    def _base(self) -> BaseLoss:
        return self.base

    def _sum(self, terms: list[Term], pairs: Pairs) -> LossOutput:
        slopes = dense.slopes_for(self, terms, pairs)
        parts, weights = ({}, {"base": 1.0}) if slopes else base_parts(self.base, terms, pairs)
        carriers = [term for term in terms if term.direction in self.directions]
        strangers = [term.name for term in carriers if term.name not in self._carries]
        if strangers or not carriers:
            raise UserError(
                f"directions={self.directions}: {type(self.base).__name__} announced {self._carries} to run that way, "
                f"its terms say {[term.name for term in carriers]}; give it a dict `directions`, from name to direction"
            )
        if slopes is not None:
            held = dense.Held(terms, pairs, self.directions)
            at_rest = map(held.term, carriers)
            supports = [Support(self, term, held.pairs, held.distance(term)) for term in at_rest]
            parts.update(held.parts(self, slopes, supports))
        else:
            supports = [Support(self, term, pairs) for term in carriers]
            parts["svr"] = self._supported(supports, pairs)
            parts["constraint"] = torch.stack([support.constraint() for support in supports]).sum()
        weights["svr"], weights["constraint"] = self.alpha, self.beta
        return LossOutput(
            total(parts, weights),
            parts,
            weights,
            radius={support.term.name: support.radius for support in supports},
            distance={support.term.name: support.distance.detach() for support in supports},
        )

    def _supported(self, supports: list[Support], pairs: Pairs) -> Tensor:
        """The base's terms once more, with support vectors for queries."""
        excluded = with_positive(pairs.relation) if self.denominator == "negatives" else pairs.relation.excluded
        positive = pairs.relation.positive
        costs = [
            support.term.weight * self.base.cost(support.logits(), positive, excluded).mean() for support in supports
        ]
        return torch.stack(costs).sum()


class Support:
    """The support vectors of one term. Where ``distance`` is given, ``step`` is not computed."""

    def __init__(self, svr: SVR, term: Term, pairs: Pairs, distance: Tensor | None = None) -> None:
        self.svr, self.term, self.pairs = svr, term, pairs
        if distance is None:
            self._measure()
        else:
            self.distance = distance
        radius = svr.radius_of(term.name)
        self.raw = self._predict(radius)
        # Of a radius of a user's own, `cap`, `reads` and `beta` may mean anything.
        self.radius = capped(self.raw, self.distance, radius.cap if isinstance(radius, Radius) else None)

    def _measure(self) -> None:
        positive = self.term.key if self.svr.move_positive else self.term.key.detach()
        self.step = positive - self.term.query
        self.distance = self.step.norm(dim=1)

    def at(self, term: Term, pairs: Pairs, radius: Tensor, raw: Tensor) -> Support:
        """The same for other rows, with radii that are known."""
        other = copy.copy(self)
        other.term, other.pairs, other.radius, other.raw = term, pairs, radius, raw
        other._measure()
        return other

    def _predict(self, radius: nn.Module) -> Tensor:
        relation, excluded = self.pairs.relation, self.pairs.relation.excluded
        similarities = self.pairs.cosines(self.term).detach()
        if not isinstance(radius, Radius) or radius.reads:
            scale = self.term.scale
            scale = scale.detach() if isinstance(scale, Tensor) else scale
            similarities = scale * positive_first(similarities, relation.positive)
            excluded = None if excluded is None else positive_first(excluded, relation.positive)
        if isinstance(radius, RandomRadius):
            radius.first_row = relation.first
        raw: Tensor = radius(similarities, self.distance.detach(), excluded, self.term.name)
        shape = list(raw.shape) if isinstance(raw, Tensor) else type(raw).__name__
        if shape != list(self.distance.shape):
            raise UserError(
                f"the radius of {self.term.name!r} has shape {shape}; it must give one number a row, "
                f"{list(self.distance.shape)}"
            )
        return raw.to(self.distance.dtype)

    def vectors(self) -> Tensor:
        """[n, d] query + R u, re-normalised if the method says so."""
        far = (self.distance >= NEAR)[:, None]
        direction = torch.where(far, self.step / torch.where(far, self.distance[:, None], 1.0), 0.0)
        if not self.svr.move_u:
            direction = direction.detach()
        moved = self.term.query + self.radius[:, None] * direction
        if not self.svr.renormalize:
            return moved
        length = moved.norm(dim=1, keepdim=True)
        return moved / torch.where(length > SHORT, length, SHORT)

    def logits(self) -> Tensor:
        """[n, k] what the base's cost is asked about."""
        queries = self.vectors()
        if self.svr.base_probabilities:
            queries = self.term.query.detach() + (queries - queries.detach())  # the bracket is exactly zero
        return self.pairs.logits(self.term, queries)

    def constraint(self) -> Tensor:
        """Mean of relu(R - d) + relu(-R), of the radius as it was predicted."""
        distance = self.distance.detach()
        if self.svr.constrain == "all":  # `detach` is about the support vector: here both ends of the pair move
            distance = (self.term.key - self.term.query).norm(dim=1)
        return (torch.relu(self.raw - distance) + torch.relu(-self.raw)).mean()


def capped(radius: Tensor, distance: Tensor, cap: str | None) -> Tensor:
    """D tanh(R / d), d held: below d, and never without a gradient as min(R, d) is."""
    if cap is None:
        return radius
    held = distance.detach().clamp(min=NEAR)
    return held * torch.tanh(radius / held)


class _Function(nn.Module):
    """A user's function where a module is wanted."""

    def __init__(self, function: RadiusLike) -> None:
        super().__init__()
        self.function = function

    def forward(self, similarities: Tensor, distance: Tensor, excluded: Tensor | None, name: str) -> Tensor:
        return self.function(similarities, distance, excluded, name)


def _as_module(radius: RadiusLike) -> nn.Module:
    return copy.deepcopy(radius) if isinstance(radius, nn.Module) else _Function(radius)


def _carriers(base: BaseLoss, directions: Sequence[str]) -> list[str]:
    """Names of the terms that carry SVR: by the base's word, else by the name ("e2a" runs to audio)."""
    known = getattr(base, "directions", None)
    if known is None:
        known = {name: "t2a" if name.endswith("2a") else "a2t" if name.startswith("a2") else "?" for name in base.names}
    names = [name for name in base.names if known[name] in (*directions, "?")]
    if not names:
        raise UserError(f"directions={tuple(directions)}: no term of {type(base).__name__} {base.names} runs that way")
    return names


def _check_radius(radius: object) -> None:
    if isinstance(radius, type):
        raise UserError(f"radius={radius.__name__} is a class; pass one that is built: radius={radius.__name__}()")
    if not callable(radius):
        raise UserError(f"radius={radius!r} is not callable; use StaticRadius(), DynamicRadius() or a function")


def _check_base(base: BaseLoss, denominator: str) -> None:
    if isinstance(base, type):
        raise UserError(f"base={base.__name__} is a class; pass one that is built: {base.__name__}()")
    missing = [part for part in ("names", "terms", "cost") if not hasattr(base, part)]
    if missing:
        raise UserError(
            f"base={type(base).__name__} lacks {', '.join(missing)}, which SVR needs; see docs/objectives.md"
        )
    if not getattr(base, "takes_support", True):
        raise UserError(f"base={type(base).__name__} is a control and takes no support vectors; use InfoNCE()")
    if denominator == "negatives" and not getattr(base, "has_denominator", True):
        raise UserError(
            f"denominator='negatives': {type(base).__name__} has no denominator; use 'all', or a softmax base"
        )
