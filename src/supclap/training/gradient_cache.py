"""Batches larger than memory: encode in chunks, twice, with the gradient of the whole batch's loss in between.

Pass one encodes every chunk without a graph. The loss of all rows together gives the gradient with respect to the
embeddings. Pass two encodes each chunk again, with a graph, under the same random state, and sends its rows' gradient
back. Only one chunk's activations are alive at a time.

BatchNorm: in train mode a chunk is normalised by its own statistics in both passes, so the result is that of chunked
normalisation, not of the whole batch's; running statistics move in pass two alone. Frozen towers are in eval mode and
are not concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from supclap.schema import LossOutput

Encode = Callable[[int, int], tuple[Tensor, ...]]
"""(first, last) -> the embeddings of rows first to last, one tensor a modality."""


def spans(rows: int, chunk: int) -> list[tuple[int, int]]:
    """Chunks that cover all rows, the last one possibly short."""
    return [(first, min(first + chunk, rows)) for first in range(0, rows, chunk)]


def forward_backward(
    encode: Encode,
    rows: int,
    chunk: int,
    loss: Callable[..., LossOutput],
    *,
    draw: Callable[[int], None],
    modules: Sequence[nn.Module],
    scale: float = 1.0,
    scaler: Callable[[Tensor], Tensor] = lambda value: value,
) -> LossOutput:
    """Gradients of ``scale * loss`` on every parameter that ``encode`` uses; ``draw(k)`` sets chunk k's random state.

    A loss that is not finite sends nothing back.
    """
    parts = spans(rows, chunk)
    with torch.no_grad(), statistics_held(modules):
        pieces = []
        for index, (first, last) in enumerate(parts):
            draw(index)
            pieces.append(encode(first, last))
    leaves = [torch.cat(side).detach().requires_grad_() for side in zip(*pieces, strict=True)]
    out = loss(*leaves)
    if not bool(out.loss.isfinite()):
        return out
    torch.autograd.backward(scaler(out.loss * scale))
    for index, (first, last) in enumerate(parts):
        draw(index)
        sides = [
            (side, leaf.grad[first:last])
            for side, leaf in zip(encode(first, last), leaves, strict=True)
            if side.requires_grad and leaf.grad is not None
        ]
        if sides:
            torch.autograd.backward([side for side, _ in sides], [grad for _, grad in sides])
    return out


@contextmanager
def statistics_held(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Running statistics of BatchNorm stay as they are inside; train mode still normalises by the batch."""
    norms = [
        inner
        for module in modules
        for inner in module.modules()
        if isinstance(inner, nn.modules.batchnorm._BatchNorm) and inner.training and inner.track_running_stats
    ]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
