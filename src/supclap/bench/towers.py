"""``supclap bench towers``: CED's forward and training step on 10 s clips against the published form, equal outputs.

The published form is rebuilt here from its description: attention with its whole score matrix and softmax written
out, the rest and the weights the same. Where SUPCLAP_CED names a checkout of github.com/RicherMans/CED, and what it
imports is installed (torchaudio, einops, loguru), that code itself runs beside them.
"""

from __future__ import annotations

import copy
import importlib
import os
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from supclap.bench.measured import Measured, machine
from supclap.bench.timing import Times, in_turns, quartiles, ratio
from supclap.encoders.blocks import Attention
from supclap.encoders.ced import CedSettings, CedTinySettings, CedTower, rename
from supclap.encoders.weights import fit
from supclap.runtime import Precision, autocast
from supclap.schema import UserError

GOAL = 1.2
SECONDS = 10
_CLIPS = {"cpu": 2, "cuda": 32}
_PRECISIONS: dict[str, tuple[Precision, ...]] = {"cpu": ("fp32",), "cuda": ("fp32", "bf16")}
_TOWERS: dict[str, type[CedSettings]] = {"ced-tiny": CedTinySettings, "ced-base": CedSettings}
_CHECKOUT = "SUPCLAP_CED"


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


class Tagger(nn.Module):
    """A tower with its tagger's head, which is what the published code answers with."""

    def __init__(self, tower: CedTower) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, samples: Tensor) -> Tensor:
        """[n, t] to [n, classes] probabilities."""
        return self.tower.tag(samples)


def published(tower: CedTower) -> CedTower:
    """A copy of a tower with attention in the published form."""
    other = copy.deepcopy(tower)
    for block in other.blocks:
        assert isinstance(block.attn, Attention)
        block.attn = WrittenOut(block.attn)
    return other


def checkout(name: str, tower: CedTower) -> nn.Module | None:
    """The published code itself, its random weights put into ``tower``; None where SUPCLAP_CED names no checkout."""
    folder = os.environ.get(_CHECKOUT)
    if not folder:
        return None
    if not (Path(folder) / "models" / "audiotransformer.py").is_file():
        raise UserError(
            f"{_CHECKOUT}={folder!r} holds no models/audiotransformer.py; name a checkout of RicherMans/CED"
        )
    sys.path.insert(0, folder)
    try:
        build = getattr(importlib.import_module("models.audiotransformer"), name.replace("-", "_"))
    except ImportError as error:
        raise UserError(f"{_CHECKOUT}={folder!r}: its code cannot be imported ({error}); install that") from error
    finally:
        sys.path.remove(folder)
    theirs: nn.Module = build(pretrained=False)
    fit(tower, rename(theirs.state_dict()), folder)
    return theirs


def measure(rounds: int | None = None, say: Callable[[str], None] = lambda line: None) -> Measured:
    """Forward and training step of every form in turns; ``rounds`` None takes 7."""
    before = machine()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = [
        row
        for name in _TOWERS
        for precision in _PRECISIONS[device.type]
        for row in _rows(name, device, precision, rounds or 7, say)
    ]
    if device.type == "cuda":
        before |= {"gpu": torch.cuda.get_device_name(device)}
    notes = [
        f"forward, step: median ms of interleaved rounds, {_CLIPS[device.type]} clips of {SECONDS} s, mel included, "
        "random weights; step is forward and backward in training mode.",
        "ratio: that form / ours by round, median and middle half; difference: largest entry of the probabilities.",
        "memory: what a forward in training keeps for the backward pass (one clip, CPU); the peak of a step (GPU).",
        f"goal: forward at least {GOAL} times faster than the published form, memory of a training step not above it.",
    ]
    return Measured("towers", "CED on 10 s clips against the published form", rows, notes, before)


def _forms(name: str, device: torch.device) -> dict[str, nn.Module]:
    torch.manual_seed(0)
    ours = _TOWERS[name](weights=None).build()
    code = checkout(name, ours)
    forms: dict[str, nn.Module] = {"ours": Tagger(ours), "published form": Tagger(published(ours))}
    if code is not None:
        forms["published code"] = code
    return {form: tower.to(device) for form, tower in forms.items()}


def _rows(
    name: str, device: torch.device, precision: Precision, rounds: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    say(f"{name}: {rounds} rounds on {device} in {precision}")
    forms = _forms(name, device)
    samples = torch.randn(_CLIPS[device.type], SECONDS * 16000, device=device) * 0.1
    _mode(forms, training=False)
    with torch.no_grad():
        answers = {form: _forward(tower, samples, precision) for form, tower in forms.items()}
        forward = in_turns({form: partial(_forward, forms[form], samples, precision) for form in forms}, rounds)
    _mode(forms, training=True)
    # A step costs three times a forward, and its ratio is no goal: fewer rounds.
    step = in_turns({form: partial(_step, forms[form], samples, precision) for form in forms}, max(rounds // 2, 2))
    memory = {form: _memory(tower, samples, precision) for form, tower in forms.items()}
    difference = {form: float((answers[form] - answers["ours"]).abs().max()) for form in forms}
    return [
        {"tower": name, "device": f"{device.type} {precision}", "form": form}
        | _row(form, forward, step, memory, difference)
        for form in forms
    ]


def _row(
    form: str, forward: Times, step: Times, memory: dict[str, float], difference: dict[str, float]
) -> dict[str, Any]:
    ahead = ratio(forward, form, "ours")
    met = statistics.median(ahead) >= GOAL and memory["ours"] <= memory[form]
    return {
        "forward ms": round(statistics.median(forward[form]), 1),
        "ratio": _spread(ahead),
        "step ms": round(statistics.median(step[form]), 1),
        "step ratio": _spread(ratio(step, form, "ours")),
        "difference": f"{difference[form]:.1e}",
        "memory MB": round(memory[form], 1),
        "goal": "" if form == "ours" else "met" if met else "not met",
    }


def _mode(forms: dict[str, nn.Module], *, training: bool) -> None:
    for tower in forms.values():
        tower.train(training)


def _spread(ratios: list[float]) -> str:
    low, high = quartiles(ratios)
    return f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})"


def _forward(tower: nn.Module, samples: Tensor, precision: Precision) -> Tensor:
    with autocast(samples.device, precision):
        out: Tensor = tower(samples)
    if samples.is_cuda:
        torch.cuda.synchronize()
    return out.float()


def _step(tower: nn.Module, samples: Tensor, precision: Precision) -> None:
    tower.zero_grad(set_to_none=True)
    with autocast(samples.device, precision):
        loss = tower(samples).float().square().mean()
    loss.backward()
    if samples.is_cuda:
        torch.cuda.synchronize()


def _memory(tower: nn.Module, samples: Tensor, precision: Precision) -> float:
    """Megabytes of a training step above weights and gradients."""
    if not samples.is_cuda:
        return saved(tower, samples)
    _step(tower, samples, precision)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    _step(tower, samples, precision)
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def saved(tower: nn.Module, samples: Tensor) -> float:
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
