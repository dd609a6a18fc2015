"""A running mean of everything that learns (EMA): what is evaluated and saved in place of the last step's numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

PREFIX = "average/"


class Average:
    """torch's AveragedModel over the learnable numbers alone: frozen towers are not held twice.

    Batch statistics are buffers; the mean's are those of the model in training.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.live = nn.ParameterList(parameters)
        # AveragedModel copies what it is given; what is given here shares the live model's parameters.
        mean = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        self.kept = AveragedModel(self.live, multi_avg_fn=mean)

    def update(self) -> None:
        """Take the newest step in; the first one is taken as it is."""
        self.kept.update_parameters(self.live)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The mean where the live numbers were, which come back afterwards bit for bit."""
        if int(self.kept.n_averaged) == 0:
            yield
            return
        before = [value.detach().clone() for value in self.live]
        self._write(list(self.kept.module.parameters()))
        try:
            yield
        finally:
            self._write(before)

    @torch.no_grad()
    def _write(self, values: Sequence[Tensor]) -> None:
        for live, value in zip(self.live, values, strict=True):
            live.copy_(value)

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint holds of it."""
        return {PREFIX + name: value.detach().cpu().clone() for name, value in self.kept.state_dict().items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of ``tensors``."""
        mine = {name.removeprefix(PREFIX): value for name, value in tensors.items() if name.startswith(PREFIX)}
        self.kept.load_state_dict(mine)
