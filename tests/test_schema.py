"""The words that rooms share keep their fields: others read and write them by name."""

import dataclasses

import pytest

from supclap import schema

FIELDS = {
    "Caption": "text language",
    "Clip": "id audio start end captions label split source negatives",
    "Batch": "samples lengths sample_rate texts languages clip_ids anchors audio_features text_features negatives "
    "prepared",
    "Embedded": "index start end vector error",
    "Label": "name score",
    "Hit": "path start end score probability",
    "Term": "name direction query key weight scale bias",
    "LossOutput": "loss parts weights radius distance",
}


@pytest.mark.parametrize(("name", "fields"), FIELDS.items())
def test_fields(name, fields):
    assert [field.name for field in dataclasses.fields(getattr(schema, name))] == fields.split()


def test_a_clip_is_a_value():
    clip = schema.Clip("1", "a.wav", captions=(schema.Caption("a dog"),))
    assert clip == dataclasses.replace(clip) and hash(clip) == hash(dataclasses.replace(clip))
    assert clip.captions[0].language == "eng" and clip.end is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        clip.id = "2"


def test_the_protocols_know_ours():
    from supclap.objectives import CACL, DCL, InfoNCE, SigLIP, SimpleReweight

    for base in (InfoNCE(), SigLIP(), DCL(), CACL(), SimpleReweight()):
        assert isinstance(base, schema.BaseLoss)
