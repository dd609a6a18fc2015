"""Splits by recording, and the orders of an epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supclap.data.sampler import apart, bucketed, order, rounds, shuffled
from supclap.data.split import on, split
from supclap.schema import Clip, UserError

CLIPS = st.lists(
    st.builds(Clip, id=st.integers(0, 500).map(str), audio=st.integers(0, 9).map("/s/{}.wav".format),
              source=st.sampled_from([None, "a", "b"])), max_size=40, unique_by=lambda clip: clip.id,
)  # fmt: skip


@settings(derandomize=True, deadline=None)
@given(CLIPS, st.randoms())
def test_no_recording_on_two_sides_and_no_order_matters(clips, random):
    done = split(clips, 0.2, 0.2, seed=1)
    sides = {}
    for clip in done:
        sides.setdefault(clip.source or clip.audio, set()).add(clip.split)
    assert all(len(found) == 1 for found in sides.values())
    mixed = list(clips)
    random.shuffle(mixed)
    assert {clip.id: clip.split for clip in split(mixed, 0.2, 0.2, seed=1)} == {clip.id: clip.split for clip in done}
    if len(sides) >= 3:
        assert {"train", "val", "test"} == {clip.split for clip in done}


def test_shares_and_seeds():
    clips = [Clip(f"{i}", f"/s/{i}.wav") for i in range(200)]
    done = split(clips)
    assert [len(on(done, side)) for side in ("train", "val", "test")] == [160, 20, 20]
    assert done != split(clips, seed=1) and done == split(clips)
    moved = split([Clip(f"{i}", f"/elsewhere/{i}.wav") for i in range(200)])
    assert [clip.split for clip in moved] == [clip.split for clip in done]
    assert {clip.split for clip in split(clips, 0, 0)} == {"train"}


def test_what_is_split_stays_and_takes_its_recording_along():
    clips = [Clip("a", "x.wav", split="test"), Clip("b", "x.wav"), Clip("c", "y.wav", split="fold3")]
    assert [clip.split for clip in split(clips, 0, 0)] == ["test", "test", "fold3"]


@pytest.mark.parametrize("val,test", [(-0.1, 0), (0.5, 0.5), (0, 1), (float("nan"), 0)])
def test_shares_that_leave_nothing(val, test):
    with pytest.raises(UserError):
        split([Clip("a", "a")], val, test)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(1, 200), st.integers(1, 5), st.integers(0, 3))
def test_ranks_partition_an_epoch(count, world, epoch):
    parts = [order(count, 5, epoch, rank, world) for rank in range(world)]
    assert {len(part) for part in parts} == {count // world}
    together = np.concatenate(parts)
    assert len(set(together.tolist())) == len(together) and set(together.tolist()) <= set(range(count))


def test_orders_are_seeded_and_differ_by_epoch():
    assert np.array_equal(shuffled(50, 1, 2), shuffled(50, 1, 2))
    assert not np.array_equal(shuffled(50, 1, 2), shuffled(50, 1, 3))
    assert not np.array_equal(shuffled(50, 1, 2), shuffled(50, 2, 2))
    assert order(10, 0, 0).dtype == np.int64


@pytest.mark.parametrize("clips,captions,window", [(38, 4, 38), (100, 5, 64), (500, 5, 24), (30, 2, 29)])
def test_rounds_keep_captions_of_a_clip_apart(clips, captions, window):
    groups = [item // captions for item in range(clips * captions)]
    for epoch in range(5):
        found = apart(rounds(shuffled(len(groups), 0, epoch), groups, 0, epoch), groups, window).tolist()
        assert sorted(found) == list(range(len(groups)))
        last = {}
        for place, item in enumerate(found):
            assert place - last.get(groups[item], -window) >= window
            last[groups[item]] = place


def test_a_clip_with_most_of_the_captions_still_ends():
    groups = [0] * 50 + [1, 2, 3]
    assert sorted(apart(shuffled(53, 0, 0), groups, 4).tolist()) == list(range(53))


def test_buckets_hold_neighbours_in_length():
    lengths = np.random.default_rng(0).uniform(1, 30, 96).tolist()
    found = bucketed(shuffled(96, 0, 0), lengths, 8, 4, 0, 0)
    assert sorted(found.tolist()) == list(range(96))
    spread = [np.ptp([lengths[item] for item in found[first : first + 8]]) for first in range(0, 96, 8)]
    assert np.mean(spread) < 12 < np.mean([np.ptp(lengths[first : first + 8]) for first in range(0, 96, 8)])
