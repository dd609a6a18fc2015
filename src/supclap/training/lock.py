"""One run, one writer: a folder is locked for as long as a process trains into it. The lock dies with its process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from supclap.schema import UserError
from supclap.training.processes import Team

try:
    import fcntl
except ImportError:  # a system without it has no such lock
    fcntl = None  # type: ignore[assignment]

_held: set[int] = set()


def _let_go() -> None:
    # A worker that outlives its killed run must not keep the folder locked.
    for handle in _held:
        os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def locked(folder: Path, team: Team) -> Iterator[None]:
    """UserError, in every process of the team, where another run trains into the folder."""
    handle = os.open(folder, os.O_RDONLY) if team.first and fcntl is not None else None
    _held.update([] if handle is None else [handle])
    try:
        if team.tell(_is_taken(handle)):
            raise UserError(
                f"{folder}: another process trains into it now; wait for it or end it, or choose another folder"
            )
        yield
    finally:
        # A forked child has let go of it already.
        if handle in _held:
            _held.discard(handle)
            os.close(handle)


def _is_taken(handle: int | None) -> bool:
    """The folder itself is locked, so that no file is left behind."""
    if handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # Some network folders know no locks: nothing can be said then.
        return False
    return False
