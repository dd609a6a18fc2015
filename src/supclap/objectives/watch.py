"""Losses that are not finite, noticed on a GPU without waiting for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from supclap.schema import UserError


@dataclass(frozen=True)
class Pending:
    """One call's flag on its way to the host, and what to do where it says no."""

    call: int
    finite: Tensor
    arrived: Callable[[], bool]
    check: Callable[[], None]


class Watch:
    """``note`` sends a loss's finiteness to the host; ``look``, at a later call, reads what has arrived.

    The rows of a call are kept until then, so that the mistake is found where it was made.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._pending: deque[Pending] = deque()

    def note(self, loss: Tensor, check: Callable[[], None]) -> None:
        """Start the copy; ``check`` raises a UserError for broken values of this call."""
        self.calls += 1
        self._pending.append(Pending(self.calls, *fetch(loss.detach().isfinite()), check))

    def look(self) -> None:
        """UserError for an earlier call whose loss was not finite and whose values were broken."""
        while self._pending and self._pending[0].arrived():
            earlier = self._pending.popleft()
            if earlier.finite.item():
                continue
            try:
                earlier.check()
            except UserError as error:
                ago = self.calls + 1 - earlier.call
                raise UserError(f"call {earlier.call} of this objective ({ago} before this one): {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy starts anew: what is on its way belongs to one objective."""
        return Watch, ()


def waits(device: torch.device) -> bool:
    """Whether reading a value makes the program wait for the device."""
    return device.type == "cuda"


def fetch(flag: Tensor) -> tuple[Tensor, Callable[[], bool]]:
    """The flag in host memory, and whether it has arrived there."""
    host = torch.empty_like(flag, device="cpu", pin_memory=True).copy_(flag, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(flag.device))
    return host, lambda: not capturing() and bool(event.query())  # type: ignore[no-untyped-call]


def capturing() -> bool:
    """Whether a CUDA graph is being captured: nothing may be sent to the host then, nor events be asked."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())  # type: ignore[no-untyped-call]
