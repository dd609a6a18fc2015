"""How much of the processor an encoder takes while other threads decode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeVar

from supclap.schema import UserError

T = TypeVar("T")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def decoders(workers: int = 0) -> int:
    """How many threads decode: as many as were asked for, or as there are cores, at most four."""
    if workers < 0:
        raise UserError(f"workers={workers} must be at least 0; 0 takes as many as there are cores, at most four")
    return workers or min(4, cores())


def batch_size(device: str) -> int:
    """Windows at once: on a processor a small batch stays in its caches."""
    return 8 if device == "cpu" else 32


def beside_decoders(answers: Iterator[T]) -> Iterator[T]:
    """The same answers, each computed on the cores that the decoding threads leave free, one at least.

    More threads than cores cost several times the work: torch's threads spin while they wait for each other.
    """
    import torch

    most = max(1, cores() - decoders())
    while True:
        before = torch.get_num_threads()
        torch.set_num_threads(min(before, most))
        try:
            answer = next(answers)
        except StopIteration:
            return
        finally:
            torch.set_num_threads(before)
        yield answer
