"""Forces against autograd by hand and against the closed forms of InfoNCE, SigLIP and SVR."""

import copy

import pytest
import torch
import torch.nn.functional as F

from supclap import dynamics
from supclap.objectives import CACL, DCL, SVR, DynamicRadius, FixedRadius, InfoNCE, RandomRadius, SigLIP, StaticRadius
from supclap.reference import supclap
from supclap.schema import UserError

TAU = 0.07


def rows(seed=0, count=10, width=16, pull=0.8):
    generator = torch.Generator().manual_seed(seed)
    audio = torch.randn(count, width, generator=generator, dtype=torch.float64)
    text = pull * audio + torch.randn(count, width, generator=generator, dtype=torch.float64)
    return F.normalize(audio), F.normalize(text)


def across(vectors, axis):
    return vectors - (vectors * axis).sum(1, keepdim=True) * axis


OBJECTIVES = {
    "infonce": lambda: InfoNCE(),
    "siglip": lambda: SigLIP(bias=-3.0),
    "dcl": lambda: DCL(),
    "static": lambda: SVR(InfoNCE(), radius=StaticRadius(initial=0.4)),
    "dynamic": lambda: SVR(InfoNCE(), radius=DynamicRadius(batch_size=10), beta=0.3),
    "random": lambda: SVR(SigLIP(bias=-3.0), radius=RandomRadius()),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_force_is_minus_the_gradient_of_each_row(name):
    """Finite differences of the loss along directions a unit row can go; no autograd."""
    torch.manual_seed(0)
    objective, (audio, text) = OBJECTIVES[name]().double(), rows()
    found = dynamics.forces(objective, audio, text)
    step = 1e-5
    for direction, (mine, others) in {"t2a": (text, audio), "a2t": (audio, text)}.items():
        for row in (0, 7):
            way = across(torch.randn(1, 16, dtype=torch.float64), mine[row : row + 1])[0]

            def loss(sign, mine=mine, others=others, row=row, way=way, direction=direction):
                moved = mine.clone()
                moved[row] += sign * step * way
                pair = (others, moved) if direction == "t2a" else (moved, others)
                return copy.deepcopy(objective)(*pair).loss.item()

            slope = (loss(1) - loss(-1)) / (2 * step)
            # What is held (a predictor's input, a random radius's distance) is not part of any gradient.
            if name not in ("dynamic", "random"):
                assert found[direction].force[row] @ way == pytest.approx(-10 * slope, rel=1e-4, abs=1e-5)
    detached = copy.deepcopy(objective)
    leaves = audio.clone().requires_grad_(), text.clone().requires_grad_()
    slopes = torch.autograd.grad(detached(*leaves).loss, leaves)
    assert torch.allclose(found["a2t"].force, -10 * slopes[0], atol=1e-6)
    assert torch.allclose(found["t2a"].force, -10 * slopes[1], atol=1e-6)


@pytest.mark.parametrize("plane", ["tangent", "ambient"])
def test_infonce_pull_and_push_in_closed_form(plane):
    """Text row i: its own row of the t2a softmax, and its column in the a2t one."""
    audio, text = rows()
    found = dynamics.forces(InfoNCE(temperature=TAU), audio, text, plane=plane)["t2a"]
    logits = text @ audio.T / TAU
    weights = -(logits.softmax(1) + logits.softmax(0)) / TAU
    own = weights.diagonal() + 2 / TAU
    pull = own[:, None] * audio
    push = weights @ audio - weights.diagonal()[:, None] * audio
    step = audio - text
    if plane == "tangent":
        pull, push, step = (across(part, text) for part in (pull, push, step))
    u = F.normalize(step)
    assert torch.allclose(found.pull, pull, atol=1e-5) and torch.allclose(found.push, push, atol=1e-5)
    assert torch.allclose(found.u, u)
    assert torch.allclose(found.parallel, ((pull + push) * u).sum(1), atol=1e-5)
    assert torch.allclose(found.push_perpendicular, across(push, u), atol=1e-5)
    assert torch.allclose(found.cosine, F.cosine_similarity(pull + push, u), atol=1e-6)
    assert (own > 0).all() and (found.pull * u).sum(1).min() > 0, "a partner pulls"


def test_in_the_tangent_plane_the_partner_pulls_straight():
    """There a+ and u have one direction, so all that is across u is push."""
    found = dynamics.forces(InfoNCE(), *rows())["t2a"]
    assert across(found.pull, found.u).abs().max() < 1e-6
    assert torch.allclose(found.perpendicular, found.push_perpendicular, atol=1e-6)
    apart = dynamics.forces(InfoNCE(), *rows(), plane="ambient")["t2a"]
    assert across(apart.pull, apart.u).norm(dim=1).min() > 1e-3


def test_siglip_weights_in_closed_form():
    audio, text = rows()
    found = dynamics.pair_weights(SigLIP(scale=10.0, bias=-3.0), audio, text)
    logits = 10 * text @ audio.T - 3.0
    sign = 2 * torch.eye(10, dtype=torch.float64) - 1
    expected = 10 * sign * torch.sigmoid(-sign * logits)
    assert torch.allclose(found["t2a"].partner, expected, atol=1e-5)
    assert torch.allclose(found["a2t"].partner, expected.T, atol=1e-5)
    assert found["t2a"].same.abs().max() < 1e-5


@pytest.mark.parametrize("renormalize", [False, True])
def test_svr_suppresses_the_push_across_u_as_the_paper_says(renormalize):
    """Uni-SVR: perp push of j = Psup_j (1 - R/d) / tau * a_j_perp, or its re-normalised form."""
    radius = 0.35
    audio, text = rows()
    objective = SVR(
        InfoNCE(temperature=TAU), radius=FixedRadius(value=radius), directions=("t2a",), renormalize=renormalize
    )
    found = dynamics.forces(objective, audio, text, part="svr")["t2a"]
    step = audio - text
    distance = step.norm(dim=1)
    support = text + radius * step / distance[:, None]
    factor = 1 - radius / distance
    if renormalize:
        support = F.normalize(support)
        factor = factor / (1 - radius * (distance - radius)).sqrt()
    share = (support @ audio.T / TAU).softmax(1)
    eye = torch.eye(10, dtype=torch.bool)
    push = -(share.masked_fill(eye, 0) / TAU) @ audio
    # Outside span(t, a+): where neither u nor normalising reaches.
    u = F.normalize(across(step, text))
    expected = factor[:, None] * across(across(push, text), u)
    assert torch.allclose(found.push_perpendicular, expected, atol=1e-5)
    plain = dynamics.forces(
        SVR(InfoNCE(temperature=TAU), radius=FixedRadius(value=0.0), directions=("t2a",)), audio, text, part="svr"
    )
    assert found.push_perpendicular.norm(dim=1).mean() < plain["t2a"].push_perpendicular.norm(dim=1).mean()


def test_forces_of_the_reference_by_its_own_autograd():
    """The whole objective against the 60-line oracle."""
    audio, text = rows(3)
    objective = SVR(InfoNCE(), radius=FixedRadius(value=0.5), beta=0.0)
    found = dynamics.forces(objective, audio, text)
    leaves = text.clone().requires_grad_(), audio.clone().requires_grad_()
    slopes = torch.autograd.grad(supclap(*leaves, 0.5, 0.5)[0], leaves)
    assert torch.allclose(found["t2a"].force, -10 * slopes[0], atol=1e-6)
    assert torch.allclose(found["a2t"].force, -10 * slopes[1], atol=1e-6)


def test_anchors_and_masks_go_through():
    audio, text = rows(count=6)
    anchor, _ = rows(seed=5, count=6)
    call = {"anchor_text": anchor, "clip_ids": torch.tensor([0, 0, 1, 2, 3, 4])}
    found = dynamics.forces(CACL(), audio, text, **call)
    leaves = audio.clone().requires_grad_(), text.clone().requires_grad_()
    slopes = torch.autograd.grad(CACL()(*leaves, **call).loss, leaves)
    assert torch.allclose(found["a2t"].force, -6 * slopes[0], atol=1e-6)
    assert torch.allclose(found["t2a"].force, -6 * slopes[1], atol=1e-6)
    masked = dynamics.pair_weights(InfoNCE(), audio, text, clip_ids=call["clip_ids"])["t2a"].partner
    assert masked[0, 1].abs() < 1e-6 and masked[0, 2].abs() > 1e-6


def test_a_step_along_the_force_changes_the_distance_as_its_parts_say():
    """||t + eta f - a||^2 - d^2 = -2 eta d f_par + eta^2 (f_par^2 + ||f_perp||^2)."""
    audio, text = rows()
    found = dynamics.forces(InfoNCE(), audio, text, plane="ambient")["t2a"]
    eta = 0.01
    after = (text + eta * found.force - audio).square().sum(1)
    square = found.parallel.square() + found.perpendicular.square().sum(1)
    expected = found.distance.square() - 2 * eta * found.distance * found.parallel + eta**2 * square
    assert torch.allclose(after, expected)


def test_errors_name_the_choice():
    with pytest.raises(UserError, match="part='svr'.*base"):
        dynamics.forces(InfoNCE(), *rows(), part="svr")
    with pytest.raises(UserError, match="plane='flat'"):
        dynamics.forces(InfoNCE(), *rows(), plane="flat")


def test_bi_svr_ties_texts_to_texts_in_closed_form():
    """a_sup_j = (1 - R/d_j) a_j + (R/d_j) t_j: as a query it drives every text along every other."""
    radius = 0.35
    audio, text = rows()
    objective = SVR(InfoNCE(temperature=TAU), radius=FixedRadius(value=radius), directions=("a2t",), renormalize=False)
    found = dynamics.pair_weights(objective, audio, text, part="svr")["t2a"]
    distance = (audio - text).norm(dim=1)
    share = radius / distance
    support = (1 - share)[:, None] * audio + share[:, None] * text
    wanted = (support @ text.T / TAU).softmax(1)
    expected = -(wanted.T * share + wanted * share[:, None]) / TAU
    assert torch.allclose(found.same, expected.fill_diagonal_(0.0), atol=1e-5)
    assert dynamics.pair_weights(InfoNCE(), audio, text)["t2a"].same.abs().max() < 1e-6
