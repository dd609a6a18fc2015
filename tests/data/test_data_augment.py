"""Each augmentation against its definition."""

import numpy as np
import pytest

from supclap.data.augment import AugmentSettings, joined, overlay
from supclap.data.sample import Sample
from supclap.runtime import generator
from supclap.schema import UserError

WAVE = np.random.default_rng(0).standard_normal(8000).astype(np.float32)
SECOND = np.random.default_rng(1).standard_normal(5000).astype(np.float32) * 3


def apply(seed=0, other=None, language="eng", anchor=None, **fields):
    sample = Sample(0, WAVE, "A dog barks.", language, anchor)
    return AugmentSettings(**fields).build()(sample, 8000, generator(seed), lambda draw: other)


def level(samples):
    return 10 * np.log10(np.mean(np.square(samples, dtype=np.float64)))


def test_the_defaults_do_nothing():
    assert AugmentSettings().build() is None


def test_gain_changes_the_level_by_what_it_drew():
    found = [apply(seed, gain_db=(-6.0, 6.0)).samples for seed in range(50)]
    changes = [level(samples) - level(WAVE) for samples in found]
    assert -6 <= min(changes) < -4 and 4 < max(changes) <= 6
    assert all(np.allclose(samples / samples[0], WAVE / WAVE[0], rtol=1e-3) for samples in found)


def test_shift_turns_the_sound_around():
    found = apply(shift_seconds=0.5).samples
    steps = [k for k in range(-4000, 4001) if np.array_equal(np.roll(WAVE, k), found)]
    assert len(steps) == 1 and steps[0] != 0


def test_noise_is_as_far_below_as_asked():
    found = apply(noise=1.0, noise_db=(20.0, 20.0)).samples
    assert level(WAVE) - level(found - WAVE) == pytest.approx(20, abs=0.3)


def test_mix_lays_the_other_over_and_joins_the_captions():
    other = Sample(1, SECOND, "Rain falls", "eng")
    found = apply(mix=1.0, mix_db=(10.0, 10.0), other=other)
    rest = (found.samples - WAVE)[:5000]
    assert level(WAVE) - level(rest) == pytest.approx(10, abs=0.01)
    assert np.array_equal(found.samples[5000:], WAVE[5000:]) and found.text == "A dog barks and rain falls"
    assert apply(mix=1.0, other=None).text == "A dog barks."
    assert apply(mix=1.0, other=Sample(1, SECOND, "Il pleut", "fra")).text == "A dog barks."
    both = apply(mix=1.0, language="deu", anchor="a dog", other=Sample(1, SECOND, "Regen fällt", "deu", "rain falls"))
    assert (both.text, both.anchor) == ("A dog barks und Regen fällt", "a dog and rain falls")


def test_half_a_probability_is_half_the_time():
    other = Sample(1, SECOND, "Rain falls", "eng")
    mixed = sum(apply(seed, mix=0.5, other=other).text != "A dog barks." for seed in range(200))
    assert 70 < mixed < 130


def test_silence_is_not_blown_up():
    assert np.array_equal(overlay(WAVE, np.zeros(10, np.float32), 0.0), WAVE)
    assert not overlay(np.zeros(10, np.float32), WAVE, 0.0).any()
    assert joined("犬が吠える。", "雨が降る", "jpn") == "犬が吠える、雨が降る"


@pytest.mark.parametrize("fields", [{"mix": 1.5}, {"noise": -0.1}, {"gain_db": (3, -3)}, {"shift_seconds": -1}])
def test_settings_that_make_no_sense(fields):
    with pytest.raises(UserError):
        AugmentSettings(**fields).build()
