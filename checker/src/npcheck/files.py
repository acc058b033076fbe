"""A file's content, unpacked where it is NAME.gz, and never more than fits."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from npcheck.errors import Refused

LARGEST = 1 << 31

T = TypeVar("T")


def read(path: Path, reader: Callable[[bytes], T]) -> tuple[T, str]:
    """Return what a reader makes of a file's content, and the content's SHA-256; Refused names the file."""
    try:
        data = _content(path if path.exists() else path.with_name(f"{path.name}.gz"), path)
        return reader(data), hashlib.sha256(data).hexdigest()
    except Refused as reason:
        raise Refused(f"{path}: {reason}") from None
    except OSError as error:  # a name that is too long, say
        raise Refused(f"{path}: {error.strerror or error}") from None


def _content(path: Path, asked: Path) -> bytes:
    try:
        if not path.exists():
            path = asked  # whose absence is what is said
        if path.suffix != ".gz":
            if path.stat().st_size > LARGEST:
                raise Refused("more than 2 GiB")
            return path.read_bytes()
        with gzip.open(path) as file:
            data = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Refused(reason) from None
    if len(data) > LARGEST:
        raise Refused("more than 2 GiB when unpacked")
    return data
