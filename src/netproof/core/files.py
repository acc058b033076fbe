"""Files as a whole: found, plain or gzipped, read within the limit of size, hashed, written all or not at all."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import os
import stat
from pathlib import Path
from typing import IO

from netproof.core.limits import LARGEST_FILE

# What a path or a disk is to blame for, and no program. A file that is missing may be netproof's own: not here.
OF_PATHS = (
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM),
    *(errno.EROFS, errno.EFBIG, errno.EIO),
)
FULL = (errno.ENOSPC, errno.EDQUOT)
GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20  # bytes


class FileTooLarge(OSError):
    """A file, or what it unpacks to, that goes beyond LARGEST_FILE."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EFBIG, f"{what} more than {LARGEST_FILE >> 20} MiB, the largest that is read")


def is_of_path(error: BaseException) -> bool:
    """Say whether the user can mend it: by another path, other permissions or more room."""
    named = isinstance(error, OSError) and error.filename is not None and error.errno in OF_PATHS
    return named or (isinstance(error, OSError) and error.errno in FULL)  # that one of a stream has no name


def find_file(path: Path) -> Path | None:
    """Find the file itself, or NAME.gz where only that is there."""
    if not path.name:  # `.` and `/` are folders
        return None
    return next((file for file in (path, path.with_name(f"{path.name}.gz")) if file.is_file()), None)


def read_bounded(path: Path) -> bytes:
    """Read the file's bytes; a device that never ends is given up at the limit too."""
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


def sha256(path: str | Path) -> str:
    """Hash a file as it is on disk."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_special(path: Path) -> bool:
    """Say whether it is a device or a pipe, such as /dev/null: written to, never replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:  # it is not there, or its name is too long to be
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def well_formed(text: str) -> str:
    """Write those bytes of a path that are no UTF-8 as escapes.

    Python keeps them as half characters, which no file, database or page can hold.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def beside(path: Path) -> Path:
    """Name a temporary file in the same folder."""
    return path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")


def write_whole(path: Path, content: bytes) -> None:
    """Write all or nothing: a reader sees the old file or the new one, never a half."""
    if is_special(path):
        path.write_bytes(content)
        return
    temporary = beside(path)
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
