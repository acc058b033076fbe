"""A file's content, unpacked where its name ends in .gz, and never more than fits."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from npcheck.errors import Refused

LARGEST = 1 << 31


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
