"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from supclap.schema import UserError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to; it becomes ``path`` when all went well. UserError where the disk refuses."""
    # Two processes or threads may make one file at once: each writes its own, and the last rename stays.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}; is the disk full?") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
