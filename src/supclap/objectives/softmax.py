"""Softmax bases: InfoNCE, and DCL which leaves the positive out of its own denominator."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from supclap.objectives import check
from supclap.objectives.objective import Base
from supclap.schema import Direction, Term, UserError

MAX_SCALE = 100.0


def lonely_rows(positive: Tensor, excluded: Tensor) -> Tensor:
    """Rows without a negative left."""
    return excluded.scatter(1, positive[:, None], True).all(1)


def softmax_cost(logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
    """-log softmax of the positive; a row without a negative costs nothing and has no gradient."""
    target = logits.gather(1, positive[:, None]).squeeze(1)
    if excluded is None:
        return logits.logsumexp(1) - target
    lonely = lonely_rows(positive, excluded)
    # A lonely row keeps all its logits: -inf everywhere would turn its (unused) gradient into NaN.
    kept = logits.masked_fill(excluded & ~lonely[:, None], -torch.inf)
    return torch.where(lonely, 0.0, kept.logsumexp(1) - target)


class _Held(torch.autograd.Function):
    """min(x, limit); at the limit only a gradient that leads back below it passes: x neither sticks nor runs away."""

    @staticmethod
    def forward(value: Tensor, limit: float) -> Tensor:
        return value.clamp(max=limit)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0] >= inputs[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (beyond,) = ctx.saved_tensors
        return torch.where(beyond, grads[0].clamp(min=0), grads[0]), None


class Temperature(nn.Module):
    """1 / tau: fixed, or learnable on a log scale and held at or below 100.

    What is learned is the logarithm of scale * start temperature: zero, and so exact, at the start.
    """

    def __init__(self, temperature: float, learnable: bool) -> None:
        super().__init__()
        temperature = check.real("temperature", temperature)
        if not 0 < temperature < math.inf:
            raise UserError(f"temperature={temperature!r} must be a number above 0; the paper uses 0.07")
        if learnable and temperature < 0.01:
            raise UserError(
                f"temperature={temperature!r} with learnable=True starts beyond its limit; use 0.01 or more"
            )
        self.start = 1.0 / temperature
        self.log_scale = nn.Parameter(torch.zeros(())) if learnable else None

    def forward(self) -> Tensor | float:
        """The number that cosines are multiplied with."""
        if self.log_scale is None:
            return self.start
        held: Tensor = _Held.apply(self.log_scale, math.log(MAX_SCALE / self.start))  # type: ignore[no-untyped-call]
        return self.start * held.exp()


class InfoNCE(Base):
    """-log softmax in both directions: their sum, as the paper has it, or ("mean") their mean, as open_clip has it."""

    names = ("t2a", "a2t")
    directions: dict[str, Direction | None] = {"t2a": "t2a", "a2t": "a2t"}

    def __init__(
        self,
        temperature: float = 0.07,
        learnable: bool = False,
        reduce: Literal["sum", "mean"] = "sum",
        **common: Any,
    ) -> None:
        super().__init__(**common)
        if reduce not in ("sum", "mean"):
            raise UserError(f"reduce={reduce!r} is neither 'sum' (the paper's) nor 'mean' (open_clip's)")
        self.temperature = Temperature(temperature, learnable)
        self.weight = 1.0 if reduce == "sum" else 0.5

    def terms(
        self,
        audio: Tensor,
        text: Tensor,
        *,
        anchor_text: Tensor | None = None,
        scale: Tensor | float | None = None,
        bias: Tensor | float | None = None,
    ) -> list[Term]:
        """Text looks for audio, audio looks for text."""
        scale = self.temperature() if scale is None else scale
        bias = 0.0 if bias is None else bias
        return [
            Term("t2a", "t2a", text, audio, self.weight, scale, bias),
            Term("a2t", "a2t", audio, text, self.weight, scale, bias),
        ]

    def cost(self, logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
        """See `softmax_cost`."""
        return softmax_cost(logits, positive, excluded)


class DCL(InfoNCE):
    """InfoNCE with the positive left out of the denominator."""

    def __init__(self, temperature: float = 0.07, **common: Any) -> None:
        super().__init__(temperature, **common)

    def cost(self, logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
        """See `softmax_cost`."""
        out = torch.zeros_like(logits, dtype=torch.bool) if excluded is None else excluded
        return softmax_cost(logits, positive, out.scatter(1, positive[:, None], True))
