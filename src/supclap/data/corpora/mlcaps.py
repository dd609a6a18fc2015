"""The ml-audiocaps line (ML-CLAP, Z. Yan et al.): AudioCaps and Clotho with captions in eight languages.

Two forms, as in their repository: lists ``{"data": [{"caption_1", "source_lang_1", ..., "audio", "wav", "id"}]}`` whose
paths are their owners' own, and shards of ``key.flac`` and ``key.json``, ``{"captions": {"eng_Latn": [...]}}``.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from supclap.audio.reader import walk
from supclap.data import shards, tables
from supclap.data.columns import SPLIT_NAMES, Entry, columns, entry
from supclap.data.corpora.corpus import Corpus, Found, Sounds
from supclap.data.corpora.translated import translations
from supclap.data.whole import whole
from supclap.schema import Clip, UserError

VIDEO = 11


def find(root: Path) -> Found:
    """The clips of every list and every shard in ``root``; the split is the name of the file or of its folder."""
    lists = [path for path in _ending(root, ".json") if _split(path, root)]
    packed = _unpacked(root)
    if not lists and not packed:
        raise UserError(f"{root}: ml-audiocaps is expected to hold AudioCaps/test.json and its kin, or shards (.tar)")
    clips: dict[str, Clip] = {}
    missing: list[str] = []
    notes: list[str] = []
    for path in lists:
        sounds, before = Sounds(root), len(clips)
        found = _listed(path)
        for names, one in found:
            split = str(_split(path, root))
            name = f"{_corpus(path, root)}{split}/{_stem(names[0])}"
            sound = sounds.find(*(_stem(each) for each in names))
            if sound is None:
                missing.append(name)
            else:
                clips[name] = Clip(name, sound, captions=one.captions, split=split, source=_source(names))
        notes.append(f"{path.relative_to(root)}: {len(clips) - before} of {len(found)} clips")
    for shard in packed:
        rows = shards.entries(shard)
        clips |= {f"{row.clip_id}": _inside(row, shard, root) for row in rows}
        notes.append(f"{shard.relative_to(root)}: {len(rows)} clips")
    return Found(translations(root, list(clips.values())), missing, "ml-audiocaps, " + "; ".join(notes))


def _listed(path: Path) -> list[tuple[list[str], Entry]]:
    """(names of the sound, row) of a list: their paths lead nowhere here, the names at their ends do."""
    rows = tables.rows(path)
    known = columns(list(dict.fromkeys(name for row in rows for name in row.fields)), str(path))
    out = []
    for row in rows:
        names = [str(name) for key in ("audio", "wav", "id") if (name := row.fields.get(key))]
        out.append((names, entry(row, known)))
    return out


def _unpacked(root: Path) -> list[Path]:
    """Every shard; a packed one (.tar.gz) is unpacked beside itself once."""
    for path in _ending(root, ".tar.gz"):
        plain = path.with_suffix("")
        if not plain.is_file():
            with whole(plain) as temporary, temporary.open("wb") as target:
                for piece in _pieces(path):
                    target.write(piece)
    return _ending(root, ".tar")


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as source:
            while piece := source.read(1 << 20):
                yield piece
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a whole .tar.gz file ({error})") from error


def _inside(row: Entry, shard: Path, root: Path) -> Clip:
    return Clip(str(row.clip_id), row.audio, captions=row.captions, split=row.split or _split(shard, root))


def _split(path: Path, root: Path) -> str | None:
    """The side that a name or a folder says: test.json, tar/test/test_000000.tar."""
    words = [path.name.split(".")[0], *reversed(path.relative_to(root).parts[:-1])]
    parts = [part.lower() for word in words for part in (word, *word.split("_"))]
    return next((SPLIT_NAMES[part] for part in parts if part in SPLIT_NAMES), None)


def _corpus(path: Path, root: Path) -> str:
    parts = path.relative_to(root).parts[:-1]
    return f"{parts[0]}/" if parts else ""


def _ending(root: Path, ending: str) -> list[Path]:
    found = sorted(place / name for place, names in walk(root) for name in names if name.endswith(ending))
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts)]


def _stem(name: str) -> str:
    return Path(name).stem


def _source(names: list[str]) -> str | None:
    """AudioCaps' files carry a Y before the eleven letters of the video."""
    stem = _stem(names[0])
    return f"youtube:{stem[1:]}" if stem.startswith("Y") and len(stem) == VIDEO + 1 else None


ML_AUDIOCAPS = Corpus(
    "ml-audiocaps",
    "AudioCaps and Clotho with captions in eight languages (957 and 1,045 test clips in its lists)",
    "of AudioCaps and Clotho (captions); the sounds are their owners'",
    find,
    "https://github.com/zyyan4/ml-clap",
    "a folder with AudioCaps/test.json (or shards, .tar or .tar.gz) and the sounds anywhere below it",
)
