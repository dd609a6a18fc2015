"""Intervals, tests and corrections against scipy, statsmodels and data whose answer is known."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from supclap.evaluation import resampling, retrieval, significance
from supclap.schema import UserError


def scored(noise, seed=0, clips=120, per_clip=5):
    """Models of one world: the same clips and captions, seen with more or less noise."""
    world = np.random.default_rng(100)
    base = world.standard_normal((clips, 32))
    owner = np.repeat(np.arange(clips), per_clip)
    text = base[owner] + world.standard_normal((len(owner), 32))
    audio = base + noise * np.random.default_rng(seed).standard_normal(base.shape)
    return retrieval.evaluate(audio, text, owner)


def test_compare_points_the_right_way():
    worse, better = scored(1.6), scored(0.8)
    found = significance.compare(worse, better)
    for direction in ("t2a", "a2t"):
        row = found[direction]
        assert row.gain == pytest.approx(better[direction]["R@1"] - worse[direction]["R@1"]) and row.gain > 0
        assert row.low < row.gain < row.high and row.significant and row.p < 0.01 and row.p_bootstrap < 0.01
    back = significance.compare(better, worse)["t2a"]
    assert back.gain == pytest.approx(-found["t2a"].gain) and back.high < 0
    same = significance.compare(worse, worse)["t2a"]
    assert (same.gain, same.low, same.high, same.p) == (0, 0, 0, 1)
    assert not same.significant and same.p_bootstrap == 1


@pytest.mark.parametrize("metric", ["R@10", "mAP10", "MRR", "nDCG@10", "MeanR"])
def test_compare_takes_any_mean(metric):
    row = significance.compare(scored(1.6), scored(0.8), metric)["a2t"]
    assert (row.gain < 0) == (metric == "MeanR") and row.metric == metric


def test_compare_refuses_what_does_not_belong_together():
    with pytest.raises(UserError, match="different rows"):
        significance.compare(scored(1.0), scored(1.0, clips=60))
    with pytest.raises(UserError, match="no mean over queries"):
        significance.compare(scored(1.0), scored(1.0), "MedR")
    matrix = np.eye(4)
    with pytest.raises(UserError, match="protocols differ"):
        significance.compare(
            retrieval.evaluate_similarity(matrix, range(4)),
            retrieval.evaluate_similarity(matrix, range(4), protocol="dcase"),
        )


def test_bootstrap_and_permutation_against_scipy():
    rng = np.random.default_rng(4)
    difference = rng.standard_normal(150) + 0.18
    ours = significance.bootstrap(difference, np.ones(150), draws=20_000)
    theirs = stats.bootstrap((difference,), np.mean, n_resamples=20_000, rng=rng).bootstrap_distribution
    assert ours.std() == pytest.approx(theirs.std(), rel=0.03)
    assert np.quantile(ours, 0.025) == pytest.approx(np.quantile(theirs, 0.025), abs=0.01)
    p = significance.permutation(difference, np.ones(150), draws=20_000)
    expected = stats.permutation_test(
        (difference,), np.mean, permutation_type="samples", n_resamples=20_000, rng=rng
    ).pvalue
    assert 0.001 < expected < 0.2 and p == pytest.approx(expected, abs=0.01)


def test_permutation_is_exact_on_a_few_clips():
    """Three clips that all improve: 2 of 8 sign patterns are as extreme."""
    assert significance.permutation(np.array([1.0, 1.0, 1.0]), np.ones(3), draws=40_000) == pytest.approx(
        0.25, abs=0.01
    )


def test_uneven_clips_weigh_by_their_captions():
    """The estimate is a mean over captions, whichever clips are drawn."""
    sums, counts = np.array([4.0, 0.0, 1.0]), np.array([4.0, 1.0, 1.0])
    drawn = significance.bootstrap(sums, counts, draws=4000)
    allowed = {round(float(sums[list(i)].sum() / counts[list(i)].sum()), 9) for i in np.ndindex(3, 3, 3)}
    assert {round(float(value), 9) for value in drawn} == allowed


def test_holm_equals_statsmodels():
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 30):
        values = rng.uniform(0, 0.2, size).round(2)  # with ties
        assert significance.holm(list(values)) == pytest.approx(multipletests(values, method="holm")[1])
    assert significance.holm([]) == []
    with pytest.raises(UserError, match="0..1"):
        significance.holm([1.5])


@pytest.mark.parametrize("count", [2, 3, 5, 10, 20])
def test_minimum_effect_equals_statsmodels(count):
    expected = TTestPower().solve_power(nobs=count, alpha=0.05, power=0.8, alternative="two-sided")
    assert significance.minimum_effect(1.0, count) == pytest.approx(expected, rel=1e-3)


def test_minimum_effect_is_the_one_written_down():
    """At a deviation of .99 points."""
    assert [round(significance.minimum_effect(0.99, n), 2) for n in (5, 10, 20)] == [1.67, 0.99, 0.65]


def test_summary_equals_scipy():
    values = [44.1, 45.0, 43.2, 44.9, 44.4]
    found = significance.summary(values)
    test = stats.ttest_1samp(values, 0.0)
    assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert found.p == pytest.approx(test.pvalue) and found.sd == pytest.approx(np.std(values, ddof=1))
    alone = significance.summary([44.0])
    assert alone.mean == 44 and np.isnan(alone.low) and alone.seeds == 1


def test_student_quantile_without_scipy():
    """The tail that widens the percentile interval: P(Z < -sqrt(n/(n-1)) t)."""
    for clips in (6, 10, 30, 100, 1000):
        t = stats.t.ppf(0.975, clips - 1)
        assert resampling._tail(clips, 0.95) == pytest.approx(
            stats.norm.cdf(-np.sqrt(clips / (clips - 1)) * t), rel=0.02
        )


def test_seeds_and_clips_together_are_wider_than_either():
    runs = [scored(1.2, seed=seed) for seed in range(5)]
    found = significance.over_seeds(runs, "t2a")
    assert found.mean == pytest.approx(np.mean([run["t2a"]["R@1"] for run in runs]))
    low, high = found.two_level
    clips_low, clips_high = runs[0].interval("t2a", "R@1")
    assert low < found.mean < high and high - low > 0.6 * (clips_high - clips_low)
    gain = significance.over_seeds([scored(0.8, seed=s) for s in range(5)], "t2a", base=runs)
    assert gain.low > 0 and gain.two_level[0] > 0 and gain.mde > 0
    with pytest.raises(UserError, match="same seeds"):
        significance.over_seeds(runs, "t2a", base=runs[:2])
    with pytest.raises(UserError, match="empty"):
        significance.over_seeds([], "t2a")


def test_two_level_variance_is_the_sum_of_both():
    """Crossed effects: value = seed + clip + noise; the draws' variance is near the sum of the parts'."""
    rng = np.random.default_rng(0)
    seeds, clips = 12, 300
    table = (
        2 * rng.standard_normal((seeds, 1)) + 8 * rng.standard_normal((1, clips)) + rng.standard_normal((seeds, clips))
    )
    low, high = significance.two_level(table, np.ones(clips), draws=8000)
    expected = np.sqrt(table.mean(1).var() / seeds + table.mean(0).var() / clips)
    assert (high - low) / (2 * 1.96) == pytest.approx(expected, rel=0.06)


def test_table_marks_after_holm():
    runs = {"base": scored(1.2), "same": scored(1.2, seed=1), "better": scored(0.5)}
    rows = significance.table(runs, base="base", draws=2000)
    marks = {(row["model"], row["direction"]): row.get("significant") for row in rows}
    assert marks[("better", "t2a")] and marks[("base", "t2a")] is None
    assert all(row["holm"] >= row["p"] for row in rows if "p" in row)
    with pytest.raises(UserError, match="base='none'"):
        significance.table(runs, base="none")


def coverage(by_clip, draws=1000, clips=100, per_clip=5):
    """How many of 1,000 intervals hold the true rate, captions of one clip succeeding together."""
    held = 0
    for trial in range(draws):
        rng = np.random.default_rng(trial)
        rate = rng.beta(1.0, 1.0, clips)
        hits = rng.random((clips, per_clip)) < rate[:, None]
        if by_clip:
            sums, counts = hits.sum(1).astype(float), np.full(clips, float(per_clip))
        else:
            sums, counts = hits.ravel().astype(float), np.ones(clips * per_clip)
        drawn = significance.bootstrap(sums, counts, draws=600, seed=trial)
        low, high = resampling.percentile(drawn[:, None], len(sums))
        held += bool(low[0] <= 0.5 <= high[0])
    return held


def test_coverage_by_clip_is_nominal():
    """A nominal 95 % interval holds the truth in 930 to 970 of 1,000 draws; by caption it would not."""
    assert 930 <= coverage(by_clip=True) <= 970


def test_coverage_by_caption_is_not():
    """Why clips are drawn and not captions."""
    assert coverage(by_clip=False, draws=300) < 0.9 * 300


def test_coverage_of_a_known_gain():
    """Paired: model b hits .1 more often than a, on the same clips."""
    held = 0
    for trial in range(1000):
        rng = np.random.default_rng(10_000 + trial)
        hard = rng.beta(2.0, 2.0, (80, 1))
        luck = rng.random((80, 5))
        a, b = luck < 0.9 * hard, luck < 0.9 * hard + 0.1
        difference = (b.sum(1) - a.sum(1)).astype(float)
        drawn = significance.bootstrap(difference, np.full(80, 5.0), draws=600, seed=trial)
        low, high = resampling.percentile(drawn[:, None], 80)
        held += bool(low[0] <= 0.1 <= high[0])
    assert 930 <= held <= 970
