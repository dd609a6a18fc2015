"""Every argument of every objective, in combination, against the oracle: values and all gradients, float64."""

import random
import warnings

import pytest
import torch
from objective_cases import BASES, CONTROLS, Margin, N, batch, lively, needs_anchor, radii
from objective_oracle import method

from supclap.objectives import SVR, SigLIP, StaticRadius

pytestmark = pytest.mark.usefixtures("both_paths")

BUILT = {
    **{name: BASES[name] for name in ("infonce", "infonce-mean", "infonce-learnable", "dcl", "cacl")},
    "siglip": lambda **common: SigLIP(**common),
    "own-plain": lambda **common: Margin(),
    **CONTROLS,
}
CARRYING = [name for name in BUILT if not name.startswith("reweight")]
CHOICES = {
    "radius": [*radii(), "static-short", None],
    "directions": [("t2a",), ("a2t",), ("t2a", "a2t")],
    "renormalize": [True, False],
    "denominator": ["all", "negatives"],
    "shared_radius": [False, True],
    "jacobian": ["on", "off"],
    "probabilities": ["support", "base"],
    "constrain": ["radius", "all"],
    "detach": [(), ("positive",), ("u",), ("positive", "u")],
    "same_clip": ["exclude", "negative"],
    "ids": [None, "some", "some", "lonely"],
    "given": [(None, None), (6.0, None), (None, -1.5), (6.0, -1.5)],
    "weights": [(1.0, None), (0.3, 0.7), (-0.5, 0.2), (0.0, 0.0)],
    "rows": ["usual", "near", "edges", "two"],
}
CONTROL = ("jacobian", "probabilities", "constrain", "detach")


def rows_of(kind, seed, n):
    audio, text, anchor = (row.detach() for row in batch(seed, n=n, spread=0.1 if kind == "near" else 1.0, count=3))
    if kind == "edges":
        text[0] = 2.0 * audio[0]  # d = 0, or rounding
        text[1] = -audio[1]  # d = 2: nothing is left of the support vector at R = 1
        text[2] = audio[2] + 1e-9 * text[2]
        text[3] = audio[3] + 1e-3 * text[3]  # R far beyond d
        text[5] = -audio[5] + 2e-3 * text[5]  # d just below 2
        anchor[4] = audio[4]
    return [row.requires_grad_() for row in (audio, text, anchor)]


def radius_of(name, n):
    """By name; "static-short" leaves an opposed pair a support vector that is no longer normalised."""
    return StaticRadius(1.004) if name == "static-short" else radii(n)[name]()


def check(base, choice, seed):
    """One combination; whatever it takes is in `choice`."""
    choice = dict(choice)
    n = 2 if choice["rows"] == "two" else N
    ids = {None: None, "some": [3, 7, 3, 1, 9, 9][:n], "lonely": [4] * n}[choice.pop("ids")]
    rows = rows_of(choice.pop("rows"), seed, n)
    given, (alpha, beta) = choice.pop("given"), choice.pop("weights")
    given = [None if x is None else torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in given]
    radius, same_clip = choice.pop("radius"), choice.pop("same_clip")
    if radius is None:
        objective, options = BUILT[base](same_clip=same_clip), {}
    else:
        options = {**choice, "alpha": alpha, "beta": beta}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            objective = SVR(BUILT[base](), radius=radius_of(radius, n), same_clip=same_clip, **options)
    lively(objective, seed)
    for name, value in objective.named_parameters():
        value.data += 0.1 if name.endswith(("scale", "learned", "w")) else 0.0
    numbers = {name: value.detach().clone().requires_grad_() for name, value in objective.named_parameters()}
    anchor = rows[2] if needs_anchor(base) else None
    leaves = [*rows[: 2 + needs_anchor(base)], *(x for x in given if x is not None)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = objective(*rows[:2], clip_ids=ids, anchor_text=anchor, scale=given[0], bias=given[1])
    copied = [row.detach().clone().requires_grad_() for row in leaves]
    again = iter(copied[2 + needs_anchor(base) :])
    loss, parts, found = method(
        base, *copied[: 2 + needs_anchor(base)], numbers=numbers, ids=ids, same_clip=same_clip,
        given=[None if x is None else next(again) for x in given], radius=radius, **options,
    )  # fmt: skip
    for name in out.parts.keys() - {"infonce"}:
        near(out.parts[name], parts[name], name)
    assert list(out.radius) == list(found)
    for name, value in found.items():
        near(out.radius[name], value, name)
    mine = torch.autograd.grad(out.loss, [*leaves, *objective.parameters()], allow_unused=True)
    theirs = torch.autograd.grad(loss, [*copied, *numbers.values()], allow_unused=True)
    for place, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        near(one, other, place)


def near(one, other, what):
    """Equal; where one is None the other is zero. A coinciding or opposed pair costs digits."""
    one, other = (torch.zeros(()) if x is None else torch.as_tensor(x).detach().double() for x in (one, other))
    assert (one - other).abs().max() <= 1e-8 * max(1.0, other.abs().max()), (what, one, other)


def allowed(base, choice):
    return not (choice["denominator"] == "negatives" and base == "siglip")


def picked(base, seed):
    """A combination by chance; every third is of the method's own mechanism, which the dense path serves."""
    draw = random.Random(f"{base}{seed}")
    while True:
        choice = {name: draw.choice(values) for name, values in CHOICES.items()}
        if seed % 3 == 0:
            choice.update({name: CHOICES[name][0] for name in CONTROL})
        choice["radius"] = choice["radius"] if base in CARRYING else None
        if base == "own-plain" and choice["radius"] is None:
            choice["radius"] = "static"
        if allowed(base, choice):
            return choice


@pytest.mark.parametrize("base", BUILT)
def test_combinations_by_chance(base):
    for seed in range(16):
        check(base, picked(base, seed), seed)


@pytest.mark.parametrize("base", CARRYING)
@pytest.mark.parametrize("radius", ["static-short", "static", "static-capped", "fraction"])
def test_edges(base, radius):
    """Coinciding, opposed and very near pairs, on the method's own mechanism."""
    plain = {name: values[0] for name, values in CHOICES.items()} | {"radius": radius, "rows": "edges"}
    for directions in CHOICES["directions"]:
        check(base, plain | {"directions": directions}, 3)
