"""``supclap corpus compose``: scenes of synthesised sounds, or of the recordings of a bank."""

from __future__ import annotations

import json as text
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from supclap.cli.meter import Meter
from supclap.data import manifest, split
from supclap.data.scenes.bank import compose_bank, shares
from supclap.data.scenes.corpora import esc50_bank, us8k_bank
from supclap.data.scenes.grammar import LANGUAGES
from supclap.data.scenes.write import write
from supclap.schema import Clip, UserError


def compose(
    *,
    out: Path,
    bank: Path | None = None,
    count: int = 2000,
    train: int | None = None,
    val: int | None = None,
    test: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    rate: int | None = None,
    labels: str | None = None,
    languages: str | None = None,
    esc50: Path | None = None,
    workers: int | None = None,
    json: bool = False,
) -> int:
    """Compose scenes of one to four sounds with captions, order, overlap and background, and keep what is true of each.

    Parameters
    ----------
    out
        The folder to make: sounds, manifest.jsonl (train on it) and events.json (what happens when).
    bank
        Labelled recordings: ESC-50, UrbanSound8K, a table with a label column, or a folder of folders. Without it the
        sounds are synthesised.
    count
        How many scenes in all: eight tenths to train, one to validate, one to test.
    train
        How many to train, in place of a share of count; the same for val and test.
    val
        How many to validate.
    test
        How many to test.
    seconds
        Length of a scene: 10 from a bank, 5 synthesised.
    seed
        Another seed, other scenes.
    rate
        Samples a second: 32000 from a bank, 16000 synthesised.
    labels
        Only these sounds of the bank, with commas between.
    languages
        ISO 639-3 codes with commas between; all eight for synthesised scenes, eng for a bank.
    esc50
        For UrbanSound8K: where ESC-50 lies, whose recordings are left out.
    workers
        Processes; as many as there are processors by default.
    json
        Print the result as JSON.
    """
    if workers is not None and workers < 0:
        raise UserError(f"workers={workers} must be 0 or more; 0 makes the scenes in this process")
    began = time.perf_counter()
    named = {"train": train, "val": val, "test": test}
    given = {side: number for side, number in named.items() if number is not None}
    meter = Meter("scenes")
    if bank is None:
        if labels:
            raise UserError("labels belongs to --bank; synthesised scenes take every event")
        counts = {"train": 0, "val": 0, "test": 0} | (given or shares(count, {"train", "val", "test"}))
        clips = write(out, **counts, seconds=5.0 if seconds is None else seconds,
                      rate=16000 if rate is None else rate, seed=seed, workers=workers,
                      languages=words(languages) or tuple(LANGUAGES), progress=meter)  # fmt: skip
    else:
        clips = compose_bank(
            bank_of(bank, seed, esc50), out, count, 10.0 if seconds is None else seconds, seed, counts=given or None,
            rate=32000 if rate is None else rate,
            labels=words(labels), languages=words(languages) or ("eng",), workers=workers, progress=meter,
            name=bank.name,
        )  # fmt: skip
    meter.close()
    return say(out, clips, time.perf_counter() - began, json)


def bank_of(bank: Path, seed: int, esc50: Path | None) -> list[Clip]:
    """Labelled clips with a split: by the corpus's own rule where it has one, else by recording."""
    if (bank / "meta" / "esc50.csv").is_file():
        return esc50_bank(bank)
    if (bank / "metadata" / "UrbanSound8K.csv").is_file():
        return us8k_bank(bank, esc50)
    clips = [clip for clip in manifest.read(bank) if clip.label]
    if not clips:
        raise UserError(f"bank={str(bank)!r} has no labels; give a table with a label column, or a folder of folders")
    return split.split(clips, seed=seed)


def words(value: str | None) -> Sequence[str] | None:
    """What stands between commas."""
    return [word.strip() for word in value.split(",") if word.strip()] if value else None


def say(out: Path, clips: Sequence[Clip], seconds: float, json: bool) -> int:
    """The result, for people or programs."""
    splits = Counter(str(clip.split) for clip in clips)
    captions = sum(len(clip.captions) for clip in clips)
    if json:
        print(text.dumps({"out": str(out), "clips": len(clips), "captions": captions, "splits": dict(splits)}))
        return 0
    sides = ", ".join(f"{count} {side}" for side, count in splits.items())
    print(f"{out / 'manifest.jsonl'}: {len(clips)} scenes ({sides}), {captions} captions")
    print(f"made in {seconds:.0f} s; train on it: supclap train {out} --out RUN", file=sys.stderr)
    return 0
