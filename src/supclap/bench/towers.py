"""``supclap bench towers``: CED's forward on 10 s clips against the published form, with equal outputs.

The published form is rebuilt here from its description: attention with its whole score matrix and softmax written
out, the rest and the weights the same. What is compared is therefore attention and layout, not another framework.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from supclap.bench.measured import Measured, machine
from supclap.bench.timing import in_turns, quartiles, ratio
from supclap.encoders.blocks import Attention
from supclap.encoders.ced import CedSettings, CedTinySettings, CedTower

GOAL = 1.2
SECONDS, CLIPS = 10, 2
_TOWERS: dict[str, type[CedSettings]] = {"ced-tiny": CedTinySettings, "ced-base": CedSettings}


class WrittenOut(nn.Module):
    """Attention as the published code writes it: scores, softmax, values."""

    def __init__(self, ours: Attention) -> None:
        super().__init__()
        self.heads, self.qkv, self.proj = ours.heads, ours.qkv, ours.proj

    def forward(self, x_nsw: Tensor, keys_ns: Tensor | None) -> Tensor:
        """[n, s, w] to [n, s, w]; the published code knows no mask."""
        assert keys_ns is None
        n, s, w = x_nsw.shape
        query, key, value = self.qkv(x_nsw).reshape(n, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = (query @ key.transpose(-2, -1)) * (w // self.heads) ** -0.5
        seen = (scores.softmax(dim=-1) @ value).transpose(1, 2).reshape(n, s, w)
        return self.proj(seen)  # type: ignore[no-any-return]


def published(tower: CedTower) -> CedTower:
    """A copy of a tower with attention in the published form."""
    other = copy.deepcopy(tower)
    for block in other.blocks:
        assert isinstance(block.attn, Attention)
        block.attn = WrittenOut(block.attn)
    return other


def measure(rounds: int | None = None, say: Callable[[str], None] = lambda line: None) -> Measured:
    """Forward and training step of both forms in turns; ``rounds`` None takes 7."""
    before = machine()
    rows = [_row(name, rounds or 7, say) for name in _TOWERS]
    notes = [
        f"ms: median of interleaved rounds, {CLIPS} clips of {SECONDS} s, fp32, mel included, random weights.",
        "ratio: published form / ours by round, median and middle half; difference: largest entry of the embeddings.",
        "saved MB: what a forward in training keeps for the backward pass.",
        f"goal: forward at least {GOAL} times faster than the published form, memory of a training step not above it.",
    ]
    return Measured("towers", "CED forward on 10 s clips against the published form", rows, notes, before)


def _row(name: str, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    say(f"{name}: {rounds} rounds on {device}")
    torch.manual_seed(0)
    ours = _TOWERS[name](weights=None).build().to(device).eval()
    theirs = published(ours)
    samples = torch.randn(CLIPS, SECONDS * ours.sample_rate, device=device) * 0.1
    with torch.no_grad():
        difference = float((ours(samples) - theirs(samples)).abs().max())
        times = in_turns({"ours": lambda: _run(ours, samples), "published": lambda: _run(theirs, samples)}, rounds)
    ratios = ratio(times, "published", "ours")
    low, high = quartiles(ratios)
    ours_mb, theirs_mb = (_saved(tower, samples) for tower in (ours, theirs))
    return {
        "tower": name,
        "device": device.type,
        "ours ms": round(statistics.median(times["ours"]), 1),
        "published ms": round(statistics.median(times["published"]), 1),
        "ratio": f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})",
        "difference": f"{difference:.1e}",
        "saved MB": f"{ours_mb:.0f} / {theirs_mb:.0f}",
        "goal": "met" if statistics.median(ratios) >= GOAL and ours_mb <= theirs_mb else "not met",
    }


def _run(tower: CedTower, samples: Tensor) -> None:
    tower(samples)
    if samples.is_cuda:
        torch.cuda.synchronize()


def _saved(tower: CedTower, samples: Tensor) -> float:
    """Megabytes that one forward of one clip keeps for the backward pass, each storage once, weights left out."""
    own = {value.untyped_storage().data_ptr() for value in tower.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = tower(samples[:1])
    del out
    return sum(kept.values()) / 1e6
