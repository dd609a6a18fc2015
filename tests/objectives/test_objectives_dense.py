"""The dense path equals the generic one: value and every gradient, over every combination it serves."""

import copy
import itertools
import warnings

import pytest
import torch
from torch import nn

from supclap.objectives import (
    CACL,
    DCL,
    SVR,
    DynamicRadius,
    FixedRadius,
    InfoNCE,
    RandomRadius,
    SigLIP,
    StaticRadius,
    Term,
    dense,
    sides,
)
from supclap.objectives.rows import unit

ROWS, WIDTH = 7, 9


class Hinge:
    """A base of a user's own: squared hinge, other weights, scale and bias."""

    names = ("t2a", "a2t")

    def terms(self, audio, text, *, anchor_text, scale, bias):
        scale, bias = 5.0 if scale is None else scale, 0.1 if bias is None else bias
        return [
            Term("t2a", "t2a", text, audio, 0.7, scale, bias),
            Term("a2t", "a2t", audio, text, 0.3, scale, bias),
        ]

    def cost(self, logits, positive, excluded):
        target = logits.gather(1, positive[:, None])
        over = (logits - 0.8 * target + 0.2).relu().square()
        return (over if excluded is None else over.masked_fill(excluded, 0.0)).sum(1)


class OneWay(Hinge):
    names = ("t2a",)

    def terms(self, *sides, **options):
        return super().terms(*sides, **options)[:1]


class Learned(Hinge, nn.Module):
    """Its cost has a number of its own: not for the dense path."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(0.7))

    def cost(self, logits, positive, excluded):
        return self.factor * super().cost(logits, positive, excluded)


BASES = {
    "infonce": lambda: InfoNCE(learnable=True),
    "mean": lambda: InfoNCE(reduce="mean"),
    "dcl": DCL,
    "siglip": lambda: SigLIP(bias=-3.0),
    "cacl": CACL,
    "hinge": Hinge,
    "one way": OneWay,
}
RADII = {
    "static": lambda: StaticRadius(0.8),
    "capped": lambda: StaticRadius(1.4, cap="distance"),
    "paper": lambda: DynamicRadius(batch_size=ROWS),
    "any size": lambda: DynamicRadius(cap="distance"),
    "fraction": lambda: FixedRadius(fraction=0.5),
    "random": RandomRadius,
    "function": lambda: lambda similarities, distance, excluded, name: 0.3 * distance + 0.01 * similarities.mean(1),
}
IDS = {"none": None, "some": [0, 0, 1, 2, 1, 3, 4], "lonely": [0] * ROWS}


def leaves_of(edges, dtype=torch.float64):
    draw = torch.Generator().manual_seed(3)
    audio, text, english = (torch.randn(ROWS, WIDTH, dtype=torch.float64, generator=draw) for _ in range(3))
    if edges:
        text[0] = 2 * audio[0]  # d = 0
        text[1] = -audio[1]  # antipodal: at R = 1 there is no support vector left
        text[2] = audio[2] + 1e-3 * text[2]
        text[3] = audio[3] + 1e-9 * text[3]  # below what counts as a direction
        text[4] = -audio[4] + 2e-3 * text[4]
    return [side.to(dtype).requires_grad_() for side in (audio, text, english)]


def build(base, radius, **options):
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SVR(BASES[base](), radius=RADII[radius](), beta=0.1, alpha=0.6, **options).double()


def outcome(objective, leaves, ids=None, numbers=(None, None), weigh=None):
    """Values and gradients of the loss and of an uneven mix of its parts."""
    objective = copy.deepcopy(objective)
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    numbers = [x if x is None else torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in numbers]
    anchor = leaves[2] if isinstance(objective.base, CACL) else None
    out = objective(leaves[0], leaves[1], anchor_text=anchor, clip_ids=ids, scale=numbers[0], bias=numbers[1])
    wanted = [*leaves, *(x for x in numbers if x is not None), *objective.parameters()]
    values = [out.loss, *out.parts.values(), *out.radius.values(), *out.distance.values()]
    mixed = 0.3 * out.parts["svr"] + out.parts["base"].square()
    grads = torch.autograd.grad(out.loss, wanted, allow_unused=True, retain_graph=True)
    grads += torch.autograd.grad(mixed, wanted, allow_unused=True)
    return [value.detach() for value in values], [
        torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip([*wanted, *wanted], grads, strict=True)
    ]


@pytest.fixture
def served(monkeypatch):
    """How many calls took the dense path."""
    count, original = [0], dense.Held.parts

    def counted(self, *args):
        count[0] += 1
        return original(self, *args)

    monkeypatch.setattr(dense.Held, "parts", counted)
    return count


def equal(ours, theirs, what):
    for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        # A gradient that is zero but for rounding is compared with the size of what it is made of.
        size = max(float(other.abs().max()), 1e-2)
        assert float((one - other).abs().max()) <= 1e-10 * size, (what, place, one, other)


COMBINATIONS = list(
    itertools.product(RADII, [("t2a", "a2t"), ("t2a",), ("a2t",)], ["all", "negatives"], [True, False], IDS)
)


@pytest.mark.parametrize("base", BASES)
def test_equals_the_generic_path(base, served):
    calls = 0
    # Every other combination, another half for every other base.
    chosen = COMBINATIONS[list(BASES).index(base) % 2 :: 2]
    for place, (radius, directions, denominator, renormalize, ids) in enumerate(chosen):
        if (base == "siglip" and denominator == "negatives") or (base == "one way" and directions == ("a2t",)):
            continue
        options = {"directions": directions, "denominator": denominator, "renormalize": renormalize}
        objective = build(base, radius, **options)
        # Out of step with the other choices, so that each meets both.
        edges, numbers = place // 5 % 2 == 0, (4.0, -0.5) if place // 7 % 2 else (None, None)
        leaves = leaves_of(edges)
        ours = outcome(objective, leaves, IDS[ids], numbers)
        calls += 1
        with dense.switched_off():
            theirs = outcome(objective, leaves, IDS[ids], numbers)
        for one, other in zip(ours, theirs, strict=True):
            equal(one, other, (base, radius, options, ids, edges, numbers))
    assert served[0] == calls > 50


@pytest.mark.parametrize("block", [1, 3, ROWS])
def test_blocks_of_rows_change_nothing(block, monkeypatch):
    for base in BASES:
        objective, leaves = build(base, "static"), leaves_of(True)
        whole = outcome(objective, leaves, IDS["some"], (4.0, -0.5))
        groups = 3 if base == "cacl" else 4
        monkeypatch.setattr(sides, "BLOCK_BYTES", block * groups * ROWS * 8)
        for one, other in zip(outcome(objective, leaves, IDS["some"], (4.0, -0.5)), whole, strict=True):
            equal(one, other, (base, block))
        monkeypatch.undo()


@pytest.mark.parametrize("base", ["infonce", "siglip", "cacl"])
@pytest.mark.parametrize("directions", [("t2a", "a2t"), ("t2a",)])
def test_halved_products_of_large_batches(base, directions):
    """Enough rows for symmetric products by blocks, and not a multiple of a block."""
    draw, count = torch.Generator().manual_seed(2), 2 * sides.GRAM_ROWS + 45
    leaves = [torch.randn(count, 5, dtype=torch.float64, generator=draw) for _ in range(3)]
    objective = build(base, "static", directions=directions)
    ours = outcome(objective, leaves, torch.arange(count) // 2)
    with dense.switched_off():
        theirs = outcome(objective, leaves, torch.arange(count) // 2)
    equal(ours[0] + ours[1], theirs[0] + theirs[1], base)
    rows = leaves[0]
    torch.testing.assert_close(sides.gram(rows, rows.new_empty(count, count)), rows @ rows.T)


def test_one_radius_for_both_directions_and_repeated_backwards(served):
    objective, leaves = build("infonce", "paper", shared_radius=True), leaves_of(False)
    ours = outcome(objective, leaves)
    with dense.switched_off():
        theirs = outcome(objective, leaves)
    equal(ours[0] + ours[1], theirs[0] + theirs[1], "shared")
    assert served[0] == 1
    loss = objective(*leaves[:2]).loss
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_second_derivatives():
    objective, (audio, text, _) = build("infonce", "static"), leaves_of(False)
    assert torch.autograd.gradgradcheck(lambda audio, text: objective(audio, text).loss, (audio[:3], text[:3]))
    audio, text = (side[:3].detach().requires_grad_() for side in (audio, text))
    assert torch.autograd.gradcheck(unit, audio) and torch.autograd.gradgradcheck(unit, audio)
    radius = next(objective.parameters())
    (slope,) = torch.autograd.grad(objective(audio, text).parts["svr"], radius, create_graph=True)
    with dense.switched_off():
        (plain,) = torch.autograd.grad(objective(audio, text).parts["svr"], radius, create_graph=True)
    for one, other in zip(
        torch.autograd.grad(slope, (radius, audio)), torch.autograd.grad(plain, (radius, audio)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_frozen_sides_and_frozen_numbers():
    for place in range(2):
        objective, leaves = build("siglip", "paper"), leaves_of(False)[:2]
        leaves[place].requires_grad_(False)
        moving = leaves[1 - place]
        (ours,) = torch.autograd.grad(objective(*leaves).loss, moving)
        with dense.switched_off():
            (theirs,) = torch.autograd.grad(objective(*leaves).loss, moving)
        equal([ours], [theirs], place)


@pytest.mark.parametrize("base", ["infonce", "siglip", "dcl"])
@pytest.mark.parametrize(("spread", "size", "times"), [(0.1, 0.1, 2), (0.8, 0.5, 2), (2.0, 1.0, 2), (0.1, 0.5, 8)])
def test_single_precision_is_no_worse(base, spread, size, times):
    """Distances from .14 to 1.3; the last case has R = 3.6 d, where the factor of two is not promised."""
    draw = torch.Generator().manual_seed(5)
    shared = torch.randn(256, 64, generator=draw, dtype=torch.float64)
    leaves = [(shared + spread * torch.randn(256, 64, generator=draw, dtype=torch.float64)) for _ in range(2)]
    leaves = [side.float() for side in leaves]
    torch.manual_seed(1)
    objective = SVR(BASES[base](), radius=StaticRadius(size))

    def gradient(dtype):
        sides = [leaf.to(dtype).requires_grad_() for leaf in leaves]
        loss = copy.deepcopy(objective).to(dtype)(*sides).loss
        return loss.double().detach(), torch.cat(torch.autograd.grad(loss, sides)).double()

    with dense.switched_off():
        truth, generic = gradient(torch.float64), gradient(torch.float32)
    ours = gradient(torch.float32)
    assert (ours[0] - truth[0]).abs() <= 2 * (generic[0] - truth[0]).abs() + 3e-7 * truth[0].abs()
    for norm in (2, torch.inf):
        error, theirs = (((x[1] - truth[1]).norm(p=norm) / truth[1].norm(p=norm)).item() for x in (ours, generic))
        assert error <= times * theirs, (norm, error, theirs)


def test_tails_stay_finite():
    """A temperature of 0.005 and a positive far away: probabilities underflow, costs must not."""
    leaves = leaves_of(True, torch.float32)[:2]
    objective = SVR(InfoNCE(temperature=0.005), radius=StaticRadius(0.3))
    grads = torch.autograd.grad(objective(*leaves).loss, leaves)
    double = [leaf.detach().double().requires_grad_() for leaf in leaves]
    truth = torch.autograd.grad(objective.double()(*double).loss, double)
    for one, other in zip(grads, truth, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-4 * float(other.abs().max()))


@pytest.mark.parametrize(
    "options",
    [
        {"jacobian": "off"},
        {"probabilities": "base"},
        {"constrain": "all"},
        {"detach": ("u",)},
        {"detach": ("positive",)},
    ],
)
def test_controls_take_the_generic_path(options, served):
    build("infonce", "static", **options)(*leaves_of(False)[:2])
    assert served[0] == 0


def test_what_else_takes_the_generic_path(served, monkeypatch):
    audio, text, _ = leaves_of(False)
    monkeypatch.setitem(BASES, "learned", Learned)
    objective = build("learned", "static")
    objective(audio, text).loss.backward()
    assert objective.base.factor.grad is not None
    plain = build("infonce", "static")
    with torch.no_grad():
        quiet = plain(audio, text).loss
    torch.func.grad(lambda rows: plain(rows, text.detach()).loss)(audio.detach())
    frozen = plain(audio.detach(), text.detach()).loss
    assert served[0] == 0 and frozen.requires_grad
    torch.testing.assert_close(plain(audio, text).loss, quiet)
    assert served[0] == 1


def test_autocast_does_not_reach_it():
    objective, leaves = build("infonce", "static").float(), leaves_of(False, torch.float32)[:2]
    plain = torch.autograd.grad(objective(*leaves).loss, leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = torch.autograd.grad(objective(*leaves).loss, leaves)
    for one, other in zip(plain, inside, strict=True):
        assert torch.equal(one, other)


def test_a_scale_of_another_shape_or_precision():
    objective, (audio, text, _) = build("siglip", "static"), leaves_of(False)
    scale = torch.tensor([4.0], requires_grad=True)
    bias = torch.tensor([[-0.3]], dtype=torch.float32, requires_grad=True)
    objective(audio, text, scale=scale, bias=bias).loss.backward()
    found = [scale.grad.clone(), bias.grad.clone()]
    scale.grad = bias.grad = None
    with dense.switched_off():
        objective(audio, text, scale=scale, bias=bias).loss.backward()
    torch.testing.assert_close(found, [scale.grad, bias.grad])
