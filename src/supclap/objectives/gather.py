"""Many processes, one batch: keys gathered with gradient, learnable numbers kept in step.

Each rank's loss is the mean over its own rows against the keys of all ranks, so the mean over ranks is the loss of the
global batch, and averaging gradients over ranks (what DDP does) gives the gradient of that loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from supclap.schema import UserError

ProcessGroup = Any


@dataclass(frozen=True)
class Ranks:
    """Where this process stands among those that share a batch; ``group`` None: it has the batch to itself."""

    group: ProcessGroup | None
    rank: int = 0
    world: int = 1


def ranks(process_group: Literal["auto"] | ProcessGroup | None) -> Ranks:
    """The processes that share the batch: "auto" takes all whenever there is more than one."""
    if process_group is None or not (dist.is_available() and dist.is_initialized()):
        if process_group not in (None, "auto"):
            raise UserError("process_group is given but torch.distributed is not initialised; call init_process_group")
        return Ranks(None)
    group = dist.group.WORLD if process_group == "auto" else process_group
    world = dist.get_world_size(group)
    return Ranks(group, dist.get_rank(group), world) if world > 1 else Ranks(None)


class _Gather(torch.autograd.Function):
    """Rows of all ranks; in backward each rank gets the sum of what all ranks feel about its rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, here: Ranks) -> Tensor:
        ctx.here, ctx.count = here, len(rows)
        parts = [torch.empty_like(rows) for _ in range(here.world)]
        dist.all_gather(parts, rows.contiguous(), group=here.group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad = grads[0].clone(memory_format=torch.contiguous_format)  # the incoming gradient may be another's too
        dist.all_reduce(grad, group=ctx.here.group)
        first = ctx.here.rank * ctx.count
        return grad[first : first + ctx.count], None


class _Average(torch.autograd.Function):
    """The identity; in backward the gradient is averaged over ranks (doing so twice changes nothing)."""

    @staticmethod
    def forward(ctx: Any, here: Ranks, *values: Tensor) -> tuple[Tensor, ...]:
        ctx.here = here
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        flat = torch.cat([grad.reshape(-1).double() for grad in grads])
        dist.all_reduce(flat, group=ctx.here.group)
        pieces = (flat / ctx.here.world).split([grad.numel() for grad in grads])
        return None, *(piece.reshape(grad.shape).to(grad.dtype) for piece, grad in zip(pieces, grads, strict=True))


def gather_rows(rows: Tensor, here: Ranks) -> Tensor:
    """[n, ...] of this rank to [world * n, ...] of all, in rank order, with gradient."""
    if here.group is None:
        return rows
    gathered: Tensor = _Gather.apply(rows, here)  # type: ignore[no-untyped-call]
    return gathered


def sum_over(values: Tensor, here: Ranks) -> Tensor:
    """The sum over ranks, without gradient."""
    values = values.detach().clone()
    if here.group is not None:
        dist.all_reduce(values, group=here.group)
    return values


def in_step(module: nn.Module, here: Ranks) -> dict[str, Tensor]:
    """The module's parameters, with gradients that are averaged over ranks."""
    named = {name: value for name, value in module.named_parameters() if value.requires_grad}
    if here.group is None or not named:
        return dict(named)
    averaged = _Average.apply(here, *named.values())  # type: ignore[no-untyped-call]
    return dict(zip(named, averaged, strict=True))


def agree(module: nn.Module, here: Ranks) -> None:
    """Give every rank the first rank's parameters and buffers."""
    if here.group is None:
        return
    source = dist.get_global_rank(here.group, 0)
    for value in [*module.parameters(), *module.buffers()]:
        dist.broadcast(value.data, src=source, group=here.group)


def exchange(
    rows: object, has_ids: bool, has_anchor: bool, trouble: UserError | None, here: Ranks, first: bool
) -> None:
    """Every rank hears of every rank's batch: a mistake on one is a UserError on all, where a gather would hang.

    Without gloo this waits for the GPU, so it is done at the first call only.
    """
    talks = "gloo" in str(dist.get_backend_config(here.group))
    if not (talks or first):
        if trouble is not None:
            raise trouble
        return
    device = torch.device("cpu") if talks else torch.device("cuda", torch.cuda.current_device())
    shape = list(rows.shape) if isinstance(rows, Tensor) and rows.dim() == 2 else [-1, -1]
    mine = torch.tensor([int(trouble is not None), int(has_ids), int(has_anchor), *shape], device=device)
    heard = [torch.zeros_like(mine) for _ in range(here.world)]
    dist.all_gather(heard, mine, group=here.group)
    failed, ids, anchors, counts, widths = torch.stack(heard).T.tolist()
    if len(set(counts)) > 1:
        raise UserError(f"ranks bring {counts} rows; all must bring as many: drop the last partial batch")
    if trouble is not None:
        raise trouble
    if any(failed):
        raise UserError(f"rank {failed.index(1)} refused its batch; its own error says why")
    for name, given in (("clip_ids", ids), ("anchor_text", anchors)):
        if len(set(given)) > 1:
            raise UserError(f"{name} is given on ranks {[r for r, on in enumerate(given) if on]} alone; pass it on all")
    if len(set(widths)) > 1:
        raise UserError(f"ranks bring rows of width {widths}; all must bring the same")
