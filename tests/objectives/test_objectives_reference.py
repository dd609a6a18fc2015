"""Every base and every combination of SVR against the reference: value and gradient, through the normalisation."""

import itertools

import pytest
import torch
from objective_cases import BASES, RADII, N, batch, lively

from supclap import reference
from supclap.objectives import CACL, DCL, SVR, FixedRadius, InfoNCE, SigLIP, StaticRadius

pytestmark = pytest.mark.usefixtures("both_paths")
IDS = torch.tensor([3, 7, 3, 1, 9, 9])
SAME = IDS[:, None] == IDS[None, :]
KINDS = {
    "infonce": (lambda: InfoNCE(), {"kind": "infonce"}),
    "dcl": (lambda: DCL(), {"kind": "dcl"}),
    "siglip": (lambda: SigLIP(bias=-2.0), {"kind": "siglip", "scale": 10.0, "bias": -2.0}),
}


def gradients(loss, leaves):
    return torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True, retain_graph=True)


def assert_same(found, wanted, leaves_found, leaves_wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
    for one, other in zip(gradients(found, leaves_found), gradients(wanted, leaves_wanted), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def copies(*rows):
    return [row.detach().clone().requires_grad_() for row in rows]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("same", [None, SAME], ids=["distinct", "same-clip"])
def test_bases(kind, same):
    build, options = KINDS[kind]
    audio, text = batch(1)
    out = build().double()(audio, text, clip_ids=None if same is None else IDS)
    other_audio, other_text = copies(audio, text)
    loss, _ = reference.supclap(other_text, other_audio, directions=(), same_clip=same, **options)
    assert_same(out.loss, loss, (audio, text), (other_audio, other_text))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", RADII)
def test_every_combination(kind, radius):
    build, options = KINDS[kind]
    choices = itertools.product(
        (("t2a",), ("a2t",), ("t2a", "a2t")),
        (True, False),
        ("all", "negatives"),
        (None, SAME),
        ((1.0, 0.0), (0.3, 0.7)),
    )
    for number, (directions, renormalize, denominator, same, (alpha, beta)) in enumerate(choices):
        if denominator == "negatives" and (kind == "siglip" or radius.startswith("dynamic")):
            continue
        arguments = {"directions": directions, "renormalize": renormalize, "denominator": denominator}
        objective = lively(SVR(build(), radius=RADII[radius](), alpha=alpha, beta=beta, **arguments), number)
        audio, text = batch(number, spread=0.3 + number % 3)
        out = objective(audio, text, clip_ids=None if same is None else IDS)
        moved = {name: value.detach().clone().requires_grad_() for name, value in out.radius.items()}
        other_audio, other_text = copies(audio, text)
        loss, parts = reference.supclap(
            other_text, other_audio, moved.get("t2a", 0.0), moved.get("a2t", 0.0), alpha=alpha, directions=directions,
            renormalize=renormalize, positive_in=denominator == "all", same_clip=same, **options,
        )  # fmt: skip
        if radius == "function":  # its radius depends on the distance, which it is handed without gradient
            assert not out.radius[directions[0]].requires_grad
        # L_cons reads the radius before a cap, which out.radius is not: tested by itself in test_objectives_svr.
        found = out.loss - out.weights["constraint"] * out.parts["constraint"]
        assert_same(found, loss, (audio, text), (other_audio, other_text))
        if not radius.endswith("capped"):
            torch.testing.assert_close(out.parts["constraint"], parts["constraint"], rtol=1e-10, atol=1e-12)
        for name, value in out.radius.items():
            if value.requires_grad:
                mine, theirs = gradients(found, (value,))[0], gradients(loss, (moved[name],))[0]
                torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("radius", ["static", "dynamic-fixed", "fraction"])
@pytest.mark.parametrize("directions", [("t2a",), ("t2a", "a2t")], ids=["uni", "bi"])
@pytest.mark.parametrize("same", [None, SAME], ids=["distinct", "same-clip"])
def test_cacl_is_three_contrasts(radius, directions, same):
    objective = lively(SVR(CACL(), radius=RADII[radius](), beta=0.5, directions=directions))
    audio, other, english = batch(5, count=3)
    out = objective(audio, other, anchor_text=english, clip_ids=None if same is None else IDS)
    assert list(out.radius) == (["e2a", "o2a"] if len(directions) == 1 else ["e2a", "a2e", "o2a", "a2o"])
    radii = {name: value.detach() for name, value in out.radius.items()}
    a, o, e = copies(audio, other, english)
    options = {"same_clip": same, "directions": directions}
    with_audio = [
        reference.supclap(text, a, radii[f"{name}2a"], radii.get(f"a2{name}", 0.0), **options)[1]
        for text, name in ((e, "e"), (o, "o"))
    ]
    between = reference.supclap(e, o, directions=(), same_clip=same)[1]["base"]
    loss = (sum(part["base"] + part["svr"] for part in with_audio) + between) / 6
    loss = loss + 0.5 * sum(part["constraint"] for part in with_audio)
    assert_same(out.loss, loss, (audio, other, english), (a, o, e))


def test_infonce_mean_is_half_the_sum():
    audio, text = batch(2)
    torch.testing.assert_close(InfoNCE(reduce="mean")(audio, text).loss, InfoNCE()(audio, text).loss / 2)
    half = SVR(InfoNCE(reduce="mean"), radius=FixedRadius(value=0.2))(audio, text)
    whole = SVR(InfoNCE(), radius=FixedRadius(value=0.2))(audio, text)
    torch.testing.assert_close(half.loss, whole.loss / 2)


def test_a_callers_scale_and_bias_reach_base_and_support_with_gradient():
    for kind in ("infonce", "siglip"):
        for shape in ((), (1,)):
            objective = SVR(BASES[kind](), radius=StaticRadius(0.4)).double()
            audio, text = batch(4)
            scale = torch.full(shape, 6.0, dtype=torch.float64, requires_grad=True)
            bias = torch.full(shape, -1.5, dtype=torch.float64, requires_grad=True)
            out = objective(audio, text, scale=scale, bias=bias)
            wide = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (6.0, -1.5)]
            loss, _ = reference.supclap(text, audio, 0.4, 0.4, kind=kind, scale=wide[0], bias=wide[1])
            torch.testing.assert_close(out.loss, loss)
            for one, other in zip(gradients(out.loss, (scale, bias)), gradients(loss, wide), strict=True):
                torch.testing.assert_close(one.reshape(()), other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["infonce-learnable", "siglip", "dcl", "cacl"])
@pytest.mark.parametrize("radius", ["static", "dynamic-fixed", "static-capped"])
def test_gradcheck(name, radius):
    objective = lively(SVR(BASES[name](), radius=RADII[radius](), beta=0.3, constrain="all", validate="never"))
    parameters = [value for value in objective.parameters() if value.numel() < 100]
    rows = batch(6, d=3, count=3)

    def loss(audio, text, anchor, *_):
        return objective(audio, text, anchor_text=anchor if name == "cacl" else None, clip_ids=IDS).loss

    # A predictor reads detached similarities (and scale), a cap the held distance: there only parameters are checked.
    if radius != "static":
        rows = [row.detach() for row in rows]
        parameters = [
            value for key, value in objective.named_parameters() if "scale" not in key and value.numel() < 100
        ]
    assert N == len(rows[0])
    assert torch.autograd.gradcheck(loss, (*rows, *parameters), fast_mode=True, atol=1e-6)
