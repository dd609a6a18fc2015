"""``supclap bench retrieval``: what is timed gives the right ranks, and the table is whole."""

import numpy as np

from supclap.bench import BENCHES
from supclap.bench.retrieval import METRICS, PLAIN, plain_ranks
from supclap.evaluation import retrieval


def test_what_it_stands_beside_is_right():
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(30), 4)
    matrix = rng.integers(0, 50, (30, 120)).astype(np.float32)
    t2a, a2t = plain_ranks(matrix, owner)
    ranks = retrieval.evaluate_similarity(matrix, owner).ranks
    assert np.array_equal(t2a, ranks["t2a"]) and np.array_equal(np.min(a2t, axis=0), ranks["a2t"])


def test_the_table_is_whole():
    said = []
    found = BENCHES["retrieval"](rounds=1, say=said.append, large=(200, 1000, 8))
    assert [row["what"] for row in found.rows[:2]] == [METRICS, PLAIN] and len(found.rows) == 5
    assert all(row["ms"] > 0 for row in found.rows) and 0 < found.rows[-1]["GB"] < 2
    assert found.rows[1]["of the vectorised count"] == 1 and "200 x 1,000" in found.text() and len(said) == 2
