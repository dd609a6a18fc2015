"""Clotho (v1, v2.1): 15 to 30 s of Freesound recordings, five captions each, K. Drossos et al."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from supclap.data import tables
from supclap.data.corpora.corpus import Corpus, Found, Sounds
from supclap.data.corpora.translated import translations
from supclap.schema import Caption, Clip, UserError

PARTS = {"train": "development", "val": "validation", "test": "evaluation"}
OFFICIAL = {"train": 3_839, "val": 1_045, "test": 1_045}


def find(root: Path) -> Found:
    """The clips of ``clotho_captions_*.csv``; the Freesound id as source where the metadata tables are there."""
    parts = {split: table for split, part in PARTS.items() if (table := _table(root, f"clotho_captions_{part}.csv"))}
    if not parts:
        raise UserError(f"{root}: Clotho is expected to hold clotho_captions_development.csv and its kin")
    clips: list[Clip] = []
    missing: list[str] = []
    notes: list[str] = []
    for split, table in parts.items():
        rows = tables.rows(table)
        # The same file name stands in several parts: a part is looked for in its own folder first.
        own = next((place for place in (root / PARTS[split], root / "audio" / PARTS[split]) if place.is_dir()), root)
        sounds, sources = Sounds(own), _sources(root, PARTS[split])
        before = len(clips)
        for fields in (row.fields for row in rows):
            name = fields["file_name"]
            path = sounds.find(Path(name).stem, *_spellings(Path(name).stem))
            if path is None:
                missing.append(f"{PARTS[split]}/{name}")
                continue
            said = [str(fields[key]).strip() for key in fields if key.startswith("caption_") and fields[key]]
            captions = tuple(Caption(text) for text in said)
            clips.append(Clip(f"{PARTS[split]}/{name}", path, captions=captions, split=split, source=sources.get(name)))
        notes.append(f"{split}: {len(clips) - before} of {len(rows)} clips (official: {OFFICIAL[split]})")
    return Found(translations(root, clips), missing, "Clotho, " + "; ".join(notes))


def _table(root: Path, name: str) -> Path | None:
    return next((place / name for place in (root, root / "captions") if (place / name).is_file()), None)


def _spellings(stem: str) -> tuple[str, ...]:
    """Other ways in which an unpacker may have written a name."""
    forms = (unicodedata.normalize(form, stem) for form in ("NFC", "NFD"))
    return (*forms, stem.strip(), stem.replace(":", "_"), stem.replace(":", ""), stem.rstrip("."))


def _sources(root: Path, part: str) -> dict[str, str]:
    table = _table(root, f"clotho_metadata_{part}.csv")
    if table is None:
        return {}
    rows = [row.fields for row in tables.rows(table)]
    return {
        row["file_name"]: f"freesound:{row['sound_id']}" for row in rows if str(row.get("sound_id") or "").isdigit()
    }


CLOTHO = Corpus(
    "clotho",
    "15 to 30 s of Freesound recordings, five captions each: development, validation, evaluation",
    "Tampere University licence, non-commercial (captions); Freesound licences (sounds)",
    find,
    "https://zenodo.org/records/4783391",
    "a folder with clotho_captions_*.csv, and the sounds in development/, validation/ and evaluation/",
)
