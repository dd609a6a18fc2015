"""Corpora that supclap composes itself: of synthesised sounds, and of the recordings of ESC-50 and UrbanSound8K."""

from __future__ import annotations

from supclap.data.corpora.corpus import Corpus

_MODULE = "supclap.data.scenes.corpora"

SCENES = Corpus(
    "scenes",
    "1,900 five-second scenes of synthesised everyday sounds, captions in eight languages",
    "Apache-2.0",
    f"{_MODULE}:find_scenes",
    layout="any folder; it is made there",
    made=True,
)
SCENES_ESC50 = Corpus(
    "scenes-esc50",
    "7,500 ten-second scenes of ESC-50's recordings, train and test from different ones",
    "CC BY-NC 3.0 (ESC-50)",
    f"{_MODULE}:find_scenes_esc50",
    layout="ESC-50: audio/ and meta/esc50.csv",
)
SCENES_US8K = Corpus(
    "scenes-us8k",
    "7,500 ten-second scenes of UrbanSound8K's recordings that ESC-50 does not have",
    "CC BY-NC 3.0 (UrbanSound8K)",
    f"{_MODULE}:find_scenes_us8k",
    layout="UrbanSound8K: audio/fold*/ and metadata/UrbanSound8K.csv, with ESC-50's folder beside it",
)
