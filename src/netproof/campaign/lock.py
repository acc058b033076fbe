"""One campaign at a time in a folder: two would run everything twice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from netproof.errors import UsageError

NAME = ".lock"


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock the folder, or raise UsageError; the system releases the lock when this process ends, however it does."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / NAME).open("a")
    except OSError as error:
        remedy = "choose a writable folder with --out"
        raise UsageError(f"cannot be written: {error.strerror}", file=str(folder), remedy=remedy) from error
    with file:
        try:
            import fcntl
        except ImportError:  # Windows: SQLite still keeps the rows apart
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            remedy = "wait for it, or give another folder with --out"
            raise UsageError("another campaign is running in this folder", file=str(folder), remedy=remedy) from None
        yield
