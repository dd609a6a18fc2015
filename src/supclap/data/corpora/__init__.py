"""Public corpora, as their owners ship them."""

from __future__ import annotations

from supclap.data.corpora.audiocaps import AUDIOCAPS
from supclap.data.corpora.clotho import CLOTHO
from supclap.data.corpora.corpus import Corpus, Found
from supclap.data.corpora.esc50 import ESC10, ESC50
from supclap.data.corpora.mlcaps import ML_AUDIOCAPS
from supclap.data.corpora.scenes import SCENES, SCENES_ESC50, SCENES_US8K
from supclap.data.corpora.us8k import US8K
from supclap.data.corpora.vggsound import VGGSOUND
from supclap.data.corpora.wavcaps import WAVCAPS

__all__ = ["CORPORA", "Corpus", "Found"]

CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        SCENES,
        SCENES_ESC50,
        SCENES_US8K,
        ESC50,
        ESC10,
        US8K,
        AUDIOCAPS,
        ML_AUDIOCAPS,
        CLOTHO,
        WAVCAPS,
        VGGSOUND,
    )
}
