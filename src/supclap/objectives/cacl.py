"""CACL (ATRI): audio, its English caption and one caption in another language, each looking for the other two."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from supclap.objectives.objective import Base
from supclap.objectives.softmax import Temperature, softmax_cost
from supclap.schema import Direction, Term, UserError


class CACL(Base):
    """Six InfoNCE terms of weight 1/6; ``anchor_text`` is the English caption e, ``text`` the other language's o."""

    names = ("e2a", "a2e", "o2a", "a2o", "e2o", "o2e")
    directions: dict[str, Direction | None] = {
        "e2a": "t2a",
        "a2e": "a2t",
        "o2a": "t2a",
        "a2o": "a2t",
        "e2o": None,
        "o2e": None,
    }
    needs_anchor = True

    def __init__(self, temperature: float = 0.07, **common: Any) -> None:
        super().__init__(**common)
        self.temperature = Temperature(temperature, learnable=False)

    def terms(
        self,
        audio: Tensor,
        text: Tensor,
        *,
        anchor_text: Tensor | None = None,
        scale: Tensor | float | None = None,
        bias: Tensor | float | None = None,
    ) -> list[Term]:
        """Each of the three against the other two."""
        if anchor_text is None:
            raise UserError("anchor_text=None: CACL needs the English captions beside text; pass anchor_text=")
        rows = {"a": audio, "e": anchor_text, "o": text}
        scale = self.temperature() if scale is None else scale
        bias = 0.0 if bias is None else bias
        return [
            Term(name, self.directions[name], rows[name[0]], rows[name[2]], 1 / 6, scale, bias) for name in self.names
        ]

    def cost(self, logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
        """See `softmax_cost`."""
        return softmax_cost(logits, positive, excluded)
