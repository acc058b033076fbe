"""A network as nodes in topological order, and what each of its affine operators computes.

Three kinds of node are enough for most networks: the input, ReLU, and affine operators v = W·w + b of one or more
earlier nodes. All others are `Nonlinear`, see `smooth` and `product`. The value of a node is a flat vector, in C order
and without the batch axis. All functions take and return batches of such vectors: float64 arrays of shape (B, n).

An affine operator never shows its matrix. It offers three products instead:

    forward(values)    W·w     without b
    magnitude(values)  |W|·z   for z >= 0, where |W| has the absolute values of W's entries
    adjoint(coef)      Wᵀ·a    one array for each input

Each number of the result is a plain sum of at most `terms` products, in any order: numpy's matrix products, strided
windows and indexing, nothing that rewrites the sum (no FFT, no Winograd, no Strassen). So the usual bound holds: a
computed sum is off by at most γ_terms times the sum of the absolute products.

What W and b are. The numbers of the file are float32 or float64, so they are exact here. Where `folded` is True, an
entry of W or b was computed from several of them (a division, a square root, a product), in float64. Then every entry
of W is off by at most 16·2⁻⁵³ of its size, and every entry of b by at most 16·2⁻⁵³ of the same entry of `spread`, which
is |b| unless b is itself a difference of larger numbers. Zeros of W are exact in any case.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from npcheck.errors import Refused

Array = NDArray[np.float64]
Index = NDArray[np.int64]

SPARSE = 32  # entries of a row, of which one at most is other than 0, where a matrix is multiplied entry by entry
SINGLE = float(np.finfo(np.float32).max)
LARGEST = 2.0**100  # weights beyond it are refused, so that no product of the checker can overflow unnoticed


class Op:
    """What a node computes. `Input` and `Relu` are mere markers, everything else is `Affine` or `Nonlinear`."""


@dataclass(frozen=True)
class Input(Op):
    """The input of the network."""

    double: bool = False  # whether it is of float64, otherwise of float32


class Relu(Op):
    """max(x, 0), entry by entry."""


@dataclass(frozen=True)
class Plane:
    """Σ slope·h + constant, entry by entry of a node; an infinite constant stands for no plane."""

    slopes: tuple[Array, ...]  # by operand (D, n)
    constant: Array  # (D, n)

    def at(self, place: int) -> Plane:
        """Return that of one sub-domain."""
        return Plane(tuple(_one(slope, place) for slope in self.slopes), _one(self.constant, place))


@dataclass(frozen=True)
class Planes:
    """What an operator lies between, on each of some sub-domains."""

    below: Plane
    above: Plane

    def at(self, place: int) -> Planes:
        """Return those of one sub-domain."""
        return Planes(self.below.at(place), self.above.at(place))

    def facing(self, a: Array) -> Plane:
        """Return the planes below a·g(h) where they are multiplied with coefficients a (B, n)."""
        upward = a >= 0.0
        pairs = zip(self.below.slopes, self.above.slopes, strict=True)
        slopes = tuple(np.where(upward, low, high) for low, high in pairs)
        return Plane(slopes, np.where(upward, self.below.constant, self.above.constant))


def _one(side: Array, place: int) -> Array:
    return side if len(side) == 1 else side[place : place + 1]


class Nonlinear(Op, ABC):
    """z = g(h, …), entry by entry of one or more earlier nodes of one size; `bound` asks nothing but its planes."""

    name: str
    operands: int
    is_monotone = False  # of one operand: then no pass back is better than the interval

    @abstractmethod
    def interval(self, lows: Sequence[Array], highs: Sequence[Array]) -> tuple[Array, Array]:
        """Return bounds of z from those of the operands (D, n); infinite where there are none."""

    @abstractmethod
    def planes(self, lows: Sequence[Array], highs: Sequence[Array]) -> Planes:
        """Return planes that z lies between while the operands are within bounds (D, n)."""

    @abstractmethod
    def near(self, values: Sequence[Array]) -> Array:
        """Return the value, about: for trials, no proof rests on it."""


class Affine(Op, ABC):
    """v = W·w + b, see above. `sizes` are the lengths of the inputs, `size` is that of the result."""

    sizes: tuple[int, ...]
    size: int
    terms: int
    bias: Array | None
    folded: bool
    spread: Array | None

    def _set(
        self,
        sizes: tuple[int, ...],
        size: int,
        terms: int,
        bias: Array | None,
        folded: bool = False,
        spread: Array | None = None,
    ) -> None:
        """Store what all affine operators have; refuse numbers and lengths that cannot be."""
        for vector in (bias, spread):
            if vector is not None:
                require_tame(vector)
                if vector.shape != (size,):
                    raise Refused(f"a bias has shape {vector.shape}, not ({size},)")
        self.sizes, self.size, self.terms = sizes, size, max(terms, 1)
        self.bias, self.folded, self.spread = bias, folded, spread

    @abstractmethod
    def forward(self, values: Sequence[Array]) -> Array:
        """Return W·w, without b, from one (B, n) for each input: (B, size)."""

    @abstractmethod
    def magnitude(self, values: Sequence[Array]) -> Array:
        """Return |W|·z, from one (B, n) for each input, all of them >= 0: (B, size)."""

    @abstractmethod
    def adjoint(self, coef: Array) -> list[Array]:
        """Return Wᵀ·a from (B, size): one (B, n) for each input, in the order of the inputs."""

    def plus(self, bias: Array) -> Self:
        """Return the operator with this b, where it has none."""
        require_tame(bias)
        other = copy(self)
        other.bias = bias
        return other

    @property
    def bias_magnitude(self) -> Array | None:
        """Return what errors of the bias are measured by: `spread`, or else |b|."""
        if self.spread is not None or self.bias is None:
            return self.spread
        magnitude: Array = np.abs(self.bias)
        return magnitude


def require_tame(numbers: NDArray[np.float64]) -> None:
    """Refuse numbers that are not finite, or beyond 2^100."""
    # Written so that NaN, which compares false with everything, is refused too.
    if not bool(np.all(np.abs(numbers) <= LARGEST)):
        raise Refused("a weight is not a finite number, or beyond 2^100 in absolute value")


class Linear(Affine):
    """A matrix (m, n) applied to each of `copies` vectors, which lie one behind the other in the input."""

    def __init__(self, weight: Array, *, copies: int = 1, bias: Array | None = None, folded: bool = False) -> None:
        require_tame(weight)
        rows, columns = weight.shape
        self.weight, self.copies = weight, copies
        self._set((copies * columns,), copies * rows, max(rows, columns), bias, folded)

    @cached_property
    def _rows(self) -> Matrix:
        return Matrix(self.weight)

    @cached_property
    def _columns(self) -> Matrix:
        return Matrix(self.weight.T)

    @cached_property
    def _absolute(self) -> Matrix:
        return Matrix(np.abs(self.weight))

    def _times(self, values: Array, matrix: Matrix) -> Array:
        """Multiply a matrix with each copy's vector."""
        rows, columns = matrix.shape
        products = matrix.times(values.reshape(len(values) * self.copies, columns))
        return products.reshape(len(values), self.copies * rows)

    def forward(self, values: Sequence[Array]) -> Array:
        return self._times(values[0], self._rows)

    def magnitude(self, values: Sequence[Array]) -> Array:
        return self._times(values[0], self._absolute)

    def adjoint(self, coef: Array) -> list[Array]:
        return [self._times(coef, self._columns)]


class Matrix:
    """A matrix (m, n), by its entries other than 0 where no row has many of them."""

    def __init__(self, dense: Array) -> None:
        self.shape = dense.shape
        self._dense = dense.T
        most = int(np.count_nonzero(dense, axis=1).max(initial=0))
        self._places: Index | None = None
        if most * SPARSE <= dense.shape[1]:
            order = np.argsort(dense == 0.0, axis=1, kind="stable")[:, :most]  # each row's entries other than 0 first
            self._places, self._entries = order.T, np.take_along_axis(dense, order, 1).T

    def times(self, vectors: Array) -> Array:
        """Return the products with vectors (B, n)."""
        if self._places is None:
            return np.asarray(np.matmul(vectors, self._dense))
        products = np.zeros((len(vectors), self.shape[0]))
        for places, entries in zip(self._places, self._entries, strict=True):
            products += np.take(vectors, places, axis=1) * entries
        return products


@dataclass(frozen=True)
class Windows:
    """How a kernel of two axes moves over an image: sizes are (height, width), pads (top, left, bottom, right)."""

    image: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        """Refuse windows that do not fit into the image with its padding."""
        if min(*self.image, *self.kernel, *self.strides, *self.dilations) < 1 or min(self.pads) < 0:
            raise Refused("an image, kernel, stride or dilation is less than 1, or a pad is negative")
        if min(self.result) < 1:
            raise Refused(f"a kernel of {self.kernel} does not fit into an image of {self.image}")

    @property
    def padded(self) -> tuple[int, int]:
        """The image with its padding."""
        top, left, bottom, right = self.pads
        return self.image[0] + top + bottom, self.image[1] + left + right

    @property
    def result(self) -> tuple[int, int]:
        """How many places the kernel takes along both axes."""
        height, width = (
            (padded - dilation * (kernel - 1) - 1) // stride + 1
            for padded, kernel, stride, dilation in zip(
                self.padded, self.kernel, self.strides, self.dilations, strict=True
            )
        )
        return height, width

    def positions(self) -> Iterator[tuple[int, int]]:
        """Go through the entries of the kernel in row-major order."""
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                yield i, j

    def under(self, i: int, j: int) -> tuple[slice, slice]:
        """Say which pixels of the padded image lie under the kernel's entry (i, j), over all places of the kernel."""
        rows, columns = (
            slice(start, start + stride * (count - 1) + 1, stride)
            for start, stride, count in zip(
                (i * self.dilations[0], j * self.dilations[1]), self.strides, self.result, strict=True
            )
        )
        return rows, columns


class Convolution(Affine):
    """A convolution of two axes, as ONNX defines it: weight (out channels, in channels / group, height, width).

    The input is (in channels, height, width), flattened; a convolution of one axis is one of two with height 1. It is
    computed as one matrix product for every entry of the kernel, of the pixels that lie under it, and these products
    are added. The adjoint does the same backwards, entry by entry, and so is visibly the transpose.
    """

    def __init__(
        self, weight: Array, windows: Windows, *, group: int = 1, bias: Array | None = None, folded: bool = False
    ) -> None:
        require_tame(weight)
        outs, ins, height, width = weight.shape
        if group < 1 or outs % group or (height, width) != windows.kernel:
            raise Refused(f"a kernel of shape {weight.shape} does not fit {group} groups or {windows.kernel}")
        self.windows, self.group = windows, group
        self.ins, self.outs = ins, outs // group  # channels of one group
        # (height, width, group, out channels, in channels): one matrix for each entry of the kernel and group
        taps = weight.reshape(group, self.outs, ins, height, width).transpose(3, 4, 0, 1, 2)
        self.taps: Array = np.ascontiguousarray(taps)
        per_channel = None if bias is None else np.repeat(bias, math.prod(windows.result))
        terms = max(ins, self.outs) * height * width
        sizes = (group * ins * math.prod(windows.image),)
        self._set(sizes, outs * math.prod(windows.result), terms, per_channel, folded)

    @cached_property
    def _absolute(self) -> Array:
        absolute: Array = np.abs(self.taps)
        return absolute

    def _inner(self, padded: Array) -> Array:
        """Return the part of padded images that is not padding, as a view."""
        top, left = self.windows.pads[:2]
        height, width = self.windows.image
        return padded[..., top : top + height, left : left + width]

    def _convolve(self, values: Array, taps: Array) -> Array:
        batch = len(values)
        padded = np.zeros((batch, self.group, self.ins, *self.windows.padded))
        self._inner(padded)[...] = values.reshape(batch, self.group, self.ins, *self.windows.image)
        result = np.zeros((batch, self.group, self.outs, math.prod(self.windows.result)))
        for i, j in self.windows.positions():
            pixels = padded[(..., *self.windows.under(i, j))]
            result += np.matmul(taps[i, j], pixels.reshape(batch, self.group, self.ins, result.shape[3]))
        return result.reshape(batch, self.size)

    def forward(self, values: Sequence[Array]) -> Array:
        return self._convolve(values[0], self.taps)

    def magnitude(self, values: Sequence[Array]) -> Array:
        return self._convolve(values[0], self._absolute)

    def adjoint(self, coef: Array) -> list[Array]:
        batch = len(coef)
        padded = np.zeros((batch, self.group, self.ins, *self.windows.padded))
        maps = coef.reshape(batch, self.group, self.outs, *self.windows.result)
        # Neurons of a deeper layer read a part of the image: there is 0 elsewhere.
        part = _extent(np.any(maps, axis=(0, 1, 2, 4))), _extent(np.any(maps, axis=(0, 1, 2, 3)))
        rows = maps[(..., *part)]
        rows = rows.reshape(*rows.shape[:3], math.prod(rows.shape[3:]))
        for i, j in self.windows.positions():
            under = padded[(..., *self.windows.under(i, j))]
            pixels = under[(..., *part)]  # a view: what is added to it is added to the image
            pixels += np.matmul(self.taps[i, j].transpose(0, 2, 1), rows).reshape(pixels.shape)
        return [self._inner(padded).reshape(batch, self.sizes[0])]


def _extent(used: NDArray[np.bool_]) -> slice:
    """Return the range from the first place that is used to the last."""
    places = np.flatnonzero(used)
    return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)


class Scale(Affine):
    """Each entry times its own factor; with factors of 1, the addition of a constant."""

    def __init__(
        self, factor: Array, *, bias: Array | None = None, folded: bool = False, spread: Array | None = None
    ) -> None:
        require_tame(factor)
        self.factor = factor
        self._set((len(factor),), len(factor), 1, bias, folded, spread)

    def forward(self, values: Sequence[Array]) -> Array:
        return values[0] * self.factor

    def magnitude(self, values: Sequence[Array]) -> Array:
        return values[0] * np.abs(self.factor)

    def adjoint(self, coef: Array) -> list[Array]:
        return [coef * self.factor]


class Sum(Affine):
    """Several inputs of one size, each added or, where its sign is −1, taken away."""

    def __init__(self, signs: tuple[int, ...], size: int, *, bias: Array | None = None) -> None:
        self.signs = signs
        self._set((size,) * len(signs), size, len(signs), bias)

    def forward(self, values: Sequence[Array]) -> Array:
        result = np.zeros_like(values[0])
        for sign, value in zip(self.signs, values, strict=True):
            result += sign * value
        return result

    def magnitude(self, values: Sequence[Array]) -> Array:
        result = np.zeros_like(values[0])
        for value in values:
            result += value
        return result

    def adjoint(self, coef: Array) -> list[Array]:
        return [sign * coef for sign in self.signs]


class Take(Affine):
    """Entries picked from the inputs laid one behind the other; index −1 stands for 0.

    This is all that reshaping, transposing, slicing, padding, joining and repeating do.
    """

    def __init__(self, index: Index, sizes: tuple[int, ...], *, bias: Array | None = None) -> None:
        total = sum(sizes)
        if index.ndim != 1 or (len(index) and not -1 <= index.min() <= index.max() < total):
            raise Refused("an index lies outside of what it picks from")
        self.index = index
        self._places = np.flatnonzero(index >= 0)  # of the result, where an entry is picked
        self._picked = index[self._places]  # and which one it is
        readers = np.bincount(self._picked, minlength=total)
        self._most = int(readers.max()) if len(readers) else 0  # how often one entry is picked
        self._set(sizes, len(index), self._most, bias)

    def forward(self, values: Sequence[Array]) -> Array:
        joined = values[0] if len(values) == 1 else np.concatenate(values, axis=1)
        result = np.zeros((len(joined), self.size))
        result[:, self._places] = joined[:, self._picked]
        return result

    def magnitude(self, values: Sequence[Array]) -> Array:
        return self.forward(values)  # every entry of W is 0 or 1

    def adjoint(self, coef: Array) -> list[Array]:
        total = sum(self.sizes)
        result = np.zeros((len(coef), total))
        if self._most <= 1:
            result[:, self._picked] = coef[:, self._places]
        else:  # an entry that is picked several times collects a sum: bincount adds one after the other
            for row, coefficients in zip(result, coef, strict=True):
                row[:] = np.bincount(self._picked, weights=coefficients[self._places], minlength=total)
        edges = np.cumsum(self.sizes)[:-1]
        return list(np.split(result, edges, axis=1))


@dataclass(frozen=True, eq=False)
class Node:
    """One step of the network. An input may occur twice in `inputs` (x + x): then its coefficients must be added."""

    op: Op
    inputs: tuple[int, ...]  # places of earlier nodes
    size: int
    name: str  # the file's node, for messages


@dataclass(frozen=True)
class OrderMap:
    """A node that is a function of vectors of `width` entries, which lie one behind the other in another node."""

    kind: str  # softmax, log softmax, or argmax: the first, or the last, of the largest entries
    source: int
    width: int


@dataclass(frozen=True, eq=False)
class Network:
    """Nodes in topological order: node 0 is the input, the last one is the output, and all others lead to it."""

    nodes: tuple[Node, ...]
    maps: dict[int, OrderMap] = field(default_factory=dict)  # by node that is one
    uncut: frozenset[int] = frozenset()  # nodes that a Clip leaves as they are while no value is beyond a float32

    def __post_init__(self) -> None:
        """Refuse nodes that do not fit together; the reader makes none, so this is a check of the reader."""
        for place, node in enumerate(self.nodes):
            sizes = tuple(self.nodes[i].size for i in node.inputs if 0 <= i < place)
            if isinstance(node.op, Input):
                fits = place == 0 and not node.inputs
            elif isinstance(node.op, Relu):
                fits = sizes == (node.size,) and len(node.inputs) == 1
            elif isinstance(node.op, Nonlinear):
                fits = sizes == (node.size,) * node.op.operands and len(node.inputs) == node.op.operands
            else:
                fits = isinstance(node.op, Affine) and (sizes, node.size) == (node.op.sizes, node.op.size)
                fits = fits and len(sizes) == len(node.inputs)
            if not fits or (place == 0) != isinstance(node.op, Input):
                raise Refused(f"{node.name}: its inputs do not fit (a fault of this reader)")

    @cached_property
    def hidden(self) -> tuple[int, ...]:
        """The places of the nodes that ReLUs and other nonlinear operators read, in order."""
        return tuple(sorted({i for node in self.nodes if isinstance(node.op, Relu | Nonlinear) for i in node.inputs}))

    @cached_property
    def extremes(self) -> dict[int, tuple[bool, int, int]]:
        """The nodes that are max(a, b) = b + relu(a − b) or min(a, b) = a − relu(a − b): whether max, a and b."""
        extremes = {}
        for place in range(len(self.nodes)):
            for (own, one), (hinge, sign) in permutations(self._terms_of(place), 2):
                if one != 1 or not isinstance(self.nodes[hinge].op, Relu):
                    continue
                difference = self._terms_of(self.nodes[hinge].inputs[0])
                if [side for _, side in difference] == [1, -1]:
                    (a, _), (b, _) = difference
                    if own == (b if sign == 1 else a):
                        extremes[place] = sign == 1, a, b
        return extremes

    def _terms_of(self, place: int) -> list[tuple[int, int]]:
        """Return what a sum of two is of, with their signs; nothing of another node."""
        op, inputs = self.nodes[place].op, self.nodes[place].inputs
        if not isinstance(op, Sum) or op.bias is not None or len(inputs) != 2:
            return []
        return list(zip(inputs, op.signs, strict=True))

    @cached_property
    def pixels(self) -> tuple[int, ...]:
        """How many entries a channel of an image has, by node; 1 where a node is no image."""
        pixels: list[int] = []
        for node in self.nodes:
            if isinstance(node.op, Convolution):
                pixels.append(math.prod(node.op.windows.result))
            else:
                alike = [pixels[i] for i in node.inputs if self.nodes[i].size == node.size]
                pixels.append(max(alike, default=1))
        return tuple(pixels)

    @cached_property
    def behind(self) -> tuple[int, ...]:
        """The hidden nodes for which a pass back may be better than intervals.

        They are behind a nonlinear operator, or more than one sum, and are no function of one other hidden node alone.
        """
        sums: list[int] = []
        for node in self.nodes:
            before = max((sums[i] for i in node.inputs), default=0)
            adds = isinstance(node.op, Affine) and node.op.terms > 1
            sums.append(before + (2 if isinstance(node.op, Relu | Nonlinear) else int(adds)))
        return tuple(h for h in self.hidden if sums[h] > 1 and not _follows_alone(self.nodes[h].op))

    @cached_property
    def hinged(self) -> frozenset[int]:
        """The places of the nodes that ReLUs read."""
        return frozenset(self.nodes[place].inputs[0] for place in self.relus)

    @cached_property
    def _bent(self) -> frozenset[int]:
        """The places of the nodes that an operator reads which is neither affine nor a ReLU."""
        return frozenset(i for node in self.nodes if isinstance(node.op, Nonlinear) for i in node.inputs)

    def doubtful(self, node: int, low: Array, high: Array) -> NDArray[np.bool_]:
        """Say of which entries of a hidden node tighter bounds are of use: a ReLU needs no more than a sign."""
        if node in self._bent:
            return np.asarray(low < high, dtype=np.bool_)
        return np.asarray((low < 0.0) & (high > 0.0), dtype=np.bool_)

    @cached_property
    def terms(self) -> int:
        """No sum of the checker has more products: of one operator, or over all entries of a node."""
        return max(node.size + (node.op.terms if isinstance(node.op, Affine) else 1) for node in self.nodes)

    @cached_property
    def relus(self) -> tuple[int, ...]:
        """The places of the ReLU nodes, in order."""
        return tuple(place for place, node in enumerate(self.nodes) if isinstance(node.op, Relu))

    @cached_property
    def nonlinear(self) -> dict[int, str]:
        """The names of the nonlinear operators other than ReLU, by node."""
        return {place: node.op.name for place, node in enumerate(self.nodes) if isinstance(node.op, Nonlinear)}

    def ending_at(self, last: int) -> Network:
        """Return the part that leads to a node, with its places counted anew."""
        needed = {0, last}
        for place in range(last, -1, -1):
            if place in needed:
                needed.update(self.nodes[place].inputs)
        place_of = {old: new for new, old in enumerate(sorted(needed))}
        nodes = (self.nodes[old] for old in place_of)
        return Network(
            tuple(Node(node.op, tuple(place_of[i] for i in node.inputs), node.size, node.name) for node in nodes),
            {place_of[old]: replace(m, source=place_of[m.source]) for old, m in self.maps.items() if old in needed},
            frozenset(place_of[old] for old in self.uncut if old in needed),
        )

    def cuts(self, node: int, low: Array, high: Array) -> bool:
        """Say whether a Clip may end the values of a node, so that the network is another one than the file's."""
        return node in self.uncut and not bool(np.all((low >= -SINGLE) & (high <= SINGLE)))

    def values(self, points: Array) -> list[Array]:
        """Return the values of all nodes at points (B, inputs), in float64: for trials, no proof rests on them."""
        found: list[Array] = []
        for node in self.nodes:
            if isinstance(node.op, Affine):
                value = node.op.forward([found[i] for i in node.inputs])
                found.append(value if node.op.bias is None else value + node.op.bias)
            elif isinstance(node.op, Relu):
                found.append(np.maximum(found[node.inputs[0]], 0.0))
            elif isinstance(node.op, Nonlinear):
                found.append(node.op.near([found[i] for i in node.inputs]))
            else:
                found.append(points)
        return found


def _follows_alone(op: Op) -> bool:
    return isinstance(op, Relu) or (isinstance(op, Nonlinear) and op.is_monotone)
