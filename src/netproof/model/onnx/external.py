"""Tensors whose numbers are in files beside the model: in attributes, subgraphs and sparse tensors too.

Files are sought in the model's own folder and nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, EncodeError, Message  # type: ignore[import-untyped]

from netproof.core.files import read_bounded
from netproof.core.limits import LARGEST_FILE
from netproof.errors import ModelError
from netproof.model.origin.external import ExternalFile

REMEDY = "keep the data file beside the model, or export with the weights inside"


def parse_proto(data: bytes, path: str) -> onnx.ModelProto:
    """Parse the model, with its external data still outside; ModelError if it is not one."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        if "alloc" in str(error):  # protobuf has no other word for it
            raise MemoryError from error
        raise ModelError(
            "not an ONNX model, or one cut short",
            file=path,
            remedy="check with onnx.checker, or export again",
        ) from error
    return model


def named_files(data: bytes, path: str) -> tuple[ExternalFile, ...]:
    """Return the external files of a serialised model at `path`."""
    beside = _Beside(path)
    for tensor in _external(parse_proto(data, path)):
        beside.content(tensor)
    return beside.files


def named_paths(data: bytes, path: str) -> tuple[Path, ...]:
    """Return where the external files of a serialised model at `path` lie, without a look into them."""
    beside = _Beside(path)
    return tuple(beside.place(tensor) for tensor in _external(parse_proto(data, path)))


def draw_in(model: onnx.ModelProto, path: str) -> tuple[bytes | None, tuple[ExternalFile, ...]]:
    """Put external data into the model itself; return its serialised form, None where there are none, and the files."""
    beside = _Beside(path)
    size = 0
    for tensor in _external(model):
        content = beside.content(tensor)
        size += len(content)
        if size > LARGEST_FILE:
            raise beside.error(tensor, f"its tensors come to more than {LARGEST_FILE >> 20} MiB")
        tensor.raw_data = content
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT
    if not beside.files:
        return None, ()
    try:
        return bytes(model.SerializeToString()), beside.files
    except (EncodeError, ValueError) as error:
        raise ModelError(f"its external data cannot be read: {error}", file=path, remedy=REMEDY) from error


def _external(message: Any) -> Iterator[onnx.TensorProto]:
    """Yield every tensor below `message` whose numbers are in another file."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in (value,) if isinstance(value, Message) else value:
            if not isinstance(part, onnx.TensorProto):
                yield from _external(part)
            elif part.data_location == onnx.TensorProto.EXTERNAL:
                yield part


class _Beside:
    """The files beside one model, each read and hashed once."""

    def __init__(self, path: str) -> None:
        self._model = path
        self._folder = Path(path).parent
        self._content: dict[str, bytes] = {}

    @property
    def files(self) -> tuple[ExternalFile, ...]:
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in self._content.items()}
        return tuple(ExternalFile(str(self._folder / name), digest) for name, digest in sorted(hashes.items()))

    def error(self, tensor: onnx.TensorProto, why: str) -> ModelError:
        place = f"tensor {tensor.name!r}"
        return ModelError(f"its external data cannot be read: {why}", file=self._model, place=place, remedy=REMEDY)

    def content(self, tensor: onnx.TensorProto) -> bytes:
        """Return the bytes that a tensor's location, offset and length name."""
        told = _told(tensor)
        whole = self._read(tensor)
        offset = self._number(tensor, told, "offset", 0)
        length = self._number(tensor, told, "length", max(0, len(whole) - offset))
        if offset + length > len(whole):
            wanted = f"it ends at byte {offset + length} of {told['location']!r}, which has {len(whole)}"
            raise self.error(tensor, wanted)
        return whole[offset : offset + length]

    def _number(self, tensor: onnx.TensorProto, told: dict[str, str], key: str, default: int) -> int:
        text = told.get(key)
        if text is None:
            return default
        if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20):
            raise self.error(tensor, f"its {key} {text[:40]!r} is not a number of bytes")
        return int(text)

    def _read(self, tensor: onnx.TensorProto) -> bytes:
        found = self.place(tensor)
        name = str(found.relative_to(self._folder.resolve()))  # one file may be named in several ways
        if name not in self._content:
            try:
                self._content[name] = read_bounded(found)
            except OSError as error:  # it may not be read
                raise self.error(tensor, f"{name!r}: {error.strerror or error}") from error
        return self._content[name]

    def place(self, tensor: onnx.TensorProto) -> Path:
        """Find the file that a tensor names."""
        location = _told(tensor).get("location", "")
        if not location or not isinstance(location, str):  # protobuf gives bytes where the text is damaged
            raise self.error(tensor, "it names no file")
        named = Path(location)
        try:
            found = (self._folder / named).resolve()
            inside = not named.is_absolute() and ".." not in named.parts
            if not inside or not found.is_relative_to(self._folder.resolve()):
                raise self.error(tensor, f"{location[:200]!r} lies outside the model's folder")
            if not found.is_file():
                raise self.error(tensor, f"there is no file {location[:200]!r}")
            return found
        except (OSError, ValueError) as error:  # a name too long or with a NUL in it
            raise self.error(tensor, f"{location[:200]!r}: {getattr(error, 'strerror', None) or error}") from error


def _told(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}
