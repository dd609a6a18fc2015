"""What each process of the tests over several ranks runs; one launch of this does all of them."""

import datetime
import traceback

import torch
import torch.distributed as dist
from objective_cases import batch, everything, lively, needs_anchor
from torch.nn.parallel import DistributedDataParallel

from supclap.objectives import SVR, DynamicRadius, InfoNCE, SigLIP, StaticRadius, gather
from supclap.schema import UserError

ROWS = 8
IDS = torch.tensor([3, 7, 3, 1, 9, 9, 3, 4])  # clips that meet across ranks at 2 and at 4
ALL = everything(ROWS)


def result(name, objective, rows, ids, scale=None, bias=None):
    """Loss, parts, radii and every gradient of one call."""
    leaves = [row.detach().clone().requires_grad_() for row in rows]
    options = {"anchor_text": leaves[2]} if needs_anchor(name) else {}
    objective.zero_grad()
    out = objective(*leaves[:2], clip_ids=ids, scale=scale, bias=bias, **options)
    out.loss.backward()
    numbers = [value for value in (scale, bias) if value is not None]
    return {
        "loss": out.loss.detach(),
        "parts": {key: value.detach() for key, value in out.parts.items()},
        "radius": {key: value.detach() for key, value in out.radius.items()},
        "inputs": [leaf.grad for leaf in leaves if leaf.grad is not None],
        "numbers": [value.grad for value in numbers],
        "parameters": {key: value.grad for key, value in objective.named_parameters()},
        "state": {key: value.clone() for key, value in objective.state_dict().items()},
    }


def build(name, rank=0):
    """The objective as a rank starts it: no two ranks alike."""
    objective = lively(ALL[name](), seed=rank)
    for value in objective.parameters():
        value.data += 0.01 * rank
    return objective


def mine(rank, world, size=ROWS):
    count = size // world
    return slice(rank * count, (rank + 1) * count)


def one(name, rank, world, ids=True):
    part = mine(rank, world)
    rows = [row.detach()[part] for row in batch(11, n=ROWS, count=3)]
    return result(name, build(name, rank), rows, IDS[part] if ids else None)


def refused(act):
    """The UserError's line, or what came instead."""
    try:
        act()
    except UserError as error:
        return str(error)
    return "accepted"


def mistakes(rank, world):
    last = rank == world - 1
    audio, text = (row.detach() for row in batch(3, n=4))
    objective = SVR(InfoNCE(), radius=StaticRadius()).double()
    found = {"first uneven": refused(lambda: objective(audio[: 2 + last], text[: 2 + last]))}
    objective(audio, text)
    found["later uneven"] = refused(lambda: objective(audio[: 4 - last], text[: 4 - last]))
    found["one wrong shape"] = refused(lambda: objective(audio, text[:, : 5 - last]))
    found["ids on one"] = refused(lambda: objective(audio, text, clip_ids=[1, 2, 3, 4] if last else None))
    found["widths"] = refused(lambda: objective(audio[:, : 5 - last], text[:, : 5 - last]))
    broken = audio * torch.nan if last else audio
    found["one nan"] = refused(lambda: InfoNCE()(broken, text))
    small = SVR(InfoNCE(), radius=DynamicRadius(batch_size=4)).double()
    found["batch_size"] = refused(lambda: small(audio, text))
    found["afterwards"] = refused(lambda: objective(audio, text))
    return found


def detached(rank, world):
    """The same calls with the gather's gradient cut."""
    whole = gather._Gather.backward
    gather._Gather.backward = staticmethod(lambda ctx, *grads: (None, None))
    try:
        return {name: one(name, rank, world) for name in CUT}
    finally:
        gather._Gather.backward = whole


CUT = ("infonce", "siglip", "cacl", "infonce+dynamic-fixed", "dcl+static")


def alone(rank, world):
    """process_group=None: a rank's own rows; and a group of half the ranks."""
    part = mine(rank, world)
    rows = [row.detach()[part] for row in batch(11, n=ROWS)]
    found = {"none": result("infonce", InfoNCE(process_group=None), rows, IDS[part])}
    halves = [dist.new_group(list(range(first, first + world // 2))) for first in (0, world // 2)]
    own = halves[rank >= world // 2]
    found["half"] = result(
        "infonce", SVR(InfoNCE(), radius=StaticRadius(0.4), process_group=own).double(), rows, IDS[part]
    )
    return found


def alone_first(name, rank, world):
    """A call of one's own before the ranks meet, on every other rank, must not keep them out of step."""
    part = mine(rank, world)
    rows = [row.detach()[part] for row in batch(11, n=ROWS, count=3)]
    objective = build(name, rank)
    if rank % 2 == (name == "siglip-start+static"):  # a start of a rank's own must not keep it out of the common one
        objective.process_group = None
        objective(*rows[:2])
        objective.process_group = "auto"
    return result(name, objective, rows, IDS[part])


class Toy(torch.nn.Module):
    """Two towers and an objective in one module, as a trainer holds them."""

    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.audio, self.text = torch.nn.Linear(5, 4).double(), torch.nn.Linear(5, 4).double()
        for value in self.parameters():
            value.data = torch.randn(value.shape, generator=draw, dtype=torch.float64)
        self.objective = lively(SVR(InfoNCE(learnable=True), radius=DynamicRadius(batch_size=ROWS, hidden=8)))

    def forward(self, audio, text, ids):
        return self.objective(self.audio(audio), self.text(text), clip_ids=ids).loss


def data_parallel(rank, world):
    part = mine(rank, world)
    model = DistributedDataParallel(Toy())
    audio, text = (row.detach()[part] for row in batch(11, n=ROWS))
    for _ in range(2):  # gradient accumulation, synchronised both times
        model(audio, text, IDS[part]).backward()
    return {name: value.grad for name, value in model.module.named_parameters()}


def with_numbers(rank, world):
    part = mine(rank, world)
    rows = [row.detach()[part] for row in batch(11, n=ROWS)]
    scale, bias = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (6.0, -1.5))
    objective = lively(SVR(SigLIP(), radius=DynamicRadius(batch_size=ROWS, hidden=8)))
    return result("siglip", objective, rows, IDS[part], scale, bias)


def compiled(rank, world):
    part = mine(rank, world)
    rows = [row.detach()[part] for row in batch(11, n=ROWS)]
    objective = build("infonce+static")
    out = torch.compile(objective, backend="eager")(*rows, clip_ids=IDS[part])
    return out.loss.detach()


def work(rank, world, folder):
    """Every case, saved beside the other ranks' results."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=60)
    )
    found = {}
    try:
        found = {name: one(name, rank, world) for name in ALL}
        found |= {
            "no ids": one("infonce+dynamic-fixed", rank, world, ids=False),
            "mistakes": mistakes(rank, world),
            "detached": detached(rank, world),
            "alone": alone(rank, world),
            "data parallel": data_parallel(rank, world),
            "numbers": with_numbers(rank, world),
            "alone first": {name: alone_first(name, rank, world) for name in ("infonce+static", "siglip-start+static")},
            "compiled": compiled(rank, world) if world == 2 else None,
        }
    except BaseException:
        found["error"] = traceback.format_exc()
        raise
    finally:
        torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
