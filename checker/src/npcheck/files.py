"""A file's content, unpacked where it is NAME.gz, and never more than fits."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from npcheck.errors import Refused

LARGEST = 1 << 31  # bytes
BLOCK = 1 << 24

T = TypeVar("T")


def read(path: Path, reader: Callable[[bytes], T], most: int = LARGEST) -> tuple[T, str]:
    """Return what a reader makes of a file's content, and the content's SHA-256; Refused names the file.

    most: bytes, of the file and when it is unpacked; no more are ever held.
    """
    try:
        data = _content(path if path.exists() else path.with_name(f"{path.name}.gz"), path, most)
        return reader(data), hashlib.sha256(data).hexdigest()
    except Refused as reason:
        raise Refused(f"{path}: {reason}") from None
    except OSError as error:  # a name that is too long, say
        raise Refused(f"{path}: {error.strerror or error}") from None


def _content(path: Path, asked: Path, most: int) -> bytes:
    try:
        if not path.exists():
            path = asked  # whose absence is what is said
        packed = path.suffix == ".gz"
        with gzip.open(path) if packed else path.open("rb") as file:
            blocks, size = [], 0
            while size <= most and (block := file.read(BLOCK)):  # one read of `most` would take as much at once
                blocks.append(block)
                size += len(block)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Refused(reason) from None
    if size > most:
        raise Refused(f"more than {most >> 20} MiB{' when unpacked' if packed else ''}")
    return b"".join(blocks)
