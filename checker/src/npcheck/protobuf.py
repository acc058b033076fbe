"""The wire format of protocol buffers, as far as ONNX files use it.

A message is a row of fields. Each begins with a varint, 8·number + kind, where the kind says how the content is stored:
0 a varint, 1 eight bytes, 2 a varint length and that many bytes, 5 four bytes. Kinds 3 and 4 (groups) are long dead.

The reading is strict, because a proof is about what the file says, and two readers must not differ in that: a field
that is not known by its number is refused, and so is one that occurs twice where it may occur once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from npcheck.errors import Refused

DEEPEST = 8  # messages within messages
MOST_FIELDS = 1 << 22  # of one message, and entries of one list of integers
VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
_KINDS = {VARINT: "a varint", EIGHT: "eight bytes", BYTES: "bytes", FOUR: "four bytes"}


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """Read a number of 64 bits in groups of seven, lowest first; return it and the place behind it."""
    result = 0
    for count in range(10):
        if at >= len(data):
            raise Refused("the file ends within a number: it is damaged, or not an ONNX file")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if result >= 1 << 64:
                break
            return result, at
    raise Refused("a number has more than 64 bits: the file is damaged, or not an ONNX file")


def signed(number: int) -> int:
    """Read 64 bits as a two's complement."""
    return number - (1 << 64) if number >= 1 << 63 else number


def fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Go through the fields of a message: number, kind, and the varint or the bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = varint(data, at)
            yield number, kind, value
            continue
        if kind not in _KINDS:
            raise Refused(f"field {number} is of wire type {kind}: the file is damaged, or not an ONNX file")
        length = 8 if kind == EIGHT else 4
        if kind == BYTES:
            length, at = varint(data, at)
        if length > len(data) - at:
            raise Refused(f"field {number} is longer than the file: it is damaged, or not an ONNX file")
        yield number, kind, data[at : at + length]
        at += length


class Message:
    """A message whose fields are known by `names`, from numbers; they are asked for by name and with their type.

    A name that begins with "-" is of a field that says nothing about what the network computes: it is passed over. One
    that begins with "!" is of a field that this reader does not know what to do with: it is refused if it is there.
    """

    def __init__(self, data: memoryview, what: str, names: Mapping[int, str], depth: int) -> None:
        if depth > DEEPEST:
            raise Refused(f"{what}: messages lie deeper than {DEEPEST} in each other")
        self.what, self.depth = what, depth
        self._found: dict[str, list[tuple[int, int | memoryview]]] = {}
        count = 0
        for number, kind, value in fields(data):
            name = names.get(number)
            if name is None:
                raise Refused(f"{what}: field {number} is not known")
            if name.startswith("!"):
                raise Refused(f"{what}: {name[1:]} is not supported")
            if not name.startswith("-"):
                self._found.setdefault(name, []).append((kind, value))
                count += 1
                if count > MOST_FIELDS:
                    raise Refused(f"{what}: more than {MOST_FIELDS} fields")

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def _of(self, name: str, kind: int) -> list[int | memoryview]:
        """Return all values of a field that must be of one kind."""
        found = self._found.get(name, [])
        for other, _ in found:
            if other != kind:
                raise Refused(f"{self.what}: {name} is stored as {_KINDS[other]}, not as {_KINDS[kind]}")
        return [value for _, value in found]

    def _one(self, name: str, kind: int) -> int | memoryview | None:
        """Return the value of a field that may occur once."""
        found = self._of(name, kind)
        if len(found) > 1:
            raise Refused(f"{self.what}: {name} occurs {len(found)} times")
        return found[0] if found else None

    def integer(self, name: str) -> int | None:
        """Return an integer, or None where it is not given."""
        value = self._one(name, VARINT)
        return signed(value) if isinstance(value, int) else None

    def number(self, name: str) -> float | None:
        """Return a float32, or None where it is not given."""
        value = self._one(name, FOUR)
        return float(np.frombuffer(value, "<f4")[0]) if isinstance(value, memoryview) else None

    def data(self, name: str) -> memoryview | None:
        """Return bytes, or None where they are not given."""
        value = self._one(name, BYTES)
        return value if isinstance(value, memoryview) else None

    def text(self, name: str) -> str:
        """Return a text, empty where it is not given."""
        value = self.data(name)
        return "" if value is None else _decoded(value, self.what, name)

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        return [_decoded(value, self.what, name) for value in self._of(name, BYTES) if isinstance(value, memoryview)]

    def messages(self, name: str) -> list[memoryview]:
        """Return the contents of messages that lie in this one."""
        return [value for value in self._of(name, BYTES) if isinstance(value, memoryview)]

    def integers(self, name: str) -> list[int]:
        """Return a list of integers: each may be a field of its own, or several packed into bytes."""
        result: list[int] = []
        for kind, value in self._found.get(name, []):
            if isinstance(value, int):
                result.append(signed(value))
            elif kind == BYTES:
                at = 0
                while at < len(value):
                    entry, at = varint(value, at)
                    result.append(signed(entry))
                    if len(result) > MOST_FIELDS:
                        raise Refused(f"{self.what}: {name} has more than {MOST_FIELDS} entries: store raw_data")
            else:
                raise Refused(f"{self.what}: {name} is not a list of integers")
        return result

    def numbers(self, name: str, kind: int) -> NDArray[np.float64]:
        """Return a list of floats of four or eight bytes, stored one by one or packed, as float64."""
        dtype = "<f4" if kind == FOUR else "<f8"
        parts: list[NDArray[np.float64]] = []
        for stored, value in self._found.get(name, []):
            if (
                stored not in (kind, BYTES)
                or not isinstance(value, memoryview)
                or len(value) % (4 if kind == FOUR else 8)
            ):
                raise Refused(f"{self.what}: {name} is not a list of floats of this length")
            parts.append(np.frombuffer(value, dtype).astype(np.float64))
        return np.concatenate(parts) if parts else np.zeros(0)


def _decoded(value: memoryview, what: str, name: str) -> str:
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{what}: {name} is not a text in UTF-8") from None
