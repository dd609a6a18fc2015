"""ESC-50 (2,000 clips of 5 s, 50 classes, 5 folds; ESC-10 is ten of the classes), K. J. Piczak."""

from __future__ import annotations

from pathlib import Path

from supclap.data import tables
from supclap.data.corpora.corpus import Corpus, Found, Sounds, needs
from supclap.schema import Caption, Clip

TEMPLATE = "This is a sound of {label}"


def find(root: Path) -> Found:
    """Folds as owners number them in ``split`` ("fold1" ...); the Freesound id as source."""
    return read(root, ten=False)


def find_ten(root: Path) -> Found:
    """The ten classes of ESC-10."""
    return read(root, ten=True)


def read(root: Path, ten: bool) -> Found:
    """The clips of ``meta/esc50.csv`` whose sound is in ``audio/``, whatever its format."""
    rows = tables.rows(needs(root, ("meta/esc50.csv", "esc50.csv"), "ESC-50"))
    sounds = Sounds(root)
    clips, missing = [], []
    for row in rows:
        fields = row.fields
        if ten and str(fields["esc10"]).lower() != "true":
            continue
        path = sounds.find(Path(fields["filename"]).stem)
        if path is None:
            missing.append(fields["filename"])
            continue
        label = fields["category"].replace("_", " ")
        clips.append(
            Clip(
                id=Path(fields["filename"]).stem,
                audio=path,
                captions=(Caption(TEMPLATE.format(label=label)),),
                label=label,
                split=f"fold{fields['fold']}",
                source=f"freesound:{fields['src_file']}",
            )
        )
    folds = sorted({clip.split for clip in clips if clip.split})
    return Found(clips, missing, f"{'ESC-10' if ten else 'ESC-50'}, {', '.join(folds)}")


LICENCE = "CC BY-NC 3.0 (ESC-10: CC BY 3.0)"
HOME = "https://github.com/karolpiczak/ESC-50"
LAYOUT = "a folder with meta/esc50.csv and audio/"
ESC50 = Corpus("esc50", "2,000 recordings of 50 everyday sounds, 5 folds", LICENCE, find, HOME, LAYOUT)
ESC10 = Corpus("esc10", "the 400 recordings of ESC-50's ten plainest classes", LICENCE, find_ten, HOME, LAYOUT)
