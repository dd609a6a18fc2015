"""Where numbers end: small temperatures, two rows, identical and antipodal pairs, single precision."""

import pytest
import torch
from objective_cases import BASES, RADII, angles, batch, lively

from supclap import reference
from supclap.objectives import CACL, DCL, SVR, DynamicRadius, FixedRadius, InfoNCE, SigLIP, StaticRadius

pytestmark = pytest.mark.usefixtures("both_paths")


def run(objective, audio, text, dtype, **options):
    audio, text = (row.detach().to(dtype).requires_grad_() for row in (audio, text))
    out = objective(audio, text, **options)
    out.loss.backward()
    return out.loss, audio.grad, text.grad


def close(narrow, wide, tolerance=1e-4):
    for one, other in zip(narrow, wide, strict=True):
        assert one.isfinite().all()
        assert (one.double() - other).abs().max() <= tolerance * max(1.0, other.abs().max().item())


SHAPES = {
    "hundred degrees": (angles(100, 205, 330, 20), angles(0, 90, 200, 280)),
    "two rows": (angles(0, 40), angles(10, 70)),
    "identical": (angles(0, 90, 200), angles(0, 90, 200)),
    "antipodal": (angles(180, 270, 20), angles(0, 90, 200)),
    "one direction": (angles(5, 5, 5), angles(5, 5, 5)),
}


@pytest.mark.parametrize("tau", [0.005, 0.01, 0.07, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", ["none", "static", "static-capped", "fraction", "dynamic", "printed"])
def test_single_precision_is_the_float64_value_and_gradient(tau, shape, radius):
    audio, text = SHAPES[shape]
    for base in (InfoNCE(tau), DCL(tau), SigLIP(scale=1 / tau, bias=-1.0)):
        if radius == "none":
            objective = base
        elif radius == "printed":
            if isinstance(base, SigLIP):
                continue
            objective = SVR(base, radius=StaticRadius(0.4), denominator="negatives", renormalize=False)
        else:
            objective = SVR(base, radius=RADII[radius](), beta=0.1)
        if shape == "antipodal" and radius in ("static-capped", "fraction"):
            # R = d/2 is R = 1 here: a support vector of length zero, whose direction is rounding.
            found = run(objective, audio, text, torch.float32)
            assert all(value.isfinite().all() for value in found)
            continue
        close(run(objective, audio, text, torch.float32), run(objective, audio, text, torch.float64))


def test_the_smallest_temperature_with_a_positive_at_a_hundred_degrees_agrees_with_the_reference():
    audio, text = SHAPES["hundred degrees"]
    objective = SVR(InfoNCE(0.005), radius=StaticRadius(0.5))
    a, t = (row.clone().requires_grad_() for row in (audio, text))
    loss, _ = reference.supclap(t, a, 0.5, 0.5, scale=1 / 0.005)
    wanted = (loss, *torch.autograd.grad(loss, (a, t)))
    assert loss > 50
    close(run(objective, audio, text, torch.float32), wanted)


def test_a_coinciding_pair_is_its_own_support_vector_and_passes_no_gradient_through_u():
    """d < 1e-6: t_sup = t, so the support term's gradient is the base's."""
    text = angles(0, 90, 200)
    audio = text.clone()
    for radius in (FixedRadius(value=0.5), StaticRadius(0.5, cap="distance")):
        support = run(SVR(InfoNCE(), radius=radius), audio, text, torch.float64)
        base = run(InfoNCE(), audio, text, torch.float64)
        for one, other in zip(support, base, strict=True):
            torch.testing.assert_close(one, 2 * other, rtol=1e-10, atol=1e-12)
    just_apart = text + torch.tensor([[0.0, 1e-5], [1e-5, 0.0], [0.0, 0.0]], dtype=torch.float64)
    moved = run(SVR(InfoNCE(), radius=FixedRadius(value=0.5)), just_apart, text, torch.float64)
    assert abs(moved[0] - 2 * run(InfoNCE(), just_apart, text, torch.float64)[0]) > 1e-6
    assert all(value.isfinite().all() for value in moved)


def test_a_short_support_vector_is_divided_by_a_hundredth_without_gradient_through_its_length():
    text, audio = angles(0, 90, 200), angles(180, 270, 20)  # antipodal: at R = 1 the support vector is nothing
    for r in (1.0, 1.0 + 5e-3, 1.0 - 5e-3):
        found = run(SVR(InfoNCE(), radius=FixedRadius(value=r)), audio, text, torch.float64)
        assert all(value.isfinite().all() for value in found)
        leaf = torch.full((3,), r, dtype=torch.float64, requires_grad=True)
        part = SVR(InfoNCE(), radius=lambda s, d, e, name, leaf=leaf: leaf, directions=("t2a",))(audio, text).parts[
            "svr"
        ]
        queries = (text + leaf.detach()[:, None] * (audio - text) / 2) / 1e-2
        torch.testing.assert_close(part, ((queries @ audio.T / 0.07).log_softmax(1).diagonal().mean()).neg())
        u = (audio - text) / 2
        share = (queries @ audio.T / 0.07).softmax(1)
        slope = ((share @ audio - audio) * u).sum(1) / 0.07 / 1e-2 / 3
        torch.testing.assert_close(torch.autograd.grad(part, leaf)[0], slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("base", ["infonce", "dcl", "cacl", "reweight-gradient", "reweight-logit", "reweight-weight"])
def test_a_row_without_a_negative_costs_nothing_and_still_counts(base):
    from objective_cases import CONTROLS

    objective = {**BASES, **CONTROLS}[base]()
    for parameter in objective.parameters():
        parameter.data += 0.3
    audio, text, english = batch(2, n=4, count=3)
    options = {"anchor_text": english} if base == "cacl" else {}
    alone = objective(audio, text, clip_ids=[5, 5, 5, 5], **options)
    assert alone.loss.item() == 0.0
    grads = torch.autograd.grad(alone.loss, (audio, text, *objective.parameters()), allow_unused=True)
    assert all(grad is None or torch.count_nonzero(grad) == 0 for grad in grads)
    if isinstance(objective, CACL):
        return
    # Row 3 shares its clip with all others; they keep each other.
    logits = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    excluded = torch.zeros(4, 4, dtype=torch.bool)
    excluded[3] = True
    excluded[3, 3] = False
    cost = objective.cost(logits, torch.arange(4), excluded)
    assert cost[3] == 0 and (cost[:3] != 0).all()


def test_rows_without_a_negative_under_svr():
    ids = [5, 5, 5, 5, 5, 5]
    for radius in RADII:
        for denominator in ("all", "negatives"):
            if denominator == "negatives" and radius.startswith("dynamic"):
                continue
            audio, text = batch(2)
            out = lively(SVR(InfoNCE(), radius=RADII[radius](), denominator=denominator))(audio, text, clip_ids=ids)
            out.loss.backward()
            assert out.parts["svr"] == 0 and out.loss.isfinite()
            assert audio.grad.isfinite().all() and torch.count_nonzero(audio.grad) == 0


def test_a_sigmoid_row_without_a_negative_keeps_its_positive():
    audio, text = batch(2)
    out = SigLIP(scale=10.0, bias=-2.0)(audio, text, clip_ids=[1] * 6)
    cosine = (reference.unit(audio) * reference.unit(text)).sum(1)
    torch.testing.assert_close(out.loss, -torch.nn.functional.logsigmoid(10 * cosine - 2).mean())


def test_a_dynamic_radius_of_a_row_without_a_negative_reads_its_positive_everywhere():
    for size in (6, None):
        radius = lively(SVR(InfoNCE(), radius=DynamicRadius(batch_size=size, hidden=8))).radii["t2a"]
        width = radius.predictor[0].in_features
        similarities = torch.randn(6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        excluded = torch.ones(6, 6, dtype=torch.bool)
        excluded[:, 0] = False
        found = radius(similarities, torch.ones(6, dtype=torch.float64), excluded, "t2a")
        wanted = radius.predictor(similarities[:, :1].expand(-1, width)).squeeze(1)
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("length", [1e-12, 1.0, 1e12])
def test_rows_may_arrive_at_any_length(length):
    audio, text = batch(1, dtype=torch.float32)
    objective = SVR(InfoNCE(), radius=StaticRadius(0.4))
    torch.testing.assert_close(objective(audio * length, text).loss, objective(audio, text).loss)


def test_a_zero_row_after_the_first_call_sends_no_gradient_astray():
    audio, text = batch(1, dtype=torch.float32)
    objective = SVR(InfoNCE(), radius=StaticRadius(0.4))
    objective(audio, text)
    with torch.no_grad():
        audio[2] = 0.0
    objective(audio, text).loss.backward()
    assert torch.count_nonzero(audio.grad[2]) == 0
    assert text.grad.isfinite().all() and text.grad.abs().max() < 100
