"""Rows of length one, with a backward of few passes over them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def unit(rows: Tensor) -> Tensor:
    """Rows of length one, in fp32 or better; a row without a length becomes zero and has no gradient."""
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    if transformed():
        return rows / _length(rows)
    units: Tensor = _Unit.apply(rows)  # type: ignore[no-untyped-call]
    return units


def transformed() -> bool:
    """Under torch.compile, torch.func or forward-mode differentiation, which want plain operations."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    return forward_ad._current_level >= 0


def _length(rows: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return length.masked_fill(length == 0, torch.inf)


class _Unit(torch.autograd.Function):
    """Rows by their length; the backward can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        length = _length(rows)
        units = rows / length
        ctx.save_for_backward(rows, units, length)
        return units

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        rows, units, length = ctx.saved_tensors
        if torch.is_grad_enabled():
            along = (grads[0] * units).sum(1, keepdim=True)
            plain: Tensor = torch.addcmul(grads[0], units, along, value=-1.0) / _length(rows)
            return plain
        found = grads[0] * units
        along = found.sum(1, keepdim=True)
        return torch.addcmul(grads[0], units, along, value=-1.0, out=found).div_(length)
