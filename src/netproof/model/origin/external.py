"""Files beside a model that hold some of its numbers, and its identity together with them.

ONNX allows that for every tensor. `netproof.model.onnx.external` reads them; here is what can be done without onnx,
whose import takes a while.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netproof.core.files import GZIP_MAGIC, FileTooLarge, read_bounded, unpack
from netproof.errors import ModelError


@dataclass(frozen=True)
class ExternalFile:
    """A file beside the model, and the hash of all of it."""

    path: str
    sha256: str


def identity(sha256: str, external: Sequence[ExternalFile]) -> str:
    """Return what tells one network from another: the file's hash, or one over it and those of its external files."""
    if not external:
        return sha256
    return hashlib.sha256(json.dumps([sha256, *(file.sha256 for file in external)]).encode()).hexdigest()


def model_data(raw: bytes, path: str) -> bytes:
    """Return a model file's content, unpacked; ModelError where the gzip data is damaged or too large."""
    if not raw.startswith(GZIP_MAGIC):
        return raw
    try:
        return unpack(raw)
    except FileTooLarge as error:
        raise ModelError(str(error.strerror), file=path, remedy="give a smaller model") from error
    except (OSError, EOFError, zlib.error) as error:
        raise ModelError(
            f"the gzip file is damaged or cut short: {error}", file=path, remedy="copy the file again"
        ) from error


def may_have_external(path: Path) -> bool:
    """Say whether the model at `path` needs a closer look: every external tensor has the key `location`."""
    return b"location" in _content(path)


def external_files(path: Path) -> tuple[ExternalFile, ...]:
    """Return the external files of the model at `path` as they are now."""
    if not may_have_external(path):  # nearly all models, which need not be parsed then
        return ()
    from netproof.model.onnx.external import named_files

    return named_files(_content(path), str(path))


def external_paths(path: Path) -> tuple[Path, ...]:
    """Return where the external files of the model at `path` lie, without a look into them."""
    if not may_have_external(path):
        return ()
    from netproof.model.onnx.external import named_paths

    return named_paths(_content(path), str(path))


def _content(path: Path) -> bytes:
    try:
        return model_data(read_bounded(path), str(path))
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror}", file=str(path), remedy="check the file") from error
