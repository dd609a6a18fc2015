"""WavCaps: 403,050 sounds with one caption each, written by a language model, X. Mei et al.

Four parts as JSON: {"num_captions_per_audio": 1, "data": [{"id", "caption", "duration", ...}]}. The blacklists that are
shipped with them name clips of the corpora that models are tested on; every list that is there is applied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from supclap.audio.reader import walk
from supclap.data import tables
from supclap.data.corpora.corpus import Corpus, Found, Sounds
from supclap.data.corpora.translated import translations
from supclap.runtime import derive
from supclap.schema import Caption, Clip, UserError

PARTS = {
    "AudioSet_SL": ("as_final.json", "youtube"),
    "BBC_Sound_Effects": ("bbc_final.json", "bbc"),
    "FreeSound": ("fsd_final.json", "freesound"),
    "SoundBible": ("sb_final.json", "soundbible"),
}
BLACKLISTS = {"AudioSet_SL": "AudioSet", "FreeSound": "FreeSound"}
# As many as in the paper's table; which ones it held out is not known. Ours are those whose ids hash lowest.
HELD_OUT, VALIDATION = 5_000, 2_500


def find(root: Path) -> Found:
    """The clips of the parts that are there, without the blacklisted ones."""
    folder = root / "json_files" if (root / "json_files").is_dir() else root
    present = {part: folder / part / name for part, (name, _) in PARTS.items() if (folder / part / name).is_file()}
    if not present:
        raise UserError(f"{root}: WavCaps is expected to hold json_files/FreeSound/fsd_final.json and its kin")
    banned, lists = _banned(folder)
    rows, dropped = [], 0
    for part, path in present.items():
        for fields in (row.fields for row in tables.rows(path)):
            if _stem(fields["id"]) in banned.get(part, ()):
                dropped += 1
            else:
                rows.append((part, fields))
    clips, missing = _clips(root, rows)
    note = f"WavCaps, {', '.join(present)}: {len(clips)} of {len(rows)} clips; {dropped} left out by {lists} blacklists"
    return Found(translations(root, clips), missing, note)


def _clips(root: Path, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[list[Clip], list[str]]:
    # One number may name a sound in two parts, so that each part is looked for in its own folder.
    # The owners' zip files unpack to folders like FreeSound_flac.
    places = [place for place, _ in walk(root)]
    sounds = {part: [Sounds(place) for place in places if place.name in (part, f"{part}_flac")] for part in PARTS}
    sides = held_out([f"{part}/{_stem(fields['id'])}" for part, fields in rows])
    clips, missing = [], []
    for part, fields in rows:
        stem = _stem(fields["id"])
        name = f"{part}/{stem}"
        path = next((found for place in sounds[part] if (found := place.find(stem))), None)
        if path is None:
            missing.append(name)
            continue
        # AudioSet's files carry a Y before the number of the video.
        source = f"{PARTS[part][1]}:{stem[1:] if part == 'AudioSet_SL' else stem}"
        clips.append(Clip(name, path, captions=(Caption(fields["caption"].strip()),), split=sides[name], source=source))
    return clips, missing


def held_out(names: Sequence[str]) -> dict[str, str]:
    """5,000 to test, 2,500 to validate, by hash over the whole table: the same whatever sounds are there."""
    ranked = sorted(set(names), key=lambda name: derive(0, "wavcaps", name))
    # A table that is much smaller than the real one keeps nine tenths to train on.
    test, val = min(HELD_OUT, len(ranked) // 15), min(VALIDATION, len(ranked) // 30)
    return {name: "test" if k < test else "val" if k < test + val else "train" for k, name in enumerate(ranked)}


def _banned(folder: Path) -> tuple[dict[str, set[str]], int]:
    banned: dict[str, set[str]] = {part: set() for part in BLACKLISTS}
    files = sorted((folder / "blacklist").glob("*.json"))
    for path in files:
        try:
            names = json.loads(path.read_text("utf8"))
            for part, key in BLACKLISTS.items():
                banned[part] |= {_stem(name) for name in names.get(key, ())}
        except (ValueError, AttributeError, TypeError) as error:
            raise UserError(f"{path}: a blacklist is an object of lists, AudioSet and FreeSound ({error})") from error
    return banned, len(files)


def _stem(name: object) -> str:
    """The id without the suffix that some tables give it; ids of AudioSet may hold dots."""
    text = str(name)
    return text[: -len(".wav")] if text.endswith(".wav") else text


WAVCAPS = Corpus(
    "wavcaps",
    "403,050 sounds of AudioSet, BBC, Freesound and SoundBible with one caption each",
    "CC BY 4.0 (captions), academic use; the sounds are their owners'",
    find,
    "https://huggingface.co/datasets/cvssp/WavCaps",
    "a folder with json_files/ (and json_files/blacklist/), and the sounds in folders of the parts' names",
)
