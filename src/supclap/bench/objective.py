"""Forward and backward of the bi-DynamicSVR objective beside open_clip's ClipLoss.

Shapes: n rows, d = 1024 columns; leaves of unit length, float32.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from supclap import runtime
from supclap.bench.measured import Measured, machine
from supclap.bench.timing import in_turns, median, quartiles, ratio
from supclap.objectives import SVR, DynamicRadius, InfoNCE
from supclap.objectives.dense import switched_off

WIDTH, SCALE = 1024, 1 / 0.07
SIZES = {24: (25, 40), 512: (15, 5), 4096: (9, 1)}  # n -> rounds, calls a round
MORE_MS, GOAL, STRETCH = 1.5, 1.35, 1.2
CLOCKS = {time.thread_time: "CPU time of the one thread", time.perf_counter: "wall time"}
Leaves = tuple[Tensor, Tensor]


def measure(
    rounds: int | None = None, say: Callable[[str], None] = lambda line: None, sizes: Sequence[int] = tuple(SIZES)
) -> Measured:
    """Row 1 of the numbers we hold ourselves to; ``rounds`` None takes 25, 15 and 9 by size."""
    clip, before = clip_loss(), machine()
    notes = [
        f"ms: {CLOCKS[_clock()]}, median of interleaved rounds, forward + backward, d = 1024, fp32; ratio: median (and "
        "middle half) of dense / ClipLoss by round.",
        "ClipLoss gets unit rows and two forward products; the others normalise by themselves. SVR: InfoNCE, "
        "DynamicRadius(batch_size=n), both directions.",
        "error: largest deviation of the inputs' gradient from the same path in float64, over its largest entry.",
        f"goal: n = 24 at most {MORE_MS} ms above ClipLoss, else at most {GOAL} times it (stretch {STRETCH}).",
    ]
    if clip is None:
        notes.insert(0, "open_clip is not installed: nothing to compare with; pip install --no-deps open_clip_torch")
    rows = []
    for count in sizes:
        turns, calls = SIZES.get(count, (9, 1))
        say(f"n = {count}: {rounds or turns} rounds")
        rows.append(_row(count, rounds or turns, calls, clip))
    return Measured("objective", "bi-DynamicSVR objective against open_clip's ClipLoss, CPU", rows, notes, before)


def _clock() -> Callable[[], float]:
    """With one thread its own time: what else the machine does is not in it."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def clip_loss() -> nn.Module | None:
    """open_clip's ClipLoss from its file (the package itself wants torchvision); None where it is not installed."""
    spec = importlib.util.find_spec("open_clip")
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        path = Path(folder) / "loss.py"
        if path.is_file():
            of_file = importlib.util.spec_from_file_location("supclap_bench_open_clip_loss", path)
            assert of_file is not None and of_file.loader is not None
            module = importlib.util.module_from_spec(of_file)
            of_file.loader.exec_module(module)
            found: nn.Module = module.ClipLoss()
            return found
    return None


def _row(count: int, rounds: int, calls: int, clip: nn.Module | None) -> dict[str, Any]:
    leaves, losses = _leaves(count, torch.float32), _losses(count, clip)
    times = in_turns({name: _step(loss, leaves) for name, loss in losses.items()}, rounds, calls, _clock())
    row: dict[str, Any] = {"n": count, "rounds": rounds}
    row |= {f"{name} ms": median(times[name]) if name in times else None for name in NAMES}
    row |= dict.fromkeys(("dense - ClipLoss ms", "dense / ClipLoss", "middle half", "goal"))
    if clip is not None:
        ratios = ratio(times, "SVR dense", "ClipLoss")
        more = median([one - two for one, two in zip(times["SVR dense"], times["ClipLoss"], strict=True)])
        row["dense - ClipLoss ms"], row["dense / ClipLoss"] = more, median(ratios)
        row["middle half"] = "{:.2f}-{:.2f}".format(*quartiles(ratios))
        row["goal"] = verdict(count, more, median(ratios))
    errors = _errors(leaves, losses)
    return row | {f"error {name} e-7": None if error is None else 1e7 * error for name, error in errors.items()}


def verdict(count: int, more_ms: float, times_as_long: float) -> str:
    """Whether the goal is met: by difference for the paper's batch, by ratio for larger ones."""
    if count <= 24:
        return "yes" if more_ms <= MORE_MS else f"no: {more_ms:.2f} ms above"
    if times_as_long <= GOAL:
        return "yes (stretch)" if times_as_long <= STRETCH else "yes"
    return f"no: {times_as_long:.2f} times"


NAMES = ("ClipLoss", "InfoNCE", "SVR generic", "SVR dense")
Loss = Callable[[Tensor, Tensor], Tensor]


def _losses(count: int, clip: nn.Module | None) -> dict[str, Loss]:
    infonce = InfoNCE(reduce="mean")
    summed: Any = InfoNCE()
    runtime.seed_everything(0, "bench", "radius")
    svr = SVR(summed, radius=DynamicRadius(batch_size=count))

    def generic(audio: Tensor, text: Tensor) -> Tensor:
        with switched_off():
            return _value(svr, audio, text)

    losses: dict[str, Loss] = {
        "InfoNCE": lambda audio, text: _value(infonce, audio, text),
        "SVR generic": generic,
        "SVR dense": lambda audio, text: _value(svr, audio, text),
    }
    if clip is None:
        return losses
    scale = torch.tensor(SCALE)
    return {"ClipLoss": lambda audio, text: clip(audio, text, scale.to(audio.dtype)), **losses}


def _value(objective: nn.Module, audio: Tensor, text: Tensor) -> Tensor:
    loss: Tensor = objective(audio, text).loss
    return loss


def _leaves(count: int, dtype: torch.dtype) -> Leaves:
    """Pairs about as close as in training: distance near .9, R / d near 1 is then within reach."""
    draw = runtime.generator(0, "bench", count)
    shared = torch.randn(count, WIDTH, generator=draw)
    sides = [shared + 0.8 * torch.randn(count, WIDTH, generator=draw) for _ in range(2)]
    audio, text = (nn.functional.normalize(side).to(dtype).requires_grad_() for side in sides)
    return audio, text


def _step(loss: Loss, leaves: Leaves) -> Callable[[], None]:
    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        loss(*leaves).backward()  # type: ignore[no-untyped-call]

    return step


def _errors(leaves: Leaves, losses: dict[str, Loss]) -> dict[str, float | None]:
    """By path; the generic one in float64 judges both of ours."""
    double = tuple(leaf.detach().double().requires_grad_() for leaf in leaves)
    found: dict[str, float | None] = {"ClipLoss": None}
    truth = _gradient(losses["SVR generic"], double)
    for path in ("generic", "dense"):
        found[path] = _apart(_gradient(losses[f"SVR {path}"], leaves), truth)
    if "ClipLoss" in losses:
        clip = losses["ClipLoss"]
        found["ClipLoss"] = _apart(_gradient(clip, leaves), _gradient(clip, double))
    return found


def _gradient(loss: Loss, leaves: Sequence[Tensor]) -> Tensor:
    return torch.cat(torch.autograd.grad(loss(*leaves), tuple(leaves)))


def _apart(ours: Tensor, truth: Tensor) -> float:
    return float((ours.double() - truth).abs().max() / truth.abs().max())
