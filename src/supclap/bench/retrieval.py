"""Speed and memory of retrieval scores: all metrics of a matrix, paired bootstraps, a set too large for one matrix."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from supclap.bench.measured import Measured, machine
from supclap.bench.timing import in_turns, median, ratio
from supclap.evaluation import retrieval as evaluation
from supclap.evaluation import significance

CLIPS, CAPTIONS_EACH, WIDTH = 1035, 5, 512
METRICS, BOOTSTRAPS, PLAIN = "all metrics, both directions", "10,000 paired bootstraps", "ranks by a vectorised count"
GOALS_MS = {METRICS: 20.0, BOOTSTRAPS: 500.0}
LARGE = (20_000, 100_000, 512)
LARGE_GOAL = "2 GB"

_LARGE_SCRIPT = """
import resource, sys, time
import numpy as np
from supclap.evaluation import retrieval
clips, captions, width = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
audio = rng.standard_normal((clips, width), dtype=np.float32)
text = rng.standard_normal((captions, width), dtype=np.float32)
text += np.repeat(audio, captions // clips, axis=0)
start = time.perf_counter()
retrieval.evaluate(audio, text, np.repeat(np.arange(clips), captions // clips))
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def retrieval(
    rounds: int | None = None, say: Callable[[str], None] = lambda line: None, large: tuple[int, int, int] = LARGE
) -> Measured:
    """The numbers of `evaluation` that we hold ourselves to; ``rounds`` None takes 15."""
    before = machine()
    say(f"{CLIPS} clips x {CLIPS * CAPTIONS_EACH} captions: {rounds or 15} rounds")
    jobs = _jobs()
    times = in_turns(jobs, rounds or 15)
    rows = [
        {
            "what": what,
            "ms": median(times[what]),
            "goal": f"{GOALS_MS[what]:g} ms" if what in GOALS_MS else None,
            "of the vectorised count": median(ratio(times, what, PLAIN)),
            "GB": None,
        }
        for what in jobs
    ]
    say(f"{large[0]:,} x {large[1]:,}: one run, in a process of its own")
    notes = [
        f"{CLIPS} clips, {CLIPS * CAPTIONS_EACH} captions, float32; ms: median of interleaved rounds.",
        "The vectorised count gives ranks alone, without a metric. GB: the process's peak, its embeddings included.",
    ]
    return Measured("retrieval", "Retrieval scores: time and memory", [*rows, _large(large)], notes, before)


def _jobs() -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(CLIPS), CAPTIONS_EACH)
    audio = rng.standard_normal((CLIPS, WIDTH), dtype=np.float32)
    matrix = audio @ (audio[owner] + 7 * rng.standard_normal((len(owner), WIDTH), dtype=np.float32)).T
    other = evaluation.evaluate_similarity(matrix + 5 * rng.standard_normal(matrix.shape, dtype=np.float32), owner)
    sums, counts = evaluation.evaluate_similarity(matrix, owner).sums("t2a", "R@1")
    difference = other.sums("t2a", "R@1")[0] - sums
    return {
        METRICS: lambda: evaluation.evaluate_similarity(matrix, owner),
        PLAIN: lambda: plain_ranks(matrix, owner),
        BOOTSTRAPS: lambda: significance.bootstrap(difference, counts),
        "10,000 permutations": lambda: significance.permutation(difference, counts),
    }


def plain_ranks(matrix: np.ndarray[Any, Any], owner: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Ranks by the shortest numpy expression: what the numbers stand beside."""
    captions = np.arange(len(owner))
    gold = matrix[owner, captions]
    each = gold.reshape(len(matrix), -1)
    wrong = np.ones(matrix.shape, bool)
    wrong[owner, captions] = False
    a2t = [((matrix >= each[:, k, None]) & wrong).sum(1) for k in range(each.shape[1])]
    return ((matrix >= gold) & wrong).sum(0), a2t


def _large(shape: tuple[int, int, int]) -> dict[str, Any]:
    words = [sys.executable, "-c", _LARGE_SCRIPT, *map(str, shape)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    seconds, gigabytes = map(float, done.stdout.split())
    return {
        "what": f"{shape[0]:,} x {shape[1]:,} from {shape[2]}-wide embeddings",
        "ms": 1000 * seconds,
        "goal": LARGE_GOAL,
        "of the vectorised count": None,
        "GB": gigabytes,
    }
