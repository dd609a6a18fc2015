"""Batches: the same for any number of workers, from any position on, whatever is wrong with the files."""

import csv
import os
import signal
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from supclap.audio.reader import read
from supclap.data.augment import AugmentSettings
from supclap.data.loader import Loader
from supclap.schema import Caption, Clip, UserError

soundfile = pytest.importorskip("soundfile")
RATE = 8000


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Forty clips of different lengths with three captions each in two languages, two of them unreadable."""
    folder = tmp_path_factory.mktemp("sounds")
    draw = np.random.default_rng(0)
    clips = []
    for number in range(40):
        path = folder / f"{number}.wav"
        length = int(draw.integers(800, 4000))
        soundfile.write(path, draw.uniform(-0.5, 0.5, length).astype(np.float32), RATE)
        captions = [Caption(f"{number} eng {k}") for k in range(2)] + [
            Caption(f"{number} fra {k}", "fra") for k in range(2)
        ]
        clips.append(Clip(f"c{number}", str(path), captions=tuple(captions)))
    (folder / "7.wav").write_bytes(b"damaged" * 30)
    (folder / "21.wav").unlink()
    return clips


def good(sounds):
    return [clip for clip in sounds if clip.id not in ("c7", "c21")]


def loader(clips, **how):
    return Loader(clips, **{"batch_size": 6, "sample_rate": RATE, "seed": 3, **how})


def plain(steps):
    """Batches as values that can be compared for equality."""
    return [
        (position, batch.samples.numpy().tobytes(), batch.lengths.tolist(), batch.texts, batch.languages,
         batch.clip_ids.tolist(), batch.anchors)
        for position, batch in steps
    ]  # fmt: skip


def double(batch):
    """A ``prepare`` that shows in which process it ran."""
    return replace(batch, prepared={"twice": batch.samples * 2, "process": os.getpid()})


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("captions", ["one", "all", "triple"])
def test_any_number_of_workers_gives_the_same_batches(sounds, captions):
    how = {"captions": captions, "augment": AugmentSettings(mix=0.5, noise=0.5, gain_db=(-3, 3)).build()}
    runs = []
    for workers in (0, 1, 2, 4):
        one = loader(sounds, workers=workers, prepare=double, **how)
        runs.append([plain(one.batches(0)), plain(one.batches(1)), sorted(bad.clip_id for bad in one.quarantined)])
        one.close()
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert runs[0][0] != runs[0][1] and runs[0][2] == ["c21", "c7"]


def test_spawned_workers_too(sounds):
    expected = plain(loader(sounds, prepare=double).batches(0))
    spawned = loader(sounds, workers=1, prepare=double, context="spawn")
    assert plain(spawned.batches(0)) == expected
    spawned.close()


def test_prepare_runs_in_the_workers(sounds):
    one = loader(good(sounds), workers=1, prepare=double)
    for _, batch in one.batches(0):
        assert batch.prepared["process"] != os.getpid()
        assert torch.equal(batch.prepared["twice"], 2 * batch.samples)
    one.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("drop_last", [True, False])
def test_resuming_anywhere_gives_the_rest_and_nothing_else(sounds, workers, drop_last):
    whole = plain(loader(sounds, drop_last=drop_last).batches(2))
    for done, (position, *_) in enumerate(whole, 1):
        resumed = loader(sounds, drop_last=drop_last, workers=workers)
        assert plain(resumed.batches(2, position)) == whole[done:]
        resumed.close()


def test_a_batch_holds_what_the_files_hold(sounds):
    for _, batch in loader(sounds).batches(0):
        for row, clip in enumerate(batch.clip_ids.tolist()):
            expected = read(sounds[clip].audio, RATE)
            length = batch.lengths[row]
            assert length == len(expected) and np.array_equal(batch.samples[row, :length].numpy(), expected)
            assert not batch.samples[row, length:].any()
            assert batch.texts[row].startswith(f"{clip} {batch.languages[row]} ")


def test_bad_clips_are_dropped_and_the_next_ones_move_up(sounds):
    """Leaving the bad clips out of an order by hand gives the same batches."""
    one = loader(sounds)
    order = [item for item in one._order(0).tolist() if item not in (7, 21)]
    expected = [order[first : first + 6] for first in range(0, 36, 6)]
    assert [batch.clip_ids.tolist() for _, batch in one.batches(0)] == expected


def test_each_clip_once_an_epoch_and_another_order_in_the_next(sounds):
    one = loader(good(sounds), batch_size=5, drop_last=False)
    epochs = [[i for _, batch in one.batches(epoch) for i in batch.clip_ids.tolist()] for epoch in (0, 1)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(38)) and epochs[0] != epochs[1]
    assert len(one) == 8 == sum(1 for _ in one.batches(0))


def test_captions_and_languages_are_drawn_evenly(sounds):
    one = loader(good(sounds), batch_size=19)
    said = Counter((text.split()[1], text.split()[2]) for e in range(20) for _, b in one.batches(e) for text in b.texts)
    assert set(said) == {("eng", "0"), ("eng", "1"), ("fra", "0"), ("fra", "1")}
    assert all(130 < count < 250 for count in said.values()), said


def test_triple_pairs_an_english_caption_with_its_translation(sounds):
    one = loader(good(sounds), captions="triple")
    for _, batch in one.batches(0):
        for text, language, anchor in zip(batch.texts, batch.languages, batch.anchors, strict=True):
            assert language == "fra" and anchor == text.replace("fra", "eng")


def test_all_gives_every_caption_once_and_no_clip_twice_in_a_batch(sounds):
    one = loader(good(sounds), captions="all", batch_size=30, drop_last=False)
    texts = []
    for _, batch in one.batches(0):
        ids = batch.clip_ids.tolist()
        assert len(set(ids)) == len(ids)
        texts += batch.texts
    assert len(texts) == len(set(texts)) == 38 * 4 and one.repeats == 0
    asked = loader(good(sounds), captions="all", batch_size=30, distinct=False)
    assert any(len(set(batch.clip_ids.tolist())) < 30 for _, batch in asked.batches(0))


def test_rows_of_one_clip_share_their_id(sounds):
    clips = [*good(sounds), *good(sounds)]
    one = loader(clips, batch_size=10)
    seen = [batch.clip_ids.tolist() for _, batch in one.batches(0)]
    assert {i for ids in seen for i in ids} <= set(range(38)) and all(len(set(ids)) == 10 for ids in seen)


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_an_epoch_and_take_equally_many_steps(sounds, world):
    ranks = [list(loader(sounds, rank=r, world=world, batch_size=4).batches(0)) for r in range(world)]
    assert len({len(steps) for steps in ranks}) == 1 and len(ranks[0]) == 40 // world // 4
    clean = [loader(good(sounds)[:24], rank=r, world=world, batch_size=4).batches(0) for r in range(world)]
    ids = [i for steps in clean for _, batch in steps for i in batch.clip_ids.tolist()]
    assert sorted(ids) == list(range(24))
    # Rows are the same as those of one process with the same global batch.
    parts = [list(loader(good(sounds)[:24], rank=r, world=world, batch_size=4).batches(0)) for r in range(world)]
    single = list(loader(good(sounds)[:24], batch_size=4 * world).batches(0))
    for step, (_, batch) in enumerate(single):
        assert sorted(batch.clip_ids.tolist()) == sorted(i for part in parts for i in part[step][1].clip_ids.tolist())


def test_a_rank_that_lost_clips_still_takes_its_steps(sounds):
    clips = good(sounds)[:24]
    broken = [replace(clip, audio="/gone.wav") if number < 8 else clip for number, clip in enumerate(clips)]
    counts = [len(list(loader(broken, rank=r, world=2, batch_size=4).batches(0))) for r in range(2)]
    assert counts == [3, 3]


def test_quarantine_is_a_table_with_reasons(sounds, tmp_path):
    path = tmp_path / "run" / "quarantine.csv"
    for _ in range(2):
        one = loader(sounds, quarantine=path)
        list(one.batches(0))
        list(one.batches(1))
    with path.open() as file:
        rows = {row["clip_id"]: row["reason"] for row in csv.DictReader(file)}
        file.seek(0)
        assert len(file.readlines()) == 3
    assert "no such file" in rows["c21"] and "no sound" in rows["c7"]


def test_strict_makes_it_an_error(sounds):
    with pytest.raises(UserError, match="strict"):
        list(loader(sounds, strict=True).batches(0))
    with pytest.raises(UserError, match="no caption"):
        loader([*good(sounds), Clip("mute", "x.wav")], strict=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_to_be_read_is_said_aloud(sounds, workers):
    broken = [replace(clip, audio=f"{clip.audio}.gone") for clip in sounds]
    with pytest.raises(UserError, match="36 of 40 clips cannot be used.*no such file"):
        list(loader(broken, workers=workers).batches(0))


@pytest.mark.parametrize("how,reason", [
    ({"batch_size": 0}, "batch_size=0"), ({"batch_size": 41}, "do not fill one batch"), ({"workers": -1}, "workers=-1"),
    ({"captions": "eno"}, "all, one, triple"), ({"max_seconds": 0.0}, "max_seconds"),
    ({"rank": 2, "world": 2}, "rank=2"),
])  # fmt: skip
def test_mistakes_with_the_loader(sounds, how, reason):
    with pytest.raises(UserError, match=reason):
        loader(sounds, **how)


def test_no_clips_and_no_captions(sounds):
    with pytest.raises(UserError, match="no clips"):
        loader([])
    with pytest.raises(UserError, match="no caption"):
        loader([Clip("a", "a.wav")])
    with pytest.raises(UserError, match="another language"):
        loader([Clip("a", "a.wav", captions=(Caption("x"),))], captions="triple")


def test_a_file_deleted_in_mid_run_is_quarantined(sounds, tmp_path):
    copies = []
    for clip in good(sounds):
        target = tmp_path / os.path.basename(clip.audio)
        target.write_bytes(open(clip.audio, "rb").read())
        copies.append(replace(clip, audio=str(target)))
    one = loader(copies)
    steps = one.batches(0)
    next(steps)
    os.unlink(copies[int(one._order(0)[-4])].audio)
    assert len(list(steps)) == 5 and [bad.reason.split(": ")[-1] for bad in one.quarantined] == [
        "no such file or directory"
    ]


def die(batch):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_is_a_clear_error(sounds):
    one = loader(good(sounds), workers=1, prepare=die)
    with pytest.raises(UserError, match="a worker died"):
        list(one.batches(0))


def mistaken(batch):
    raise UserError("tokens=0: give more")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_users_mistake_in_a_worker_stays_one_line(sounds, workers):
    one = loader(good(sounds), workers=workers, prepare=mistaken)
    with pytest.raises(UserError) as caught:
        list(one.batches(0))
    assert str(caught.value) == "tokens=0: give more"


class Table:
    """Features as a frozen tower would give them."""

    def __init__(self, words=True):
        self.words = words

    def audio(self, clip):
        return np.full(4, float(clip.id[1:]), np.float32)

    def text(self, text, language):
        return np.full(3, float(text.split()[0]), np.float32) if self.words else None


@pytest.mark.parametrize("workers", [0, 2])
def test_features_stand_in_for_decoding(sounds, workers):
    # The sounds are gone: nothing may be decoded.
    clips = [replace(clip, audio="/gone.wav") for clip in sounds]
    one = loader(clips, features=Table(), workers=workers)
    for _, batch in one.batches(0):
        assert batch.samples is None and batch.lengths is None
        assert batch.audio_features[:, 0].tolist() == batch.clip_ids.tolist() == batch.text_features[:, 0].tolist()
    one.close()
    assert all(batch.text_features is None for _, batch in loader(clips, features=Table(words=False)).batches(0))


def test_long_clips_are_cropped_where_the_generator_says(tmp_path):
    soundfile.write(tmp_path / "ramp.wav", np.linspace(0, 0.9, 10 * RATE), RATE, subtype="FLOAT")
    clips = [Clip(f"{i}", str(tmp_path / "ramp.wav"), captions=(Caption("x"),)) for i in range(8)]
    batch = next(loader(clips, max_seconds=1.0).batches(0))[1]
    again = next(loader(clips, max_seconds=1.0).batches(0))[1]
    starts = batch.samples[:, 0].tolist()
    assert batch.lengths.tolist() == [RATE] * 6 and len(set(starts)) == 6 and max(starts) - min(starts) > 0.2
    assert torch.equal(batch.samples, again.samples)
    first = next(loader(clips, max_seconds=1.0, crop="start").batches(0))[1]
    assert first.samples[:, 0].tolist() == [0.0] * 6


def test_a_span_of_a_file_is_all_that_is_read(tmp_path):
    soundfile.write(tmp_path / "ramp.wav", np.linspace(0, 0.9, 10 * RATE), RATE, subtype="FLOAT")
    clips = [Clip(f"{i}", str(tmp_path / "ramp.wav"), i, i + 0.5, (Caption("x"),)) for i in range(6)]
    batch = next(loader(clips).batches(0))[1]
    assert batch.lengths.tolist() == [RATE // 2] * 6
    assert np.allclose(batch.samples[:, 0].numpy(), batch.clip_ids.numpy() * 0.09, atol=1e-4)


def test_length_buckets_waste_less_and_lose_nothing(sounds):
    def waste(one):
        steps = [batch for _, batch in one.batches(0)]
        ids = sorted(i for batch in steps for i in batch.clip_ids.tolist())
        return sum(batch.samples.numel() - int(batch.lengths.sum()) for batch in steps), ids

    free, ids = waste(loader(good(sounds)[:36]))
    bucketed, same = waste(loader(good(sounds)[:36], bucket=6))
    assert ids == same == list(range(36)) and bucketed < 0.5 * free


def test_negatives_travel_with_their_rows(sounds):
    clips = [replace(clip, negatives=(f"not {clip.id}",)) for clip in good(sounds)]
    batch = next(loader(clips).batches(0))[1]
    assert batch.negatives == [[f"not {clips[i].id}"] for i in batch.clip_ids.tolist()]


def test_an_epoch_left_halfway_disturbs_no_other(sounds):
    one = loader(good(sounds), workers=2)
    steps = one.batches(0)
    next(steps)
    steps.close()
    assert plain(one.batches(1)) == plain(loader(good(sounds)).batches(1))
    one.close()


def test_every_draw_is_by_seed_epoch_and_position(sounds):
    base = plain(loader(good(sounds)).batches(0))
    assert base == plain(loader(good(sounds)).batches(0)) != plain(loader(good(sounds), seed=4).batches(0))
    np.random.seed(1)  # noqa: NPY002 -- the global state must not matter
    torch.manual_seed(5)
    assert base == plain(loader(good(sounds)).batches(0))
