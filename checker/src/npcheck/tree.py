"""The tree of a proof: a set is divided until each part is shown at once.

    tree = 0 leaf | 1 tree | 3 tree | 4 dimension (varint) point (float64) tree tree | 8 + i, tree tree

0 is a leaf, as below. 1: all neurons are bounded again, and the box is clipped by the rows (`clip`); nothing is stored.
3: all neurons are bounded again here, by default slopes on the box and the splits so far.
4 divides the box of the input: x_d <= point first, then x_d >= point. 8 + i divides by the packed neuron i: h >= 0
first, then h <= 0. The halves are closed, so both together are the whole. The tree is read in this order and has to
end exactly where its last leaf ends, so it covers the set by its form alone: there is no list of parts to compare.

    leaf = flags (u8) [weights] [slopes] [multipliers] or [weights] [duals]

    flags, bits 0 and 1   slopes: 0 by default, 1, 2, 3: of 1, 2, 4 bits for each packed neuron that no split is on
                          here, in their order, as shares v / (2^bits − 1)
           bit 2          multipliers: a float16 for each split of a neuron on the path, in the path's order
           bit 3          duals instead of both: p itself, a float32 for each packed neuron
           bit 4          weights λ >= 0: a float32 for each row; without it row 0 has 1 and the others 0
           bit 5          ray: all weights are 0, so that a positive bound shows the part empty

Where a neuron's input is split, p = a − β to the right and p = β to the left of 0, since it is linear there; any β is
sound by the lemma of `bound`, as any p is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from npcheck.bound import Form, Places, Ranges, lower_bound
from npcheck.errors import Invalid
from npcheck.network import Network
from npcheck.ranges import NOWHERE, Signs, by_default, restrict
from npcheck.statement import Array
from npcheck.stream import Stream

LEAF, CLIP, AGAIN, INPUT, NEURON = 0, 1, 3, 4, 8
BITS = {1: 1, 2: 2, 3: 4}
MULTIPLIERS, DUALS, WEIGHTS, RAY = 4, 8, 16, 32
BATCH = 256  # leaves that are bounded at once, at most
ENTRIES = 1 << 22  # of a network's nodes in all of them, so that memory does not grow with both
DEEPEST = 1 << 16


@dataclass(frozen=True)
class Packed:
    """The neurons that a certificate may split or give slopes to: some entries of the nodes that ReLUs read."""

    nodes: tuple[int, ...]
    neurons: tuple[NDArray[np.int64], ...]  # by node: places of its entries, ascending

    @property
    def count(self) -> int:
        """Return how many there are."""
        return sum(len(part) for part in self.neurons)

    def spread(self, values: Array, network: Network, rest: Callable[[int], Array]) -> dict[int, Array]:
        """Return by node arrays (B, n) with values (B, count) at the packed neurons and others elsewhere."""
        spread, begin = {}, 0
        for node, places in zip(self.nodes, self.neurons, strict=True):
            part = np.broadcast_to(rest(node), (len(values), network.nodes[node].size)).copy()
            part[:, places] = values[:, begin : begin + len(places)]
            spread[node] = part
            begin += len(places)
        return spread


@dataclass(frozen=True)
class Leaf:
    """A part that is to be shown at once, and what its bound is made with."""

    number: int  # of all leaves of its tree, from 0
    signs: Signs  # (packed,): +1 for h >= 0, −1 for h <= 0, 0 where no split is
    lower: Array  # (n,): its box
    upper: Array
    weights: Array  # (row,): λ
    slopes: Array  # (packed,) in [0, 1], NaN: by default
    multipliers: Array  # (packed,)
    duals: Array | None  # (packed,): p itself


@dataclass
class Part:
    """The part of the set that the walk is at."""

    signs: Signs  # (packed,)
    lower: Array
    upper: Array
    again: bool = False  # whether all neurons are to be bounded again before a leaf
    path: list[int] = field(default_factory=list)  # the packed neurons that were split, in order


Clip = Callable[[Part], tuple[Array, Array]]  # a smaller box, which has every violation of the part


@dataclass
class Batch:
    """Leaves that are bounded at once."""

    again: bool  # whether all neurons are bounded again first, on each leaf
    leaves: list[Leaf] = field(default_factory=list)


class Walk:
    """One tree, read from the stream and handed on in batches of leaves."""

    def __init__(
        self, stream: Stream, packed: Packed, rows: int, box: tuple[Array, Array], most: int, clip: Clip | None = None
    ) -> None:
        self._stream, self._packed, self._rows, self._most, self._clip = stream, packed, rows, most, clip
        self._part = Part(np.zeros(packed.count, dtype=np.int8), box[0].copy(), box[1].copy())
        self._undo: list[Callable[[], bool]] = []  # each returns whether the other half comes next
        self.leaves = 0

    def batches(self) -> Iterator[Batch]:
        """Read the tree to its end."""
        batch = Batch(self._part.again)
        while True:
            kind = self._stream.varint()
            if kind != LEAF:
                self._go_down(kind)
                continue
            if len(batch.leaves) == self._most or batch.again != self._part.again:
                if batch.leaves:
                    yield batch
                batch = Batch(self._part.again)
            batch.leaves.append(self._leaf())
            while self._undo and not self._undo[-1]():
                self._undo.pop()
            if not self._undo:
                yield batch
                return

    def _go_down(self, kind: int) -> None:
        if len(self._undo) >= DEEPEST:
            raise Invalid(f"the tree is deeper than {DEEPEST}")
        if kind == AGAIN:
            self._bound_again()
        elif kind == CLIP and self._clip is not None:
            self._clip_box(self._clip)
        elif kind == INPUT:
            self._split_input(self._stream.varint())
        elif kind >= NEURON:
            self._split_neuron(kind - NEURON)
        else:
            raise Invalid(f"tree code {kind} is not known, before byte {self._stream.position} of the body")

    def _split_neuron(self, neuron: int) -> None:
        part = self._part
        if neuron >= self._packed.count:
            raise Invalid(f"a split on packed neuron {neuron} of {self._packed.count}")
        if part.signs[neuron]:
            raise Invalid(f"packed neuron {neuron} is split twice on one path")
        part.signs[neuron] = 1
        part.path.append(neuron)

        def back() -> bool:
            if part.signs[neuron] > 0:
                part.signs[neuron] = -1
                return True
            part.signs[neuron] = 0
            part.path.pop()
            return False

        self._undo.append(back)

    def _split_input(self, dimension: int) -> None:
        part = self._part
        (point,) = self._stream.numbers("<f8", 1)
        if dimension >= len(part.lower):
            raise Invalid(f"a split on input {dimension} of {len(part.lower)}")
        low, high = part.lower[dimension], part.upper[dimension]
        if not low <= point <= high:
            raise Invalid(f"input {dimension} is split at {point:g}, outside of [{low:g}, {high:g}]")
        part.upper[dimension] = point
        first = True

        def back() -> bool:
            nonlocal first
            if first:
                part.lower[dimension], part.upper[dimension], first = point, high, False
                return True
            part.lower[dimension] = low
            return False

        self._undo.append(back)

    def _bound_again(self) -> None:
        before = self._part.again
        self._part.again = True

        def back() -> bool:
            self._part.again = before
            return False

        self._undo.append(back)

    def _clip_box(self, clip: Clip) -> None:
        part = self._part
        before = part.lower, part.upper
        part.lower, part.upper = clip(part)

        def back() -> bool:
            part.lower, part.upper = before
            return False

        self._undo.append(back)

    def _leaf(self) -> Leaf:
        part, stream, count = self._part, self._stream, self._packed.count
        (flags,) = stream.take(1)
        if flags >= 64 or (flags & DUALS and flags & 7) or (flags & WEIGHTS and flags & RAY):
            raise Invalid(f"a leaf has flags {flags}, before byte {stream.position} of the body")
        weights = np.zeros(self._rows)
        if flags & WEIGHTS:
            weights = stream.numbers("<f4", self._rows)
            if (weights < 0.0).any():
                raise Invalid(f"leaf {self.leaves} has a weight below 0")
        elif not flags & RAY:
            if not self._rows:
                raise Invalid(f"leaf {self.leaves} has no row to bound: only a ray can show it")
            weights[0] = 1.0
        slopes, multipliers, duals = np.full(count, np.nan), np.zeros(count), None
        if flags & DUALS:
            duals = stream.numbers("<f4", count)
        if flags & 3:
            unsplit = part.signs == 0
            slopes[unsplit] = stream.fractions(BITS[flags & 3], int(unsplit.sum()))
        if flags & MULTIPLIERS:
            multipliers[part.path] = stream.numbers("<f2", len(part.path))
        leaf = Leaf(
            self.leaves, part.signs.copy(), part.lower.copy(), part.upper.copy(), weights, slopes, multipliers, duals
        )
        self.leaves += 1
        return leaf


def most_at_once(network: Network, rows: int = 1) -> int:
    """Return how many leaves of a disjunct with some rows are bounded at once."""
    return max(1, min(BATCH, ENTRIES // (rows + sum(node.size for node in network.nodes))))


FormOf = Callable[[Array, Ranges], Form]  # from weights (B, row) and the parts' ranges


def bounds_of(network: Network, packed: Packed, batch: Batch, known: Ranges, form_of: FormOf) -> Array:
    """Return lower bounds (B,) of a form on the leaves of a batch; inf where one is empty. known: of the whole set."""
    leaves = batch.leaves
    weights, slopes, multipliers = (
        np.stack(column) for column in zip(*((x.weights, x.slopes, x.multipliers) for x in leaves), strict=True)
    )
    signs = packed_signs(network, packed, np.stack([leaf.signs for leaf in leaves]))
    ranges = ranges_of(network, batch, known, signs)
    given = _Given(network, packed, leaves, signs, slopes, multipliers)
    return lower_bound(network, form_of(weights, ranges), ranges, given)


def packed_signs(network: Network, packed: Packed, signs: Signs) -> dict[int, Signs]:
    """Return by node the splits (B, n) of its entries."""
    whole = packed.spread(signs.astype(np.float64), network, lambda node: np.zeros((1, 1)))
    return {node: part.astype(np.int8) for node, part in whole.items()}


def ranges_of(network: Network, batch: Batch, known: Ranges, signs: dict[int, Signs]) -> Ranges:
    """Return what holds on each leaf: on its box, with its splits."""
    lower, upper = (np.stack([getattr(leaf, side) for leaf in batch.leaves]) for side in ("lower", "upper"))
    if batch.again:
        return by_default(network, lower, upper, signs, known)
    ranges = Ranges([lower, *known.lower[1:]], [upper, *known.upper[1:]], known.watch, known.ball)
    for node, part in signs.items():
        restrict(ranges, node, part)
    return ranges


class _Given:
    """The slopes, multipliers or duals of leaves, as p."""

    def __init__(
        self,
        network: Network,
        packed: Packed,
        leaves: list[Leaf],
        signs: dict[int, Signs],
        slopes: Array,
        multipliers: Array,
    ) -> None:
        self._signs = signs
        self._slopes = packed.spread(slopes, network, lambda node: np.full((1, 1), np.nan))
        self._multipliers = packed.spread(multipliers, network, lambda node: np.zeros((1, 1)))
        nothing = np.full(packed.count, np.nan)
        duals = np.stack([nothing if leaf.duals is None else leaf.duals for leaf in leaves])
        given = any(leaf.duals is not None for leaf in leaves)
        self._duals = packed.spread(duals, network, lambda node: np.full((1, 1), np.nan)) if given else {}

    def shares(self, node: int) -> Array | None:
        """Return the slopes of packed neurons."""
        return self._slopes.get(node)

    def columns(self, node: int) -> Places:
        """Return where there is a split, or a dual."""
        if node not in self._signs:
            return NOWHERE
        chosen = (self._signs[node] != 0).any(0)
        if node in self._duals:
            chosen |= ~np.isnan(self._duals[node]).all(0)
        return np.flatnonzero(chosen)

    def choose(self, node: int, p: Array, columns: Places) -> Array:
        """Return p (B, column)."""
        p = p - self._signs[node][:, columns] * self._multipliers[node][:, columns]
        if node not in self._duals:
            return p
        duals = self._duals[node][:, columns]
        return np.where(np.isnan(duals), p, duals)
