"""Times that can be compared: in turns, so that what else the machine does falls on all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from scipy.stats import binom

Times = dict[str, list[float]]


def in_turns(functions: Mapping[str, Callable[[], object]], rounds: int, calls: int = 1) -> Times:
    """Milliseconds a call, by name and round; each function is called once before, unmeasured."""
    for function in functions.values():
        function()
    times: Times = {name: [] for name in functions}
    names = list(functions)
    for place in range(rounds):
        # Each starts a round in its turn: whoever follows the largest finds the caches cold.
        first = place % len(names)
        for name in names[first:] + names[:first]:
            function, start = functions[name], time.perf_counter()
            for _ in range(calls):
                function()
            times[name].append((time.perf_counter() - start) / calls * 1e3)
    return times


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The middle half's ends."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def ratio(times: Times, name: str, other: str) -> list[float]:
    """How many times as long, round by round."""
    return [one / two for one, two in zip(times[name], times[other], strict=True)]


def middle(values: Sequence[float], sure: float = 0.95) -> tuple[float, float]:
    """An interval for the median of which we are so sure, whatever the distribution; few values: all of them."""
    ordered, count = sorted(values), len(values)
    cut = int(binom.ppf((1 - sure) / 2, count, 0.5))
    return ordered[max(cut - 1, 0)], ordered[min(count - cut, count - 1)]
