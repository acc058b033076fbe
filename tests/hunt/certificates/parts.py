"""The body of a certificate as parts that can be changed: read and written by docs/certificate.md, not by npcheck."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

LEAF, CLIP, AGAIN, INPUT, NEURON = 0, 1, 3, 4, 8
BITS = {1: 1, 2: 2, 3: 4}
MULTIPLIERS, DUALS, WEIGHTS, RAY = 4, 8, 16, 32
TREE = 3  # code of a side that is bounded by a tree
CHUNK = 1 << 20


@dataclass
class Leaf:
    """What a part is shown with; arrays have an entry for each packed neuron, used where the path needs it."""

    kind: int = 0  # of slopes: 0 none, 1, 2, 3 for 1, 2 and 4 bits
    slopes: np.ndarray = field(default_factory=lambda: np.zeros(0))  # shares in [0, 1]
    multipliers: np.ndarray | None = None
    duals: np.ndarray | None = None
    weights: np.ndarray | None = None  # one a row
    ray: bool = False


@dataclass
class Split:
    """By packed neuron `at`, or by input `at` at a point."""

    at: int
    point: float | None
    halves: list[Tree]


@dataclass
class Wrap:
    """A box that is clipped, or neurons that are bounded again."""

    code: int
    inner: list[Tree]  # one


Tree = Leaf | Split | Wrap


@dataclass
class Section:
    """How the neurons of one node are bounded; sides are those from below, then those from above."""

    packed: np.ndarray  # bool (n,)
    codes: np.ndarray  # u8 (2, n)
    claims: np.ndarray  # f32, a side of code 3 each
    slopes: list[np.ndarray]  # shares over the packed neurons before, a side of code 2 each
    trees: list[Tree]  # a side of code 3 each


@dataclass
class Region:
    sections: list[Section]
    trees: list[Tree]

    @property
    def packed(self) -> int:
        return sum(int(section.packed.sum()) for section in self.sections)


@dataclass(frozen=True)
class Shape:
    """What the body does not say: the entries of the nodes that ReLUs read, and by region the rows of its disjuncts."""

    nodes: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]


Body = list[Region]


def of_zeros(shape: Shape) -> Body:
    """A body whose leaves take nothing of any neuron, p = 0: enough for rows that a last ReLU keeps at 0 or above."""
    body = []
    for rows in shape.rows:
        nothing = np.zeros(0)
        sections = [
            Section(np.ones(size, dtype=bool), np.zeros((2, size), dtype=np.uint8), nothing, [], [])
            for size in shape.nodes
        ]
        body.append(
            Region(sections, [Leaf(duals=np.zeros(sum(shape.nodes)), weights=np.ones(count)) for count in rows])
        )
    return body


def trees_of(tree: Tree) -> Iterator[Tree]:
    """The tree and all that is below it."""
    yield tree
    below = tree.halves if isinstance(tree, Split) else tree.inner if isinstance(tree, Wrap) else []
    for part in below:
        yield from trees_of(part)


def used(body: Body) -> set[str]:
    """The names of all codes and flags that a body has."""
    found = set()
    for region in body:
        for section in region.sections:
            found |= {f"neurons: code {code}" for code in section.codes.reshape(-1).tolist()}
        for tree in [*region.trees, *(tree for section in region.sections for tree in section.trees)]:
            found |= {name for part in trees_of(tree) for name in _names(part)}
    return found


ALL_CODES = tuple(
    [f"neurons: code {code}" for code in range(4)]
    + ["tree: leaf", "tree: clip", "tree: again", "tree: split of an input", "tree: split of a neuron"]
    + [f"leaf: {name}" for name in ("default", "1 bit", "2 bits", "4 bits", "multipliers", "duals", "weights", "ray")]
)


def _names(part: Tree) -> list[str]:
    if isinstance(part, Split):
        return ["tree: split of a neuron" if part.point is None else "tree: split of an input"]
    if isinstance(part, Wrap):
        return ["tree: clip" if part.code == CLIP else "tree: again"]
    flags = {"multipliers": part.multipliers, "duals": part.duals, "weights": part.weights}
    names = [name for name, numbers in flags.items() if numbers is not None]
    names += ["ray"] if part.ray else []
    names.append(["default", "1 bit", "2 bits", "4 bits"][part.kind])
    return ["tree: leaf", *(f"leaf: {name}" for name in names)]


# --- reading ---


def body_of(certificate: bytes) -> bytes:
    """The chunks of a whole certificate, unpacked and joined."""
    at, raw = certificate.index(b"\n") + 1, b""
    while at < len(certificate):
        length, _ = struct.unpack_from("<II", certificate, at)
        raw += zlib.decompress(certificate[at + 8 : at + 8 + length])
        at += 8 + length
    return raw


def read(raw: bytes, shape: Shape) -> Body:
    """A body that is whole."""
    reader = _Reader(raw)
    found = [reader.region(shape.nodes, rows) for rows in shape.rows]
    if reader.at != len(raw):
        raise ValueError("the body goes on")
    return found


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def region(self, nodes: Sequence[int], rows: Sequence[int]) -> Region:
        sections: list[Section] = []
        packed = 0
        for size in nodes:
            sections.append(self._section(size, packed))
            packed += int(sections[-1].packed.sum())
        return Region(sections, [self._tree(packed, count, []) for count in rows])

    def _take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.raw):
            raise ValueError("the body ends early")
        return self.raw[self.at - count : self.at]

    def _numbers(self, kind: str, count: int) -> np.ndarray:
        return np.frombuffer(self._take(count * np.dtype(kind).itemsize), dtype=kind).astype(np.float64)

    def _shares(self, bits: int, count: int) -> np.ndarray:
        whole = np.frombuffer(self._take(-(-count * bits // 8)), dtype=np.uint8)
        digits = np.unpackbits(whole, bitorder="little").reshape(-1, bits) @ (1 << np.arange(bits))
        return digits[:count] / ((1 << bits) - 1)

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            (byte,) = self._take(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _section(self, size: int, before: int) -> Section:
        packed = self._shares(1, size) > 0
        whole = np.frombuffer(self._take(size), dtype=np.uint8)
        codes = np.stack([whole & 15, whole >> 4])
        claims = self._numbers("<f4", int((codes == TREE).sum()))
        slopes = [self._shares(4, before) for _ in range(int((codes == 2).sum()))]
        trees = [self._tree(before, 1, []) for _ in claims]
        return Section(packed, codes, claims, slopes, trees)

    def _tree(self, packed: int, rows: int, path: list[int]) -> Tree:
        code = self._varint()
        if code == LEAF:
            return self._leaf(packed, rows, path)
        if code in (CLIP, AGAIN):
            return Wrap(code, [self._tree(packed, rows, path)])
        if code == INPUT:
            at, (point,) = self._varint(), self._numbers("<f8", 1)
            return Split(at, float(point), [self._tree(packed, rows, path) for _ in range(2)])
        return Split(code - NEURON, None, [self._tree(packed, rows, [*path, code - NEURON]) for _ in range(2)])

    def _leaf(self, packed: int, rows: int, path: list[int]) -> Leaf:
        (flags,) = self._take(1)
        leaf = Leaf(flags & 3, np.zeros(packed), ray=bool(flags & RAY))
        if flags & WEIGHTS:
            leaf.weights = self._numbers("<f4", rows)
        if flags & DUALS:
            leaf.duals = self._numbers("<f4", packed)
        if leaf.kind:
            unsplit = [neuron for neuron in range(packed) if neuron not in path]
            leaf.slopes[unsplit] = self._shares(BITS[leaf.kind], len(unsplit))
        if flags & MULTIPLIERS:
            leaf.multipliers = np.zeros(packed)
            leaf.multipliers[path] = self._numbers("<f2", len(path))
        return leaf


# --- writing ---


def written(body: Body) -> bytes:
    """The bytes of a body, whatever it says."""
    found = bytearray()
    for region in body:
        for section in region.sections:
            _put_section(found, section)
        for tree in region.trees:
            _put_tree(found, tree, [])
    return bytes(found)


def certificate(body: bytes, model: str, spec: str, chunk: int = CHUNK) -> bytes:
    """A whole certificate: a header with these hashes, and chunks that say the truth of themselves."""
    header = {"npcert": 1, "claim": "unsat", "producer": "hunt", "model": model, "spec": spec}
    parts = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    packed = [(zlib.compress(part), len(part)) for part in parts]
    chunks = b"".join(struct.pack("<II", len(data), raw) + data for data, raw in packed)
    return json.dumps(header).encode() + b"\n" + chunks


def _put_section(found: bytearray, section: Section) -> None:
    found += np.packbits(section.packed, bitorder="little").tobytes()
    found += (section.codes[0] | section.codes[1] << 4).astype(np.uint8).tobytes()
    found += _floats("<f4", section.claims)
    for shares in section.slopes:
        found += _shares(4, shares)
    for tree in section.trees:
        _put_tree(found, tree, [])


def _put_tree(found: bytearray, tree: Tree, path: list[int]) -> None:
    if isinstance(tree, Wrap):
        found += _varint(tree.code)
        _put_tree(found, tree.inner[0], path)
    elif isinstance(tree, Split):
        found += _varint(NEURON + tree.at) if tree.point is None else _varint(INPUT) + _varint(tree.at)
        found += b"" if tree.point is None else struct.pack("<d", tree.point)
        for half in tree.halves:
            _put_tree(found, half, [*path, tree.at] if tree.point is None else path)
    else:
        found += _varint(LEAF) + _leaf(tree, path)


def _leaf(leaf: Leaf, path: list[int]) -> bytes:
    flags = leaf.kind | (RAY if leaf.ray else 0)
    flags |= (MULTIPLIERS if leaf.multipliers is not None else 0) | (DUALS if leaf.duals is not None else 0)
    flags |= WEIGHTS if leaf.weights is not None else 0
    found = bytes((flags,))
    if leaf.weights is not None:
        found += _floats("<f4", leaf.weights)
    if leaf.duals is not None:
        found += _floats("<f4", leaf.duals)
    if leaf.kind:
        found += _shares(BITS[leaf.kind], np.delete(leaf.slopes, [at for at in path if at < len(leaf.slopes)]))
    if leaf.multipliers is not None:
        found += _floats("<f2", leaf.multipliers[[at for at in path if at < len(leaf.multipliers)]])
    return found


def _floats(kind: str, numbers: np.ndarray) -> bytes:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(numbers).astype(kind).tobytes()


def _shares(bits: int, shares: np.ndarray) -> bytes:
    each = 8 // bits
    levels = np.zeros(-(-len(shares) // each) * each, dtype=np.uint8)
    levels[: len(shares)] = np.rint(np.nan_to_num(np.clip(shares, 0, 1)) * ((1 << bits) - 1))
    return (levels.reshape(-1, each) << np.arange(0, 8, bits)).sum(1).astype(np.uint8).tobytes()


def _varint(value: int) -> bytes:
    found = b""
    while value >= 128:
        found += bytes((value & 127 | 128,))
        value >>= 7
    return found + bytes((value,))
