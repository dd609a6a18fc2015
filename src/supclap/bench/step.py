"""``supclap bench step``: one whole training step with SVR beside the same step with InfoNCE, interleaved.

A step is `training.step.Stepper`'s own: forward of both towers, objective, every check, backward, Adam. One model and
one optimizer serve all objectives in turn, so that weights, memory and shapes are the same; a radius that a step does
not use has no gradient, and Adam leaves it alone. InfoNCE is measured twice: what the second says beside the first is
what this machine's noise looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from supclap import runtime
from supclap.bench.measured import Measured, machine
from supclap.bench.timing import in_turns, median, middle, ratio
from supclap.encoders.ced import CedSettings
from supclap.encoders.dual import DualModel, DualSettings
from supclap.encoders.heads import MlpHead
from supclap.encoders.small import SmallAudioSettings, SmallTextSettings
from supclap.objectives import SVR, DynamicRadius, InfoNCE, StaticRadius
from supclap.runtime import Precision
from supclap.schema import Batch, UserError, unknown
from supclap.training.optim import OptimSettings
from supclap.training.step import Stepper

BASE, AGAIN = "InfoNCE", "InfoNCE again"
BATCH, RATE, WIDTH = 24, 16000, 1024
SIZES = {
    "heads": "heads from 384 to 512 alone, on cached features, as with frozen towers",
    "small": "small-audio and small-text (1.2 M parameters), 5 s clips",
    "paper": "CED-Base (86 M) on 10 s clips and a 24-layer encoder of SONAR's shape (766 M), heads to 1024",
}
ROUNDS = {"cpu": 21, "cuda": 61}
WARM = 3  # steps of each before the clock runs: kernels are chosen, memory is taken
NEEDS_GB = 40  # of the paper's size in fp32: weights, gradients, Adam's two moments, activations


@dataclass(frozen=True)
class Sonar:
    """The shape of SONAR's text encoder."""

    rows: int = 256_206
    width: int = 1024
    layers: int = 24
    heads: int = 16
    hidden: int = 8192


def measure(
    rounds: int | None = None,
    say: Callable[[str], None] = lambda line: None,
    sizes: Sequence[str] | None = None,
    precisions: Sequence[Precision] | None = None,
    device: str = "auto",
) -> Measured:
    """Ratios of step times; the paper's size and bf16 where there is a GPU."""
    chosen, before = runtime.device(device), machine()
    cuda = chosen.type == "cuda"
    for name in sizes or ():
        if name not in SIZES:
            raise unknown("size", name, SIZES)
    wanted = list(sizes or (SIZES if cuda else ("heads", "small")))
    kinds: Sequence[Precision] = precisions or (("fp32", "bf16") if cuda else ("fp32",))
    notes = [f"{name}: {SIZES[name]}." for name in wanted] + _notes()
    if cuda:
        before = {**before, "device": torch.cuda.get_device_name(chosen), "cuda": torch.version.cuda}
    if "paper" in wanted and not _room(chosen, notes):
        wanted.remove("paper")
    rows: list[dict[str, Any]] = []
    for name in wanted:
        bench = _Bench(name, chosen)
        for precision in kinds:
            say(f"{name}, {precision}, on {chosen}: {rounds or ROUNDS.get(chosen.type, 21)} rounds")
            rows += bench.rows(precision, rounds or ROUNDS.get(chosen.type, 21))
    if not rows:
        raise UserError(f"sizes={list(sizes or ())}: {notes[-1]}")
    return Measured("step", "A training step with SVR beside InfoNCE's", rows, notes, before)


def _notes() -> list[str]:
    return [
        f"batch {BATCH}, Adam, random weights, everything learns; ms: median of interleaved rounds.",
        "more %: time above InfoNCE's of the same round, median over rounds; low, high: its 95 % interval "
        "(order statistics).",
        "InfoNCE again is the same step once more: what differs from 0 there is noise.",
        "peak MB: most memory a step held on the GPU, weights and Adam's moments included.",
        "fp32 as torch has it by default (no TF32). The paper reports 1.6 % (AudioCaps) and at most 2.3 %.",
    ]


def _room(device: torch.device, notes: list[str]) -> bool:
    if device.type != "cuda":
        return True
    free = torch.cuda.mem_get_info(device)[0] / 1e9
    if free < NEEDS_GB:
        notes.append(f"paper: left out, {free:.0f} GB of GPU memory are free and it wants {NEEDS_GB}.")
    return free >= NEEDS_GB


# -- what is stepped -------------------------------------------------------------------------------------------------


def objectives(batch: int = BATCH) -> dict[str, nn.Module]:
    """What is compared; each SVR has a base of its own."""
    runtime.seed_everything(0, "bench", "radius")
    base: Callable[[], Any] = InfoNCE
    return {
        BASE: base(),
        AGAIN: base(),
        "uni-Static": SVR(base(), radius=StaticRadius(), directions=("t2a",)),
        "uni-Dynamic": SVR(base(), radius=DynamicRadius(batch_size=batch), directions=("t2a",)),
        "bi-Static": SVR(base(), radius=StaticRadius()),
        "bi-Dynamic": SVR(base(), radius=DynamicRadius(batch_size=batch)),
    }


class _Bench:
    """One size on one device."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device
        runtime.seed_everything(0, "bench", "weights")
        self.model = model(name).to(device).train()
        self.batch = batch(name)
        self.objectives = {kind: one.to(device) for kind, one in objectives().items()}
        self.optimizer = OptimSettings(lr=1e-5).build(self.model, nn.ModuleDict(self.objectives))

    def rows(self, precision: Precision, rounds: int) -> list[dict[str, Any]]:
        """A row for each objective."""
        steps = {kind: self._step(one, precision) for kind, one in self.objectives.items()}
        peaks = {kind: self._peak(step) for kind, step in steps.items()}
        times = in_turns(steps, rounds)
        return [self._row(precision, kind, times, peaks[kind]) for kind in steps]

    def _step(self, objective: nn.Module, precision: Precision) -> Callable[[], None]:
        stepper = Stepper(self.model, objective, self.optimizer, device=self.device, precision=precision)

        def step() -> None:
            found = stepper([self.batch], 0)
            if found.skipped is not None:
                raise UserError(f"size={self.name!r}: a step was skipped ({found.skipped}); nothing can be timed")
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)

        return step

    def _peak(self, step: Callable[[], None]) -> float | None:
        for _ in range(WARM):
            step()
        if self.device.type != "cuda":
            return None
        torch.cuda.reset_peak_memory_stats(self.device)
        step()
        return torch.cuda.max_memory_allocated(self.device) / 1e6

    def _row(self, precision: str, kind: str, times: dict[str, list[float]], peak: float | None) -> dict[str, Any]:
        ratios = ratio(times, kind, BASE)
        low, high = middle(ratios)
        shown = {"more %": median(ratios), "low": low, "high": high}
        return {
            "size": self.name,
            "device": self.device.type,
            "precision": precision,
            "objective": kind,
            "rounds": len(ratios),
            "ms": round(median(times[kind]), 2),
            **{name: round(100 * (value - 1), 2) for name, value in shown.items()},
            "peak MB": None if peak is None else round(peak, 1),
        }


# -- models and batches ----------------------------------------------------------------------------------------------


def model(name: str) -> DualModel:
    """A dual model of one size with random weights."""
    if name == "paper":
        config = DualSettings(audio_tower=CedSettings(weights=None), head=MlpHead(width=WIDTH))
        return DualModel(config, config.audio_tower.build(), SonarShape(Sonar()))
    config = DualSettings(
        audio_tower=SmallAudioSettings(), text_tower=SmallTextSettings(max_tokens=96), head=MlpHead(width=256)
    )
    if name == "heads":
        config = DualSettings(head=MlpHead(width=512), freeze_audio=True, freeze_text=True)
        return DualModel(config, _Cached(), _Cached())
    return config.build(texts=("a dog barks while rain falls on a roof",))


class _Cached(nn.Module):
    """In place of a frozen tower: its vectors come with the batch."""

    width, sample_rate, window_seconds, max_tokens = 384, RATE, 10.0, 64


class SonarShape(nn.Module):
    """An encoder of SONAR's shape with random weights; token ids come with the batch, so it needs no vocabulary."""

    max_tokens = 512

    def __init__(self, shape: Sonar) -> None:
        from transformers import M2M100Config
        from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

        super().__init__()
        self.width = shape.width
        self.model = M2M100Encoder(
            M2M100Config(
                vocab_size=shape.rows,
                d_model=shape.width,
                encoder_layers=shape.layers,
                encoder_attention_heads=shape.heads,
                encoder_ffn_dim=shape.hidden,
                # A layer dropped by chance would make steps unlike each other.
                encoder_layerdrop=0.0,
            )
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[n, s] tokens to the mean of the true states, [n, w]."""
        states: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask[:, :, None].to(states.dtype)
        return (states * mask).sum(1) / mask.sum(1)


def batch(name: str, rows: int = BATCH) -> Batch:
    """Noise and made-up tokens, 8 to 32 a caption; times do not depend on what is said."""
    draw = runtime.generator(0, "bench", name)
    samples = lengths = features = words = None
    prepared: dict[str, Any] = {}
    if name == "heads":
        features = torch.randn(rows, _Cached.width, generator=draw)
        words = torch.randn(rows, _Cached.width, generator=draw)
    else:
        seconds, vocabulary = (10, Sonar().rows) if name == "paper" else (5, 250)
        samples = torch.randn(rows, seconds * RATE, generator=draw) * 0.1
        lengths = torch.full((rows,), samples.shape[1])
        prepared = {"text": _tokens(rows, vocabulary, draw)}
    return Batch(
        samples=samples,
        lengths=lengths,
        sample_rate=RATE,
        texts=[""] * rows,
        languages=["eng"] * rows,
        clip_ids=torch.arange(rows),
        audio_features=features,
        text_features=words,
        prepared=prepared,
    )


def _tokens(rows: int, vocabulary: int, draw: torch.Generator) -> dict[str, Tensor]:
    counts = torch.linspace(8, 32, rows).round().long()
    ids = torch.randint(4, vocabulary, (rows, 32), generator=draw)
    mask = (torch.arange(32) < counts[:, None]).long()
    return {"input_ids": torch.where(mask > 0, ids, torch.ones_like(ids)), "attention_mask": mask}
