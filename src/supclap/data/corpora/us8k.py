"""UrbanSound8K (8,732 clips of up to 4 s, 10 classes, 10 folds), J. Salamon, C. Jacoby, J. P. Bello."""

from __future__ import annotations

from pathlib import Path

from supclap.data import tables
from supclap.data.corpora.corpus import Corpus, Found, Sounds, needs
from supclap.data.corpora.esc50 import TEMPLATE
from supclap.schema import Caption, Clip


def find(root: Path) -> Found:
    """Folds in ``split`` ("fold1" ...); the Freesound id, which many clips share, as source."""
    rows = tables.rows(needs(root, ("metadata/UrbanSound8K.csv", "UrbanSound8K.csv"), "UrbanSound8K"))
    sounds = Sounds(root)
    clips, missing = [], []
    for fields in (row.fields for row in rows):
        stem = Path(fields["slice_file_name"]).stem
        path = sounds.find(stem)
        if path is None:
            missing.append(f"fold{fields['fold']}/{fields['slice_file_name']}")
            continue
        label = fields["class"].replace("_", " ")
        caption = Caption(TEMPLATE.format(label=label))
        source = f"freesound:{fields['fsID']}"
        clips.append(Clip(stem, path, captions=(caption,), label=label, split=f"fold{fields['fold']}", source=source))
    folds = sorted({clip.split for clip in clips if clip.split}, key=lambda name: int(name[4:]))
    return Found(clips, missing, f"UrbanSound8K, {', '.join(folds)}")


US8K = Corpus(
    "us8k",
    "8,732 clips of 10 city sounds, 10 folds",
    "CC BY-NC 3.0",
    find,
    "https://urbansounddataset.weebly.com/urbansound8k.html",
    "a folder with metadata/UrbanSound8K.csv and audio/fold1 ... fold10",
)
