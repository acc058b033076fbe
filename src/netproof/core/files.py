"""Reading whole files, plain or gzipped, within the limit of size."""

from __future__ import annotations

import errno
import gzip
import io
from pathlib import Path
from typing import IO

from netproof.core.limits import LARGEST_FILE

GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20  # bytes


class FileTooLarge(OSError):
    """A file, or what it unpacks to, that goes beyond LARGEST_FILE."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EFBIG, f"{what} more than {LARGEST_FILE >> 20} MiB, the largest that is read")


def read_bounded(path: Path) -> bytes:
    """The file's bytes; a device that never ends is given up at the limit too."""
    with path.open("rb") as file:
        return _all_of(file, "it has")


def unpack(data: bytes) -> bytes:
    """Unpack gzip data, a piece at a time: OSError, EOFError or zlib.error where they are damaged."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return _all_of(file, "it unpacks to")


def _all_of(file: IO[bytes] | gzip.GzipFile, what: str) -> bytes:
    pieces, size = [], 0
    while piece := file.read(_CHUNK):
        size += len(piece)
        if size > LARGEST_FILE:
            raise FileTooLarge(what)
        pieces.append(piece)
    return b"".join(pieces)
