"""Hints on their way from the search to the certifying pass: a file, so that they need no memory meanwhile.

An entry is a kind and its length in bytes, and then one of these: a root (the names of its packed neurons); a closed
sub-domain (disjunct, root, weights, splits, multipliers, slopes in half a byte each); a disjunct whose sub-domains so
far are void; bounds of neurons by slopes of their own; the bound of a neuron by the leaves of its tree. In memory there
is only where they are.
"""

from __future__ import annotations

import contextlib
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from netproof.errors import of_path

LEVELS = 15  # of a slope of four bits
_HEAD = struct.Struct("<BI")
_CLOSED = struct.Struct("<III")  # disjunct, root, rows
_SPLITS = struct.Struct("<I")
_SLOPES = struct.Struct("<IIII")  # disjunct, root, how many neurons were tried, how many sides have slopes
_TREE = struct.Struct("<IIi?fI")  # disjunct, root, name, whether from above, bound, leaves
_ROOT, _LEAF, _VOID, _SLOPED, _BRANCHED = range(5)

Levels = NDArray[np.uint8]
Names = NDArray[np.int64]
Side = tuple[int, bool]  # a neuron by name, and whether it is bounded from above


@dataclass(frozen=True)
class Closed:
    """A sub-domain as its root knows it."""

    order: NDArray[np.int64]  # places of the neurons that were split, in their order
    signs: NDArray[np.int8]  # +1 where h >= 0
    multipliers: NDArray[np.float32]  # of these splits
    levels: Levels  # of all slopes

    def pack(self) -> bytes:
        """Return it as it is kept."""
        parts = self.order.astype("<i4"), self.signs.astype("<i1"), self.multipliers.astype("<f4")
        return b"".join([_SPLITS.pack(len(self.order)), *(part.tobytes() for part in parts), _halves(self.levels)])


@dataclass(frozen=True)
class Hint:
    """A sub-domain that the search closed."""

    splits: Names  # the neurons that were split, in their order
    signs: NDArray[np.int8]  # +1 where h >= 0
    multipliers: NDArray[np.float32]  # of these splits
    weights: NDArray[np.float32]  # (row,)
    names: Names  # of all neurons that have a slope
    levels: Levels  # of their slopes, of LEVELS


def _halves(levels: Levels) -> bytes:
    """Return levels, in rows or in one, in half a byte each; a row begins at a new byte."""
    padded = np.zeros((*levels.shape[:-1], -(-levels.shape[-1] // 2) * 2), dtype=np.uint8)
    padded[..., : levels.shape[-1]] = levels
    return bytes((padded[..., ::2] | padded[..., 1::2] << 4).tobytes())


def _wholes(halves: bytes, count: int) -> Levels:
    packed = np.frombuffer(halves, dtype=np.uint8)
    return np.stack([packed & 15, packed >> 4], 1).reshape(-1)[:count]


class SpoolWriter:
    """Writes entries as the search tells of them."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise of_path(error) from None
        self._roots = 0
        self._full = False  # whether the disk took no more: then hints are missing, and no verdict

    def root(self, names: Names) -> int:
        """Write the names of a root's packed neurons; return its number."""
        self._put(_ROOT, names.astype("<i4").tobytes())
        self._roots += 1
        return self._roots - 1

    def leaf(self, disjunct: int, root: int, leaf: Closed, weights: NDArray[np.float32]) -> None:
        """Write a sub-domain that was closed."""
        head = _CLOSED.pack(disjunct, root, len(weights))
        self._put(_LEAF, b"".join([head, weights.astype("<f4").tobytes(), leaf.pack()]))

    def slopes(
        self,
        of: tuple[int, int],
        tried: Names,
        sides: tuple[Names, NDArray[np.bool_]],
        bounds: NDArray[np.float64],
        levels: Levels,
    ) -> None:
        """Write neurons that were bounded on the set of a disjunct under a root, and the sides that gained by slopes.

        tried: names. sides: names, and whether from above. bounds (side,), levels (side, packed).
        """
        parts = tried.astype("<i4"), sides[0].astype("<i4"), sides[1].astype("<u1"), bounds.astype("<f4")
        head = _SLOPES.pack(*of, len(tried), len(bounds))
        self._put(_SLOPED, b"".join([head, *(part.tobytes() for part in parts), _halves(levels)]))

    def tree(self, of: tuple[int, int], side: Side, bound: float, leaves: Sequence[Closed]) -> None:
        """Write the leaves that a side was bounded with on the set of a disjunct under a root."""
        head = _TREE.pack(*of, *side, bound, len(leaves))
        self._put(_BRANCHED, b"".join([head, *(leaf.pack() for leaf in leaves)]))

    def forget(self, disjunct: int) -> None:
        """Say that all closed sub-domains of a disjunct so far are void."""
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


@dataclass
class Sides:
    """What was told of bounds of neurons on one set: the best of each side, and where it is."""

    tried: set[int] = field(default_factory=set)  # neurons that were given slopes of their own
    sloped: dict[Side, Sloped] = field(default_factory=dict)
    branched: dict[Side, Branched] = field(default_factory=dict)

    def least(self, side: Side) -> float:
        """Return the best bound of a side that was told, −inf where there is none."""
        return max(told.bound if (told := known.get(side)) else -np.inf for known in (self.sloped, self.branched))

    def leaves(self, side: Side) -> list[Hint]:
        """Return what the best bound of a side that was told rests on."""
        sloped, branched = self.sloped.get(side), self.branched.get(side)
        if branched is not None and (sloped is None or branched.bound >= sloped.bound):
            return branched.read()
        return [] if sloped is None else [sloped.read()]

    def take_in(self, other: Sides) -> None:
        """Take what is better of another set that is the same."""
        self.tried |= other.tried
        for side, sloped in other.sloped.items():
            if side not in self.sloped or sloped.bound > self.sloped[side].bound:
                self.sloped[side] = sloped
        for side, branched in other.branched.items():
            if side not in self.branched or branched.bound > self.branched[side].bound:
                self.branched[side] = branched


@dataclass(frozen=True)
class Sloped:
    """A bound by slopes of its own."""

    bound: float
    path: Path
    place: int
    names: Names

    def read(self) -> Hint:
        """Return it as the one leaf that it is."""
        with self.path.open("rb") as file:
            file.seek(self.place)
            levels = _wholes(file.read(-(-len(self.names) // 2)), len(self.names))
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.float32)
        return Hint(*nothing, np.ones(1, dtype=np.float32), self.names, levels)


@dataclass(frozen=True)
class Branched:
    """A bound by a tree."""

    bound: float
    path: Path
    place: int
    names: Names

    def read(self) -> list[Hint]:
        """Return the leaves."""
        with self.path.open("rb") as file:
            data = _entry(file, self.place)
        leaves, at = [], _TREE.size
        for _ in range(_TREE.unpack_from(data)[-1]):
            leaf, at = _parsed(data, at, self.names)
            leaves.append(leaf)
        return leaves


class Hints(Protocol):
    """What a search has told."""

    def count(self, disjunct: int) -> int:
        """Return how many sub-domains of a disjunct were closed."""

    def hints(self, disjunct: int, which: Sequence[int]) -> Iterator[Hint]:
        """Read some of a disjunct's closed sub-domains, by their places among them."""

    def sides(self, disjuncts: Sequence[int]) -> Sides:
        """Return what was told of bounds of neurons on the set of these disjuncts."""


class Spool:
    """The hints of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._roots: list[Names] = []
        self._closed: dict[int, array[int]] = {}  # by disjunct, where its sub-domains are
        self._sides: dict[int, Sides] = {}  # by disjunct
        if not path.is_file():  # the search told of nothing
            return
        size = path.stat().st_size
        with path.open("rb") as file:
            while file.tell() + _HEAD.size <= size:
                kind, length = _HEAD.unpack(file.read(_HEAD.size))
                begin = file.tell()
                if begin + length > size:  # the disk was full
                    break
                self._note(file, kind, length, begin)
                file.seek(begin + length)

    def _note(self, file: BinaryIO, kind: int, length: int, begin: int) -> None:
        if kind == _ROOT:
            self._roots.append(np.frombuffer(file.read(length), dtype="<i4").astype(np.int64))
            return
        (disjunct,) = struct.unpack("<I", file.read(4))
        file.seek(begin)
        if kind == _LEAF:
            self._closed.setdefault(disjunct, array("q")).append(begin - _HEAD.size)
        elif kind == _VOID:
            self._closed.pop(disjunct, None)
        else:
            told = self._sloped(file) if kind == _SLOPED else self._branched(file, begin - _HEAD.size)
            self._sides.setdefault(disjunct, Sides()).take_in(told)

    def _sloped(self, file: BinaryIO) -> Sides:
        _, root, tried, sides = _SLOPES.unpack(file.read(_SLOPES.size))
        told, names = Sides(), self._roots[root]
        told.tried.update(np.frombuffer(file.read(4 * tried), dtype="<i4").tolist())
        neurons = np.frombuffer(file.read(4 * sides), dtype="<i4").tolist()
        above = np.frombuffer(file.read(sides), dtype="<u1").astype(bool).tolist()
        bounds = np.frombuffer(file.read(4 * sides), dtype="<f4").tolist()
        place = file.tell()
        for side, bound in zip(zip(neurons, above, strict=True), bounds, strict=True):
            told.sloped[side] = Sloped(bound, self._path, place, names)
            place += -(-len(names) // 2)
        return told

    def _branched(self, file: BinaryIO, place: int) -> Sides:
        _, root, name, above, bound, _ = _TREE.unpack(file.read(_TREE.size))
        return Sides(branched={(name, above): Branched(bound, self._path, place, self._roots[root])})

    def sides(self, disjuncts: Sequence[int]) -> Sides:
        """Return what was told of bounds of neurons on the set of these disjuncts."""
        whole = Sides()
        for disjunct in disjuncts:
            whole.take_in(self._sides.get(disjunct, Sides()))
        return whole

    def count(self, disjunct: int) -> int:
        """Return how many sub-domains of a disjunct were closed."""
        return len(self._closed.get(disjunct, ()))

    def hints(self, disjunct: int, which: Sequence[int]) -> Iterator[Hint]:
        """Read some of a disjunct's closed sub-domains, by their places among them."""
        places = self._closed.get(disjunct, array("q"))
        if not which:
            return
        with self._path.open("rb") as file:
            for number in which:
                data = _entry(file, places[number])
                _, root, rows = _CLOSED.unpack_from(data)
                leaf, _ = _parsed(data, _CLOSED.size + 4 * rows, self._roots[root])
                weights = np.frombuffer(data, dtype="<f4", count=rows, offset=_CLOSED.size)
                yield Hint(leaf.splits, leaf.signs, leaf.multipliers, weights, leaf.names, leaf.levels)


def _parsed(data: bytes, at: int, names: Names) -> tuple[Hint, int]:
    """Return a leaf that begins at a byte, and where the next one does."""
    (splits,) = _SPLITS.unpack_from(data, at)
    at += _SPLITS.size
    parts = []
    for kind, size in (("<i4", 4), ("<i1", 1), ("<f4", 4)):
        parts.append(np.frombuffer(data, dtype=kind, count=splits, offset=at))
        at += size * splits
    end = at + -(-len(names) // 2)
    one = np.ones(1, dtype=np.float32)
    return Hint(names[parts[0]], parts[1], parts[2], one, names, _wholes(data[at:end], len(names))), end


def _entry(file: BinaryIO, place: int) -> bytes:
    file.seek(place)
    _, length = _HEAD.unpack(file.read(_HEAD.size))
    return file.read(length)
