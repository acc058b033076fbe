"""The body of a certificate as it is written: `npcheck.stream` reads it."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from npcheck.stream import CHUNK, VERSION


class Raw:
    """A piece of a body."""

    def __init__(self) -> None:
        self.raw = bytearray()

    def put(self, data: bytes) -> None:
        """Append bytes."""
        self.raw += data

    def byte(self, value: int) -> None:
        """Append one byte."""
        self.put(bytes((value,)))

    def varint(self, value: int) -> None:
        """Append a whole number."""
        while value >= 0x80:
            self.put(bytes((value & 0x7F | 0x80,)))
            value >>= 7
        self.put(bytes((value,)))

    def numbers(self, kind: str, values: NDArray[np.float64]) -> None:
        """Append floats: kind "<f2", "<f4" or "<f8"."""
        self.put(np.asarray(values, dtype=kind).tobytes())

    def levels(self, bits: int, levels: NDArray[np.uint8]) -> None:
        """Append whole numbers of so many bits each, the lowest bits of a byte first."""
        each = 8 // bits
        padded = np.zeros(-(-len(levels) // each) * each, dtype=np.uint8)
        padded[: len(levels)] = levels
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        self.put((padded.reshape(-1, each) << shifts).sum(1).astype(np.uint8).tobytes())


class Body(Raw):
    """Writes a header and then chunks; holds one chunk at most."""

    def __init__(self, file: BinaryIO, header: dict[str, Any]) -> None:
        super().__init__()
        self._file = file
        line = json.dumps({"npcert": VERSION, **header}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        file.write(line.encode("ascii") + b"\n")

    def put(self, data: bytes) -> None:
        """Append bytes."""
        self.raw += data
        while len(self.raw) >= CHUNK:
            self._pack(CHUNK)

    def place(self) -> tuple[int, bytes]:
        """Return where the body is, to come back to."""
        return self._file.tell(), bytes(self.raw)

    def back_to(self, place: tuple[int, bytes]) -> None:
        """Forget what was written since."""
        self._file.seek(place[0])
        self._file.truncate()
        self.raw = bytearray(place[1])

    def close(self) -> None:
        """Write what is left."""
        if self.raw:
            self._pack(len(self.raw))

    def _pack(self, count: int) -> None:
        raw = bytes(self.raw[:count])
        del self.raw[:count]
        packed = zlib.compress(raw)
        self._file.write(struct.pack("<II", len(packed), len(raw)) + packed)
