"""Scores as users meet them: bad input, ties, languages, tensors, blocks, memory."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from supclap.evaluation import ranks, retrieval
from supclap.schema import UserError


def made(clips=30, per_clip=2, noise=1.0, seed=0, width=24):
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((clips, width))
    owner = np.repeat(np.arange(clips), per_clip)
    audio = base + noise * rng.standard_normal(base.shape)
    return audio, base[owner] + noise * rng.standard_normal((len(owner), width)), owner


AUDIO, TEXT, OWNER = made()


def nan(rows):
    rows = rows.copy()
    rows[3, 1] = np.nan
    return rows


@pytest.mark.parametrize(
    ("audio", "text", "owner", "says"),
    [
        (AUDIO, TEXT[:-1], OWNER, "60 entries for 59 rows of text"),
        (AUDIO[:-1], TEXT, OWNER, r"caption_clip\[58\]=29 is not a row of the 29 clips"),
        (AUDIO, TEXT, OWNER + 1, "count from 0"),
        (AUDIO, TEXT, OWNER - 1, r"caption_clip\[0\]=-1"),
        (AUDIO, TEXT, OWNER + 0.5, "whole numbers"),
        (AUDIO, TEXT, OWNER[:, None], "one number a caption"),
        (AUDIO, TEXT, np.where(OWNER == 4, 5, OWNER), r"1 of 30 clips have no caption \(row 4\)"),
        (nan(AUDIO), TEXT, OWNER, "audio holds NaN or inf in row 3"),
        (AUDIO, nan(TEXT), OWNER, "text holds NaN or inf in row 3"),
        (AUDIO * (np.arange(30) != 7)[:, None], TEXT, OWNER, "audio is all zeros in row 7"),
        (AUDIO[:, :5], TEXT, OWNER, "audio is 5 wide and text 24"),
        (AUDIO[0], TEXT, OWNER, r"audio has shape \[24\]; expected"),
        (AUDIO[:0], TEXT, OWNER, "nothing to score"),
        (AUDIO, TEXT[:0], OWNER[:0], "nothing to score"),
        ([[1.0], [1.0, 2.0]], TEXT, OWNER, "ragged"),
        (np.array([["a"]]), TEXT, OWNER, "not real numbers"),
        (AUDIO.astype(complex), TEXT, OWNER, "not real numbers"),
    ],
)
def test_bad_embeddings_say_what_was_expected(audio, text, owner, says):
    with pytest.raises(UserError, match=says):
        retrieval.evaluate(audio, text, owner)


@pytest.mark.parametrize(
    ("matrix", "owner", "says"),
    [
        (np.zeros((60, 30)), OWNER, "looks transposed: pass similarity.T"),
        (np.zeros((30, 59)), OWNER, r"shape \[30, 59\].*names 60 captions; give one column a caption"),
        (nan(np.zeros((30, 60))), OWNER, "NaN or inf"),
        (np.full((30, 60), np.inf), OWNER, "NaN or inf"),
        (np.zeros((0, 0)), OWNER[:0], "nothing to score"),
        (np.zeros(60), OWNER, r"expected \[clips, captions\]"),
        (np.zeros((29, 60)), OWNER, "is not a row of the 29 clips"),
    ],
)
def test_bad_matrices_say_what_was_expected(matrix, owner, says):
    with pytest.raises(UserError, match=says):
        retrieval.evaluate_similarity(matrix, owner)


def test_bad_languages():
    with pytest.raises(UserError, match="3 entries for 60 captions"):
        retrieval.evaluate(AUDIO, TEXT, OWNER, languages=["eng"] * 3)
    with pytest.raises(UserError, match="one word"):
        retrieval.evaluate(AUDIO, TEXT, OWNER, languages="eng")


@pytest.mark.parametrize("clips", [40, 600, 1000])
def test_a_collapsed_model_scores_zero(clips):
    """All rows alike: every rival ties, so every right answer comes last, whatever the rounding of the product."""
    rng = np.random.default_rng(1)
    audio = np.tile(rng.standard_normal(37), (clips, 1)).astype(np.float32)
    text = np.tile(rng.standard_normal(37), (clips * 3, 1)).astype(np.float32)
    # The same direction at other lengths is still the same answer.
    scores = retrieval.evaluate(audio * rng.uniform(0.5, 2, (clips, 1)), text, np.repeat(np.arange(clips), 3))
    assert all(scores[d][m] == 0 for d in ("t2a", "a2t") for m in ("R@1", "R@10", "mAP10"))
    assert scores["t2a"]["MeanR"] == clips and (scores.ranks["t2a"] == clips - 1).all()
    assert (scores.ranks["a2t"] == 3 * clips - 3).all()


def test_shape_of_the_answer():
    scores = retrieval.evaluate(AUDIO, TEXT, OWNER, split="test")
    assert (scores["clips"], scores["captions"], scores["split"], scores["protocol"]) == (30, 60, "test", "mlclap")
    assert scores.ranks["t2a"].shape == (60,) and scores.ranks["a2t"].shape == (30,)
    assert scores["t2a"]["R@1"] == pytest.approx(100 * (scores.ranks["t2a"] < 1).mean())
    assert scores["a2t"]["R@5"] == pytest.approx(100 * (scores.ranks["a2t"] < 5).mean())
    plain = json.loads(json.dumps(scores.to_dict()))
    for direction in ("t2a", "a2t"):
        assert set(plain["intervals"][direction]) == set(plain[direction])
        for name, (low, high) in plain["intervals"][direction].items():
            assert low <= plain[direction][name] <= high, name
    low, high = scores.interval("t2a", "R@1")
    assert low < scores["t2a"]["R@1"] < high
    wide = scores.interval("t2a", "R@1", level=0.99)
    assert wide[0] <= low and high <= wide[1]
    with pytest.raises(UserError, match="direction='t2x'"):
        scores.interval("t2x", "R@1")
    with pytest.raises(UserError, match="metric='R@2'"):
        scores.interval("t2a", "R@2")
    with pytest.raises(UserError, match="level=95"):
        scores.interval("t2a", "R@1", level=95)
    assert "30 clips, 60 captions" in repr(scores)
    with pytest.raises(KeyError):
        scores["t2b"]


def test_tensors_and_lists_give_the_same():
    expected = retrieval.evaluate(AUDIO, TEXT, OWNER).to_dict(intervals=False)
    tensors = retrieval.evaluate(torch.tensor(AUDIO, requires_grad=True), torch.tensor(TEXT), torch.tensor(OWNER))
    assert tensors.to_dict(intervals=False) == expected
    assert retrieval.evaluate(AUDIO.tolist(), TEXT.tolist(), OWNER.tolist()).to_dict(intervals=False) == expected
    narrow = retrieval.evaluate(torch.tensor(AUDIO).bfloat16(), torch.tensor(TEXT).bfloat16(), OWNER)
    assert narrow["t2a"]["R@10"] == pytest.approx(expected["t2a"]["R@10"], abs=5)


def test_twins_are_told():
    twins = AUDIO.copy()
    twins[9] = twins[2]
    assert retrieval.evaluate(twins, TEXT, OWNER)["notes"] == [
        "audio rows 2 and 9 are equal: is one clip in the table twice?"
    ]
    assert "notes" not in retrieval.evaluate(AUDIO, TEXT, OWNER)


def test_blocks_change_nothing(monkeypatch):
    audio, text, owner = made(clips=300, per_clip=3)
    order = np.random.default_rng(0).permutation(len(owner))
    text, owner = text[order], owner[order]
    expected = retrieval.evaluate(audio, text, owner)
    monkeypatch.setattr(ranks, "TILE", 7000)
    monkeypatch.setattr(ranks, "BLOCK", 41)
    small = retrieval.evaluate(audio, text, owner)
    assert np.array_equal(small.ranks["t2a"], expected.ranks["t2a"])
    assert small.to_dict(intervals=False) == expected.to_dict(intervals=False)


def test_many_captions_of_one_clip():
    """More captions than a byte counts, on one clip, beside clips with one."""
    rng = np.random.default_rng(0)
    owner = np.concatenate([np.zeros(700, int), np.arange(1, 400)])
    matrix = rng.standard_normal((400, len(owner))).astype(np.float32)
    scores = retrieval.evaluate_similarity(matrix, owner)
    right = matrix[0, :700]
    assert scores.ranks["a2t"][0] == (matrix[0, 700:] >= right.max()).sum()
    lowest = scores.parts[""].ranks.a2t[:700].max()
    assert lowest == 699 + (matrix[0, 700:] >= right.min()).sum()


def test_languages_are_scored_apart_and_averaged():
    audio, english, owner = made(per_clip=2)
    french = made(per_clip=2, seed=0, noise=1.0)[1] + 0.8 * np.random.default_rng(9).standard_normal(english.shape)
    text, both = np.concatenate([english, french]), np.concatenate([owner, owner])
    codes = ["eng"] * 60 + ["fra"] * 60
    scores = retrieval.evaluate(audio, text, both, languages=codes)
    alone = {"eng": retrieval.evaluate(audio, english, owner), "fra": retrieval.evaluate(audio, french, owner)}
    for code, row in scores["languages"].items():
        assert row["t2a"] == alone[code]["t2a"] and row["a2t"] == alone[code]["a2t"]
        assert (row["clips"], row["captions"]) == (30, 60)
    mean = np.mean([alone[code]["a2t"]["R@5"] for code in alone])
    assert scores["a2t"]["R@5"] == pytest.approx(mean)
    assert scores["captions"] == 120 and scores["clips"] == 30
    ranks_t2a = np.stack([alone["eng"].ranks["t2a"], alone["fra"].ranks["t2a"]])
    assert np.array_equal(scores.ranks["t2a"], ranks_t2a.ravel())
    assert scores.ranks["a2t"].shape == (30, 2)
    assert scores["consistency"]["t2a"]["mean_rank_variance"] == pytest.approx(ranks_t2a.var(axis=0).mean())
    agree = [(a == 0) == (b == 0) for a, b in ranks_t2a.T]
    assert scores["consistency"]["t2a"]["R@1_agreement"] == pytest.approx(100 * np.mean(agree))
    low, high = scores.interval("t2a", "R@1")
    assert low < scores["t2a"]["R@1"] < high
    json.dumps(scores.to_dict())


def test_a_language_may_miss_clips():
    """Its row says how many it has; the others stay in the gallery."""
    audio, text, owner = made(per_clip=1)
    keep = np.arange(30) < 20
    scores = retrieval.evaluate(
        audio,
        np.concatenate([text, text[keep]]),
        np.concatenate([owner, owner[keep]]),
        languages=["eng"] * 30 + ["cat"] * 20,
    )
    assert scores["languages"]["cat"]["clips"] == 20
    assert scores["notes"] == ["language 'cat' has captions for 20 of 30 clips"]
    assert "t2a" not in scores["consistency"]
    whole = retrieval.evaluate(audio, text, owner)
    assert np.array_equal(scores.ranks["t2a"][30:], whole.ranks["t2a"][keep])
    assert (scores.ranks["a2t"][~keep, 0] == -1).all()


@pytest.mark.slow
def test_large_sets_stay_within_two_gigabytes():
    """20,000 clips x 100,000 captions from embeddings, the embeddings included."""
    code = """
import numpy as np, resource
from supclap.evaluation import retrieval
rng = np.random.default_rng(0)
audio = rng.standard_normal((20_000, 64), dtype=np.float32)
text = np.repeat(audio, 5, axis=0) + 2 * rng.standard_normal((100_000, 64), dtype=np.float32)
scores = retrieval.evaluate(audio, text, np.repeat(np.arange(20_000), 5))
print(scores["t2a"]["R@1"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert 0 < float(out[0]) < 100
    assert float(out[1]) < 2.0, "gigabytes"


def test_importing_needs_numpy_alone():
    rooms = "supclap.evaluation.retrieval, supclap.evaluation.significance"
    code = f"import sys, {rooms}; print([m for m in sys.modules if m in ('torch', 'scipy')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_intervals_where_languages_miss_clips():
    """Draws that leave a language out are left out for all of them; where none is left, nothing is said."""
    rng = np.random.default_rng(0)
    matrix, owner = rng.standard_normal((6, 12)), np.repeat(np.arange(6), 2)
    languages = ["eng", "fra"] * 4 + ["eng", "eng"] * 2
    plain = retrieval.evaluate_similarity(matrix, owner, languages=languages).to_dict()
    for way in ("t2a", "a2t"):
        for name, value in plain[way].items():
            low, high = plain["intervals"][way][name]
            assert low <= value <= high, name
    everyone = [f"{'abcdefghijkl'[k // 26]}{chr(97 + k % 26)}x" for k in range(12)]
    plain = retrieval.evaluate_similarity(rng.standard_normal((12, 12)), np.arange(12), languages=everyone).to_dict()
    assert plain["intervals"]["t2a"]["MedR"] == [None, None] and plain["intervals"]["a2t"]["R@1"] == [None, None]
    json.dumps(plain, allow_nan=False)


def test_one_clip_has_no_interval():
    plain = retrieval.evaluate_similarity(np.ones((1, 3)), np.zeros(3, int)).to_dict()
    assert plain["t2a"]["R@1"] == 100 and plain["intervals"]["t2a"]["R@1"] == [None, None]
    json.dumps(plain, allow_nan=False)
