"""The text of a specification's file, plain or gzipped."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

from netproof.core.files import GZIP_MAGIC, FileTooLarge, read_bounded, unpack
from netproof.errors import SpecError


def find(path: str | Path) -> Path:
    """Return the path of the file itself, or of NAME.gz where only that is there; SpecError if neither is."""
    path = Path(path)
    zipped = path.with_name(path.name + ".gz") if path.name else path
    try:
        if path.is_dir():
            raise SpecError("is a directory", file=str(path), remedy="give the path of one .vnnlib file")
        if path.is_file():
            return path
        if zipped.is_file():
            return zipped
    except (OSError, ValueError) as error:  # a name too long, or with a NUL in it
        raise SpecError(f"not a usable path: {error}", file=str(path), remedy="check the path") from error
    raise SpecError("no such file", file=str(path), remedy="check the path of the specification")


def read_text(path: str | Path) -> tuple[str, Path, str]:
    """Read the text (decompressed where it is gzip); return it, its path, and the sha256 of the file on disk."""
    found = find(path)
    name = str(found)
    try:
        data = read_bounded(found)
    except OSError as error:
        raise SpecError(
            f"cannot be read: {error.strerror or error}", file=name, remedy="check its permissions"
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    if data.startswith(GZIP_MAGIC):
        try:
            data = unpack(data)
        except FileTooLarge as error:
            raise SpecError(str(error.strerror), file=name, remedy="split the specification") from error
        except (OSError, EOFError, zlib.error) as error:
            raise SpecError(
                "the gzip data is truncated or damaged", file=name, remedy="fetch or compress the file again"
            ) from error
    elif found.suffix == ".gz" and data:
        raise SpecError("not gzip data, though its name says so", file=name, remedy="rename or compress it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(name) from error
    if "\0" in text:
        raise _not_text(name)
    return text, found, digest


def _not_text(name: str) -> SpecError:
    return SpecError("not a text file", file=name, remedy="give a VNN-LIB specification")
