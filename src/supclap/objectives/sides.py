"""Two sides and the terms between them: every product once, every derivative by hand, in rows that stay in the cache.

Shapes: n rows (and keys), d width; a terms, the last k of which carry support vectors.

Two sides x, y [n, d] (audio and text) have up to two terms: x looks for y ("forth") and y looks for x ("back"); an
only support goes back. With step = x - y and share = R / distance, the logits of a term and of its support vectors are

    scale C + bias    and    scale (C + share P) / length + bias

with C (cosines) = y x^T back and its transpose forth, and P (pull) = step x^T back and -step y^T forth. P, rather than
x x^T - C, keeps its digits when the sides are close. The two P add up to step step^T, and P + C of back is x x^T: two
symmetric products, each at half the price. With G_C and G_P the derivatives by C and P of each term,

    H  = (G_C - G_P) of forth + (G_C - G_P)^T of back
    dx = H y   + (G_P + G_P^T) x, of back
    dy = H^T x + (G_P + G_P^T) y, of forth

The rows are of unit length and stay so: a derivative along a row itself leads nowhere and is left out. The squared
length, 1 - share (1 - share) distance^2, then adds to the diagonal of H alone. What the distance adds runs along the
step; as a part of H it would lose the digits that P keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from supclap.objectives.terms import Pairs, with_positive
from supclap.schema import Term

if TYPE_CHECKING:
    from supclap.objectives.slopes import Slopes
    from supclap.objectives.svr import SVR, Support

Number = Tensor | float
Values = tuple[Tensor, Tensor, Tensor]
NEAR = 1e-6  # below this distance there is no direction to move in
SHORT = 1e-2  # below this length a support vector is not normalised any further
GRAM_ROWS = 64  # rows of a product that is worth halving, twice
BLOCK_BYTES = 1 << 21  # what a block of logits may hold to stay in a core's cache


class Sides:
    """Two sides without gradient, the terms between them, and the matrices of both."""

    def __init__(self, terms: Sequence[Term], hold: Callable[[Term], Term], carries: Callable[[Term], bool]) -> None:
        self.terms = sorted(terms, key=carries)
        self.held = [hold(term) for term in self.terms]
        self.bases, self.carriers = len(terms), sum(map(carries, terms))
        self.x, self.y = self.held[-1].key, self.held[-1].query
        # In one piece: cosines of the terms, pulls of the carriers; later on the derivatives by them.
        self.matrices = self.x.new_empty(self.bases + self.carriers, len(self.x), len(self.x))
        back = self.matrices[self.bases - 1]
        if self.carriers:
            self.step = self.x - self.y
            self.distance: Tensor = torch.linalg.vector_norm(self.step, dim=1)
            pull = torch.mm(self.step, self.x.T, out=self.matrices[-1])
            gram(self.x, back).sub_(pull)
        else:
            torch.mm(self.y, self.x.T, out=back)
        if self.carriers == 2:
            gram(self.step, self.matrices[-2]).sub_(pull)
        if self.bases == 2:
            self.matrices[0].copy_(back.T)

    def cosines(self) -> dict[tuple[int, int], Tensor]:
        """By the ids of a held term's rows; good until `values` writes over them."""
        return {(id(term.query), id(term.key)): found for term, found in zip(self.held, self.matrices, strict=False)}

    def values(self, svr: SVR, slopes: Slopes, pairs: Pairs, supports: Sequence[Support]) -> Values:
        """Base, SVR and constraint of these terms."""
        self.svr, self.slopes, self.pairs = svr, slopes, pairs
        self.supports = [support for term in self.held for support in supports if support.term is term]
        numbers: list[Any] = [_scalar(number) for term in self.terms for number in (term.scale, term.bias)]
        numbers += [support.radius for support in self.supports]
        numbers += [None if support.raw is support.radius else support.raw for support in self.supports]
        found: Values = _Values.apply(self, self.terms[-1].key, self.terms[-1].query, *numbers)  # type: ignore[no-untyped-call]
        return found

    def free(self) -> None:
        """Let go of what backward gets from autograd."""
        del self.matrices, self.held, self.x, self.y
        if self.carriers:
            del self.step

    # -- forward -----------------------------------------------------------------------------------------------------

    def forward(self, wants_scale: bool, wants_bias: bool) -> Values:
        """The three values; the matrices become the derivatives of the first two, by the mean over rows."""
        rows, matrices = len(self.x), self.matrices
        groups = [*range(self.bases), *range(self.bases - self.carriers, self.bases)]  # the term that each belongs to
        self.weight = _together([self.terms[place].weight / rows for place in groups], matrices)
        scale = _together([_value(self.terms[place].scale, matrices) for place in groups], matrices)
        self.bias = _together([_value(self.terms[place].bias, matrices) for place in groups], matrices)
        self.base_scale, self.support_scale = _split(scale, self.bases)
        self._place()
        base_weight, support_weight = _split(self.weight, self.bases)
        self.base_rate = base_weight * self.base_scale
        self.support_rate = _tall(support_weight, 1) * self.rate
        self.by_scale = self.by_bias = matrices.new_zeros(())
        costs = matrices.new_empty(len(groups), rows)
        self.by_cosines, self.by_pull = costs.new_empty(2, self.carriers, rows)
        block = rows
        if matrices.device.type == "cpu":
            block = max(1, min(rows, BLOCK_BYTES // (len(groups) * rows * matrices.element_size())))
        buffer = matrices.new_empty(len(groups), block, rows)
        for first in range(0, rows, block):
            here = slice(first, min(first + block, rows))
            logits = buffer[:, : here.stop - first]
            self._fill(logits, here)
            costs[:, here] = self.slopes(logits, first, self.bases)
            self._keep(logits, here, wants_scale, wants_bias)
        weighted = costs.sum(1) * self.weight
        return weighted[: self.bases].sum(), weighted[self.bases :].sum(), self._constraint()

    def _place(self) -> None:
        """Where the support vectors lie: [k, n] share of the step, length, and what multiplies their products."""
        if not self.carriers:
            self.rate = self.x.new_empty(0, len(self.x))
            return
        radius = torch.stack([support.radius.detach() for support in self.supports])
        far = self.distance >= NEAR
        self.nearness = torch.where(far, self.distance.reciprocal(), 0.0)
        self.share = radius * self.nearness
        self.beyond = (self.share - 0.5) * (self.distance * far)  # R less half the distance: from the middle of x and y
        self.inverse = torch.ones_like(self.share)
        self.bend = torch.zeros_like(self.share)
        if self.svr.renormalize:
            middle = torch.linalg.vector_norm(self.x + self.y, dim=1).mul_(0.5)
            length = torch.hypot(middle.expand_as(self.beyond), self.beyond)
            self.inverse = length.clamp(min=SHORT).reciprocal_()
            self.bend = self.inverse.square().mul_(length > SHORT)
        self.rate = _tall(self.support_scale, 1) * self.inverse

    def _fill(self, logits: Tensor, here: slice) -> None:
        """Logits of some rows."""
        matrices, bases = self.matrices[:, here], self.bases
        torch.mul(matrices[:bases], _tall(self.base_scale, 2), out=logits[:bases])
        if self.carriers:
            moved = logits[bases:]
            torch.addcmul(
                matrices[bases - self.carriers : bases], self.share[:, here, None], matrices[bases:], out=moved
            )
            moved.mul_(self.rate[:, here, None])
        if isinstance(self.bias, Tensor) or self.bias != 0.0:
            logits.add_(_tall(self.bias, 2))

    def _keep(self, slopes: Tensor, here: slice, wants_scale: bool, wants_bias: bool) -> None:
        """Take the slopes of some rows; they go where the cosines and the pulls were."""
        matrices, bases = self.matrices[:, here], self.bases
        if wants_scale:
            self.by_scale = self.by_scale + (slopes[:bases] * matrices[:bases]).sum((1, 2))
        if wants_bias:
            self.by_bias = self.by_bias + slopes.sum((1, 2))
        if self.carriers:
            moved, cosines, pulls = slopes[bases:], matrices[bases - self.carriers : bases], matrices[bases:]
            # Products over what is read for the last time: a matrix of their own would leave the cache.
            torch.sum(cosines.mul_(moved), 2, out=self.by_cosines[:, here])
            torch.sum(pulls.mul_(moved), 2, out=self.by_pull[:, here])
            torch.mul(moved, self.support_rate[:, here, None], out=pulls)
        torch.mul(slopes[:bases], _tall(self.base_rate, 2), out=matrices[:bases])

    def _constraint(self) -> Tensor:
        """Mean of relu(R - d) + relu(-R), of the radii as they were predicted."""
        if not self.carriers:
            return self.x.new_zeros(())
        raw = torch.stack([support.raw.detach() for support in self.supports])
        self.excess = raw - torch.minimum(raw.clamp(min=0.0), self.distance)
        return self.excess.abs().sum() / len(self.x)

    # -- backward ----------------------------------------------------------------------------------------------------

    def by_places(self, by_svr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Derivatives by R [k, n], by half the squared distance [n] and, at a fixed share, by each row's x . y [n]."""
        rate = self.support_rate * by_svr
        by_share = rate * self.by_pull
        by_length = torch.addcmul(rate * self.by_cosines, self.share, by_share).mul_(self.bend).neg_()
        by_radius = torch.addcmul(by_share * self.nearness, by_length, self.beyond)
        by_distance = (by_radius * self.share * self.nearness).sum(0).neg_()
        return by_radius, by_distance, (by_length * self.share * (1 - self.share)).sum(0)

    def by_products(
        self, x: Tensor, y: Tensor, matrices: Tensor, by_base: Tensor, by_svr: Tensor, by_cosine: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Derivatives by x and y, but for what the distance adds."""
        bases, pulled = self.bases, matrices[self.bases :]
        work = matrices.new_empty(3, len(x), len(x))
        one, two, across = work.unbind()
        mixed = torch.mul(matrices[:bases], by_base, out=work[:bases])
        if self.carriers:
            mixed[bases - self.carriers :].addcmul_(pulled, (by_svr * (1 - self.share))[:, :, None])
        across.copy_(mixed[-1].T)
        if bases == 2:
            across.add_(mixed[0])
        if by_cosine is not None:
            across.diagonal().add_(by_cosine)
        by_x, by_y = across @ y, across.T @ x
        # The last carrier goes back, from y to x and on along x x^T; another goes forth.
        for place, (found, side) in zip(range(self.carriers - 1, -1, -1), ((by_x, x), (by_y, y)), strict=False):
            torch.mul(pulled[place], (by_svr * self.share[place])[:, None], out=one)
            found.addmm_(one.add_(two.copy_(one.T)), side)
        return by_x, by_y

    def by_radii(self, by_radius: Tensor, by_constraint: Tensor) -> list[Tensor | None]:
        """Derivatives by the radii, then by those predicted where these are others."""
        by_raw = self.excess.sign() * (by_constraint / len(self.excess[0]))
        same = [support.raw is support.radius for support in self.supports]
        both = (by_radius + by_raw).unbind()
        return [
            *(whole if one else of_radius for whole, of_radius, one in zip(both, by_radius, same, strict=True)),
            *(None if one else of_raw for of_raw, one in zip(by_raw, same, strict=True)),
        ]

    def by_numbers(self, by_base: Tensor, by_svr: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        """Derivatives by the scale and the bias of each term."""
        found: list[Tensor | None] = [None] * (2 * self.bases)
        lone, weights = self.bases - self.carriers, _split(self.weight, self.bases)
        if any(wanted[0::2]):
            by_scale = by_base * weights[0] * self.by_scale
            if self.carriers:
                rows = self.inverse * torch.addcmul(self.by_cosines, self.share, self.by_pull)
                by_scale[lone:] += by_svr * weights[1] * rows.sum(1)
            found[0::2] = by_scale.unbind()
        if any(wanted[1::2]):
            by_bias = self.weight * self.by_bias
            by_base_bias = by_base * by_bias[: self.bases]
            by_base_bias[lone:] += by_svr * by_bias[self.bases :]
            found[1::2] = by_base_bias.unbind()
        return [value if want else None for value, want in zip(found, wanted, strict=True)]

    def again(self, x: Tensor, y: Tensor, numbers: Sequence[Any]) -> Values:
        """The three values by plain operations, for second derivatives."""
        pairs, base = Pairs(self.pairs.relation, self.pairs.here), self.svr.base
        relation = pairs.relation
        out = with_positive(relation) if self.svr.denominator == "negatives" else relation.excluded
        radii, raws = numbers[2 * self.bases :][: self.carriers], numbers[2 * self.bases + self.carriers :]
        plain, moved, constraints = [], [x.new_zeros(())], [x.new_zeros(())]
        for place, term in enumerate(self.terms):
            query, key = (y, x) if place == self.bases - 1 else (x, y)
            term = replace(term, query=query, key=key, scale=numbers[2 * place], bias=numbers[2 * place + 1])
            plain.append(term.weight * base.cost(pairs.logits(term), relation.positive, relation.excluded).mean())
            carrier = place - (self.bases - self.carriers)
            if carrier >= 0:
                radius, raw = radii[carrier], raws[carrier]
                support = self.supports[carrier].at(term, pairs, radius, radius if raw is None else raw)
                moved.append(term.weight * base.cost(support.logits(), relation.positive, out).mean())
                constraints.append(support.constraint())
        return torch.stack(plain).sum(), torch.stack(moved).sum(), torch.stack(constraints).sum()


class _Values(torch.autograd.Function):
    """Sides, x, y, (scale, bias) of each term, radii, predicted radii to the values of base, SVR and constraint."""

    @staticmethod
    def forward(ctx: Any, sides: Sides, x: Tensor, y: Tensor, *numbers: Any) -> Values:
        wanted = ctx.needs_input_grad[3 : 3 + 2 * sides.bases]
        ctx.sides, matrices = sides, sides.matrices
        values = sides.forward(any(wanted[0::2]), any(wanted[1::2]))
        ctx.numbers = [None if isinstance(number, Tensor) else (number,) for number in numbers]
        tensors = [number for number in numbers if isinstance(number, Tensor)]
        # Handed over to autograd, which frees them after backward.
        ctx.save_for_backward(x, y, matrices, sides.step if sides.carriers else None, *tensors)
        sides.free()
        return values

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        x, y, matrices, step, *tensors = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _by_autograd(ctx, x, y, tensors, grads)
        sides: Sides = ctx.sides
        by_base, by_svr, by_constraint = grads
        by_x = by_y = by_cosine = None
        by_radii: list[Tensor | None] = []
        with torch.autocast(x.device.type, enabled=False):
            if sides.carriers:
                by_radius, by_distance, by_cosine = sides.by_places(by_svr)
                by_radii = sides.by_radii(by_radius, by_constraint)
            if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
                by_x, by_y = sides.by_products(x, y, matrices, by_base, by_svr, by_cosine)
                if sides.carriers:
                    by_x.addcmul_(by_distance[:, None], step)
                    by_y.addcmul_(by_distance[:, None], step, value=-1.0)
            wanted = ctx.needs_input_grad[3 : 3 + 2 * sides.bases]
            return None, by_x, by_y, *sides.by_numbers(by_base, by_svr, wanted), *by_radii


def _by_autograd(ctx: Any, x: Tensor, y: Tensor, tensors: Sequence[Tensor], grads: Sequence[Tensor]) -> tuple[Any, ...]:
    """The derivatives as functions that can be differentiated again."""
    left = iter(tensors)
    numbers = [next(left) if held is None else held[0] for held in ctx.numbers]
    values = ctx.sides.again(x, y, numbers)
    inputs = [x, y, *numbers]
    wanted = [value for value, want in zip(inputs, ctx.needs_input_grad[1:], strict=True) if want]
    pairs = [(value, grad) for value, grad in zip(values, grads, strict=True) if value.requires_grad]
    outputs, outer = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, outer, create_graph=True, allow_unused=True))
    return None, *(next(found) if want else None for want in ctx.needs_input_grad[1:])


# -- numbers of several groups ---------------------------------------------------------------------------------------


def _scalar(number: Number) -> Number:
    return number.reshape(()) if isinstance(number, Tensor) else number


def _value(number: Number, rows: Tensor) -> Number:
    """The number in the rows' precision: products with it alone would be in its own."""
    return number.detach().reshape(()).to(rows.dtype) if isinstance(number, Tensor) else number


def _together(numbers: Sequence[Number], rows: Tensor) -> Number:
    """The number that all groups share, or a tensor of one a group."""
    if all(number is numbers[0] for number in numbers):
        return numbers[0]
    if not any(isinstance(number, Tensor) for number in numbers) and len(set(numbers)) == 1:
        return numbers[0]
    return torch.stack([rows.new_full((), number) if isinstance(number, float) else number for number in numbers])


def _split(number: Number, first: int) -> tuple[Number, Number]:
    """For the first groups and for the others."""
    return (number[:first], number[first:]) if isinstance(number, Tensor) and number.dim() else (number, number)


def _tall(number: Number, dims: int) -> Number:
    """One a group, beside so many dimensions of the group's own."""
    return number.view(-1, *[1] * dims) if isinstance(number, Tensor) and number.dim() else number


def gram(rows: Tensor, out: Tensor) -> Tensor:
    """Rows . rows, by blocks on and above the diagonal where that is worth it."""
    count = len(rows)
    block = max(GRAM_ROWS, -(-count // 8)) if count >= 2 * GRAM_ROWS else count
    for first in range(0, count, block):
        last = min(first + block, count)
        torch.mm(rows[first:last], rows[first:].T, out=out[first:last, first:])
        if last < count:
            out[last:, first:last].copy_(out[first:last, last:].T)
    return out
