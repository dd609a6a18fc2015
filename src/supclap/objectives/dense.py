"""The dense path of SVR in one process: every product once, every derivative by hand, in rows that stay in the cache.

Shapes: n rows (and keys), d width, g groups of rows whose costs are asked for at once.

Two sides x, y [n, d] (audio and text) carry up to two arms: x looks for y ("forth") and y looks for x ("back").
With step = y - x and c = R / distance the logits of both, base and support, are made of three products:

    T = x y^T      W = step y^T      V = -step x^T
    base:     scale T + bias                            scale T^T + bias
    support:  scale (T + c W) / length + bias           scale (T^T + c V) / length + bias

W and V, rather than y y^T - T, keep their digits when the sides are close. With G_T, G_W, G_V the derivatives by the
products, backward is four of them:

    H  = G_T - G_W - G_V^T
    dx = H y   + (G_V + G_V^T) x
    dy = H^T x + (G_W + G_W^T) y

A squared length is quadratic in x and y, so its derivative touches the diagonals of these matrices alone. For R far
above d the gradient in fp32 loses a factor of about R / d beside the generic path; below 2 d it loses nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from supclap.objectives.rows import transformed
from supclap.objectives.slopes import Slopes, slopes_of
from supclap.objectives.terms import Pairs, with_positive
from supclap.schema import Term

if TYPE_CHECKING:
    from supclap.objectives.svr import SVR, Support

Number = Tensor | float
NEAR = 1e-6  # below this distance there is no direction to move in
SHORT = 1e-2  # below this length a support vector is not normalised any further
GRAM_ROWS = 128  # rows of a product that is worth halving, twice
BLOCK_BYTES = 1 << 21  # what a block of logits may hold to stay in a core's cache


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


# -- from terms to pairs of sides ------------------------------------------------------------------------------------


class Held:
    """The terms' rows without gradient, and the cosines that radii read."""

    def __init__(self, terms: Sequence[Term], pairs: Pairs, directions: Sequence[str]) -> None:
        self.terms, self._pulls = terms, dict[tuple[int, int], Tensor]()
        self._rows = {id(rows): rows.detach() for term in terms for rows in (term.query, term.key)}
        cosines: dict[tuple[int, int], Tensor] = {}
        for term in map(self.term, terms):
            back = cosines.get((id(term.key), id(term.query)))
            # A copy, where a view would do: the rows of the transpose are read again and again.
            found = self._cosines(term, term.direction in directions) if back is None else back.T.contiguous()
            cosines[id(term.query), id(term.key)] = found
        self.pairs = Pairs(pairs.relation, pairs.here, _cosines=cosines)

    def _cosines(self, term: Term, carries: bool) -> Tensor:
        """Query . key; where the pull is wanted too, key . key less the pull: a symmetric product costs half."""
        if not carries or len(term.query) < 2 * GRAM_ROWS:
            return term.query @ term.key.T
        pull = (term.key - term.query) @ term.key.T
        self._pulls[id(term.query), id(term.key)] = pull
        return _gram(term.key).sub_(pull)

    def _pull(self, support: Support, twin: Carrier | None) -> Tensor:
        """Step . key; the pulls of both arms of a pair add up to step . step, which is symmetric."""
        held, step = support.term, support.step
        known = self._pulls.pop((id(held.query), id(held.key)), None)
        if known is not None:
            return known
        with torch.no_grad():
            return step @ held.key.T if twin is None or len(step) < 2 * GRAM_ROWS else _gram(step).sub_(twin.pull)

    def term(self, term: Term) -> Term:
        """The term on rows that ask for no gradient, the same tensors at each call."""
        return replace(term, query=self._rows[id(term.query)], key=self._rows[id(term.key)])

    def parts(self, svr: SVR, slopes: Slopes, supports: Sequence[Support]) -> dict[str, Tensor]:
        """What the generic path calls parts["base"] and parts["svr"]."""
        by_name = {support.term.name: support for support in supports}
        arms: dict[frozenset[int], list[Arm]] = {}
        for term in self.terms:
            group = arms.setdefault(frozenset((id(term.query), id(term.key))), [])
            support, pull = by_name.get(term.name), None
            if support is not None:
                pull = self._pull(support, group[0].carrier if group else None)
            group.append(Arm(term, self.term(term), self.pairs, support, svr.renormalize, pull))
        self.pairs._cosines.clear()
        values = [Sides(svr, slopes, self.pairs, group).costs() for group in arms.values()]
        if len(values) == 1:
            return {"base": values[0][0], "svr": values[0][1]}
        return {
            name: torch.stack(found).sum()
            for name, found in zip(("base", "svr"), zip(*values, strict=True), strict=True)
        }


class Arm:
    """One term and, where it carries one, its support; forward writes weighted slopes over the matrices."""

    def __init__(
        self, term: Term, held: Term, pairs: Pairs, support: Support | None, renormalize: bool, pull: Tensor | None
    ) -> None:
        self.term, self.cosines = term, pairs.cosines(held)
        self.scale, self.bias = _value(term.scale, held.query), _value(term.bias, held.query)
        self.weight = term.weight / len(term.query)
        self.carrier: Carrier | None = None
        if support is not None and pull is not None:
            self.carrier = Carrier(self, held, support, renormalize, pull)
        self.by_scale = self.by_bias = self.cosines.new_zeros(())

    def fill(self, out: Tensor, here: slice) -> None:
        """Logits of some rows."""
        torch.mul(self.cosines[here], self.scale, out=out)
        _shift(out, self.bias)

    def keep(self, slopes: Tensor, here: slice, wants_scale: bool, wants_bias: bool) -> None:
        """Take the slopes of some rows; they go where the cosines were."""
        if wants_scale:
            self.by_scale = self.by_scale + self.weight * _dots(slopes, self.cosines[here]).sum()
        if wants_bias:
            self.by_bias = self.by_bias + self.weight * slopes.sum()
        torch.mul(slopes, self.weight * self.scale, out=self.cosines[here])


class Carrier:
    """Where the support vectors of an arm lie, and what the cost says of them, row by row."""

    def __init__(self, arm: Arm, held: Term, support: Support, renormalize: bool, pull: Tensor) -> None:
        self.arm, self.support = arm, support
        self.pull = pull  # [n, n] what a whole step of the query adds to its cosines
        with torch.no_grad():
            self.far = support.distance >= NEAR
            self.distance = torch.where(self.far, support.distance, 1.0)
            self.share = torch.where(self.far, support.radius / self.distance, 0.0)
            # Of unit rows: query . step is -distance^2 / 2.
            self.along = (self.share - 0.5) * self.distance.square()
            length = torch.ones_like(self.share)
            if renormalize:
                length = torch.addcmul(held.query, self.share[:, None], support.step).norm(dim=1)
            self.long = length > SHORT if renormalize else torch.zeros_like(self.far)
            self.inverse = 1.0 / length.clamp(min=SHORT)
        self.by_cosines, self.by_pull = torch.empty_like(length), torch.empty_like(length)
        self.by_bias = self.pull.new_zeros(())

    def fill(self, out: Tensor, here: slice) -> None:
        """Logits of some rows."""
        torch.addcmul(self.arm.cosines[here], self.share[here, None], self.pull[here], out=out)
        out.mul_((self.arm.scale * self.inverse[here])[:, None])
        _shift(out, self.arm.bias)

    def keep(self, slopes: Tensor, here: slice, wants_bias: bool) -> None:
        """Take the slopes of some rows; they go where the pull was."""
        self.by_cosines[here] = _dots(slopes, self.arm.cosines[here])
        self.by_pull[here] = _dots(slopes, self.pull[here])
        if wants_bias:
            self.by_bias = self.by_bias + self.arm.weight * slopes.sum()
        torch.mul(slopes, (self.arm.weight * self.arm.scale * self.inverse[here])[:, None], out=self.pull[here])

    def by_scale(self) -> Tensor:
        """The derivative by the caller's scale."""
        rows = self.inverse * (self.by_cosines + self.share * self.by_pull)
        return self.arm.weight * rows.sum()

    def pull_back(self, grad: Tensor) -> None:
        """Find the derivatives by R, by half the squared length and by half the squared distance."""
        rate = grad * self.arm.weight * self.arm.scale * self.inverse
        by_share = rate * self.by_pull
        by_length = rate * (self.by_cosines + self.share * self.by_pull) * self.inverse.square()
        by_length = torch.where(self.long, -by_length, 0.0)
        by_radius = torch.where(self.far, (by_share + by_length * self.along) / self.distance, 0.0)
        self.found = by_radius, by_length, -by_radius * self.share / self.distance


def _gram(rows: Tensor) -> Tensor:
    """Rows . rows, by blocks on and above the diagonal."""
    count = len(rows)
    out = rows.new_empty(count, count)
    block = max(GRAM_ROWS, -(-count // 8))
    for first in range(0, count, block):
        last = min(first + block, count)
        torch.mm(rows[first:last], rows[first:].T, out=out[first:last, first:])
        if last < count:
            out[last:, first:last].copy_(out[first:last, last:].T)
    return out


def _scalar(number: Number) -> Number:
    return number.reshape(()) if isinstance(number, Tensor) else number


def _value(number: Number, rows: Tensor) -> Number:
    """The number in the rows' precision: products with it alone would be in its own."""
    return number.detach().reshape(()).to(rows.dtype) if isinstance(number, Tensor) else number


def _shift(logits: Tensor, bias: Number) -> None:
    if isinstance(bias, Tensor) or bias != 0.0:
        logits.add_(bias)


def _dots(one: Tensor, other: Tensor) -> Tensor:
    # One pass; linalg.vecdot takes two and a matrix to hold the first.
    return torch.bmm(one[:, None], other[:, :, None]).view(-1)


class Sides:
    """Two sides and the arms between them; an only support goes back, which saves a product."""

    def __init__(self, svr: SVR, slopes: Slopes, pairs: Pairs, arms: list[Arm]) -> None:
        self.svr, self.slopes, self.pairs = svr, slopes, pairs
        self.arms = sorted(arms, key=lambda arm: arm.carrier is not None)
        self.carriers = [arm.carrier for arm in self.arms if arm.carrier is not None]
        self.x, self.y = self.arms[-1].term.key, self.arms[-1].term.query

    def costs(self) -> tuple[Tensor, Tensor]:
        """Base and SVR part of these arms."""
        numbers: list[Any] = []
        for arm in self.arms:
            radius = None if arm.carrier is None else arm.carrier.support.radius
            numbers += [_scalar(arm.term.scale), _scalar(arm.term.bias), radius]
        values: tuple[Tensor, Tensor] = _Costs.apply(self, self.x, self.y, *numbers)  # type: ignore[no-untyped-call]
        return values

    # -- forward -----------------------------------------------------------------------------------------------------

    def forward(self, wants_scale: bool, wants_bias: bool) -> tuple[Tensor, Tensor]:
        """The two values; the arms' matrices become weighted slopes."""
        rows, like, bases = len(self.x), self.arms[0].cosines, len(self.arms)
        groups = bases + len(self.carriers)
        block = rows
        if like.device.type == "cpu":
            block = max(1, min(rows, BLOCK_BYTES // (groups * rows * like.element_size())))
        buffer, costs = like.new_empty(groups, block, rows), like.new_empty(groups, rows)
        for first in range(0, rows, block):
            here = slice(first, min(first + block, rows))
            logits = buffer[:, : here.stop - first]
            for arm, out in zip(self.arms, logits, strict=False):
                arm.fill(out, here)
            for carrier, out in zip(self.carriers, logits[bases:], strict=True):
                carrier.fill(out, here)
            costs[:, here] = self.slopes(logits, first, bases)
            # The carriers first: they still read the cosines.
            for carrier, slopes in zip(self.carriers, logits[bases:], strict=True):
                carrier.keep(slopes, here, wants_bias)
            for arm, slopes in zip(self.arms, logits, strict=False):
                arm.keep(slopes, here, wants_scale, wants_bias)
        means = costs.mean(1)
        base = _weighted(self.arms, means[:bases])
        svr = _weighted([carrier.arm for carrier in self.carriers], means[bases:])
        return base, svr

    def release(self) -> list[Tensor]:
        """The matrices, handed over to autograd, which frees them after backward."""
        held = [arm.cosines for arm in self.arms] + [carrier.pull for carrier in self.carriers]
        for arm in self.arms:
            del arm.cosines
        for carrier in self.carriers:
            del carrier.pull
        return held

    # -- backward ----------------------------------------------------------------------------------------------------

    def by_sides(
        self, x: Tensor, y: Tensor, matrices: Sequence[Tensor], by_base: Tensor, by_svr: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Derivatives by x and y."""
        slopes, pulled = matrices[: len(self.arms)], list(matrices[len(self.arms) :])
        back, back_pull = slopes[-1], pulled.pop() if pulled else None
        forth, forth_pull = slopes[0] if len(slopes) == 2 else None, pulled.pop() if pulled else None
        one, two = torch.mul(back, by_base), torch.empty_like(back)
        if back_pull is not None:
            one.addcmul_(back_pull, (by_svr * (1 - self.carriers[-1].share))[:, None])
        two.copy_(one.T)
        if forth is not None:
            two.addcmul_(forth, by_base)
        if forth_pull is not None:
            two.addcmul_(forth_pull, (by_svr * (1 - self.carriers[0].share))[:, None])
        if back_pull is None:
            return two @ y, two.T @ x
        along_x, across, along_y, along_step = self._diagonals()
        two.diagonal().add_(across)
        by_x, by_y = two @ y, two.T @ x
        torch.mul(back_pull, (by_svr * self.carriers[-1].share)[:, None], out=one)
        one.add_(two.copy_(one.T)).diagonal().add_(along_x)
        by_x.addmm_(one, x)
        if forth_pull is None:
            by_y.addcmul_(along_y[:, None], y)
        else:
            torch.mul(forth_pull, (by_svr * self.carriers[0].share)[:, None], out=one)
            one.add_(two.copy_(one.T)).diagonal().add_(along_y)
            by_y.addmm_(one, y)
        apart = (y - x).mul_(along_step[:, None])
        return by_x.sub_(apart), by_y.add_(apart)

    def _diagonals(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What lengths add to the products x with x, x with y and y with y, and distances to step."""
        along_x = across = along_y = along_step = torch.zeros_like(self.carriers[0].share)
        for carrier in self.carriers:
            _, by_length, by_distance = carrier.found
            # A support vector is (1 - place) x + place y.
            place = carrier.share if carrier.arm is not self.arms[-1] else 1 - carrier.share
            along_x = along_x + by_length * (1 - place).square()
            across = across + by_length * place * (1 - place)
            along_y = along_y + by_length * place.square()
            along_step = along_step + by_distance
        return along_x, across, along_y, along_step

    def by_numbers(self, by_base: Tensor, by_svr: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        """Derivatives by scale, bias and radius of each arm."""
        found: list[Tensor | None] = []
        for arm in self.arms:
            by_scale, by_bias, by_radius = by_base * arm.by_scale, by_base * arm.by_bias, None
            if arm.carrier is not None:
                by_scale = by_scale + by_svr * arm.carrier.by_scale()
                by_bias = by_bias + by_svr * arm.carrier.by_bias
                by_radius = arm.carrier.found[0]
            found += [by_scale, by_bias, by_radius]
        return [value if want else None for value, want in zip(found, wanted, strict=True)]

    def again(self, x: Tensor, y: Tensor, numbers: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """The two values by plain operations, for second derivatives."""
        pairs, base = Pairs(self.pairs.relation, self.pairs.here), self.svr.base
        relation = pairs.relation
        out = with_positive(relation) if self.svr.denominator == "negatives" else relation.excluded
        plain, moved = [], []
        for place, arm in enumerate(self.arms):
            scale, bias, radius = numbers[3 * place : 3 * place + 3]
            query, key = (y, x) if arm is self.arms[-1] else (x, y)
            term = replace(arm.term, query=query, key=key, scale=scale, bias=bias)
            plain.append(term.weight * base.cost(pairs.logits(term), relation.positive, relation.excluded).mean())
            if arm.carrier is not None:
                support = copy.copy(arm.carrier.support)
                support.term, support.pairs, support.radius = term, pairs, radius
                support.step = key - query
                support.distance = support.step.norm(dim=1)
                moved.append(term.weight * base.cost(support.logits(), relation.positive, out).mean())
        return torch.stack(plain).sum(), torch.stack(moved).sum() if moved else x.new_zeros(())


def _weighted(arms: Sequence[Arm], means: Tensor) -> Tensor:
    total = means.new_zeros(())
    for arm, mean in zip(arms, means.unbind(), strict=True):
        total = torch.add(total, mean, alpha=arm.term.weight)
    return total


class _Costs(torch.autograd.Function):
    """Sides, x, y and (scale, bias, radius) of each arm to the base's and SVR's value."""

    @staticmethod
    def forward(ctx: Any, sides: Sides, x: Tensor, y: Tensor, *numbers: Any) -> tuple[Tensor, Tensor]:
        wanted = ctx.needs_input_grad[3:]
        values = sides.forward(any(wanted[0::3]), any(wanted[1::3]))
        ctx.sides = sides
        ctx.is_tensor = [isinstance(number, Tensor) for number in numbers]
        ctx.numbers = [None if isinstance(number, Tensor) else number for number in numbers]
        tensors = [number for number in numbers if isinstance(number, Tensor)]
        matrices = sides.release()
        ctx.tensors = 2 + len(tensors)
        ctx.save_for_backward(x, y, *tensors, *matrices)
        return values

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        (x, y, *tensors), matrices = saved[: ctx.tensors], saved[ctx.tensors :]
        if torch.is_grad_enabled():
            return _by_autograd(ctx, x, y, tensors, grads)
        sides: Sides = ctx.sides
        with torch.autocast(x.device.type, enabled=False):
            by_x = by_y = None
            for carrier in sides.carriers:
                carrier.pull_back(grads[1])
            if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
                by_x, by_y = sides.by_sides(x, y, matrices, grads[0], grads[1])
            return None, by_x, by_y, *sides.by_numbers(grads[0], grads[1], ctx.needs_input_grad[3:])


def _by_autograd(ctx: Any, x: Tensor, y: Tensor, tensors: Sequence[Tensor], grads: Sequence[Tensor]) -> tuple[Any, ...]:
    """The derivatives as functions that can be differentiated again."""
    left = iter(tensors)
    known = zip(ctx.numbers, ctx.is_tensor, strict=True)
    numbers = [next(left) if is_tensor else number for number, is_tensor in known]
    values = ctx.sides.again(x, y, numbers)
    inputs = [x, y, *numbers]
    wanted = [value for value, want in zip(inputs, ctx.needs_input_grad[1:], strict=True) if want]
    pairs = [(value, grad) for value, grad in zip(values, grads, strict=True) if value.requires_grad]
    outputs, outer = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, outer, create_graph=True, allow_unused=True))
    return None, *(next(found) if want else None for want in ctx.needs_input_grad[1:])
