"""What a ranking is worth with graded relevance and hard negatives: against every order that ties allow."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from supclap.evaluation import query_scores
from supclap.evaluation.queries import Query
from supclap.schema import UserError


def worth(order, gains, against, threshold):
    """One ranking by the definitions of docs/protocols.md, place by place."""
    best = max(gains)
    ideal = sorted(gains, reverse=True)
    dcg = sum(gains[clip] / math.log2(place + 2) for place, clip in enumerate(order[:10]))
    found = {"nDCG@10": dcg / sum(gain / math.log2(place + 2) for place, gain in enumerate(ideal[:10]))}
    right = [place for place, clip in enumerate(order) if gains[clip] >= threshold * best - 1e-12]
    for k in (1, 5, 10):
        found[f"R@{k}"] = 1.0 if any(place < k for place in right) else 0.0
    found["mAP"] = sum(sum(r <= place for r in right) / (place + 1) for place in right) / len(right)
    if any(against):
        target = right[0] + 1  # ranks from 1, as the paper has them
        hard = next(place for place, clip in enumerate(order) if against[clip]) + 1
        found["HNSR"], found["TFR"], found["delta_rank"] = float(hard > target), float(target == 1), hard - target
        for k in (1, 5, 10):
            found[f"HNSR@{k}"] = float(target <= k and hard > k)
            found[f"TFR@{k}"] = float(target == 1 and hard > k)
    return found


@st.composite
def rankings(draw):
    count = draw(st.integers(2, 6))
    scores = draw(st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.9]), min_size=count, max_size=count))
    gains = draw(st.lists(st.sampled_from([0.0, 1 / 3, 0.5, 1.0]), min_size=count, max_size=count))
    against = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    if not any(gains):
        gains[draw(st.integers(0, count - 1))] = 1.0
    against = [flag and gain == 0 for flag, gain in zip(against, gains, strict=True)]
    return scores, gains, against, draw(st.sampled_from([0.4, 0.5, 1.0]))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(rankings())
def test_the_worst_of_all_orders_that_ties_allow(case):
    scores, gains, against, threshold = case
    found = query_scores.judge(np.array(scores), np.array(gains), np.array(against), threshold)
    every = [
        worth(order, gains, against, threshold)
        for order in itertools.permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    assert set(found) == set(every[0])
    for metric, value in found.items():
        assert value == pytest.approx(min(one[metric] for one in every), abs=1e-12), metric


def test_without_ties_as_scikit_learn():
    rng = np.random.default_rng(0)
    for count in (3, 11, 200):
        scores, gains = rng.standard_normal(count), rng.choice([0, 0.5, 1.0], count, p=[0.6, 0.2, 0.2])
        gains[0] = 1.0
        found = query_scores.judge(scores, gains, np.zeros(count, bool))
        assert found["nDCG@10"] == pytest.approx(ndcg_score(gains[None], scores[None], k=10))
        assert found["mAP"] == pytest.approx(average_precision_score(gains == 1, scores))


def test_chance_is_the_mean_of_random_rankings():
    rng = np.random.default_rng(0)
    gains = np.array([1.0, 0.5, 0.5, *[0.0] * 37])
    none = np.zeros(40, bool)
    drawn = [query_scores.judge(rng.standard_normal(40), gains, none)["nDCG@10"] for _ in range(4000)]
    assert query_scores.by_chance(gains) == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / math.sqrt(4000))


def test_rounding_is_a_tie():
    """A model that says the same of everything, up to the last digit, gets the worst of all orders."""
    gains = np.array([1.0, 0.0, 0.0])
    scores = np.array([0.5 + 2e-16, 0.5, 0.5 - 2e-16])
    assert query_scores.judge(scores, gains, np.array([False, True, False]))["R@1"] == 0


def rows(queries, rng, answer):
    """Rows of a model: ``answer`` gives a query's row from the audio rows by clip."""
    names = sorted({name for query in queries for name in (*query.relevance, *query.distractors)})
    audio = {name: rng.standard_normal(32) for name in names}
    return (
        np.stack([audio[name] for name in names]),
        names,
        {(q.text, q.language): answer(q, audio) for q in queries},
    )


QUERIES = [
    Query("tags", "rain", "a", {"a": 1.0, "b": 1.0, "c": 0.5}),
    Query("exclusion", "rain without thunder", "a", {"a": 1.0}, ("b",)),
    Query("caption", "Rain falls", "a", {"a": 1.0, "b": 1.0, "c": 0.5}),
    Query("caption", "Wind", "c", {"c": 1.0, "d": 0.5}),
    Query("composed", "this, plus thunder", "a", {"b": 1.0}, ("c",), sound="a"),
]


def test_models_that_know_and_that_say_always_the_same():
    rng = np.random.default_rng(0)

    def knows(query, audio):
        best = sum(gain * 10 * audio[name] / np.linalg.norm(audio[name]) for name, gain in query.relevance.items())
        return best - sum(10 * audio[name] for name in (*query.distractors, *([query.sound] if query.sound else [])))

    found = query_scores.evaluate(*interleaved(rows(QUERIES, rng, knows)))
    assert found["tags"]["R@1"] == 100 and found["exclusion"]["HNSR@1"] == 100 and found["exclusion"]["TFR@1"] == 100
    assert found["words alone"]["R@1"] == 100 and found["words alone"]["queries"] == 1
    assert found["tags"]["against_caption"]["value"] == pytest.approx(
        found["tags"]["nDCG@10"] - found_of(QUERIES[2], rng, knows)["nDCG@10"], abs=1
    )
    same = query_scores.evaluate(*interleaved(rows(QUERIES, rng, lambda query, audio: np.ones(32)), flat=True))
    assert all(row["R@1"] == 0 for row in (same["tags"], same["exclusion"])) and same["exclusion"]["HNSR"] == 0
    assert same.to_dict()["clips"] == 4 and same.to_dict()["queries"]["caption"]["queries"] == 2


def interleaved(made, flat=False):
    audio, names, text = made
    return (np.ones_like(audio) if flat else audio), names, QUERIES, text


def found_of(query, rng, answer):
    audio, names, text = rows([query, QUERIES[3]], rng, answer)
    return query_scores.evaluate(audio, names, [query], text)[query.kind]


def test_the_sound_of_a_composed_query_is_no_answer():
    """The model takes the sound itself for the best answer; it is taken out before the clips are ranked."""
    audio = np.eye(4)
    found = query_scores.evaluate(
        audio, list("abcd"), QUERIES[4:], {("this, plus thunder", "eng"): np.array([0, 1.0, 0, 0])}
    )
    assert found["composed"]["R@1"] == 100 and found["sound alone"]["R@1"] == 0


def test_queries_of_one_clip_are_drawn_together():
    """Ten copies of a query say no more than one: the interval is that of the clips."""
    rng = np.random.default_rng(1)
    names = [f"c{k}" for k in range(30)]
    audio = rng.standard_normal((30, 8))
    once = [Query("tags", name, name, {name: 1.0}) for name in names]
    text = {(name, "eng"): audio[k] + 1.2 * rng.standard_normal(8) for k, name in enumerate(names)}
    one = query_scores.evaluate(audio, names, once, text)["tags"]
    ten = query_scores.evaluate(audio, names, [query for query in once for _ in range(10)], text)["tags"]
    assert one["R@1"] == pytest.approx(ten["R@1"]) and one["intervals"]["R@1"] == pytest.approx(ten["intervals"]["R@1"])


def test_bad_input_is_named():
    text = {(query.text, "eng"): np.ones(4) for query in QUERIES}
    with pytest.raises(UserError, match="threshold=0"):
        query_scores.evaluate(np.eye(4), list("abcd"), QUERIES, text, threshold=0)
    with pytest.raises(UserError, match="no query to score"):
        query_scores.evaluate(np.eye(4), list("abcd"), [], text)
    with pytest.raises(UserError, match="4 rows for 3 clips"):
        query_scores.evaluate(np.eye(4), list("abc"), QUERIES, text)
    with pytest.raises(UserError, match="'a' stands 2 times"):
        query_scores.evaluate(np.eye(4), list("aabc"), QUERIES, text)
    with pytest.raises(UserError, match="names clip 'd', which has no row of audio"):
        query_scores.evaluate(np.eye(3), list("abc"), QUERIES, text)
    with pytest.raises(UserError, match="NaN or inf"):
        query_scores.evaluate(np.full((4, 4), np.nan), list("abcd"), QUERIES, text)
    with pytest.raises(UserError, match="no query to ask"):
        query_scores.evaluate_model(None, [], [])
    for fields, line in (
        ((" ", "a", {"a": 1.0}), "a query is empty"),
        (("rain", "a", {"a": -1.0}), "below 0 or not finite"),
        (("rain", "a", {"a": float("nan")}), "below 0 or not finite"),
        (("rain", "a", {"a": 0.0}), "no clip of a relevance above 0"),
        (("rain", "a", {"a": 1.0}, ("a",)), "an answer and a hard negative"),
    ):
        with pytest.raises(UserError, match=line):
            Query("tags", *fields)
