"""One optimizer step: forward, backward, check, clip, update. A step that is not finite changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from supclap.runtime import Precision, autocast, derive
from supclap.schema import Batch, LossOutput, UserError
from supclap.training import batches, gradient_cache
from supclap.training.processes import Team


@dataclass
class StepResult:
    """What one step did; ``skipped`` says why nothing was updated."""

    out: LossOutput | None
    gradient_norm: float
    rows: int
    skipped: str | None = None
    rows_at_fault: tuple[int, ...] = ()  # clip ids
    at_fault: bool = True  # False: fp16's loss scale was too high and is lower now, as it is meant to be


class _Skip(Exception):
    """The step must not count."""

    def __init__(self, reason: str, clip_ids: Sequence[int], at_fault: bool = True) -> None:
        super().__init__(reason)
        self.clip_ids, self.at_fault = tuple(clip_ids), at_fault


class Stepper:
    """Runs steps over a model, its objective and their optimizer.

    Whatever a forward draws from torch's global state (dropout) is a function of (seed, step, chunk), so a resumed run
    draws what the first would have drawn.
    """

    def __init__(
        self,
        model: Any,
        objective: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        device: torch.device,
        precision: Precision = "fp32",
        seed: int = 0,
        chunk: int | None = None,
        clip_norm: float | None = None,
        team: Team | None = None,
    ) -> None:
        self.model, self.objective, self.optimizer = model, objective, optimizer
        self.device, self.precision, self.seed = device, precision, seed
        self.chunk, self.clip_norm, self.team = chunk, clip_norm, team or Team()
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
        self.seen: dict[str, Any] = {}  # the rows of the newest batch, as the objective takes them
        self.parameters = [value for group in optimizer.param_groups for value in group["params"]]

    def __call__(self, group: Sequence[Batch], step: int) -> StepResult:
        """One update from one batch, or from several whose gradients are averaged."""
        self.optimizer.zero_grad(set_to_none=True)
        rows = sum(len(batch.clip_ids) for batch in group)
        out: LossOutput | None = None
        try:
            for index, batch in enumerate(group):
                out = self._backward(batches.to(batch, self.device), 1 / len(group), (step, index))
            self.team.average(self.parameters)
            norm = self._norm(group)
        except _Skip as skip:
            self.optimizer.zero_grad(set_to_none=True)
            self.team.level(self.model)
            self._check_buffers()
            return StepResult(out, float("nan"), rows, str(skip), skip.clip_ids, skip.at_fault)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.team.level(self.model)
        return StepResult(out, norm, rows)

    # -- forward and backward ----------------------------------------------------------------------------------------

    def _backward(self, batch: Batch, scale: float, place: tuple[int, int]) -> LossOutput:
        self._check_input(batch)
        if self.chunk is not None and self.chunk < len(batch.clip_ids):
            out = self._chunked(batch, scale, place)
        else:
            self._draw(place, 0)
            out = self._loss(batch, *self.encode(batch))
            torch.autograd.backward(self.scaler.scale(out.loss * scale))
        return out

    def _chunked(self, batch: Batch, scale: float, place: tuple[int, int]) -> LossOutput:
        return gradient_cache.forward_backward(
            lambda first, last: self.encode(batches.rows(batch, first, last)),
            len(batch.clip_ids),
            self.chunk or 1,
            lambda *sides: self._loss(batch, *sides),
            draw=lambda index: self._draw(place, index),
            modules=(self.model,),
            scale=scale,
            scaler=self.scaler.scale,
        )

    def encode(self, batch: Batch) -> tuple[Tensor, ...]:
        """Audio, text and, where the objective compares languages, the English captions."""
        with autocast(self.device, self.precision):
            sides = [self.model.encode_audio(batch), self.model.encode_text(batch)]
            if needs_anchor(self.objective):
                sides.append(self.model.encode_anchors(batch))
        return tuple(sides)

    def _loss(self, batch: Batch, audio: Tensor, text: Tensor, anchor: Tensor | None = None) -> LossOutput:
        bad = batches.bad_rows(audio, text, anchor)
        self._agree("an embedding is not finite", batch.clip_ids[bad].tolist() if bool(bad.any()) else [])
        self.seen = {"audio": audio.detach(), "text": text.detach(), "clip_ids": batch.clip_ids}
        if anchor is not None:
            self.seen["anchor_text"] = anchor.detach()
        out: LossOutput = self.objective(audio, text, clip_ids=batch.clip_ids, anchor_text=anchor)
        # Before backward: its gathers wait for every process, so all go there or none does.
        lost = [] if bool(out.loss.isfinite()) else batch.clip_ids.tolist()
        self._agree(f"loss is {float(out.loss.detach())}", lost)
        return out

    def _draw(self, place: tuple[int, int], chunk: int) -> None:
        names = ("dropout", *place, chunk) + ((self.team.rank,) if self.team.rank else ())
        torch.manual_seed(derive(self.seed, *names))

    # -- checks ------------------------------------------------------------------------------------------------------

    def _check_input(self, batch: Batch) -> None:
        # Before the forward: a NaN that reached BatchNorm's running statistics would stay there for ever.
        bad = batches.bad_rows(batch.samples, batch.audio_features, batch.text_features)
        self._agree("the input is not finite", batch.clip_ids[bad].tolist() if bool(bad.any()) else [])

    def _agree(self, reason: str, clip_ids: Sequence[int]) -> None:
        """Skip where there are clips at fault here or in any other process: all skip, or none."""
        if not self.team.most(len(clip_ids), self.device):
            return
        found = self.team.everyone((reason, list(clip_ids)))
        raise _Skip(next(said for said, ids in found if ids), [one for _, ids in found for one in ids])

    def _norm(self, group: Sequence[Batch]) -> float:
        """The gradient's norm before clipping; the gradient is clipped and, under fp16, unscaled."""
        self.scaler.unscale_(self.optimizer)
        grads = [value.grad for value in self.parameters if value.grad is not None]
        total = torch.nn.utils.get_total_norm(grads)
        norm = float(total)
        if norm != norm or norm == float("inf"):
            if self.scaler.is_enabled():
                scale = float(self.scaler.get_scale())
                self.scaler.update()
                if scale > 1:
                    raise _Skip(f"the loss scale {scale:g} was too high for fp16", [], at_fault=False)
            found = self.team.everyone([i for batch in group for i in batch.clip_ids.tolist()])
            raise _Skip(f"the gradient's norm is {norm}", [i for ids in found for i in ids])
        if self.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip_norm, total)
        return norm

    def _check_buffers(self) -> None:
        bad = [
            name
            for name, value in self.model.named_buffers()
            if value.is_floating_point() and not bool(value.isfinite().all())
        ]
        if bad:
            raise UserError(f"{bad[0]} of the model holds NaN after a skipped step; resume from the last checkpoint")


def needs_anchor(objective: nn.Module) -> bool:
    """True where the objective, or the base under it, compares two languages."""
    return bool(getattr(getattr(objective, "base", objective), "needs_anchor", False))
