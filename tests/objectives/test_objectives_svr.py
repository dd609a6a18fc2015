"""What SVR's arguments and the radii do, and what they leave alone."""

import math
import warnings

import pytest
import torch
from objective_cases import Margin, N, OneWay, angles, batch, lively, support_of

from supclap.objectives import (
    CACL,
    SVR,
    Base,
    DynamicRadius,
    FixedRadius,
    InfoNCE,
    RandomRadius,
    SigLIP,
    SimpleReweight,
    StaticRadius,
)
from supclap.objectives.objective import unit
from supclap.schema import UserError

pytestmark = pytest.mark.usefixtures("both_paths")
IDS = torch.tensor([3, 7, 3, 1, 9, 9])


def distance(audio, text):
    return (unit(audio) - unit(text)).norm(dim=1)


# -- the arguments ---------------------------------------------------------------------------------------------------


def test_defaults_are_the_papers():
    objective = SVR(InfoNCE(), radius=DynamicRadius(batch_size=24))
    assert (objective.alpha, objective.beta, objective.directions) == (1.0, 0.01, ("t2a", "a2t"))
    assert [layer.in_features for layer in objective.radii["t2a"].predictor[::2]] == [24, 64, 64]
    for radius in (StaticRadius(), FixedRadius(value=0.0), RandomRadius(), lambda *_: None):
        assert SVR(InfoNCE(), radius=radius).beta == 0.0
    assert SVR(InfoNCE(), radius=DynamicRadius(), beta=0).beta == 0.0
    assert StaticRadius().radius.item() == 1.0
    assert InfoNCE().temperature() == 1 / 0.07


def test_alpha_and_beta_are_the_weights():
    audio, text = batch()
    out = SVR(InfoNCE(), radius=StaticRadius(3.0), alpha=0.25, beta=0.5)(audio, text)
    assert out.weights == {"base": 1.0, "svr": 0.25, "constraint": 0.5}
    torch.testing.assert_close(out.parts["constraint"], 2 * (3.0 - distance(audio, text)).mean())


def test_the_constraint_penalises_both_ends_and_reads_the_raw_radius():
    audio, text = batch()
    low = SVR(InfoNCE(), radius=StaticRadius(-0.5), directions=("t2a",))(audio, text)
    torch.testing.assert_close(low.parts["constraint"], torch.tensor(0.5, dtype=torch.float64))
    d = distance(audio, text)
    capped = SVR(InfoNCE(), radius=StaticRadius(3.0, cap="distance"), directions=("t2a",))(audio, text)
    torch.testing.assert_close(capped.parts["constraint"], (3.0 - d).mean())
    torch.testing.assert_close(capped.radius["t2a"], d * torch.tanh(3.0 / d))
    assert (capped.radius["t2a"] < d).all()


def test_a_capped_radius_beyond_the_distance_still_learns():
    audio, text = batch(spread=0.3)
    objective = SVR(InfoNCE(), radius=StaticRadius(2.0, cap="distance")).double()
    objective(audio, text).loss.backward()
    assert all(radius.radius.grad.abs() > 1e-12 for radius in objective.radii.values())


def test_the_constraint_moves_the_embeddings_only_where_asked():
    for constrain, moves in (("radius", False), ("all", True)):
        audio, text = batch()
        out = SVR(InfoNCE(), radius=StaticRadius(3.0), beta=1.0, constrain=constrain)(audio, text)
        grads = torch.autograd.grad(out.parts["constraint"], (audio, text), allow_unused=True)
        assert [grad is not None and bool(grad.abs().max() > 0) for grad in grads] == [moves, moves]


def test_detach_holds_the_positive_or_u():
    """On the support vector's length to a fixed key: what reaches audio and text through u alone."""
    for detach, audio_moves, jacobian in (
        ((), True, True),
        (("positive",), False, True),
        (("u",), False, False),
        ("u", False, False),
    ):
        objective = SVR(OneWay(), radius=FixedRadius(value=0.4), renormalize=False, detach=detach)
        audio, text = (unit(row).detach().requires_grad_() for row in batch())
        key = torch.randn(5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        found = torch.autograd.grad(
            (support_of(objective, audio, text).vectors() @ key).sum(), (audio, text), allow_unused=True
        )
        d, u = distance(audio, text)[:, None], (audio - text) / distance(audio, text)[:, None]
        perpendicular = key - (u @ key)[:, None] * u
        through_u = 0.4 / d * perpendicular

        def tangent(row, vectors):
            return vectors - (vectors * row).sum(1, keepdim=True) * row

        wanted = tangent(audio, through_u) if audio_moves else torch.zeros_like(audio)
        torch.testing.assert_close(found[0] if found[0] is not None else torch.zeros_like(audio), wanted)
        torch.testing.assert_close(found[1], tangent(text, key - through_u if jacobian else key.expand(N, -1)))


def test_jacobian_off_changes_the_gradient_and_not_the_value():
    audio, text = batch()
    on, off = (SVR(InfoNCE(), radius=FixedRadius(value=0.4), jacobian=j)(audio, text).loss for j in ("on", "off"))
    torch.testing.assert_close(on, off, rtol=1e-14, atol=0)
    assert (torch.autograd.grad(on, text)[0] - torch.autograd.grad(off, text)[0]).abs().max() > 1e-3


def test_base_probabilities_give_the_bases_value_exactly():
    audio, text = batch(dtype=torch.float32)
    out = SVR(InfoNCE(), radius=FixedRadius(value=0.4), probabilities="base")(audio, text)
    torch.testing.assert_close(out.parts["svr"], out.parts["base"], rtol=1e-6, atol=0)


def test_one_radius_each_or_one_for_both():
    each = SVR(InfoNCE(), radius=StaticRadius(0.5))
    both = SVR(InfoNCE(), radius=StaticRadius(0.5), shared_radius=True)
    assert len(list(each.parameters())) == 2 and len(list(both.parameters())) == 1
    assert both.radius_of("t2a") is both.radius_of("a2t")
    audio, text = batch()
    torch.testing.assert_close(each(audio, text).loss, both(audio, text).loss)
    each(audio, text).loss.backward()
    both(audio, text).loss.backward()
    torch.testing.assert_close(sum(p.grad for p in each.parameters()), next(both.parameters()).grad)
    assert len(list(SVR(CACL(), radius=StaticRadius()).parameters())) == 4


def test_every_term_gets_its_own_radius_when_it_is_built():
    prototype = StaticRadius(0.5)
    objective = SVR(InfoNCE(), radius=prototype)
    assert all(radius is not prototype for radius in objective.radii.values())
    names = {name for name, _ in objective.named_parameters()}
    objective(*batch())
    assert {name for name, _ in objective.named_parameters()} == names == {"radii.t2a.radius", "radii.a2t.radius"}


def test_the_printed_denominator_with_a_dynamic_radius_warns():
    with pytest.warns(UserWarning, match="collapses"):
        SVR(InfoNCE(), radius=DynamicRadius(), denominator="negatives")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVR(InfoNCE(), radius=StaticRadius(), denominator="negatives")
        SVR(InfoNCE(), radius=DynamicRadius())


def test_settings_of_svr_win_over_its_bases():
    audio, text = batch()
    literal = SVR(InfoNCE(same_clip="exclude"), radius=FixedRadius(value=0.2), same_clip="negative")
    free = SVR(InfoNCE(), radius=FixedRadius(value=0.2))
    torch.testing.assert_close(literal(audio, text, clip_ids=IDS).loss, free(audio, text).loss)


# -- the radii -------------------------------------------------------------------------------------------------------


def handed(audio, text, base=None, **options):
    """What a radius is handed, term by term."""
    seen = {}

    def look(similarities, distance, excluded, name):
        seen[name] = (similarities, distance, excluded)
        return torch.zeros_like(distance)

    SVR(base or InfoNCE(), radius=look, same_clip=options.pop("same_clip", "exclude"))(audio, text, **options)
    return seen


def test_a_radius_is_handed_the_positive_first_then_the_batch_in_order_detached_and_without_bias():
    audio, text = batch()
    a, t = unit(audio), unit(text)
    for bias in (None, -3.0):
        seen = handed(audio, text, SigLIP(scale=10.0, bias=-2.0), scale=4.0, bias=bias, clip_ids=IDS)
        for name, cosines in (("t2a", t @ a.T), ("a2t", a @ t.T)):
            similarities, d, excluded = seen[name]
            assert not similarities.requires_grad and not d.requires_grad
            for i in range(N):
                order = [i, *(j for j in range(N) if j != i)]
                torch.testing.assert_close(similarities[i], 4.0 * cosines[i, order].detach())
                assert excluded[i].tolist() == [j != i and bool(IDS[i] == IDS[j]) for j in order]
            torch.testing.assert_close(d, distance(audio, text).detach())
    assert handed(audio, text)["t2a"][2] is None
    assert handed(audio, text, clip_ids=IDS, same_clip="negative")["t2a"][2] is None


def dynamic(batch_size):
    return lively(SVR(InfoNCE(), radius=DynamicRadius(batch_size=batch_size, hidden=8))).radii["t2a"]


@pytest.mark.parametrize("batch_size", [N, None])
def test_a_dynamic_radius_depends_on_its_row_and_only_a_fixed_one_on_the_order_of_the_negatives(batch_size):
    radius = dynamic(batch_size)
    draw = torch.Generator().manual_seed(5)
    row = torch.randn(1, N, generator=draw, dtype=torch.float64)
    d = torch.ones(1, dtype=torch.float64)
    first = radius(row, d, None, "t2a")
    assert radius(row + 0.3, d, None, "t2a") != first
    shuffled = row[:, [0, 3, 1, 5, 2, 4]]
    same = torch.allclose(radius(shuffled, d, None, "t2a"), first, rtol=1e-12)
    assert same == (batch_size is None)
    together = torch.cat([row, torch.randn(2, N, generator=draw, dtype=torch.float64)])
    torch.testing.assert_close(radius(together, d.expand(3), None, "t2a")[:1], first)


def test_masked_entries_take_the_mean_of_the_rows_other_negatives():
    radius = dynamic(N)
    row = torch.tensor([[5.0, 1.0, 2.0, 9.0, 3.0, 9.0]], dtype=torch.float64)
    out = torch.tensor([[False, False, False, True, False, True]])
    d = torch.ones(1, dtype=torch.float64)
    filled = torch.tensor([[5.0, 1.0, 2.0, 2.0, 3.0, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(radius(row, d, out, "t2a"), radius(filled, d, None, "t2a"))


@pytest.mark.parametrize("size", [2, 3, 24, 25, 100])
def test_any_size_drops_masked_entries_before_it_sorts_and_takes_any_batch(size):
    radius = dynamic(None)
    draw = torch.Generator().manual_seed(size)
    rows = torch.randn(3, size, generator=draw, dtype=torch.float64)
    d = torch.ones(3, dtype=torch.float64)
    plain = radius(rows, d, None, "t2a")
    extra = torch.cat([rows, torch.full((3, 2), 50.0, dtype=torch.float64)], 1)
    out = torch.zeros(3, size + 2, dtype=torch.bool)
    out[:, -2:] = True
    torch.testing.assert_close(radius(extra, d, out, "t2a"), plain)
    if size == 24:  # as many negatives as places: they are read as they are, largest first
        wanted = torch.cat([rows[:, :1], rows[:, 1:].sort(1, descending=True).values], 1)
        torch.testing.assert_close(plain, radius.predictor(wanted).squeeze(1))


def test_same_clip_entries_are_masked_for_the_predictor_too():
    """Moving an excluded key moves neither the loss of the row nor its radius."""
    for size in (N, None):
        objective = lively(SVR(OneWay(), radius=DynamicRadius(batch_size=size, hidden=8)))
        audio, text = (row.detach() for row in batch())
        before = objective(audio, text, clip_ids=IDS).radius["t2a"]
        audio[2] += 1.0
        after = objective(audio, text, clip_ids=IDS).radius["t2a"]
        assert after[0] == before[0] and after[1] != before[1]


def test_random_radii_are_fresh_uniform_below_the_distance_and_move_no_generator():
    audio, text = batch(n=700)
    objective = SVR(InfoNCE(), radius=RandomRadius(high=0.8), directions=("t2a", "a2t"))
    state = torch.get_rng_state()
    first = objective(audio, text)
    second = objective(audio, text)
    assert torch.equal(torch.get_rng_state(), state)
    share = first.radius["t2a"] / distance(audio, text)
    assert (
        0 <= share.min()
        and share.max() < 0.8
        and abs(share.mean() - 0.4) < 0.02
        and abs(share.var() - 0.64 / 12) < 5e-3
    )
    assert (first.radius["t2a"] != second.radius["t2a"]).all() and (first.radius["t2a"] != first.radius["a2t"]).all()
    shares = second.radius["t2a"] / distance(audio, text)
    assert abs(torch.corrcoef(torch.stack([share, shares]))[0, 1]) < 0.15
    again = SVR(InfoNCE(), radius=RandomRadius(high=0.8))(audio, text)
    torch.testing.assert_close(again.radius["t2a"], first.radius["t2a"], rtol=0, atol=0)
    objective.eval()
    assert torch.equal(objective(audio, text).radius["t2a"], objective(audio, text).radius["t2a"])


# -- learning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "radius", [StaticRadius(1.0), DynamicRadius(batch_size=N), DynamicRadius(), StaticRadius(1.0, cap="distance")]
)
def test_training_the_radius_alone_lowers_the_loss(radius):
    torch.manual_seed(0)
    objective = SVR(InfoNCE(0.5), radius=radius, renormalize=False).double()
    audio, text = (row.detach() for row in batch(spread=1.5))
    start = {name: value.detach().clone() for name, value in objective.named_parameters()}
    optimizer = torch.optim.Adam(objective.parameters(), lr=0.02)
    objective.check_optimizer(optimizer)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        out = objective(audio, text)
        out.loss.backward()
        optimizer.step()
        losses.append(out.loss.item())
    assert losses[-1] < losses[0] - 1e-3
    assert out.parts["base"].item() == pytest.approx(objective(audio, text).parts["base"].item())
    assert all((value != start[name]).any() for name, value in objective.named_parameters())


def test_a_static_radius_learns_the_minimum_of_a_convex_loss():
    """Un-normalised L_svr is convex in R: Adam ends where a scan of R has its minimum."""
    audio, text = angles(40, 100, 200, 300), angles(0, 90, 240, 350)
    objective = SVR(InfoNCE(0.3), radius=StaticRadius(1.0), renormalize=False, shared_radius=True).double()
    optimizer = torch.optim.Adam(objective.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        objective(audio, text).loss.backward()
        optimizer.step()
    grid = torch.linspace(-1, 3, 161, dtype=torch.float64)
    scan = [
        SVR(InfoNCE(0.3), radius=FixedRadius(value=r), renormalize=False)(audio, text).loss.item()
        for r in grid.tolist()
    ]
    best = grid[int(torch.tensor(scan).argmin())].item()
    assert -0.99 < best < 2.99
    assert objective.radii["t2a"].radius.item() == pytest.approx(best, abs=0.02)


# -- temperature, SigLIP's start, the control ------------------------------------------------------------------------


def test_a_learnable_temperature_starts_exact_and_is_held_at_a_hundred():
    audio, text = batch()
    base = InfoNCE(0.07, learnable=True).double()
    torch.testing.assert_close(base(audio, text).loss, InfoNCE(0.07)(audio, text).loss, rtol=1e-14, atol=0)
    base.temperature.log_scale.data.fill_(50.0)
    torch.testing.assert_close(base(audio, text).loss, InfoNCE(0.01)(audio, text).loss, rtol=1e-6, atol=0)
    limit = math.log(100 * 0.07)
    close = angles(0, 5, 10)
    # Pairs that are right by little ask for a larger scale, pairs that are wrong for a smaller one.
    for audio_rows, stays in ((close, True), (close.roll(1, 0), False)):
        base.temperature.log_scale.data.fill_(limit + 0.1)
        optimizer = torch.optim.SGD(base.parameters(), lr=0.1)
        optimizer.zero_grad()
        base(audio_rows, close).loss.backward()
        optimizer.step()
        assert (base.temperature.log_scale.item() == limit + 0.1) == stays
    assert base.temperature.log_scale.item() < limit + 0.1


def test_siglip_starts_its_bias_from_the_first_training_batch():
    audio, text = batch(8, spread=0.4)
    cosines = (unit(text) @ unit(audio).T).detach()
    for ids in (None, IDS):
        same = torch.eye(N, dtype=torch.bool) if ids is None else ids[:, None] == ids
        start = -math.log(N - 1) - 10.0 * cosines[~same].mean().item()
        base = SigLIP()
        objective = SVR(base, radius=FixedRadius(value=0.1)) if ids is None else base
        objective.eval()
        objective(audio, text, clip_ids=ids)
        assert not base.started and base.bias.item() == 0.0
        objective.train()
        objective(audio, text, clip_ids=ids, bias=-1.0, scale=10.0)
        assert not base.started
        objective(audio, text, clip_ids=ids)
        assert base.started and base.bias.item() == pytest.approx(start, rel=1e-6)
        objective(*batch(9))
        assert base.bias.item() == pytest.approx(start, rel=1e-6)
    assert SigLIP(bias=-3.0)(audio, text).loss == SigLIP(bias=-3.0)(audio, text, bias=-3.0).loss


def test_a_restored_siglip_does_not_start_again_and_a_fresh_one_does():
    first = SigLIP()
    first(*batch(8, spread=0.4))
    second, third = SigLIP(), SigLIP()
    second(*batch(9))
    second.load_state_dict(first.state_dict())
    second(*batch(10))
    assert second.bias == first.bias
    second.load_state_dict(third.state_dict())  # back to before the start
    second(*batch(8, spread=0.4))
    assert second.bias == first.bias
    assert {"bias_start", "started"} <= set(first.state_dict())


def test_siglip_does_not_start_from_a_broken_batch():
    audio, text = batch(8, spread=0.4)
    broken = audio.detach().clone()
    broken[1, 1] = torch.nan
    base, sound = SigLIP(validate="never"), SigLIP()
    assert base(broken, text).loss.isnan() and not base.started and base.bias.item() == 0.0
    base(audio, text), sound(audio, text)
    assert base.started and base.bias == sound.bias
    evaluated = SigLIP().eval()
    evaluated(audio, text)
    with pytest.raises(UserError, match="row 1 holds nan"):
        evaluated.train()(broken, text)
    assert not evaluated.started


def test_siglip_fixed_has_nothing_to_learn():
    assert list(SigLIP(learnable=False).parameters()) == []
    assert SigLIP(scale=7.0, learnable=False)(*batch()).loss.isfinite()


def test_simple_reweight_in_closed_form():
    audio, text = batch()
    a, t = unit(audio), unit(text)
    logits = {"t2a": t @ a.T / 0.07, "a2t": a @ t.T / 0.07}
    control = SimpleReweight().double()
    control.w.data.fill_(1.7)
    out = control(audio, text)
    plain = InfoNCE()(audio, text).loss
    p = {name: z.softmax(1).diagonal().detach() for name, z in logits.items()}
    surrogate = sum((p[name] * z.diagonal()).mean() for name, z in logits.items())
    torch.testing.assert_close(out.loss, plain + 0.7 * surrogate)
    torch.testing.assert_close(out.parts["infonce"], plain)
    assert out.weights == {"base": 1.0, "infonce": 0.0} and not out.parts["infonce"].requires_grad
    torch.testing.assert_close(torch.autograd.grad(out.loss, control.w, retain_graph=True)[0], surrogate)
    # Text alone, audio held: (1/tau) [(w P+ - 1) a+ + sum_j P_j a_j], as the paper describes.
    one = text.detach().requires_grad_()
    key = unit(audio.detach())
    term = control.cost(unit(one) @ key.T / 0.07, torch.arange(N), None).sum()
    share = (unit(one) @ key.T / 0.07).softmax(1).detach()
    positive = share.diagonal()[:, None]
    force = (share @ key - positive * key + (1.7 * positive - 1) * key) / 0.07
    rows = unit(one).detach()
    length = one.detach().norm(dim=1, keepdim=True)
    wanted = (force - (force * rows).sum(1, keepdim=True) * rows) / length
    torch.testing.assert_close(torch.autograd.grad(term, one)[0], wanted)
    torch.testing.assert_close(SimpleReweight()(audio, text).loss, plain)


def test_simple_reweights_other_variants():
    audio, text = batch()
    a, t = unit(audio), unit(text)
    for variant in ("logit", "weight"):
        control = SimpleReweight(variant=variant).double()
        torch.testing.assert_close(control(audio, text).loss, InfoNCE()(audio, text).loss)
        control.w.data.fill_(0.4)
        wanted = 0.0
        for z in (t @ a.T / 0.07, a @ t.T / 0.07):
            if variant == "logit":
                wanted = wanted - (z + 0.4 * torch.eye(N)).log_softmax(1).diagonal().mean()
            else:
                wanted = wanted - math.exp(0.4) * z.log_softmax(1).diagonal().mean()
        torch.testing.assert_close(control(audio, text).loss, wanted)
    torch.testing.assert_close(SimpleReweight()(audio, text, bias=3.0).loss, SimpleReweight()(audio, text).loss)


# -- a user's own ----------------------------------------------------------------------------------------------------


def test_a_users_own_base_has_a_published_value_and_takes_svr():
    audio, text = angles(25, 50, 155, 220), angles(0, 60, 120, 200)
    out = SVR(Margin(), radius=FixedRadius(value=0.3))(audio, text)
    assert out.parts["base"].item() == pytest.approx(1.46955, abs=1e-5)
    moved = [unit(q + 0.3 * unit(k - q)) @ k.T for q, k in ((text, audio), (audio, text))]
    wanted = sum((1 + z - z.diagonal()[:, None]).relu().fill_diagonal_(0).sum() / 4 for z in moved)
    torch.testing.assert_close(out.parts["svr"], wanted)
    assert [*SVR(Margin(), radius=StaticRadius()).radii] == ["t2a", "a2t"]

    class Alone(Margin, Base):
        pass

    torch.testing.assert_close(Alone()(audio, text).loss, out.parts["base"])


def test_a_users_own_radius_is_a_function_or_a_module():
    audio, text = batch()

    class Half(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.share = torch.nn.Parameter(torch.tensor(0.5))

        def forward(self, similarities, distance, excluded, name):
            return self.share * distance

    module = SVR(InfoNCE(), radius=Half()).double()
    function = SVR(InfoNCE(), radius=lambda s, d, e, name: 0.5 * d)
    ours = SVR(InfoNCE(), radius=FixedRadius(fraction=0.5))
    losses = [objective(audio, text).loss for objective in (module, function, ours)]
    torch.testing.assert_close(losses[0], losses[2])
    torch.testing.assert_close(losses[1], losses[2])
    losses[0].backward()
    assert {name for name, value in module.named_parameters() if value.grad} == {"radii.t2a.share", "radii.a2t.share"}


def test_what_a_users_own_radius_calls_its_numbers_means_nothing_to_svr():
    class Named(torch.nn.Module):
        cap, reads = 0.5, False

        def __init__(self):
            super().__init__()
            self.beta = torch.nn.Parameter(torch.tensor(3.0))

        def forward(self, similarities, distance, excluded, name):
            return similarities[:, 0].sigmoid() * self.beta

    audio, text = batch()
    objective = SVR(InfoNCE(), radius=Named()).double()
    out = objective(audio, text)
    assert objective.beta == 0.0
    positive = (unit(audio) * unit(text)).sum(1) / 0.07
    torch.testing.assert_close(out.radius["t2a"], 3.0 * positive.sigmoid())


def test_a_base_whose_terms_run_another_way_than_announced_is_refused():
    class Backwards(Margin):
        names = ("x", "y")

        def terms(self, *rows, **options):
            one, other = super().terms(*rows, **options)
            return [
                type(one)("y", "t2a", one.query, one.key, 1.0, 1.0),
                type(one)("x", "a2t", other.query, other.key, 1.0, 1.0),
            ]

    with pytest.raises(UserError, match="must agree"):
        SVR(Backwards(), radius=FixedRadius(value=0.0))(*batch())

    class Lying(Margin):
        directions = {"t2a": "t2a", "a2t": None}

    with pytest.raises(UserError, match="directions"):
        SVR(Lying(), radius=FixedRadius(value=0.0))(*batch())
