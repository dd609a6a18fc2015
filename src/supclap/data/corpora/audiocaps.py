"""AudioCaps (v1, v2): captions of ten seconds of YouTube videos, C. D. Kim et al.

The csv tables are the owners'; the sounds are whatever people have fetched, under any of the names in use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supclap.data import tables
from supclap.data.corpora.corpus import Corpus, Found, Sounds
from supclap.data.corpora.translated import translations
from supclap.schema import Caption, Clip, UserError

SECONDS = 10
OFFICIAL = {"train": 49_838, "val": 495, "test": 975}
# Captions in further languages lie beside the tables, as test_jpn.csv.
TABLES = {
    "train": ("train.csv", "audiocaps_train.csv", "train2.csv"),
    "val": ("val.csv", "audiocaps_val.csv"),
    "test": ("test.csv", "audiocaps_test.csv"),
}


def find(root: Path) -> Found:
    """The clips of every table in ``root`` (or in ``root/dataset``), one a video, all its captions."""
    folder = next((place for place in (root, root / "dataset", root / "captions") if _here(place)), None)
    if folder is None:
        raise UserError(f"{root}: AudioCaps is expected to hold train.csv, val.csv or test.csv")
    sounds = Sounds(root)
    clips: list[Clip] = []
    missing: list[str] = []
    notes: list[str] = []
    for split, name in _here(folder).items():
        videos = _videos(name)
        found = [(key, path) for key in videos if (path := sounds.find(*habits(*key))) is not None]
        missing += [f"{video}_{start}" for video, start in videos if sounds.find(*habits(video, start)) is None]
        notes.append(f"{split}: {len(found)} of {len(videos)} clips (official: {OFFICIAL[split]})")
        clips += [_clip(key, path, videos[key], split) for key, path in found]
    return Found(translations(folder, clips, alone=_ids), missing, "AudioCaps, " + "; ".join(notes))


def _here(folder: Path) -> dict[str, Path]:
    found = {split: [folder / name for name in names if (folder / name).is_file()] for split, names in TABLES.items()}
    return {split: paths[0] for split, paths in found.items() if paths}


def _videos(table: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    videos: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in tables.rows(table):
        try:
            key = (row.fields["youtube_id"], int(float(row.fields["start_time"])))
        except (KeyError, ValueError) as error:
            raise UserError(f"{row.place}: AudioCaps rows hold youtube_id and start_time ({error})") from error
        videos.setdefault(key, []).append(row.fields)
    return videos


def _clip(key: tuple[str, int], path: str, rows: list[dict[str, Any]], split: str) -> Clip:
    captions = tuple(Caption(row["caption"].strip()) for row in rows)
    return Clip(f"{key[0]}_{key[1]}", path, captions=captions, split=split, source=f"youtube:{key[0]}")


def _ids(fields: dict[str, Any]) -> str:
    """The clip that a row of a further language is of."""
    return f"{fields['youtube_id']}_{int(float(fields['start_time']))}"


def habits(video: str, start: int) -> tuple[str, ...]:
    """The stems under which people keep a clip, the most telling first."""
    end = start + SECONDS
    both = (f"{video}_{start}_{end}", f"{video}_{start * 1000}_{end * 1000}", f"{video}_{start}", f"{video}-{start}")
    padded = (f"{video}_{start:06d}", f"{video}_{start}.0_{end}.0", f"{video}_{start}.000_{end}.000")
    return tuple(mark + name for mark in ("", "Y") for name in (*both, *padded, video))


AUDIOCAPS = Corpus(
    "audiocaps",
    "captions of ten seconds of YouTube videos: train, val, test (975 official; 957 and 952 in use)",
    "MIT (captions); the videos are their owners'",
    find,
    "https://github.com/cdjkim/audiocaps",
    "a folder with train.csv, val.csv, test.csv and the sounds anywhere below it",
)
