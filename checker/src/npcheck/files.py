"""A file's content, unpacked where its name ends in .gz, and never more than fits."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from npcheck.errors import Refused

LARGEST = 1 << 31


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that is read from front to back; Refused in one line where it cannot be read."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from None


def content(path: Path) -> bytes:
    """Return the bytes of a file; Refused in one line where it cannot be read."""
    try:
        if path.suffix != ".gz":
            if path.stat().st_size > LARGEST:
                raise Refused(f"{path}: more than 2 GiB")
            return path.read_bytes()
        with gzip.open(path) as file:
            data = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Refused(f"{path}: {reason}") from None
    if len(data) > LARGEST:
        raise Refused(f"{path}: more than 2 GiB when unpacked")
    return data
