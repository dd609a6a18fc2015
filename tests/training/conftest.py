"""A small corpus of synthesised scenes and a small run, shared by the tests of this folder."""

import pytest

from supclap.data import manifest
from supclap.data.scenes.write import write
from supclap.training.config import recipe

SMALL = {
    "audio_tower": {"kind": "small-audio", "channels": [4, 8, 8, 8], "width": 16},
    "text_tower": {"kind": "small-text", "width": 16, "depth": 1, "heads": 2, "vocabulary": 300, "max_tokens": 96},
    "head.width": 16,
    "batch_size": 8,
    "epochs": 3,
    "device": "cpu",
}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """(clips, table): 40 clips to train on, 12 to validate, 12 to test."""
    folder = tmp_path_factory.mktemp("corpus")
    clips = write(folder, 40, 12, 12, seconds=3.0, rate=16000, languages=("eng",), workers=0)
    return clips, manifest.write(clips, folder / "table.csv")


@pytest.fixture(scope="session")
def tiny(corpus):
    """A RunConfig over the corpus; keyword arguments and a dict of dotted names change it."""

    def make(fields=None, **more):
        return recipe("small", {**SMALL, "data": str(corpus[1]), **(fields or {}), **more})

    return make
