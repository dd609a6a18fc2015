"""Scenes as corpora by name: ``scenes``, and ``scenes-esc50`` and ``scenes-us8k`` over real recordings."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from supclap.audio.reader import SUFFIXES
from supclap.data.scenes.bank import compose_bank
from supclap.data.scenes.pool import Progress
from supclap.data.scenes.write import write
from supclap.runtime import derive
from supclap.schema import Clip, UserError
from supclap.settings import cache_folder

if TYPE_CHECKING:
    from supclap.data.corpora.corpus import Found


def scenes_esc50(
    root: str | os.PathLike[str],
    out: str | os.PathLike[str],
    train: int = 6000,
    val: int = 500,
    test: int = 1000,
    seconds: float = 10.0,
    seed: int = 0,
    *,
    rate: int = 32000,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Clip]:
    """Scenes from ESC-50: folds 1 to 3 train, fold 4 validates and tests, by recording."""
    counts = {"train": train, "val": val, "test": test}
    return compose_bank(esc50_bank(root), out, seconds=seconds, seed=seed, counts=counts, rate=rate, workers=workers,
                        progress=progress, name="esc50")  # fmt: skip


def scenes_us8k(
    root: str | os.PathLike[str],
    out: str | os.PathLike[str],
    train: int = 6000,
    val: int = 500,
    test: int = 1000,
    seconds: float = 10.0,
    seed: int = 0,
    *,
    rate: int = 32000,
    workers: int | None = None,
    esc50: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[Clip]:
    """Scenes from UrbanSound8K: folds 1 and 3 train (some of their recordings validate), fold 2 tests."""
    counts = {"train": train, "val": val, "test": test}
    return compose_bank(us8k_bank(root, esc50), out, seconds=seconds, seed=seed, counts=counts, rate=rate,
                        workers=workers, progress=progress, name="us8k")  # fmt: skip


def esc50_bank(root: str | os.PathLike[str]) -> list[Clip]:
    """ESC-50's folds 1 to 4 as a bank; in fold 4 a class with one recording goes to test only."""
    folder = Path(root)
    table = _rows(folder / "meta" / "esc50.csv")
    trained = {row["src_file"] for row in table if row["fold"] in "123"}
    sides: dict[str, str] = {}
    for category in sorted({row["category"] for row in table}):
        sources = {row["src_file"] for row in table if row["category"] == category and row["fold"] == "4"} - trained
        sides |= _sides(sorted(sources - sides.keys()))
    clips = []
    for row in table:
        split = "train" if row["fold"] in "123" else sides.get(row["src_file"]) if row["fold"] == "4" else None
        if split is not None:
            clips.append(_clip(folder / "audio", row["filename"], row["category"], split, row["src_file"]))
    return _found(clips, folder)


def _sides(sources: Sequence[str], other: str = "test", share: int = 3) -> dict[str, str]:
    """One recording in ``share`` validates (none where there is but one), the others go to the other side."""
    order = sorted(sources, key=lambda source: derive(0, "side", source))
    few = 0 if len(order) < 2 else max(1, len(order) // share)
    return {source: "val" if rank < few else other for rank, source in enumerate(order)}


def us8k_bank(root: str | os.PathLike[str], esc50: str | os.PathLike[str] | None = None) -> list[Clip]:
    """UrbanSound8K's folds 1 to 3 as a bank, without the recordings that ESC-50 has too."""
    folder = Path(root)
    table = _rows(folder / "metadata" / "UrbanSound8K.csv")
    common = esc50_sources(folder, esc50)
    tested = {row["fsID"] for row in table if row["fold"] == "2"}
    kept = [row for row in table if row["fold"] in "123" and row["fsID"] not in common
            and (row["fold"] == "2" or row["fsID"] not in tested)]  # fmt: skip
    sides: dict[str, str] = {}
    for name in sorted({row["class"] for row in kept}):
        sources = {row["fsID"] for row in kept if row["class"] == name and row["fold"] != "2"}
        sides |= _sides(sorted(sources - sides.keys()), "train", share=8)
    clips = []
    for row in kept:
        split = "test" if row["fold"] == "2" else sides[row["fsID"]]
        place = folder / "audio" / f"fold{row['fold']}"
        clips.append(_clip(place, row["slice_file_name"], row["class"], split, row["fsID"]))
    return _found(clips, folder)


def esc50_sources(us8k: Path, esc50: str | os.PathLike[str] | None) -> set[str]:
    """The Freesound numbers of ESC-50's recordings, from its folder or one beside UrbanSound8K's."""
    places = (
        [Path(esc50)] if esc50 else [us8k.absolute().parent / name for name in ("esc50", "ESC-50", "ESC-50-master")]
    )
    for place in places:
        if (place / "meta" / "esc50.csv").is_file():
            return {row["src_file"] for row in _rows(place / "meta" / "esc50.csv")}
    raise UserError(f"esc50={str(esc50 or places[0])!r}: meta/esc50.csv is needed there, since recordings that "
                    "ESC-50 has too are left out of scenes-us8k")  # fmt: skip


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise UserError(f"{path}: no such file; give the folder as its owners ship it")
    with path.open(encoding="utf8", newline="") as stream:
        return list(csv.DictReader(stream))


def _clip(folder: Path, name: str, label: str, split: str, source: str) -> Clip:
    """A row whose file may have been converted: any suffix will do."""
    path = folder / name
    if not path.is_file():
        converted = (path.with_suffix(suffix) for suffix in sorted(SUFFIXES))
        path = next((other for other in converted if other.is_file()), path)
    return Clip(path.stem, str(path), label=label, split=split, source=source)


def _found(clips: Iterable[Clip], folder: Path) -> list[Clip]:
    there = [clip for clip in clips if Path(clip.audio).is_file()]
    if not there:
        raise UserError(f"{folder}: none of the sounds that its table names is there")
    return there


# -- by name ---------------------------------------------------------------------------------------------------------


def find_scenes(root: Path) -> Found:
    """The embedded corpus in a folder; made there if it does not stand yet."""
    from supclap.data.corpora.corpus import Found

    return Found(write(root), note="synthesised scenes; no recording")


def find_scenes_esc50(root: Path) -> Found:
    """Scenes from the ESC-50 that lies under ``root``, kept in the cache."""
    from supclap.data.corpora.corpus import Found

    out = cache_folder("corpora", f"scenes-esc50-{derive(0, str(root.absolute())):x}")
    return Found(scenes_esc50(root, out), note="composed from ESC-50: folds 1-3 train, fold 4 validates and tests")


def find_scenes_us8k(root: Path) -> Found:
    """Scenes from the UrbanSound8K that lies under ``root``, kept in the cache."""
    from supclap.data.corpora.corpus import Found

    out = cache_folder("corpora", f"scenes-us8k-{derive(0, str(root.absolute())):x}")
    return Found(scenes_us8k(root, out), note="composed from UrbanSound8K: folds 1, 3 train, 2 tests; none of ESC-50's")
