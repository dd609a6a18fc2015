"""A device whose values arrive late: a loss that is not finite is traced to its call, and nobody waits."""

import copy
import pickle

import pytest
import torch
from objective_cases import batch
from test_objectives_hot_path import NoWaiting

from supclap.objectives import SVR, InfoNCE, StaticRadius, watch
from supclap.schema import UserError

AUDIO, TEXT = (row.detach().float() for row in batch())
NAN = AUDIO.clone()
NAN[2, 1] = torch.nan


@pytest.fixture
def late(monkeypatch):
    """The calls whose flags have arrived: nothing before the test says so."""
    arrived, sent = set(), []

    def fetch(flag):
        sent.append(flag.clone())
        number = len(sent)
        return sent[-1], lambda: number in arrived

    monkeypatch.setattr(watch, "waits", lambda device: True)
    monkeypatch.setattr(watch, "fetch", fetch)
    return arrived


def test_a_broken_call_is_named_once_its_flag_has_arrived(late):
    objective = SVR(InfoNCE(), radius=StaticRadius(0.4))
    objective(AUDIO, TEXT)
    with NoWaiting():
        objective(NAN, TEXT)
        objective(AUDIO, TEXT)
    late |= {1, 2}
    with pytest.raises(UserError, match=r"call 2 of this objective \(2 before this one\): audio row 2 holds nan"):
        objective(AUDIO, TEXT)
    late |= {3, 4, 5}
    objective(AUDIO, TEXT)
    objective(AUDIO, TEXT)


def test_flags_are_read_in_their_order_and_none_is_lost(late):
    objective = InfoNCE()
    for audio in (AUDIO, NAN, AUDIO, NAN):
        objective(audio, TEXT)
    late |= {3, 4}
    objective(AUDIO, TEXT)  # the second may still be on its way
    late |= {1, 2}
    for call in (2, 4):
        with pytest.raises(UserError, match=f"call {call} of"):
            objective(AUDIO, TEXT)
    objective(AUDIO, TEXT)


def test_a_diverged_radius_is_not_blamed_on_the_rows(late):
    objective = SVR(InfoNCE(), radius=StaticRadius())
    objective(AUDIO, TEXT)
    objective.radii["t2a"].radius.data.fill_(torch.nan)
    late |= {1, 2}
    assert objective(AUDIO, TEXT).loss.isnan() and objective(AUDIO, TEXT).loss.isnan()


def test_never_and_always_keep_nothing(late):
    for validate in ("never", "always"):
        objective = InfoNCE(validate=validate)
        objective(AUDIO, TEXT)
        assert objective._watch.calls == 0


def test_what_is_kept_holds_no_graph_and_is_not_copied(late):
    objective = InfoNCE()
    scale = torch.tensor(10.0, requires_grad=True)
    objective(AUDIO.clone().requires_grad_() * 2.0, TEXT, scale=scale * 1.0)
    kept = objective._watch._pending[0].check.__self__
    assert kept.audio.grad_fn is None and kept.scale.grad_fn is None
    for other in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):
        assert not other._watch._pending
    late.add(1)
    objective(AUDIO, TEXT)
    assert len(objective._watch._pending) == 1
