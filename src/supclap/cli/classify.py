"""``supclap classify``: names for sounds, as a table that can be corrected and trained on."""

from __future__ import annotations

import csv
import io
import json as text
import sys
from pathlib import Path
from typing import Any

from supclap.audio.reader import SUFFIXES, sound_files
from supclap.cli.meter import Meter, shown
from supclap.embedding.sparing import decoders
from supclap.encoders import hub
from supclap.encoders.languages import check as check_language
from supclap.schema import Label, UserError
from supclap.searching.labelling import heard

BRIDGE_NOTE = "model: AudioSet-supervised tagger, label bridge"
_CHUNK = 64
_FEW = 30  # the smallest collection that a calibration is fitted on
_COLUMNS = ("audio", "caption", "label", "score")


def classify(
    *files: Path,
    labels: str,
    model: str = "bridge",
    out: Path | None = None,
    top: int = 1,
    multi: bool = False,
    template: str | None = None,
    caption: str = "the sound of {label}",
    language: str = "eng",
    batch_size: int = 32,
    workers: int = 0,
    json: bool = False,
) -> int:
    """Label sounds by names, with no training (bridge) or with a model of your own.

    Parameters
    ----------
    files
        Folders or sound files.
    labels
        Names with commas between them: dog,rain,"car horn"; or @FILE with one name a line.
    model
        bridge, bridge:use (multilingual), a run, a saved model or a hub id.
    out
        A csv with the columns audio, caption, label, score: correct it by hand, then `supclap train` takes it.
    top
        How many labels to show; the csv holds the best one.
    multi
        Every label that is heard, or none: takes a calibrated model (supclap calibrate).
    template
        The text around each {label} that the model reads; the model's own where it is not given.
    caption
        The sentence around each {label} in the csv's caption column.
    language
        The language of the labels.
    batch_size
        How many windows the model takes at once.
    workers
        Threads that decode.
    json
        One JSON object on stdout.
    """
    names = _names(labels, 1 if multi else 2)
    _check(caption, template, top, batch_size, workers, out)
    check_language([language], 1)
    paths = _paths(files)
    if model.split(":")[0] == "bridge":
        print(BRIDGE_NOTE, file=sys.stderr)
    if multi:
        good, bad = _multi(model, paths, names, template, language, workers, out)
    else:
        good, bad = _classify(model, paths, names, top, template, language, batch_size, workers)
    for path, reason in bad:
        print(f"unreadable: {shown(path)}: {reason}", file=sys.stderr)
    if out is not None:
        count = _write(out, good, caption, multi)
        print(f"{out}: {count:,} rows; correct them by hand, then: supclap train {out} --out RUN", file=sys.stderr)
    if json:
        print(text.dumps(_plain(model, good, bad), ensure_ascii=False, indent=1))
    elif out is None:
        _show(good)
    return 0


def _check(caption: str, template: str | None, top: int, batch_size: int, workers: int, out: Path | None) -> None:
    """UserError for what can be told before anything is heard."""
    for field, words in (("caption", caption), ("template", template)):
        if words is not None and "{label}" not in words:
            raise UserError(f"{field}={words!r} has no {{label}} in it")
    if top < 1 or batch_size < 1:
        raise UserError(f"top={top}, batch_size={batch_size}: each must be at least 1")
    decoders(workers)
    if out is not None and out.exists():
        # It may hold hours of corrections.
        raise UserError(f"out={str(out)!r} is there; give another name, or remove it first")


Labelled = list[tuple[Path, list[Label]]]
Unreadable = list[tuple[Path, str]]


def _names(labels: str, least: int) -> list[str]:
    if labels.startswith("@"):
        try:
            found = Path(labels[1:]).read_text(encoding="utf8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
            raise UserError(f"labels={labels!r}: {said}; give @FILE with one name a line") from error
    else:
        found = next(csv.reader(io.StringIO(labels), skipinitialspace=True), [])
    names = [name.strip() for name in found if name.strip()]
    if len(names) < least:
        wanted = "two or more" if least > 1 else "one or more"
        raise UserError(f"labels={labels!r} names {len(names)}; give {wanted}, with commas between them")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"labels={labels!r} names {', '.join(twice)} twice; give each once")
    return names


def _paths(files: tuple[Path, ...]) -> list[Path]:
    paths: list[Path] = []
    for file in files:
        if not file.exists():
            raise UserError(f"{file}: no such file or folder")
        paths += sound_files(file) if file.is_dir() else [file]
    if not paths:
        shown = ", ".join(map(str, files)) or "no file was given"
        raise UserError(f"{shown}: no sound file there; sounds end in {', '.join(sorted(SUFFIXES)[:12])} and others")
    return paths


def _classify(
    model: str,
    paths: list[Path],
    names: list[str],
    top: int,
    template: str | None,
    language: str,
    batch_size: int,
    workers: int,
) -> tuple[Labelled, Unreadable]:
    loaded = hub.load(model)
    options: dict[str, Any] = {"top": top, "language": language, "batch_size": batch_size, "workers": workers}
    if template is not None:
        options["template"] = template
    good: Labelled = []
    bad: Unreadable = []
    meter = Meter()
    for first in range(0, len(paths), _CHUNK):
        chunk = paths[first : first + _CHUNK]
        try:
            good += zip(chunk, loaded.classify(chunk, names, **options), strict=True)
        except UserError:
            # One of them cannot be read: which one shows when each is asked by itself.
            _one_by_one(loaded, chunk, names, options, good, bad)
        meter(min(first + _CHUNK, len(paths)), len(paths))
    meter.close()
    if not good:
        raise UserError(f"none of {len(paths)} files was labelled; the first one, {bad[0][0]}: {bad[0][1]}")
    return good, bad


def _multi(
    model: str, paths: list[Path], names: list[str], template: str | None, language: str, workers: int, out: Path | None
) -> tuple[Labelled, Unreadable]:
    meter = Meter()
    options: dict[str, Any] = {} if template is None else {"template": template}
    found = heard(list(map(str, paths)), names, model, language=language, workers=workers, progress=meter, **options)
    meter.close()
    if found.threshold is None:
        way = f"run `supclap calibrate {model} DATA` with labelled sounds"
        if out is not None:
            raise UserError(
                f"multi with out={str(out)!r}: {model} is not calibrated, so no label can be left out; {way}"
            )
        print(f"scores are raw and every label is shown: {model} is not calibrated; {way}", file=sys.stderr)
    elif not found.alone and len(found.paths) < _FEW:
        print(f"{len(found.paths)} files are few: how high a score is shows among {_FEW} or more", file=sys.stderr)
    bad = [(Path(path), reason) for path, reason in found.unreadable]
    return list(zip(map(Path, found.paths), found.labels, strict=True)), bad


def _one_by_one(
    loaded: Any, paths: list[Path], names: list[str], options: dict[str, Any], good: Labelled, bad: Unreadable
) -> None:
    for path in paths:
        try:
            good.append((path, loaded.classify([path], names, **options)[0]))
        except UserError as error:
            bad.append((path, str(error).removeprefix(f"{path}: ")))


def _write(out: Path, good: Labelled, caption: str, multi: bool) -> int:
    """The number of rows: one a file, or one a label that was heard."""
    count = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("x", encoding="utf8", newline="") as file:
        table = csv.writer(file)
        table.writerow(_COLUMNS)
        for path, labels in good:
            if not _is_text(path):
                print(f"not in {out}: {shown(path)}: its name is no UTF-8; rename it", file=sys.stderr)
                continue
            for label in labels if multi else labels[:1]:
                # Absolute: the table must find its sounds wherever it is moved.
                row = (path.absolute(), caption.replace("{label}", label.name), label.name, f"{label.score:.4f}")
                table.writerow(row)
                count += 1
    return count


def _is_text(path: Path) -> bool:
    try:
        str(path).encode("utf8")
    except UnicodeEncodeError:
        return False
    return True


def _plain(model: str, good: Labelled, bad: Unreadable) -> dict[str, object]:
    return {
        "model": model,
        "files": [
            {"audio": str(path), "labels": [{"name": label.name, "score": label.score} for label in labels]}
            for path, labels in good
        ],
        "unreadable": [{"audio": str(path), "reason": reason} for path, reason in bad],
    }


def _show(good: Labelled) -> None:
    for path, labels in good:
        print(f"{shown(path)}\t" + ("\t".join(f"{label.name} {label.score:.3f}" for label in labels) or "none"))
