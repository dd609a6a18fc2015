"""What every corpus says of itself, and how its files are found."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from supclap.audio.reader import SUFFIXES, walk
from supclap.schema import Clip, UserError


@dataclass(frozen=True)
class Found:
    """The clips whose sound is there, the names of those whose is not, and what a score over them must say."""

    clips: list[Clip]
    missing: list[str] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True)
class Corpus:
    """A public corpus: ``finder`` reads its root as its owners ship it; ``made``: composed here, no download.

    The finder is a function, or "module:function" where its module is heavy.
    """

    name: str
    about: str
    licence: str
    finder: Callable[[Path], Found] | str
    home: str = ""
    layout: str = ""
    made: bool = False

    def prepare(self, root: str | Path) -> list[Clip]:
        """The clips whose sound is there."""
        return self.find(root).clips

    def find(self, root: str | Path) -> Found:
        """The clips whose sound is there, and what is missing; UserError if nothing is there."""
        folder = Path(root).expanduser()
        if not self.made and not folder.is_dir():
            raise UserError(f"{root}: no such folder; {self.name} is expected as {self.layout or self.home}")
        found = self._finder()(folder)
        if not found.clips:
            first = f", the first is {found.missing[0]}" if found.missing else ""
            raise UserError(f"{root}: no sound of {self.name} is here ({len(found.missing)} missing{first})")
        return found

    def _finder(self) -> Callable[[Path], Found]:
        if not isinstance(self.finder, str):
            return self.finder
        module, _, name = self.finder.partition(":")
        return cast(Callable[[Path], Found], getattr(importlib.import_module(module), name))


class Sounds:
    """Sound files under a folder, found by stem: owners' tables say .wav where people keep .flac or .ogg."""

    def __init__(self, folder: Path) -> None:
        self._by_stem: dict[str, str] = {}
        for place, names in walk(Path(os.path.abspath(folder))):
            for name in names:
                stem, suffix = os.path.splitext(name)
                if suffix.lower() in SUFFIXES:
                    self._by_stem.setdefault(stem, os.path.join(place, name))

    def __len__(self) -> int:
        return len(self._by_stem)

    def find(self, *stems: str) -> str | None:
        """The path of the first stem that is there."""
        return next((self._by_stem[stem] for stem in stems if stem in self._by_stem), None)


def first_file(root: Path, *names: str) -> Path | None:
    """The first of these files that is there."""
    return next((root / name for name in names if (root / name).is_file()), None)


def needs(root: Path, names: Iterable[str], corpus: str) -> Path:
    """The first of these files, or a UserError that says which are expected."""
    found = first_file(root, *names)
    if found is None:
        raise UserError(f"{root}: {corpus} is expected to hold {' or '.join(names)}")
    return found
