"""VGGSound: ten seconds of 199,000 YouTube videos in 309 classes, H. Chen et al."""

from __future__ import annotations

import csv
from pathlib import Path

from supclap.data.corpora.audiocaps import habits
from supclap.data.corpora.corpus import Corpus, Found, Sounds, needs
from supclap.data.corpora.esc50 import TEMPLATE
from supclap.data.tables import text
from supclap.schema import Caption, Clip, UserError


def find(root: Path) -> Found:
    """The rows of vggsound.csv (no header: video, start, label, split) whose sound is there."""
    table = needs(root, ("vggsound.csv",), "VGGSound")
    sounds = Sounds(root)
    clips, missing = [], []
    for number, row in enumerate(csv.reader(text(table).splitlines()), 1):
        if not row or row[0].lstrip("# ").lower() == "youtube id":
            continue
        if len(row) != 4 or not row[1].strip().isdigit() or row[3] not in ("train", "test"):
            raise UserError(f"{table}, line {number}: video, start, label, train or test is expected, not {row}")
        video, start, label, split = row[0], int(row[1]), row[2], row[3]
        path = sounds.find(*habits(video, start))
        if path is None:
            missing.append(f"{video}_{start:06d}")
            continue
        caption = Caption(TEMPLATE.format(label=label))
        source = f"youtube:{video}"
        clips.append(Clip(f"{video}_{start}", path, captions=(caption,), label=label, split=split, source=source))
    return Found(clips, missing, f"VGGSound, {len(clips)} of {len(clips) + len(missing)} clips")


VGGSOUND = Corpus(
    "vggsound",
    "ten seconds of 199,000 YouTube videos in 309 classes: train, test",
    "CC BY 4.0 (labels); the videos are their owners'",
    find,
    "https://www.robots.ox.ac.uk/~vgg/data/vggsound/",
    "a folder with vggsound.csv and the sounds anywhere below it",
)
