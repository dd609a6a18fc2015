"""The step that is taken thousands of times: one graph under torch.compile, and nothing that waits for a device.

A GPU is waited for where a tensor's value comes to Python: .item(), bool(), int(), .tolist() or .nonzero(). All of
them reach the dispatcher as one of a few operations, on a CPU as on a GPU, so a mode that refuses them proves the
absence here.
"""

import copy

import pytest
import torch
from objective_cases import N, batch, everything, needs_anchor
from torch.utils._python_dispatch import TorchDispatchMode

from supclap.objectives import SVR, DynamicRadius, InfoNCE

IDS = torch.tensor([3, 7, 3, 1, 9, 9])
ALL = everything()
WAITS = {"_local_scalar_dense", "nonzero", "is_nonzero", "item", "equal", "masked_select", "unique", "_unique2"}


class NoWaiting(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        by_mask = name == "index" and any(x is not None and x.dtype == torch.bool for x in args[1])
        if name in WAITS or by_mask:
            raise RuntimeError(f"{name} waits for the device")
        return function(*args, **(kwargs or {}))


def step(name, objective):
    audio, text, anchor = batch(dtype=torch.float32, count=3)
    out = objective(audio, text, clip_ids=IDS, **({"anchor_text": anchor} if needs_anchor(name) else {}))
    out.loss.backward()


@pytest.mark.parametrize("name", ALL)
def test_a_step_reads_no_value_back(name):
    objective = ALL[name](validate="never")
    step(name, objective)  # SigLIP's bias starts here, once
    with NoWaiting():
        step(name, objective)


@pytest.mark.parametrize(
    "act", [lambda x: bool(x.sum() > 0), lambda x: x[0].item(), lambda x: x[x > 0], lambda x: x.nonzero()]
)
def test_the_mode_would_see_it(act):
    with NoWaiting(), pytest.raises(RuntimeError, match="waits"):
        act(torch.randn(4, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("name", ["infonce", "infonce+dynamic-fixed", "siglip+static", "printed", "dcl+random"])
def test_no_graph_break(name):
    """fullgraph=True refuses a break; value and gradients are the eager ones."""
    torch._dynamo.reset()
    eager = ALL[name]()
    again = copy.deepcopy(eager)  # a RandomRadius counts its calls
    compiled = torch.compile(again, fullgraph=True, backend="aot_eager")
    rows = batch(dtype=torch.float32, count=3)
    found = []
    for objective, own in ((eager, eager), (compiled, again)):
        leaves = [row.detach().clone().requires_grad_() for row in rows]
        options = {"anchor_text": leaves[2]} if needs_anchor(name) else {}
        out = objective(*leaves[:2], clip_ids=IDS, **options)
        out.loss.backward()
        grads = [value.grad for value in (*leaves[: 3 if options else 2], *own.parameters())]
        found.append([out.loss, *out.parts.values(), *out.radius.values(), *grads])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_default_compiler_agrees():
    rows = batch(dtype=torch.float32)
    for objective in (InfoNCE(), SVR(InfoNCE(), radius=DynamicRadius(batch_size=N))):
        torch._dynamo.reset()
        compiled = torch.compile(objective, fullgraph=True)
        torch.testing.assert_close(compiled(*rows).loss, objective(*rows).loss, rtol=1e-5, atol=1e-6)
