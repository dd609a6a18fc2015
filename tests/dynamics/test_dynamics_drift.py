"""Drift of gradients and of real steps, what measuring leaves alone, and the summaries."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from supclap import dynamics
from supclap.objectives import SVR, DynamicRadius, FixedRadius, InfoNCE, RandomRadius, SigLIP
from supclap.schema import UserError


def rows(seed=0, count=12, width=16):
    generator = torch.Generator().manual_seed(seed)
    audio = torch.randn(count, width, generator=generator)
    return audio, 0.8 * audio + torch.randn(count, width, generator=generator)


def test_measure_agrees_with_forces():
    objective = SVR(InfoNCE(), radius=DynamicRadius(batch_size=12), beta=0.01)
    audio, text = rows()
    found = dynamics.measure(objective, audio, text)
    for prefix, part in (("", "loss"), ("base_", "base")):
        forces = dynamics.forces(objective, audio, text, part=part)
        for direction, one in forces.items():
            assert found[f"{prefix}drift_{direction}"] == pytest.approx(float(one.cosine.mean()), abs=1e-4)
            assert found[f"{prefix}parallel_{direction}"] == pytest.approx(float(one.parallel.mean()), rel=1e-3)
            across = float(one.perpendicular.norm(dim=1).mean())
            assert found[f"{prefix}perpendicular_{direction}"] == pytest.approx(across, rel=1e-3)
    out = objective(audio, text)
    assert found["radius_t2a"] == pytest.approx(out.radius["t2a"].mean().item(), rel=1e-4)
    assert found["radius_ratio_a2t"] == pytest.approx((out.radius["a2t"] / out.distance["a2t"]).mean().item(), rel=1e-4)
    cosines = F.cosine_similarity(audio, text)
    assert found["positive_similarity"] == pytest.approx(cosines.mean().item(), rel=1e-5)
    assert found["positive_share_7_9"] == pytest.approx(
        100 * ((cosines >= 0.7) & (cosines < 0.9)).float().mean().item()
    )
    assert all(isinstance(value, float) for value in found.values())


def test_measure_moves_nothing():
    """Not the parameters' gradients, nor counters, start values, generators, or the graph handed in."""
    torch.manual_seed(0)
    for objective in (SVR(InfoNCE(), radius=RandomRadius()), SigLIP(), SVR(SigLIP(), radius=DynamicRadius(hidden=8))):
        audio, text = (part.requires_grad_() for part in rows())
        before = {name: value.clone() for name, value in objective.state_dict().items()}
        state = torch.random.get_rng_state()
        dynamics.measure(objective, audio, text)
        assert all(torch.equal(before[name], value) for name, value in objective.state_dict().items())
        assert all(parameter.grad is None for parameter in objective.parameters())
        assert torch.equal(state, torch.random.get_rng_state())
        assert audio.grad is None and text.grad is None
        objective(audio, text).loss.backward()


def test_measure_takes_half_precision_rows():
    found = dynamics.measure(InfoNCE(), *(part.bfloat16() for part in rows()))
    assert found["drift_t2a"] == pytest.approx(dynamics.measure(InfoNCE(), *rows())["drift_t2a"], abs=0.02)
    assert "base_drift_t2a" not in found, "alone, a base has no other force beside it"


class Free(torch.nn.Module):
    """Embeddings that are parameters: a step moves each row exactly as its gradient says."""

    def __init__(self):
        super().__init__()
        audio, text = (F.normalize(part.double()) for part in rows())
        self.audio, self.text = torch.nn.Parameter(audio), torch.nn.Parameter(text)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_drift_of_a_real_step(name):
    """Small SGD steps drift as the gradient does; Adam's do not, since it rescales each number."""
    model, objective = Free(), SVR(InfoNCE(), radius=FixedRadius(fraction=0.5))
    expected = dynamics.gradient_drift(objective, model.audio, model.text)
    if name == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-7)

    def step():
        optimizer.zero_grad()
        objective(model.audio, model.text).loss.backward()
        optimizer.step()

    before = model.audio.detach().clone(), model.text.detach().clone()
    found = dynamics.step_drift(lambda: (model.audio.clone(), model.text.clone()), step)
    by_hand = {}
    for direction, (mine, partner, now) in {
        "t2a": (before[1], before[0], model.text),
        "a2t": (before[0], before[1], model.audio),
    }.items():
        values = []
        for row in range(12):
            flat = torch.eye(16, dtype=torch.float64) - torch.outer(mine[row], mine[row])
            moved = flat @ (F.normalize(now.detach())[row] - mine[row])
            values.append(torch.dot(moved, flat @ partner[row]) / moved.norm() / (flat @ partner[row]).norm())
        by_hand[direction] = torch.stack(values)
    for direction in ("t2a", "a2t"):
        assert torch.allclose(found[direction], by_hand[direction], atol=1e-6)
        close = torch.allclose(found[direction], expected[direction], atol=1e-4)
        assert close == (name == "sgd")


def test_moving_straight_to_the_partner_has_no_drift():
    audio, text = (F.normalize(part.double()) for part in rows())
    nearer = F.normalize(text + 0.01 * (audio - text))
    found = dynamics.moved((audio, text), (audio, nearer))
    assert found["t2a"] == pytest.approx(torch.ones(12, dtype=torch.float64), abs=1e-3)
    assert found["a2t"].abs().max() == 0, "what did not move has no direction"
    away = dynamics.moved((audio, text), (audio, F.normalize(text - 0.01 * (audio - text))))
    assert away["t2a"] == pytest.approx(-torch.ones(12, dtype=torch.float64), abs=1e-3)
    # A great arc to the partner itself is straight too, however far the chord leaves the plane.
    there = dynamics.moved((audio, text), (audio, audio))
    assert there["t2a"] == pytest.approx(torch.ones(12, dtype=torch.float64), abs=1e-6)
    with pytest.raises(UserError, match="different batches"):
        dynamics.moved((audio, text), (audio[:3], text[:3]))


def test_local_forces_wander_more_in_small_batches():
    audio, text = rows(count=96)
    whole = dynamics.local_and_global(InfoNCE(), audio, text, batch_size=96)["t2a"]
    assert whole["cosine"] == pytest.approx(1) and whole["perpendicular_cosine"] == pytest.approx(1)
    assert whole["wander"] == pytest.approx(0, abs=1e-6)
    large, small = (dynamics.local_and_global(InfoNCE(), audio, text, batch_size=size)["t2a"] for size in (48, 6))
    assert small["wander"] > large["wander"] > 0.05
    assert small["perpendicular_cosine"] < large["perpendicular_cosine"] < 1
    for size in (1, 97):
        with pytest.raises(UserError, match=f"batch_size={size}"):
            dynamics.local_and_global(InfoNCE(), audio, text, batch_size=size)
    with pytest.raises(UserError, match="clip_ids is per row"):
        dynamics.local_and_global(InfoNCE(), audio, text, batch_size=6, clip_ids=torch.arange(96))


def test_histograms_equal_numpy():
    values = torch.randn(500, generator=torch.Generator().manual_seed(0))
    found = dynamics.histogram(values, -1.0, 2.0, 30)
    counts, edges = np.histogram(np.clip(values.double().numpy(), -1, 2), bins=30, range=(-1, 2))
    assert found["counts"] == counts.tolist() and found["edges"] == pytest.approx(edges.tolist(), abs=1e-6)
    audio, text = rows()
    out = SVR(InfoNCE(), radius=FixedRadius(value=0.4))(audio, text)
    drawn = dynamics.histograms(out, audio, text, bins=10)
    names = [f"{what}_{term}" for what in ("radius", "distance", "radius_ratio") for term in ("t2a", "a2t")]
    assert sorted(drawn) == sorted(["positive_similarity", *names])
    assert all(sum(one["counts"]) == 12 for one in drawn.values())
