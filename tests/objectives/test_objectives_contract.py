"""One contract for every objective."""

import copy
import io
import pickle

import pytest
import torch
from objective_cases import N, batch, everything, lively, needs_anchor

from supclap.objectives import DynamicRadius, FixedRadius, RandomRadius, StaticRadius
from supclap.objectives.svr import SVR
from supclap.schema import LossOutput, UserError

ALL = everything()
IDS = [3, 7, 3, 1, 9, 9]
every = pytest.mark.parametrize("name", ALL)


def call(name, objective, dtype=torch.float64, seed=0, **options):
    audio, text, anchor = batch(seed, dtype=dtype, count=3)
    if needs_anchor(name):
        options["anchor_text"] = anchor
    return objective(audio, text, **options), (audio, text, anchor)


@every
def test_what_comes_out(name):
    objective = lively(ALL[name]())
    out, (audio, text, anchor) = call(name, objective, clip_ids=IDS)
    assert isinstance(out, LossOutput)
    assert out.loss.dtype == torch.float64 and out.loss.shape == () and out.loss.isfinite()
    assert set(out.weights) == set(out.parts)
    torch.testing.assert_close(
        out.loss, sum(out.weights[key] * out.parts[key] for key in out.parts), rtol=1e-14, atol=0
    )
    assert all(part.shape == () and part.dtype == torch.float64 for part in out.parts.values())
    is_svr = isinstance(objective, SVR)
    assert {"base", "svr", "constraint"} <= set(out.parts) if is_svr else "svr" not in out.parts
    carriers = []
    if is_svr:
        carriers = [name for name in objective.base.names if name not in ("e2o", "o2e")]
        carriers = [name for name in carriers if name == "t2a" or "a2t" in objective.directions]
    assert list(out.radius) == carriers == list(out.distance)
    for key in out.radius:
        assert out.radius[key].shape == out.distance[key].shape == (N,)
        assert out.radius[key].dtype == torch.float64 and not out.distance[key].requires_grad
    learnable = [value for value in objective.parameters() if value.requires_grad]
    leaves = [audio, text, *([anchor] if needs_anchor(name) else []), *learnable]
    grads = torch.autograd.grad(out.loss, leaves, allow_unused=True)
    # A cap that is not reached and a predictor's dead ReLU may leave zeros, never a hole.
    assert all(grad is not None and grad.isfinite().all() for grad in grads)
    assert all(grad.abs().max() > 0 for grad in grads[:2])


@every
def test_out_radius_is_in_the_graph_where_it_is_learned(name):
    objective = lively(ALL[name]())
    out, _ = call(name, objective)
    radii = getattr(objective, "radii", {})
    for key, value in out.radius.items():
        own = list(objective.radius_of(key).parameters())
        assert value.requires_grad == bool(own)
        if own:
            grads = torch.autograd.grad(value.sum(), own, retain_graph=True)
            assert any(grad.abs().max() > 0 for grad in grads)
    assert len(radii) == len({id(radius) for radius in radii.values()}) if radii else True


@every
def test_the_same_clip_is_neither_negative_nor_positive(name):
    """A pair that is left out has no say; with same_clip="negative" ids change nothing."""
    free, _ = call(name, lively(ALL[name]()))
    literal, _ = call(name, lively(ALL[name](same_clip="negative")), clip_ids=IDS)
    left_out, _ = call(name, lively(ALL[name]()), clip_ids=IDS)
    distinct, _ = call(name, lively(ALL[name]()), clip_ids=list(range(N)))
    torch.testing.assert_close(literal.loss, free.loss, rtol=1e-13, atol=0)
    torch.testing.assert_close(distinct.loss, free.loss, rtol=1e-12, atol=0)
    assert left_out.loss != free.loss


@every
def test_check_optimizer(name):
    objective = ALL[name]()
    learnable = list(objective.parameters())
    other = torch.nn.Parameter(torch.zeros(1))
    objective.check_optimizer(torch.optim.Adam([other, *learnable]))
    if learnable:
        with pytest.raises(UserError, match="add_param_group"):
            objective.check_optimizer(torch.optim.Adam([other, *learnable[1:]]))


@every
def test_float32_and_bf16_inputs_are_computed_in_float32(name):
    objective = ALL[name]()
    out, leaves = call(name, objective, torch.float32)
    assert out.loss.dtype == torch.float32 and all(value.dtype == torch.float32 for value in out.radius.values())
    options = {"anchor_text": leaves[2].detach().bfloat16()} if needs_anchor(name) else {}
    rounded = [leaf.detach().bfloat16() for leaf in leaves]
    wide_options = {key: value.float() for key, value in options.items()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = copy.deepcopy(objective)(*rounded[:2], **options)
    outside = copy.deepcopy(objective)(*(row.float() for row in rounded[:2]), **wide_options)
    assert inside.loss.dtype == torch.float32
    torch.testing.assert_close(inside.loss, outside.loss, rtol=0, atol=0)


@every
def test_state_deepcopy_and_pickle_keep_what_was_learned(name):
    objective = lively(ALL[name]())
    call(name, objective, seed=1)
    want, _ = call(name, copy.deepcopy(objective).eval())
    store = io.BytesIO()
    torch.save(objective.state_dict(), store)
    store.seek(0)
    fresh = ALL[name]().double()
    fresh.load_state_dict(torch.load(store, weights_only=True))
    copies = [fresh, copy.deepcopy(objective)]
    if "function" not in name:  # a lambda cannot be pickled
        copies.append(pickle.loads(pickle.dumps(objective)))
    for other in copies:
        found, _ = call(name, other.eval())
        torch.testing.assert_close(found.loss, want.loss, rtol=0, atol=0)


@every
def test_gradients_add_up_over_several_calls(name):
    objective = lively(ALL[name]().eval())
    parameters = list(objective.parameters())
    if not parameters:
        return
    single = []
    for seed in (1, 2):
        objective.zero_grad()
        call(name, objective, seed=seed)[0].loss.backward()
        single.append([value.grad.clone() for value in parameters])
    objective.zero_grad()
    outs = [call(name, objective, seed=seed)[0] for seed in (1, 2)]
    sum(out.loss for out in outs).backward()
    for value, first, second in zip(parameters, *single, strict=True):
        torch.testing.assert_close(value.grad, first + second, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in ALL if "+" not in name or name == "own-plain+zero"])
def test_a_block_of_rows_costs_what_the_rows_of_the_whole_cost(name):
    objective = lively(ALL[name]())
    base = objective.base if isinstance(objective, SVR) else objective
    draw = torch.Generator().manual_seed(4)
    logits = 5 * torch.randn(N, N, generator=draw, dtype=torch.float64)
    positive = torch.arange(N)
    ids = torch.tensor(IDS)
    same = (ids[:, None] == ids) & ~torch.eye(N, dtype=torch.bool)
    holds_positive = same | torch.eye(N, dtype=torch.bool)
    for excluded in (None, same, holds_positive):
        whole = base.cost(logits, positive, excluded)
        assert whole.shape == (N,)
        for rows in (slice(0, 2), slice(2, 3), slice(3, 6)):
            block = base.cost(logits[rows], positive[rows], None if excluded is None else excluded[rows])
            torch.testing.assert_close(block, whole[rows], rtol=1e-13, atol=1e-13)
    # Columns in another order, positives with them: nothing changes either.
    order = torch.randperm(N, generator=draw)
    place = torch.empty_like(order).scatter_(0, order, torch.arange(N))
    torch.testing.assert_close(
        base.cost(logits[:, order], place[positive], same[:, order]), base.cost(logits, positive, same)
    )


def test_every_public_radius_is_run():
    held = {
        type(radius) for build in ALL.values() for radius in getattr(build(), "radii", torch.nn.ModuleDict()).values()
    }
    assert {StaticRadius, DynamicRadius, FixedRadius, RandomRadius} <= held
