"""What every rank does in one launch of several processes; test_training_ranks.py looks at what was found."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from supclap.objectives import SVR, DynamicRadius, InfoNCE, SigLIP
from supclap.schema import Batch
from supclap.training.optim import OptimSettings
from supclap.training.processes import Team
from supclap.training.step import Stepper

ROWS, STEPS = 12, 3


class Two(nn.Module):
    """Towers of two layers; `rare` is needed by the first rows of a batch alone, `never` by none."""

    def __init__(self, norm=False, dropout=0.0):
        super().__init__()
        self.audio = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8) if norm else nn.Tanh(), nn.Linear(8, 5))
        self.text = nn.Linear(7, 5)
        self.rare, self.never = nn.Linear(6, 5, bias=False), nn.Linear(2, 2)
        self.dropout = nn.Dropout(dropout)

    def encode_audio(self, batch):
        rows = self.dropout(self.audio(batch.audio_features))
        first = batch.clip_ids < ROWS // 2
        if first.any():
            rows = rows + torch.where(first[:, None], self.rare(batch.audio_features), 0.0)
        return rows

    def encode_text(self, batch):
        return 10 * self.text(batch.text_features)


def whole(step):
    draw = torch.Generator().manual_seed(step)
    audio, text = torch.randn(ROWS, 6, generator=draw).double(), torch.randn(ROWS, 7, generator=draw).double()
    return audio, text, torch.arange(ROWS)


def batch(step, rank, world, spoil=None):
    # In blocks, so that one rank has all rows that need `rare`.
    part = slice(rank * ROWS // world, (rank + 1) * ROWS // world)
    audio, text, ids = (value[part].clone() for value in whole(step))
    if spoil is not None:
        (audio if spoil != spoil else text)[0] = spoil
    return Batch(
        samples=None, lengths=None, sample_rate=1, texts=[""] * len(ids), languages=["eng"] * len(ids), clip_ids=ids,
        audio_features=audio, text_features=text,
    )  # fmt: skip


def objective(name):
    torch.manual_seed(3)
    base = SigLIP() if name == "siglip" else InfoNCE()
    return SVR(base, radius=DynamicRadius(batch_size=ROWS)).double()


def stepper(team, name, chunk=None, **model):
    torch.manual_seed(0)
    made = Two(**model).double()
    loss = objective(name)
    optimizer = OptimSettings(name="adamw", lr=1e-2, eps=1e-3, weight_decay=0.1).build(made, loss)
    return Stepper(made, loss, optimizer, device=torch.device("cpu"), chunk=chunk, team=team)


CASES = {
    "infonce": {"name": "infonce"},
    "siglip": {"name": "siglip"},
    "chunks": {"name": "infonce", "chunk": 2},
    "norm": {"name": "infonce", "norm": True},
}


def state(one):
    both = nn.ModuleDict({"model": one.model, "objective": one.objective})
    return {name: value.clone() for name, value in both.state_dict().items()}


def run(case, team):
    one = stepper(team, **CASES[case])
    losses = []
    for step in range(STEPS):
        found = one([batch(step, team.rank, team.world)], step)
        losses.append(found.out.loss.detach())
    unused = one.optimizer.state.get(one.model.never.weight)
    return {"losses": torch.stack(losses), "state": state(one), "unused": torch.tensor(float(bool(unused)))}


def skips(team, case, how):
    """Rank 1 alone meets a number that is none; whatever happens, all go on together."""
    one = stepper(team, **CASES[case])
    if how == "loss" and team.rank == 1:
        # Finite embeddings, and a loss that is not.
        loss, calls = one.objective.forward, []

        def broken(*args, **kwargs):
            out = loss(*args, **kwargs)
            calls.append(1)
            if len(calls) == 1:
                out.loss = out.loss * float("nan")
            return out

        one.objective.forward = broken
    spoil = {"input": float("nan"), "embedding": 1.7e308}.get(how) if team.rank == 1 else None
    before = state(one)
    found = one([batch(0, team.rank, team.world, spoil)], 0)
    same = all(torch.equal(value, before[name]) for name, value in state(one).items() if "started" not in name
               and "bias_start" not in name)  # fmt: skip
    then = one([batch(1, team.rank, team.world)], 1)
    return {
        "skipped": found.skipped is not None,
        "ids": list(found.rows_at_fault),
        "same": same,
        "then": then.skipped is None,
        "loss": then.out.loss.detach(),
    }


def dropout(team):
    """What dropout keeps of rows that are all alike."""
    one = stepper(team, "infonce", dropout=0.5)
    one._draw((0, 0), 0)
    return one.model.dropout(torch.ones(4, 16, dtype=torch.float64))


def work(rank, world, folder):
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1"}
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    team = Team(rank, world)
    found = {case: run(case, team) for case in CASES}
    found |= {f"skip {how} {case}": skips(team, case, how)
              for how in ("input", "embedding", "loss") for case in ("infonce", "chunks")}  # fmt: skip
    found["dropout"] = dropout(team)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
