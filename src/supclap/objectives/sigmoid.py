"""SigLIP: every pair is a yes-or-no question."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supclap.objectives import check
from supclap.objectives.gather import Ranks, gather_rows, sum_over
from supclap.objectives.objective import Base
from supclap.objectives.terms import Relation, with_positive
from supclap.schema import Direction, Term, UserError


def sigmoid_cost(logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
    """Sum over keys of -log sigmoid(logit) for the positive and -log sigmoid(-logit) for every other pair."""
    column = positive[:, None]
    signed = logits.scatter(1, column, -logits.gather(1, column))
    cost = -F.logsigmoid(-signed)
    # The positive has no denominator to be left out of: its own term stays.
    return (cost if excluded is None else cost.masked_fill(excluded.scatter(1, column, False), 0.0)).sum(1)


class SigLIP(Base):
    """The sigmoid loss: half of each direction, so that the sum is the published value.

    ``bias`` None starts where the average negative of the first training batch costs what chance would:
    -ln(N - 1) - scale * mean cosine over negatives. That start is a saved buffer; what is learned is added to it, as
    what is learned of the scale is a factor on its start.
    """

    names = ("t2a", "a2t")
    directions: dict[str, Direction | None] = {"t2a": "t2a", "a2t": "a2t"}
    has_denominator = False

    def __init__(self, scale: float = 10.0, bias: float | None = None, learnable: bool = True, **common: Any) -> None:
        super().__init__(**common)
        scale = check.real("scale", scale)
        bias = None if bias is None else check.real("bias", bias)
        if not 0 < scale < math.inf:
            raise UserError(f"scale={scale!r} must be a number above 0; the published start is 10")
        if bias is not None and not math.isfinite(bias):
            raise UserError(f"bias={bias!r} is not a finite number; leave it out to start from the first batch")
        self.bias_start: Tensor
        self.started: Tensor
        self.register_buffer("bias_start", torch.tensor(bias or 0.0))
        self.register_buffer("started", torch.tensor(bias is not None))
        self.scale_start = scale
        self.log_scale = nn.Parameter(torch.zeros(())) if learnable else None
        self.bias_learned = nn.Parameter(torch.zeros(())) if learnable else 0.0
        self._known_started = bias is not None

    @property
    def scale(self) -> Tensor | float:
        """What cosines are multiplied with."""
        return self.scale_start if self.log_scale is None else self.scale_start * self.log_scale.exp()

    @property
    def bias(self) -> Tensor:
        """What is added to every logit."""
        return self.bias_start + self.bias_learned

    def begin(
        self,
        audio: Tensor,
        text: Tensor,
        relation: Relation,
        here: Ranks,
        scale: Tensor | float | None,
        bias: Tensor | float | None,
    ) -> None:
        """Set the bias from the first training batch, once, the same on all ranks."""
        if bias is not None or self._known_started or not self.training:
            return
        if not bool(self.started):
            with torch.no_grad():
                negative = ~with_positive(relation)
                cosines = text @ gather_rows(audio, here).T
                total = sum_over(torch.stack([(cosines * negative).sum(), negative.sum().to(cosines)]), here)
                mean = total[0] / total[1].clamp(min=1)
                scale = self.scale if scale is None else scale
                start = -math.log(max(relation.keys - 1, 1)) - scale * mean
                if not math.isfinite(float(start)):
                    return  # a broken batch is no first batch: written here, it would stay for good
                self.bias_start.copy_(start)
                self.started.fill_(True)
        self._known_started = True

    def _forget(self) -> None:
        self._known_started = False

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._forget()
        super()._load_from_state_dict(*args, **kwargs)

    def terms(
        self,
        audio: Tensor,
        text: Tensor,
        *,
        anchor_text: Tensor | None = None,
        scale: Tensor | float | None = None,
        bias: Tensor | float | None = None,
    ) -> list[Term]:
        """Text looks for audio, audio looks for text, half each."""
        scale = self.scale if scale is None else scale
        bias = self.bias.to(audio.dtype) if bias is None else bias
        return [
            Term("t2a", "t2a", text, audio, 0.5, scale, bias),
            Term("a2t", "a2t", audio, text, 0.5, scale, bias),
        ]

    def cost(self, logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
        """See `sigmoid_cost`."""
        return sigmoid_cost(logits, positive, excluded)
