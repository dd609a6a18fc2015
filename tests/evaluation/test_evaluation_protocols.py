"""Every protocol against its own slow oracle: lists, sorting, loops; written from the formulas, sharing no code."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supclap.evaluation import protocols, retrieval
from supclap.schema import UserError

KS = (1, 5, 10, 50)


def ranked(scores, wrong_first):
    """Positions from best to worst; of equals, those marked wrong come first."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], not wrong_first[i], i))


def t2a_ranks(matrix, owner):
    found = []
    for q, clip in enumerate(owner):
        column = [row[q] for row in matrix]
        found.append(ranked(column, [c != clip for c in range(len(matrix))]).index(clip))
    return found


def a2t_ranks(matrix, owner):
    """For each clip, the ranks of its captions in caption order."""
    found = []
    for clip, row in enumerate(matrix):
        order = ranked(row, [mine != clip for mine in owner])
        found.append([order.index(q) for q in range(len(owner)) if owner[q] == clip])
    return found


def mean(values):
    return 100 * sum(values) / len(values)


def common(t2a, a2t):
    """What all protocols share: T2A, and A2T's best-rank numbers and nDCG."""
    best = [min(r) for r in a2t]

    def ndcg(ranks):
        ideal = sum(1 / math.log2(i + 2) for i in range(min(10, len(ranks))))
        return sum(1 / math.log2(r + 2) for r in ranks if r < 10) / ideal

    def side(ranks):
        ordered = sorted(ranks)
        middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
        return {
            **{f"R@{k}": mean([r < k for r in ranks]) for k in KS},
            "MedR": math.floor(middle) + 1,
            "MeanR": mean([r + 1 for r in ranks]) / 100,
            "MRR": mean([1 / (r + 1) for r in ranks]),
        }

    one = {
        **side(t2a),
        "mAP10": mean([1 / (r + 1) if r < 10 else 0 for r in t2a]),
        "nDCG@10": mean([ndcg([r]) for r in t2a]),
    }
    return {"t2a": one, "a2t": {**side(best), "nDCG@10": mean([ndcg(r) for r in a2t])}}


def precision_all(ranks):
    return sum((i + 1) / (r + 1) for i, r in enumerate(sorted(ranks)) if r < 10) / len(ranks)


def precision_found(ranks):
    inside = sorted(r for r in ranks if r < 10)
    return sum((i + 1) / (r + 1) for i, r in enumerate(inside)) / max(1, len(inside))


def precision_unsorted(ranks):
    inside = [r for r in ranks if r < 10]
    return sum((i + 1) / (r + 1) for i, r in enumerate(inside)) / len(ranks)


def oracle_mlclap(matrix, owner):
    t2a, a2t = t2a_ranks(matrix, owner), a2t_ranks(matrix, owner)
    out = common(t2a, a2t)
    out["a2t"]["mAP10"] = mean([precision_all(r) for r in a2t])
    return out


def oracle_laion(matrix, owner):
    out = oracle_mlclap(matrix, owner)
    out["a2t"]["mAP10"] = mean([precision_unsorted(r) for r in a2t_ranks(matrix, owner)])
    return out


def oracle_shares(matrix, owner):
    out, a2t = oracle_mlclap(matrix, owner), a2t_ranks(matrix, owner)
    for side in out.values():
        side.update({f"hit@{k}": side[f"R@{k}"] for k in KS})
    for k in KS:
        out["a2t"][f"R@{k}"] = mean([sum(r < k for r in ranks) / len(ranks) for ranks in a2t])
    return out


def oracle_cacophony(matrix, owner):
    out = oracle_mlclap(matrix, owner)
    out["a2t"]["mAP10"] = mean([precision_found(r) for r in a2t_ranks(matrix, owner)])
    return out


def oracle_one_caption(matrix, owner):
    first = [owner.index(clip) for clip in range(len(matrix))]
    return oracle_mlclap([[row[q] for q in first] for row in matrix], list(range(len(matrix))))


ORACLES = {
    "mlclap": oracle_mlclap,
    "laion": oracle_laion,
    "dcase": oracle_shares,
    "mteb": oracle_shares,
    "cacophony": oracle_cacophony,
    "one-caption": oracle_one_caption,
}


@st.composite
def problems(draw):
    """A matrix with ties (few distinct values) and an uneven, unsorted map."""
    clips = draw(st.integers(1, 14))
    extra = draw(st.lists(st.integers(0, clips - 1), max_size=30))
    owner = draw(st.permutations([*range(clips), *extra]))
    seed, levels = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([2, 5, 1000]))
    matrix = np.random.default_rng(seed).integers(0, levels, (clips, len(owner))) / 8.0
    boost = draw(st.sampled_from([0.0, 0.25, 20.0]))
    matrix[owner, np.arange(len(owner))] += boost
    return matrix, owner


def same(scores, expected):
    for direction, row in expected.items():
        assert set(row) == set(scores[direction])
        for name, value in row.items():
            assert scores[direction][name] == pytest.approx(value, abs=1e-9), (direction, name)


@pytest.mark.parametrize("name", ORACLES)
@given(problem=problems())
@settings(derandomize=True, deadline=None, max_examples=120)
def test_protocol_equals_its_oracle(name, problem):
    matrix, owner = problem
    expected = ORACLES[name](matrix.tolist(), list(owner))
    same(retrieval.evaluate_similarity(matrix, owner, protocol=name), expected)
    same(retrieval.evaluate_similarity(matrix.astype(np.float32), owner, protocol=name), expected)


@given(st.integers(5, 33), st.integers(0, 2**32 - 1))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_wavcaps_paper_equals_its_oracle(clips, seed):
    """Five consecutive one-caption clips are taken for one clip with five captions."""
    rng = np.random.default_rng(seed)
    owner = rng.permutation(clips)
    matrix = rng.integers(0, 9, (clips, clips)) / 4.0
    groups = clips // 5
    columns = [int(np.flatnonzero(owner == clip)[0]) for clip in range(groups * 5)]
    rebuilt = [[float(matrix[5 * g][q]) for q in columns] for g in range(groups)]
    scores = retrieval.evaluate_similarity(matrix, owner, protocol="wavcaps-paper")
    same(scores, oracle_mlclap(rebuilt, [j // 5 for j in range(groups * 5)]))
    assert scores["clips"] == groups and scores["captions"] == 5 * groups and scores["flag"]


def test_every_protocol_has_an_oracle():
    assert set(ORACLES) | {"wavcaps-paper"} == set(protocols.PROTOCOLS)


def embed(rng, clips, per_clip, noise, width=48):
    base = rng.standard_normal((clips, width))
    owner = np.repeat(np.arange(clips), per_clip)
    return (
        base + noise * rng.standard_normal(base.shape),
        base[owner] + noise * rng.standard_normal((len(owner), width)),
        owner,
    )


def test_embeddings_equal_the_oracle_at_any_length_and_precision():
    rng = np.random.default_rng(3)
    audio, text, owner = embed(rng, 40, 3, 1.5)
    text *= rng.uniform(0.01, 100, (len(text), 1))
    cosine = (audio / np.linalg.norm(audio, axis=1)[:, None]) @ (text / np.linalg.norm(text, axis=1)[:, None]).T
    expected = oracle_mlclap(cosine.tolist(), owner.tolist())
    assert 5 < expected["t2a"]["R@1"] < 95
    same(retrieval.evaluate(audio, text, owner), expected)
    same(retrieval.evaluate(audio * 1e-30, text * 1e30, owner), expected)
    halves = retrieval.evaluate(audio.astype(np.float16), text.astype(np.float16), owner)
    assert halves["t2a"]["R@10"] == pytest.approx(expected["t2a"]["R@10"], abs=3)


def test_published_bug_of_laion_exceeds_one():
    """Hits in rising caption order are right; in falling order the published sum passes 100 %."""
    matrix = np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 0.0], [0, 0, 0, 0, 0, 9.0]])
    owner = [0, 0, 0, 0, 0, 1]
    right = retrieval.evaluate_similarity(matrix, owner)["a2t"]["mAP10"]
    published = retrieval.evaluate_similarity(matrix, owner, protocol="laion")
    assert right == pytest.approx(100.0)
    per_query = published.parts[""].values["a2t"]["mAP10"]
    assert per_query[0] == pytest.approx(sum((i + 1) / (5 - i) for i in range(5)) / 5) and per_query[0] > 1
    assert "unsorted" in published["flag"]


def test_paper_wavcaps_signature():
    """One caption a clip: the five-caption protocol leaves A2T about right and cuts T2A to a third."""
    rng = np.random.default_rng(0)
    audio, text, owner = embed(rng, 2000, 1, 1.4, width=64)
    right = retrieval.evaluate(audio, text, owner)
    theirs = retrieval.evaluate(audio, text, owner, protocol="wavcaps-paper")
    assert 15 < right["t2a"]["R@1"] < 60
    assert theirs["t2a"]["R@1"] < 0.5 * right["t2a"]["R@1"]
    assert theirs["a2t"]["R@1"] > 0.9 * right["a2t"]["R@1"]


def test_unknown_protocol_names_the_nearest():
    with pytest.raises(UserError, match="did you mean 'mlclap'"):
        retrieval.evaluate(np.eye(2), np.eye(2), [0, 1], protocol="ml-clap")


@pytest.mark.parametrize("owner", [[0, 0, 1], [0, 1, 2, 2]])
def test_wavcaps_paper_refuses_other_data(owner):
    clips = max(owner) + 1
    with pytest.raises(UserError, match="one caption a clip"):
        retrieval.evaluate_similarity(np.zeros((clips, len(owner))), owner, protocol="wavcaps-paper")
    with pytest.raises(UserError, match="at least 5"):
        retrieval.evaluate_similarity(np.eye(3), [0, 1, 2], protocol="wavcaps-paper")
