"""The identities of the method, float64 against autograd, on batches that hypothesis chooses.

One direction (text looks for audio), gradient to the text alone, audio and R held: the setting of the paper's analysis.
"""

import math
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_cases import BASES, OneWay, angles, batch, support_of

from supclap.objectives import CACL, SVR, FixedRadius, InfoNCE, SigLIP
from supclap.objectives.objective import unit

pytestmark = pytest.mark.usefixtures("both_paths")
# The promise tier runs this file with thousands.
many = settings(derandomize=True, deadline=None, max_examples=int(os.environ.get("SUPCLAP_EXAMPLES", "40")))


@st.composite
def scenes(draw, fraction=(0.0, 0.95), dims=(2, 8)):
    """(text, audio, tau, rho): unit rows in float64, pairs near and far, R = rho d."""
    n, d = draw(st.integers(2, 7)), draw(st.integers(*dims))
    spread = draw(st.sampled_from([0.05, 0.5, 1.0, 3.0]))
    audio, text = batch(draw(st.integers(0, 10**6)), n, d, spread)
    tau = draw(st.sampled_from([0.05, 0.07, 0.2, 1.0]))
    rho = draw(st.floats(*fraction))
    return unit(text.detach()), unit(audio.detach()), tau, rho


def dot(one, other):
    return (one * other).sum(1, keepdim=True)


def geometry(text, audio):
    d = (audio - text).norm(dim=1, keepdim=True)
    return d, (audio - text) / d


def probabilities(query, audio, tau):
    return (query @ audio.T / tau).softmax(1)


def text_gradient(objective, text, audio, tau):
    """N times the gradient of the loss to text, audio held (rows arrive unit: it lies in the tangent plane)."""
    leaf = text.clone().requires_grad_()
    loss = objective(audio, leaf, scale=1 / tau).loss
    return len(text) * torch.autograd.grad(loss, leaf)[0]


def tangent(text, vectors):
    return vectors - dot(vectors, text) * text


def svr(rho, **options):
    return SVR(OneWay(), radius=FixedRadius(fraction=rho), validate="never", **options)


@many
@given(scenes())
def test_jacobian_of_the_support_vector(scene):
    text, audio, _, rho = scene
    for i in range(len(text)):
        radius = rho * (audio[i] - text[i]).norm()

        def moved(t, i=i, radius=radius):
            step = audio[i] - t
            return t + radius * step / step.norm()

        objective = SVR(OneWay(), radius=lambda s, d, e, name: rho * d, renormalize=False, validate="never")
        torch.testing.assert_close(
            support_of(objective, audio, text).vectors()[i], moved(text[i]), rtol=1e-9, atol=1e-12
        )
        d, u = geometry(text[i : i + 1], audio[i : i + 1])
        eye = torch.eye(text.shape[1], dtype=torch.float64)
        closed = eye - (radius / d) * (eye - u.T @ u)
        found = torch.autograd.functional.jacobian(moved, text[i])
        torch.testing.assert_close(found, closed, rtol=1e-8, atol=1e-10)


@many
@given(scenes())
def test_parallel_push_is_kept_and_perpendicular_push_is_scaled(scene):
    """Both formulas of the paper at once: all pushes and pulls of the closed form add up to autograd's gradient."""
    text, audio, tau, rho = scene
    d, u = geometry(text, audio)
    query = text + rho * d * u
    alpha = 0.7
    p, psup = probabilities(text, audio, tau), probabilities(query, audio, tau)
    eye = torch.eye(len(text), dtype=torch.float64)
    parallel = (p - eye) + alpha * (psup - eye)
    perpendicular = (p - eye) + alpha * (psup - eye) * (1 - rho)
    along = dot(audio[None, :, :].flatten(0, 1).repeat(len(text), 1), u.repeat_interleave(len(audio), 0)).view(
        len(text), -1
    )
    a_par = along[:, :, None] * u[:, None, :]
    a_perp = audio[None] - a_par
    closed = (parallel[:, :, None] * a_par + perpendicular[:, :, None] * a_perp).sum(1) / tau
    found = text_gradient(svr(rho, alpha=alpha, renormalize=False), text, audio, tau)
    torch.testing.assert_close(found, tangent(text, closed), rtol=1e-8, atol=1e-9)


@many
@given(scenes(dims=(3, 8)), st.booleans())
def test_the_factor_outside_the_plane_of_the_pair(scene, renormalize):
    text, audio, tau, rho = scene
    d, u = geometry(text, audio)
    radius = rho * d
    length = (1 - radius * (d - radius)).sqrt() if renormalize else torch.ones_like(d)
    p, psup = probabilities(text, audio, tau), probabilities((text + radius * u) / length, audio, tau)
    factor = (1 - rho) / length
    push = ((p + psup * factor) @ audio) / tau
    found = text_gradient(svr(rho, renormalize=renormalize), text, audio, tau)
    for i in range(len(text)):
        basis = torch.linalg.qr(torch.stack([text[i], audio[i]], 1))[0]
        outside = torch.eye(text.shape[1], dtype=torch.float64) - basis @ basis.T
        torch.testing.assert_close(outside @ found[i], outside @ push[i], rtol=1e-7, atol=1e-8)


def factor(cosine, rho):
    d = math.sqrt(2 - 2 * cosine)
    return (1 - rho) / math.sqrt(1 - rho * d * (d - rho * d))


@settings(derandomize=True, deadline=None)
@given(st.floats(0.0, 0.999), st.floats(1e-3, 1.0))
def test_the_renormalised_factor_suppresses_where_the_pair_is_closer_than_a_right_angle(cosine, rho):
    assert factor(cosine, rho) < 1


def test_the_renormalised_factor_amplifies_an_opposed_pair():
    assert factor(-0.75, 0.25) == pytest.approx(1.28, abs=5e-3)
    # The same from autograd: a negative outside the plane of the pair, its probability divided out.
    far = math.degrees(math.acos(-0.75))
    text = torch.cat([angles(0, 90), torch.zeros(2, 1, dtype=torch.float64)], 1)
    audio = torch.cat([angles(far), torch.zeros(1, 1, dtype=torch.float64)], 1)
    audio = torch.cat([audio, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)])
    whole = text_gradient(svr(0.25), text, audio, 1.0) - text_gradient(svr(0.25, alpha=0.0), text, audio, 1.0)
    d, u = geometry(text, audio)
    query = unit(text + 0.25 * d * u)
    assert (whole[0, 2] / probabilities(query, audio, 1.0)[0, 1]).item() == pytest.approx(1.28, abs=5e-3)


@many
@given(scenes(fraction=(-0.5, 1.5)))
def test_length_and_logits_of_support_vectors(scene):
    text, audio, _, rho = scene
    d, u = geometry(text, audio)
    radius = rho * d
    squared = 1 - radius * (d - radius)
    torch.testing.assert_close((text + radius * u).square().sum(1, keepdim=True), squared, rtol=1e-9, atol=1e-9)
    if squared.min() < 1e-3:
        return
    objective = svr(rho)
    cosines = support_of(objective, audio, text).vectors() @ audio.T
    closed = ((1 - rho) * (text @ audio.T) + rho * (audio @ audio.T)) / squared.sqrt()
    torch.testing.assert_close(cosines, closed, rtol=1e-8, atol=1e-9)


def radius_slope(text, audio, tau, radius, renormalize=False):
    """dL_svr/dR of each row, by autograd."""
    leaf = radius.clone().requires_grad_()
    objective = SVR(OneWay(), radius=lambda *_: leaf, renormalize=renormalize, validate="never")
    part = objective(audio, text, scale=1 / tau).parts["svr"]
    return len(text) * torch.autograd.grad(part, leaf, create_graph=True)[0], leaf


@many
@given(scenes(fraction=(-1.0, 3.0)))
def test_slope_and_curvature_in_the_radius(scene):
    text, audio, tau, rho = scene
    d, u = geometry(text, audio)
    radius = (rho * d)[:, 0]
    slope, leaf = radius_slope(text, audio, tau, radius)
    psup = probabilities(text + radius[:, None] * u, audio, tau)
    closed = ((psup @ audio - audio) * u).sum(1) / tau
    torch.testing.assert_close(slope, closed, rtol=1e-8, atol=1e-9)
    curvature = torch.autograd.grad(slope.sum(), leaf)[0]  # rows do not share a radius: the sum's slope is each row's
    assert (curvature >= -1e-9).all()


@many
@given(scenes())
def test_a_minimiser_on_positive_radii_exists_exactly_when_a_negative_lies_behind(scene):
    text, audio, tau, _ = scene
    step = audio - text
    behind = torch.stack([(step[i] * (audio[i] - audio)).sum(1) for i in range(len(text))])
    behind.fill_diagonal_(torch.inf)
    worst = behind.min(1).values
    clear = worst.abs() > 1e-3
    slope, _ = radius_slope(text, audio, tau, torch.full((len(text),), 1e5, dtype=torch.float64))
    # Convex: a minimiser on [0, inf) exists exactly when the slope turns positive somewhere.
    assert torch.equal((slope > 0)[clear & (worst < 0)], torch.ones(int((clear & (worst < 0)).sum()), dtype=torch.bool))
    assert (slope[clear & (worst > 0)] <= 0).all()


def test_the_counterexample_has_its_minimum_at_zero_and_none_on_the_whole_line():
    text, audio = angles(0, 90), angles(60, 120)
    for radius in (-50.0, -5.0, -1.0, 0.0, 0.3, 1.0, 5.0, 50.0):
        slope, _ = radius_slope(text, audio, 0.5, torch.full((2,), radius, dtype=torch.float64))
        assert slope[0] > 0, radius


@many
@given(scenes(), st.floats(1e-4, 0.5))
def test_squared_distance_after_a_step(scene, eta):
    text, audio, tau, rho = scene
    force = text_gradient(svr(rho), text, audio, tau)
    _, u = geometry(text, audio)
    parallel = dot(force, u) * u
    perpendicular = force - parallel
    change = (text - eta * force - audio).square().sum(1) - (text - audio).square().sum(1)
    closed = -eta * dot(2 * text - 2 * audio - eta * parallel, parallel) + eta**2 * dot(perpendicular, perpendicular)
    torch.testing.assert_close(change, closed[:, 0], rtol=1e-8, atol=1e-9)


@many
@given(scenes())
def test_both_pulls_have_one_direction_in_the_tangent_plane(scene):
    text, audio, _, _ = scene
    _, u = geometry(text, audio)
    one, other = tangent(text, audio), tangent(text, u)
    keep = one.norm(dim=1) > 1e-3
    torch.testing.assert_close(unit(one)[keep], unit(other)[keep], rtol=1e-6, atol=1e-7)


@many
@given(scenes())
def test_four_corners_of_the_mechanism(scene):
    text, audio, tau, rho = scene
    d, u = geometry(text, audio)
    p, psup = probabilities(text, audio, tau), probabilities(text + rho * d * u, audio, tau)

    def through(force, jacobian):
        return dot(force, u) * u + (1 - rho if jacobian else 1.0) * (force - dot(force, u) * u)

    base = (p @ audio - audio) / tau
    for jacobian in ("on", "off"):
        for which, share in (("support", psup), ("base", p)):
            objective = svr(rho, jacobian=jacobian, probabilities=which, renormalize=False)
            extra = through((share @ audio - audio) / tau, jacobian == "on")
            found = text_gradient(objective, text, audio, tau)
            torch.testing.assert_close(found, tangent(text, base + extra), rtol=1e-8, atol=1e-9)
    both_off = svr(rho, jacobian="off", probabilities="base", renormalize=False)
    torch.testing.assert_close(
        text_gradient(both_off, text, audio, tau),
        2 * text_gradient(OneWay(validate="never"), text, audio, tau),
        rtol=1e-10,
        atol=1e-11,
    )


@many
@given(st.integers(0, 10**6), st.sampled_from(["infonce", "siglip", "dcl"]))
def test_both_directions_at_radius_zero_are_the_base_once_more(seed, name):
    audio, text = batch(seed)
    base, twice = BASES[name](), SVR(BASES[name](), radius=FixedRadius(value=0.0))
    one, two = base(audio, text).loss, twice(audio, text).loss
    torch.testing.assert_close(2 * one, two, rtol=1e-12, atol=0)
    for first, second in zip(
        torch.autograd.grad(one, (audio, text)), torch.autograd.grad(two, (audio, text)), strict=True
    ):
        torch.testing.assert_close(2 * first, second, rtol=1e-10, atol=1e-12)


def test_one_direction_or_cacl_at_radius_zero_are_not_the_base_once_more():
    audio, text, english = batch(3, count=3)
    uni = SVR(InfoNCE(), radius=FixedRadius(value=0.0), directions=("t2a",))(audio, text)
    assert abs(uni.parts["svr"] - uni.parts["base"]) > 1e-3
    assert abs(uni.parts["svr"] - uni.parts["base"] / 2) > 1e-3
    # A sigmoid pair costs the same from either side: one direction of it is exactly half the base.
    uni = SVR(SigLIP(bias=-2.0), radius=FixedRadius(value=0.0), directions=("t2a",))(audio, text)
    torch.testing.assert_close(uni.parts["svr"], uni.parts["base"] / 2)
    cacl = SVR(CACL(), radius=FixedRadius(value=0.0))(audio, text, anchor_text=english)
    assert abs(cacl.parts["svr"] - cacl.parts["base"]) > 1e-3


@many
@given(st.integers(0, 10**6), st.floats(1.0, 4.0))
def test_fraction_one_stands_on_the_positive(seed, rho):
    """R = d: the query is the positive itself (intra-modal contrast); beyond, the perpendicular push turns round."""
    audio, text = batch(seed)
    a = unit(audio)
    at = svr(1.0)(audio, text).parts["svr"]
    own = (a @ a.T / 0.07).logsumexp(1) - 1 / 0.07
    torch.testing.assert_close(at, own.mean(), rtol=1e-9, atol=1e-9)
    beyond = svr(rho)(audio, text)
    assert beyond.loss.isfinite()
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(beyond.loss, (audio, text)))
