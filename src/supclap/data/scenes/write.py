"""Scenes as a folder: sounds, a manifest of captions, and what is true of each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supclap.data.scenes.compose import Script, scripts
from supclap.data.scenes.grammar import LANGUAGES
from supclap.data.scenes.plan import LONGEST, SHORTEST
from supclap.data.scenes.pool import Progress, spread
from supclap.data.scenes.render import render
from supclap.data.scenes.truth import Truth
from supclap.schema import FORMAT, Caption, Clip, UserError
from supclap.settings import write_json

MANIFEST, EVENTS_FILE, SETTINGS_FILE = "manifest.jsonl", "events.json", "scenes.json"


def write(
    folder: str | os.PathLike[str],
    train: int = 1500,
    val: int = 200,
    test: int = 200,
    *,
    seconds: float = 5.0,
    rate: int = 16000,
    seed: int = 0,
    languages: Sequence[str] = tuple(LANGUAGES),
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Clip]:
    """Compose a corpus into a folder, or take what stands there if it was made with the same settings."""
    root = Path(folder)
    check_counts({"train": train, "val": val, "test": test}, seconds, rate)
    asked = {"format": FORMAT, "train": train, "val": val, "test": test, "seconds": seconds, "rate": rate, "seed": seed,
             "languages": list(languages)}  # fmt: skip
    if finished(root, asked):
        return read_manifest(root)
    written = [
        script
        for split, count in (("train", train), ("val", val), ("test", test))
        for script in scripts(count, seed, split, seconds, languages=languages)
    ]
    root.mkdir(parents=True, exist_ok=True)
    jobs = [(script, rate, str(root / f"{script.id}.flac")) for script in written]
    spread(_write_one, jobs, workers, progress)
    return finish(root, asked, [(s.id, s.split, s.captions, s.truth) for s in written])


def check_counts(counts: Mapping[str, int], seconds: float, rate: int) -> None:
    """UserError for numbers that no corpus can have."""
    for split, count in counts.items():
        if count < 0:
            raise UserError(f"{split}={count}: give a number of scenes, 0 or more")
    if not any(counts.values()):
        raise UserError("no scene is asked for; give train, val or test a number")
    if not SHORTEST <= seconds <= LONGEST:
        raise UserError(f"seconds={seconds!r}: a scene lasts between {SHORTEST:g} and {LONGEST:g} seconds")
    if not 8000 <= rate <= 192000:
        raise UserError(f"rate={rate}: between 8000 and 192000 samples a second")


def _write_one(job: tuple[Script, int, str]) -> None:
    script, rate, path = job
    save_sound(path, render(script.truth, rate, script.seed), rate)


def save_sound(path: str | os.PathLike[str], samples: NDArray[np.float32], rate: int) -> None:
    """A 16-bit sound file by its suffix (FLAC, WAV), whole or not at all."""
    import soundfile

    target = Path(path)
    temporary = target.with_name(f".{os.getpid()}.{target.name}")
    steps = np.clip(np.round(samples.astype(np.float64) * 32768), -32768, 32767).astype(np.int16)
    soundfile.write(temporary, steps, rate, subtype="PCM_16", format=target.suffix[1:].upper())
    temporary.replace(target)


def finished(root: Path, asked: Mapping[str, Any]) -> bool:
    """Was this folder made, whole, with these settings? A folder made with others is refused."""
    path = root / SETTINGS_FILE
    if not path.is_file():
        return False
    stands = json.loads(path.read_text(encoding="utf8"))
    if stands == json.loads(json.dumps(asked)):
        return True
    changed = sorted(name for name in {*asked, *stands} if stands.get(name) != asked.get(name))
    raise UserError(f"{root} holds scenes made with another {', '.join(changed)}; give another folder or remove it")


def finish(
    root: Path,
    asked: Mapping[str, Any],
    rows: Sequence[tuple[str, str, tuple[Caption, ...], Truth]],
    sources: Mapping[str, Sequence[str]] | None = None,
) -> list[Clip]:
    """Write the tables beside the sounds; the settings come last and say that all is there."""
    lines = []
    truths = {}
    for name, split, captions, truth in rows:
        line: dict[str, Any] = {"clip_id": name, "audio": f"{name}.flac", "split": split, "source": name}
        for caption in captions:
            line.setdefault(f"caption_{caption.language}", []).append(caption.text)
        lines.append(json.dumps(line, ensure_ascii=False))
        truths[name] = truth.to_dict() | ({"sources": list(sources[name])} if sources else {})
    (root / MANIFEST).write_text("\n".join(lines) + "\n", encoding="utf8")
    write_json(truths, root / EVENTS_FILE)
    write_json(asked, root / SETTINGS_FILE)
    return read_manifest(root)


def read_manifest(folder: str | os.PathLike[str]) -> list[Clip]:
    """The clips of a folder that ``write`` made."""
    root = Path(folder)
    clips = []
    for line in (root / MANIFEST).read_text(encoding="utf8").splitlines():
        row = json.loads(line)
        captions = tuple(
            Caption(text, column.removeprefix("caption_"))
            for column, texts in row.items()
            if column.startswith("caption_")
            for text in texts
        )
        audio = str((root / row["audio"]).absolute())
        clips.append(Clip(row["clip_id"], audio, captions=captions, split=row["split"], source=row["source"]))
    return clips


def read_truths(folder: str | os.PathLike[str]) -> dict[str, Truth]:
    """What is true of each clip of a folder, by clip id."""
    path = Path(folder) / EVENTS_FILE
    if not path.is_file():
        raise UserError(f"{path}: no such file; this folder was not made by supclap's composer")
    return {name: Truth.from_dict(fields) for name, fields in json.loads(path.read_text(encoding="utf8")).items()}
