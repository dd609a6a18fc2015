"""Jobs that do not depend on each other, over the processors there are."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

Progress = Callable[[int, int], None]


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(
    work: Callable[[Any], Any], jobs: Sequence[Any], workers: int | None = None, progress: Progress | None = None
) -> list[Any]:
    """What ``work`` makes of each job, in order; ``workers`` None takes every processor, 0 this process alone."""
    workers = processors() if workers is None else workers
    if workers <= 1 or len(jobs) < 32:
        return list(_told(map(work, jobs), len(jobs), progress))
    # Forked workers, where that is safe, need not import anything again.
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        return list(_told(pool.map(work, jobs, chunksize=8), len(jobs), progress))


def _told(results: Any, total: int, progress: Progress | None) -> Any:
    for number, result in enumerate(results, start=1):
        if progress:
            progress(number, total)
        yield result
