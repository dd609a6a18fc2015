"""What people hand in by mistake: one clear line each, and one bad sound never ends a run."""

import itertools
import math

import numpy as np
import pytest
import torch
from encoder_cases import noise

from supclap.encoders.own import own
from supclap.schema import UserError

RATE = 16000
SOUND = noise(RATE, 1)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (None, "of type NoneType; give a list"),
        (5, "of type int; give a list"),
        ((SOUND, RATE), "items is one sound; give a list"),
        (SOUND, "items is one sound; give a list"),
        (b"RIFF", "items is one sound; give a list"),
        ([SOUND], "an item of type ndarray: a sound is a path, bytes or"),
        ([[SOUND.tolist(), RATE]], "an item of type list: a sound is"),
        ([bytearray(10**6)], "an item of type bytearray: a sound is"),
        ([(RATE, SOUND)], "rate="),
        ([(SOUND,)], "not 1 values"),
    ],
)
def test_items_that_are_none(small, items, words):
    with pytest.raises(UserError, match=words) as error:
        small.embed_audio(items)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"batch_size": "3"}, "batch_size='3' must be a whole number"),
        ({"batch_size": 2.5}, "batch_size=2.5 must be a whole number"),
        ({"batch_size": True}, "batch_size=True must be a whole number"),
        ({"workers": -1}, "workers=-1 must be a whole number, at least 0"),
        ({"workers": 1.5}, "workers=1.5 must be a whole number"),
    ],
)
def test_numbers_that_are_none(small, fields, words):
    """A batch of 2.5 would never be full: an endless iterator would be read without end."""
    with pytest.raises(UserError, match=words):
        small.embed_audio([(SOUND, RATE)], **fields)
    with pytest.raises(UserError, match=words):
        next(small.iter_audio(itertools.repeat((SOUND, RATE)), **fields))


@pytest.mark.parametrize(
    ("texts", "fields", "words"),
    [
        (["a", None], {}, r"texts\[1\]=None is not text"),
        ([b"a"], {}, r"texts\[0\]=b'a' is not text"),
        (7, {}, "of type int; give a list"),
        ("a dog", {}, "texts is one string"),
        (["a"], {"language": None}, "language=None is no code"),
        (["a"], {"language": ["eng", "deu"]}, "2 entries for 1"),
        (["a"], {"language": "xxx"}, "'xxx' is not an ISO 639-3 code"),
        ([], {"language": "xxx"}, None),
        (["a"], {"batch_size": 0}, "batch_size=0 must be a whole number"),
    ],
)
def test_texts_that_are_none(small, texts, fields, words):
    if words is None:
        assert small.embed_text(texts, **fields).shape == (0, 32)
        return
    with pytest.raises(UserError, match=words):
        small.embed_text(texts, **fields)


def test_texts_of_any_kind(small):
    rows = small.embed_text(["a dog", "rain"])
    assert np.array_equal(small.embed_text(text for text in ("a dog", "rain")), rows)
    assert np.array_equal(small.embed_text({"a dog": 1, "rain": 2}), rows)
    assert np.array_equal(small.embed_text(np.array(["a dog", "rain"]), iter(["eng", "deu"])), rows)
    odd = small.embed_text(["half a pair \ud83d", "a\0b", "\u200b", "🐕‍🦺"])
    assert np.isfinite(odd).all()


@pytest.mark.parametrize(
    ("labels", "fields", "words"),
    [
        ([1, 2], {}, r"labels\[0\]=1 is not text"),
        (None, {}, "give a list"),
        (["a"], {"template": None}, "template=None has no"),
        (["a"], {"top": 0}, "top=0 must be"),
    ],
)
def test_labels_that_are_none(small, labels, fields, words):
    with pytest.raises(UserError, match=words):
        small.classify([(SOUND, RATE)], labels, **fields)


def fragile(sounds):
    """A function of somebody's own that cannot bear a short sound."""
    return [[1 / (len(sound) > 100), math.log(len(sound))] for sound in sounds]


def test_a_model_that_fails_on_one_sound_answers_the_others():
    model = own(fragile, lambda texts: [[1.0, len(text)] for text in texts], sample_rate=RATE, name="fragile")
    sounds = [(noise(count, count), RATE) for count in (4000, 50, 8000, 9000)]
    rows = list(model.iter_audio(sounds, batch_size=3))
    assert [row.error for row in rows] == [
        None, "the model failed (ZeroDivisionError: division by zero)", None, None,
    ]  # fmt: skip
    alone = model.embed_audio([sounds[k] for k in (0, 2, 3)])
    assert np.array_equal(np.stack([rows[k].vector for k in (0, 2, 3)]), alone)
    with pytest.raises(UserError, match="ZeroDivisionError"):
        model.embed_audio(sounds)
    found = model.embed_audio(sounds, on_error="nan")
    assert np.isnan(found).any(1).tolist() == [False, True, False, False]


def test_arrays_of_every_kind_are_one_sound(small):
    first = small.embed_audio([(SOUND, RATE)])[0]
    both = np.stack([SOUND, SOUND])
    for samples, near in (
        (SOUND.astype(np.float64), 1e-6), (SOUND.astype(">f4"), 1e-6), (SOUND.tolist(), 1e-6),
        (np.round(SOUND * 32768).astype(np.int16), 1e-3),
        (np.round(SOUND.astype(np.float64) * 2**31).astype("i4"), 1e-5),
        (SOUND[::-1].copy()[::-1], 1e-6), (both[:, ::-1].copy()[:, ::-1], 1e-6), (np.asfortranarray(both), 1e-6),
        (np.stack([SOUND] * 64), 1e-6), (torch.from_numpy(SOUND), 1e-6),
    ):  # fmt: skip
        assert np.abs(small.embed_audio([(samples, RATE)])[0] - first).max() < near
    for rate in (8000, 11025.5, 22050, 44101, 768000):
        assert np.isfinite(small.embed_audio([(SOUND, rate), (SOUND[:1], rate)])).all()
