"""A certificate's file: one line of JSON, then a body in compressed chunks that is read once, from front to back.

    file   = header LF chunk*
    header = {"claim": "unsat", "model": sha256, "npcert": 1, "producer": …, "spec": sha256}, in one line
    chunk  = length (u32), raw length (u32, at most 2^20), as many bytes of zlib's format

All numbers are little-endian. The chunks' raw bytes in their order are the body; what is in it may cross from chunk to
chunk. A varint is 7 bits a byte, the lowest first, with the high bit set but in the last byte; at most 5 bytes. However
large the file says that things are, no more than a chunk is held.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from npcheck.errors import Invalid, Refused

VERSION = 1
CHUNK = 1 << 20
HEADER = 1 << 16


def read_header(file: BinaryIO) -> dict[str, Any]:
    """Return the first line's fields."""
    line = file.readline(HEADER)
    if not line.endswith(b"\n"):
        raise Refused("this is no certificate: its first line is no header")
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        raise Refused("this is no certificate: its first line is not JSON") from None
    if not isinstance(header, dict) or "npcert" not in header:
        raise Refused("this is no certificate: its first line does not say npcert")
    if header["npcert"] is True or header["npcert"] != VERSION:
        raise Refused(f"the certificate is not of version {VERSION} of npcert, which is all that this checker reads")
    return header


class Stream:
    """The body of a certificate."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._chunk = b""
        self._at = 0
        self._before = 0  # bytes of the body before this chunk
        self._packed = self._read = 0  # bytes of the file: of this chunk, and of all chunks so far

    @property
    def position(self) -> int:
        """Return how many bytes of the body were read."""
        return self._before + self._at

    @property
    def read_of_file(self) -> int:
        """Return about how many bytes of the file's chunks were read: of this one as many as its share."""
        unread = len(self._chunk) - self._at
        return self._read - (self._packed * unread // len(self._chunk) if unread else 0)

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if self._at + count <= len(self._chunk):
            self._at += count
            return self._chunk[self._at - count : self._at]
        parts = []
        while count:
            if self._at == len(self._chunk) and not self._next():
                raise Invalid(f"the certificate ends too early, at byte {self.position} of its body")
            part = self._chunk[self._at : self._at + count]
            self._at += len(part)
            count -= len(part)
            parts.append(part)
        return b"".join(parts)

    def varint(self) -> int:
        """Return the next varint."""
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Invalid(f"a number of more than 5 bytes before byte {self.position} of the body")

    def numbers(self, kind: str, count: int) -> NDArray[np.float64]:
        """Return the next floats, all finite: kind "<f2", "<f4" or "<f8"."""
        values = np.frombuffer(self.take(count * int(kind[-1])), dtype=kind).astype(np.float64)
        if not np.isfinite(values).all():
            raise Invalid(f"a number that is not finite before byte {self.position} of the body")
        return values

    def fractions(self, bits: int, count: int) -> NDArray[np.float64]:
        """Return numbers in [0, 1] of so many bits each: packed, the lowest bits of a byte first."""
        each = 8 // bits
        packed = np.frombuffer(self.take(-(-count // each)), dtype=np.uint8)
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        values = (packed[:, None] >> shifts) & ((1 << bits) - 1)
        return values.reshape(-1)[:count] / float((1 << bits) - 1)

    def bits(self, count: int) -> NDArray[np.bool_]:
        """Return booleans, eight a byte."""
        return self.fractions(1, count) > 0

    def end(self) -> None:
        """Demand that nothing is left."""
        if self._at < len(self._chunk) or self._next():
            raise Invalid(f"the certificate goes on after its end, at byte {self.position} of its body")

    def _next(self) -> bool:
        """Unpack the next chunk; False at the end of the file."""
        head = self._file.read(8)
        if not head:
            return False
        if len(head) < 8:
            raise Invalid("the certificate ends within the head of a chunk")
        length, raw = struct.unpack("<II", head)
        if not 0 < raw <= CHUNK or not 0 < length <= 2 * CHUNK:
            raise Invalid(f"a chunk of {length} bytes for {raw} is out of bounds")
        data = self._file.read(length)
        if len(data) < length:
            raise Invalid("the certificate ends within a chunk")
        unpacker = zlib.decompressobj()
        try:
            chunk = unpacker.decompress(data, raw + 1)
        except zlib.error as error:
            raise Invalid(f"a chunk after byte {self.position} of the body is damaged: {error}") from None
        if len(chunk) != raw or not unpacker.eof or unpacker.unused_data:
            raise Invalid(f"a chunk after byte {self.position} of the body does not have the {raw} bytes that it says")
        self._before += len(self._chunk)
        self._chunk, self._at, self._packed = chunk, 0, 8 + length
        self._read += 8 + length
        return True
