"""On a GPU: no step waits for the device, and single precision is the CPU's float64."""

import pytest
import torch
from objective_cases import batch, everything, needs_anchor

from supclap.objectives import SVR, InfoNCE, StaticRadius
from supclap.schema import UserError

ALL = everything()
IDS = torch.tensor([3, 7, 3, 1, 9, 9])
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


def step(name, objective, device, dtype):
    leaves = [row.detach().to(device, dtype).requires_grad_() for row in batch(count=3)]
    ids = IDS.to(device)
    options = {"anchor_text": leaves[2]} if needs_anchor(name) else {}

    def run():
        out = objective(*leaves[:2], clip_ids=ids, **options)
        out.loss.backward()
        return out.loss.detach(), leaves[0].grad, leaves[1].grad

    return run


@pytest.mark.parametrize("name", ALL)
def test_a_step_never_waits_for_the_device(name):
    run = step(name, ALL[name](validate="first").cuda(), "cuda", torch.float32)
    run()  # values are looked at once, SigLIP's bias starts once
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", ALL)
def test_a_gpu_agrees_with_the_cpu(name):
    torch.manual_seed(0)
    objective = ALL[name]()
    wide = step(name, objective.double(), "cpu", torch.float64)()
    torch.manual_seed(0)
    narrow = step(name, ALL[name]().cuda(), "cuda", torch.float32)()
    for one, other in zip(narrow, wide, strict=True):
        assert (one.cpu().double() - other).abs().max() <= 1e-4 * max(1.0, other.abs().max().item())


def test_a_loss_that_is_not_finite_is_traced_to_its_call_without_a_wait():
    objective = SVR(InfoNCE(), radius=StaticRadius(0.4)).cuda()
    audio, text = (row.detach().float().cuda() for row in batch())
    broken = audio.clone()
    broken[2, 1] = torch.nan
    objective(audio, text)
    torch.cuda.set_sync_debug_mode("error")
    try:
        assert objective(broken, text, clip_ids=IDS.tolist()).loss.shape == ()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    with pytest.raises(UserError, match=r"call 2 of this objective \(1 before this one\): audio row 2 holds nan"):
        objective(audio, text)
    assert objective(audio, text).loss.isfinite()
