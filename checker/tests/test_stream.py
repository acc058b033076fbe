"""The file of a certificate: what is read is what was written, and no damage or size in it does harm."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificates import chunk, chunks, floats, varint
from npcheck.errors import Invalid, Refused
from npcheck.stream import CHUNK, Stream, read_header

BODY = bytes(range(256)) * 3


def stream(data: bytes) -> Stream:
    return Stream(io.BytesIO(data))


def whole(data: bytes) -> bytes:
    """Read a body to its end, in pieces of several sizes."""
    found, given_, size = b"", stream(data), 0
    while len(found) < len(BODY):
        size = min(size % 70 + 7, len(BODY) - len(found))
        found += given_.take(size)
    given_.end()
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10**6])
def test_chunks_are_one_body(size: int) -> None:
    assert whole(chunks(BODY, size)) == BODY


def test_truncated_at_every_byte() -> None:
    data = chunks(BODY, 300)
    for length in range(len(data)):
        with pytest.raises(Invalid, match="ends"):
            whole(data[:length])


def test_bits_flipped() -> None:
    """A body that is read at all is the right one: zlib's checksum tells, and lengths must be right."""
    data, same = chunks(BODY, 300), 0
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        try:
            assert whole(bytes(changed)) == BODY
            same += 1
        except Invalid:
            pass
    assert same <= 40  # of zlib's own heads, in which some bits say nothing


def test_trailing_bytes() -> None:
    for more in (b"\0", chunk(b"\0"), b"\0" * 8, chunk(b"")):
        with pytest.raises(Invalid):
            whole(chunks(BODY) + more)
    with pytest.raises(Invalid, match="goes on"):
        whole(chunks(BODY + b"\0"))
    packed = zlib.compress(BODY)
    for inside in (packed + b"\0", packed[:-1], packed[:-4], packed + packed):
        with pytest.raises(Invalid):
            whole(struct.pack("<II", len(inside), len(BODY)) + inside)


@pytest.mark.parametrize("says", [0, len(BODY) - 1, len(BODY) + 1, CHUNK, CHUNK + 1, 2**31, 2**32 - 1])
def test_a_raw_length_that_is_wrong(says: int) -> None:
    with pytest.raises(Invalid, match=r"out of bounds|does not have"):
        whole(chunk(BODY, says=says))


@pytest.mark.parametrize("length", [0, 1, 2 * CHUNK, 2 * CHUNK + 1, 2**32 - 1])
def test_a_length_that_is_wrong(length: int) -> None:
    with pytest.raises(Invalid, match=r"out of bounds|within a chunk|damaged|does not have"):
        whole(chunk(BODY, length=length))


def test_bombs_are_not_unpacked() -> None:
    """A megabyte that is said, and a gigabyte that is there: no more than what is said is held."""
    packer = zlib.compressobj(9)
    zeros = bytes(1 << 20)
    bomb = b"".join(packer.compress(zeros) for _ in range(1 << 10)) + packer.flush()
    assert len(bomb) < 2 * CHUNK
    data = struct.pack("<II", len(bomb), CHUNK) + bomb
    tracemalloc.start()
    with pytest.raises(Invalid, match="does not have"):
        stream(data).take(1)
    assert tracemalloc.get_traced_memory()[1] < 10 * CHUNK
    tracemalloc.stop()


@given(st.lists(st.integers(0, 2**35 - 1)), st.integers(1, 9))
@settings(deadline=None)
def test_whole_numbers(values: list[int], size: int) -> None:
    given_ = stream(chunks(b"".join(map(varint, values)), size))
    assert [given_.varint() for _ in values] == values
    given_.end()


@pytest.mark.parametrize("data", [b"\x80" * 5, b"\xff" * 100, varint(2**35), varint(2**200)])
def test_huge_whole_numbers(data: bytes) -> None:
    with pytest.raises(Invalid, match="more than 5 bytes"):
        stream(chunk(data)).varint()


@pytest.mark.parametrize(("kind", "code"), [("<f2", "e"), ("<f4", "f"), ("<f8", "d")])
def test_numbers(kind: str, code: str) -> None:
    values = [0.0, -0.0, 1.5, -(2.0**-14), 65504.0]
    given_ = stream(chunks(floats(code, *values), 3))
    assert given_.numbers(kind, 5).tolist() == values
    assert given_.numbers(kind, 0).tolist() == []
    for wild in (np.nan, np.inf, -np.inf):
        with pytest.raises(Invalid, match="not finite"):
            stream(chunk(floats(code, 1.0, wild))).numbers(kind, 2)


@pytest.mark.parametrize("bits", [1, 2, 4])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_fractions(bits: int, data: st.DataObject) -> None:
    most = (1 << bits) - 1
    levels = data.draw(st.lists(st.integers(0, most), max_size=40))
    packed = bytearray(-(-len(levels) * bits // 8))
    for place, level in enumerate(levels):
        packed[place * bits // 8] |= level << place * bits % 8
    given_ = stream(chunk(bytes(packed) + b"end"))
    assert given_.fractions(bits, len(levels)).tolist() == [level / most for level in levels]
    assert given_.take(3) == b"end"


def test_the_position_is_that_of_the_body() -> None:
    given_ = stream(chunks(BODY, 100))
    for count in (0, 3, 99, 200):
        before = given_.position
        given_.take(count)
        assert given_.position == before + count
    assert given_.read_of_file > 0


HEADER = {"npcert": 1, "claim": "unsat"}


def test_a_header() -> None:
    assert read_header(io.BytesIO(json.dumps(HEADER).encode() + b"\nrest")) == HEADER


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{}",
        b"{}\n",
        b"[1]\n",
        b"1\n",
        b"\x80\x02\n",
        b'{"npcert": 1}',
        b'{"npcert": 2}\n',
        b'{"npcert": true}\n',
        b'{"npcert": "1"}\n',
        b'{"npcert": NaN}\n',
        b'{"npcert": ' + b"[" * 60000 + b"\n",
        b'{"npcert": ' + b"[" * 900 + b"]" * 900 + b"}\n",
        b'{"npcert": ' + b"9" * 60000 + b"}\n",
        b'{"npcert": 1, "producer": "' + b"x" * 70000 + b'"}\n',
    ],
)
def test_headers_that_are_none(line: bytes) -> None:
    with pytest.raises(Refused, match="certificate"):
        read_header(io.BytesIO(line))
