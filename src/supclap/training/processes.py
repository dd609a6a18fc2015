"""Several processes, one run: who stands where, and what all must agree on. In one process all of this is nothing.

torchrun and accelerate say by environment variables how many there are. Every process holds the whole model and
encodes its part of each batch; gradients are averaged after backward. The first process writes, scores and talks.

BatchNorm that learns normalises by the rows of its own process (as DDP does), so there 2 processes are not 1; running
statistics are averaged after each step, so that all have, save and resume the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from supclap.schema import UserError

# A process that dies is noticed by its closed connection, at once; this is for one that only takes its time.
PATIENCE = timedelta(hours=2)


@dataclass(frozen=True)
class Team:
    """The processes that share a run, and this one's place among them."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes, scores and talks."""
        return self.rank == 0

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.world > 1:
            dist.barrier()

    def tell(self, value: Any) -> Any:
        """The first process's value, everywhere."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def everyone(self, value: Any) -> list[Any]:
        """Every process's value, in their order."""
        if self.world == 1:
            return [value]
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value)
        return found

    def most(self, number: int, device: torch.device | None = None) -> int:
        """The largest of all processes' numbers."""
        if self.world == 1:
            return number
        box = torch.tensor(number, device=device)
        dist.all_reduce(box, op=dist.ReduceOp.MAX)
        return int(box)

    def average(self, parameters: Sequence[nn.Parameter]) -> None:
        """Every gradient becomes its mean over processes; one that this process did not need counts as zero here.

        A parameter that no process needed keeps no gradient, so that the optimizer leaves it alone as in one process.
        """
        if self.world == 1 or not parameters:
            return
        needed = torch.tensor([value.grad is not None for value in parameters], dtype=torch.int32)
        needed = needed.to(parameters[0].device)
        dist.all_reduce(needed, op=dist.ReduceOp.MAX)
        grads: list[Tensor] = []
        for value, on in zip(parameters, needed.tolist(), strict=True):
            if on and value.grad is None:
                value.grad = torch.zeros_like(value)
            if on and value.grad is not None:
                grads.append(value.grad)
        for some in _buckets(grads):
            self._mean(some)

    def level(self, module: nn.Module) -> None:
        """Running statistics of BatchNorm become their mean over processes, as each saw its own rows."""
        if self.world == 1:
            return
        norms = [one for one in module.modules() if isinstance(one, nn.modules.batchnorm._BatchNorm) and one.training]
        found = [value for one in norms for value in (one.running_mean, one.running_var) if value is not None]
        for some in _buckets(found):
            self._mean(some)

    def _mean(self, values: Sequence[Tensor]) -> None:
        kind = torch.float64 if any(value.dtype == torch.float64 for value in values) else torch.float32
        flat = torch.cat([value.reshape(-1).to(kind) for value in values])
        dist.all_reduce(flat)
        pieces = torch.split(flat.div_(self.world), [value.numel() for value in values])
        for value, piece in zip(values, pieces, strict=True):
            value.copy_(piece.reshape(value.shape))

    def share(self, batch_size: int) -> int:
        """Rows of a batch that this process takes."""
        if batch_size % self.world:
            raise UserError(f"batch_size={batch_size} is that of all processes; make it a multiple of {self.world}")
        return batch_size // self.world


BUCKET = 1 << 24  # numbers that travel together


def _buckets(values: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The values in order, in groups that need little memory beside them."""
    some: list[Tensor] = []
    for value in values:
        if some and sum(one.numel() for one in some) + value.numel() > BUCKET:
            yield some
            some = []
        some.append(value)
    if some:
        yield some


@contextmanager
def joined(device: torch.device) -> Iterator[Team]:
    """The team that torchrun or accelerate started, connected; a team of one without them."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if dist.is_available() and dist.is_initialized():
        yield Team(dist.get_rank(), dist.get_world_size())
        return
    if world == 1 or "RANK" not in os.environ:
        yield Team()
        return
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=PATIENCE)
    team = Team(dist.get_rank(), dist.get_world_size())
    try:
        yield team
    except (dist.DistError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        if not any(word in reason.lower() for word in ("gloo", "nccl", "connection", "peer", "distributed")):
            raise
        raise UserError(
            f"process {team.rank} of {team.world} lost another one ({reason}); what that one said is the reason"
        ) from error
    finally:
        dist.destroy_process_group()
