"""Projection heads: a tower's vector to the shared space."""

from __future__ import annotations

from pydantic import PositiveInt
from torch import nn

from supclap.schema import UserError
from supclap.settings import settings


@settings
class MlpHead:
    """Linear, ReLU, Linear."""

    width: PositiveInt = 1024
    hidden: PositiveInt | None = None  # None: as wide as the output

    def build(self, come: int) -> nn.Module:
        """A head from ``come`` to ``width``."""
        hidden = self.hidden or self.width
        return nn.Sequential(nn.Linear(come, hidden), nn.ReLU(), nn.Linear(hidden, self.width))


@settings
class LinearHead:
    """One linear map."""

    width: PositiveInt = 1024

    def build(self, come: int) -> nn.Module:
        """A head from ``come`` to ``width``."""
        return nn.Linear(come, self.width)


@settings
class NoHead:
    """The tower's own vector; both towers must then be equally wide."""

    width: PositiveInt | None = None

    def build(self, come: int) -> nn.Module:
        """Nothing between the tower and the shared space."""
        if self.width is not None and come != self.width:
            raise UserError(f"head.width={self.width}, but the tower is {come} wide; leave it out or choose head=mlp")
        return nn.Identity()


HEADS = {"mlp": MlpHead, "linear": LinearHead, "none": NoHead}
