"""Simple Reweight, the paper's control: a learnable scalar scales the pull of the positive."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from supclap.objectives.softmax import InfoNCE, lonely_rows, softmax_cost
from supclap.schema import Term, UserError

VARIANTS = ("gradient", "logit", "weight")


class SimpleReweight(InfoNCE):
    """InfoNCE with one learnable scalar w for both directions.

    "gradient": the embeddings get the paper's (w P+ - 1) a+ (a surrogate: no loss has this gradient).
    "logit": log w, learned, is added to the positive's logit. "weight": -w log P+ with w = exp of what is learned.
    parts["infonce"] is plain InfoNCE, to be compared with other runs.
    """

    takes_support = False

    def __init__(
        self,
        temperature: float = 0.07,
        variant: Literal["gradient", "logit", "weight"] = "gradient",
        **common: Any,
    ) -> None:
        super().__init__(temperature, **common)
        if variant not in VARIANTS:
            raise UserError(f"variant={variant!r} is unknown; choose from {', '.join(VARIANTS)}")
        self.variant = variant
        self.w = nn.Parameter(torch.tensor(1.0 if variant == "gradient" else 0.0))

    def terms(
        self,
        audio: Tensor,
        text: Tensor,
        *,
        anchor_text: Tensor | None = None,
        scale: Tensor | float | None = None,
        bias: Tensor | float | None = None,
    ) -> list[Term]:
        """As InfoNCE, without a bias: s+ is the scaled cosine alone."""
        return super().terms(audio, text, anchor_text=anchor_text, scale=scale)

    def cost(self, logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
        """The reweighted cost of each row."""
        column = positive[:, None]
        if self.variant == "logit":
            shift = torch.zeros_like(logits).scatter(1, column, 1.0) * self.w
            return softmax_cost(logits + shift, positive, excluded)
        plain = softmax_cost(logits, positive, excluded)
        if self.variant == "weight":
            return self.w.exp() * plain
        share = (-plain).exp().detach()
        if excluded is not None:
            share = share.masked_fill(lonely_rows(positive, excluded), 0.0)
        return plain + (self.w - 1) * share * logits.gather(1, column).squeeze(1)

    def plain_cost(self, logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
        """InfoNCE without the scalar, reported as parts["infonce"]."""
        return softmax_cost(logits, positive, excluded).detach()
