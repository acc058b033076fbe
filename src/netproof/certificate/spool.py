"""Hints on their way from the search to the certifying pass: a file, so that they need no memory meanwhile.

An entry is a kind and its length in bytes, and then: a root (the names of its packed neurons); a hint (disjunct, root,
splits, multipliers, slopes in half a byte each, weights); or a disjunct whose hints so far are void.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from netproof.errors import of_path

LEVELS = 15  # of a slope of four bits
_HEAD = struct.Struct("<BI")
_HINT = struct.Struct("<IIHH")
_ROOT, _LEAF, _VOID = range(3)


@dataclass(frozen=True)
class Hint:
    """A sub-domain that the search closed."""

    splits: NDArray[np.int64]  # the neurons that were split, by name, in their order
    signs: NDArray[np.int8]  # +1 where h >= 0
    multipliers: NDArray[np.float32]  # of these splits
    weights: NDArray[np.float32]  # (row,)
    names: NDArray[np.int64]  # of all neurons that have a slope
    levels: NDArray[np.uint8]  # of their slopes, of LEVELS


class Hints(Protocol):
    """What a search has told."""

    def hints(self, disjunct: int) -> Sequence[Hint]:
        """Return the hints of a disjunct."""


class SpoolWriter:
    """Writes entries as the search tells of them."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise of_path(error) from None
        self._roots = 0
        self._full = False  # whether the disk took no more: then hints are missing, and no verdict

    def root(self, names: NDArray[np.int64]) -> int:
        """Write the names of a root's packed neurons; return its number."""
        self._put(_ROOT, names.astype("<i4").tobytes())
        self._roots += 1
        return self._roots - 1

    def put(
        self,
        disjunct: int,
        root: int,
        order: NDArray[np.int64],
        signs: NDArray[np.int8],
        multipliers: NDArray[np.float32],
        levels: NDArray[np.uint8],
        weights: NDArray[np.float32],
    ) -> None:
        """Write a hint: splits by their places in the root, in their order."""
        padded = np.zeros(-(-len(levels) // 2) * 2, dtype=np.uint8)
        padded[: len(levels)] = levels
        data = [
            _HINT.pack(disjunct, root, len(order), len(weights)),
            order.astype("<i4").tobytes(),
            signs.astype("<i1").tobytes(),
            multipliers.astype("<f4").tobytes(),
            weights.astype("<f4").tobytes(),
            (padded[::2] | padded[1::2] << 4).tobytes(),
        ]
        self._put(_LEAF, b"".join(data))

    def forget(self, disjunct: int) -> None:
        """Say that all hints of a disjunct so far are void."""
        self._put(_VOID, struct.pack("<I", disjunct))

    def close(self) -> None:
        """Write what is left."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _put(self, kind: int, data: bytes) -> None:
        if self._full:
            return
        try:
            self._file.write(_HEAD.pack(kind, len(data)) + data)
        except OSError:
            self._full = True


class Spool:
    """The hints of a file, by disjunct."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._roots: list[NDArray[np.int64]] = []
        self._places: dict[int, list[int]] = {}  # by disjunct, where its hints are
        if not path.is_file():  # the search told of nothing
            return
        size = path.stat().st_size
        with path.open("rb") as file:
            while file.tell() + _HEAD.size <= size:
                kind, length = _HEAD.unpack(file.read(_HEAD.size))
                if file.tell() + length > size:  # the disk was full
                    break
                if kind == _LEAF:
                    (disjunct,) = struct.unpack("<I", file.read(4))
                    self._places.setdefault(disjunct, []).append(file.tell() - 4)
                    file.seek(length - 4, 1)
                elif kind == _ROOT:
                    self._roots.append(np.frombuffer(file.read(length), dtype="<i4").astype(np.int64))
                else:
                    self._places.pop(struct.unpack("<I", file.read(length))[0], None)

    def hints(self, disjunct: int) -> Sequence[Hint]:
        """Return the hints of a disjunct."""
        places = self._places.get(disjunct, [])
        if not places:
            return []
        with self._path.open("rb") as file:
            return [self._hint(file, place) for place in places]

    def _hint(self, file: BinaryIO, place: int) -> Hint:
        file.seek(place)
        read = file.read
        _, root, splits, rows = _HINT.unpack(read(_HINT.size))
        names = self._roots[root]
        order = names[np.frombuffer(read(4 * splits), dtype="<i4")]
        signs = np.frombuffer(read(splits), dtype="<i1")
        multipliers = np.frombuffer(read(4 * splits), dtype="<f4")
        weights = np.frombuffer(read(4 * rows), dtype="<f4")
        packed = np.frombuffer(read(-(-len(names) // 2)), dtype=np.uint8)
        levels = np.stack([packed & 15, packed >> 4], 1).reshape(-1)[: len(names)]
        return Hint(order, signs, multipliers, weights, names, levels)
