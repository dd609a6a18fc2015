"""What ``supclap bench`` measures: one file and one entry a bench, a function of (rounds, say) to `Measured`."""

from __future__ import annotations

from collections.abc import Callable

from supclap.bench.measured import Measured
from supclap.bench.objective import measure as objective
from supclap.bench.pipeline import pipeline
from supclap.bench.retrieval import retrieval
from supclap.bench.step import measure as step
from supclap.bench.towers import measure as towers

BENCHES: dict[str, Callable[..., Measured]] = {
    "objective": objective,
    "retrieval": retrieval,
    "pipeline": pipeline,
    "towers": towers,
    "step": step,
}

__all__ = ["BENCHES", "Measured"]
