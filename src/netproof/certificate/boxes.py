"""A tree over boxes of the input, searched again with the checker's own routine: it needs nothing of the search.

Each part is bounded as the checker will bound it: every neuron by default slopes on the part's own box, and then the
rows. A part that does not hold is halved where the relaxation of its neurons costs the bound most: what a neuron costs
is divided among the inputs by their shares in its width.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netproof.certificate.body import Body
from netproof.certificate.leaves import Unprovable
from netproof.core.deadline import Deadline, DeadlineExpired
from npcheck.bound import Form, Places, Ranges, lower_bound
from npcheck.clip import clipped
from npcheck.network import Affine, Network, Nonlinear, Plane, Planes, Relu
from npcheck.ranges import Lines, by_default
from npcheck.statement import Array, Region, Rows
from npcheck.tree import AGAIN, CLIP, INPUT, LEAF, WEIGHTS

AT_ONCE = 64
CLIPS = 6  # of a box, before it is halved
WORTH = 0.05  # share of an input's width that a clip must take away to be one
SHARES = np.arange(1, 8) / 8.0  # of one row in a pair that is tried together
LINEAR = 0.01  # the weight of the rows' own slopes beside what neurons cost
DEEPEST = 200
TIE = 1e-6  # of its size, by which bounds of rows may differ and be equal
HUGE = 1e30  # stands for what planes without end cost


@dataclass
class Part:
    """A box of the input: halved, clipped, or shown at once."""

    lower: Array  # (n,)
    upper: Array
    depth: int = 0
    clips: int = 0  # since it was halved last
    weights: Array | None = None  # (row,): what it is shown with
    dimension: int = -1
    halves: tuple[Part, Part] | None = None
    clipped: Part | None = None

    @property
    def is_whole(self) -> bool:
        """Say whether the region's own bounds say as much of it as new ones would."""
        return self.depth == 0 and self.clips == 0


@dataclass(frozen=True)
class Forms:
    """Linear forms below the rows of some parts: slopes (B, row, n), constants (B, row)."""

    slopes: Array
    constants: Array

    def at_least(self, weights: Array, lower: Array, upper: Array) -> Array:
        """Return the least value of a weighted sum of rows (B, row) on boxes (B, n)."""
        slopes = np.einsum("br,brn->bn", weights, self.slopes)
        return np.asarray((weights * self.constants).sum(1) + np.minimum(slopes * lower, slopes * upper).sum(1))


class BoxTreeMaker:
    """Makes the tree of one disjunct over boxes."""

    def __init__(self, network: Network, region: Region, rows: Rows, known: Ranges, deadline: Deadline) -> None:
        self._network, self._region, self._rows, self._known, self._deadline = network, region, rows, known, deadline
        self.leaves = 0

    def make(self) -> Part:
        """Return a tree all of whose leaves hold."""
        root = Part(self._region.lower.copy(), self._region.upper.copy())
        level = [root]
        while level:
            following: list[Part] = []
            for begin in range(0, len(level), AT_ONCE):
                if self._deadline.expired:
                    raise DeadlineExpired
                following += self._try(level[begin : begin + AT_ONCE])
            level = following
        return root

    def _try(self, parts: list[Part]) -> list[Part]:
        """Make leaves of parts that hold; return what the others are divided into."""
        lower, upper = np.stack([part.lower for part in parts]), np.stack([part.upper for part in parts])
        whole, seen = parts[0].is_whole, _Seen(self._network, len(parts))
        known = replace(self._known, watch=seen)
        ranges = self._known if whole else by_default(self._network, lower, upper, {}, known)
        count = len(self._rows.right)
        slopes, constants = np.zeros((len(parts), count, lower.shape[1])), np.zeros((len(parts), count))
        bounds, chosen = np.full(len(parts), -np.inf), np.zeros((len(parts), count))
        values = np.zeros((len(parts), count))
        for row in range(count):
            weights = np.tile(np.eye(count)[row], (len(parts), 1))
            form, value = self._value(weights, ranges)
            slopes[:, row] = form.coefficients.get(0, np.zeros_like(lower))
            constants[:, row] = form.constant - np.minimum(slopes[:, row] * lower, slopes[:, row] * upper).sum(1)
            values[:, row] = value
            better = value > bounds
            bounds[better], chosen[better] = value[better], weights[better]
        forms = Forms(slopes, constants)
        if count > 1 and not (bounds > 0.0).all():
            pairs = _best_pairs(forms, bounds, chosen, lower, upper)
            _, value = self._value(pairs, ranges)
            better = value > bounds
            bounds[better], chosen[better] = value[better], pairs[better]
        for part, bound, weights in zip(parts, bounds, chosen, strict=True):
            if bound > 0.0:
                part.weights = weights
                self.leaves += 1
        ties = _ties(values)
        blamed = np.where(ties.sum(1, keepdims=True) > 1, ties, chosen)
        at = (bounds <= 0.0).nonzero()[0]
        left = ranges if whole else _some(ranges, at)
        return self._divided([parts[place] for place in at], left, forms, blamed, at, seen)

    def _value(self, weights: Array, ranges: Ranges) -> tuple[Form, Array]:
        stored = weights.astype(np.float32).astype(np.float64)
        form = Form.of_rows(self._rows, stored, len(self._network.nodes) - 1, ranges)
        return form, lower_bound(self._network, form, ranges, Lines({}))

    def _divided(
        self, parts: list[Part], ranges: Ranges, forms: Forms, blamed: Array, at: Places, seen: _Seen
    ) -> list[Part]:
        """Clip parts, or halve them where that takes little away."""
        if not parts:
            return []
        width = ranges.upper[0] - ranges.lower[0]
        lower, upper = clipped(self._network, self._rows, ranges)
        cut = (lower > ranges.lower[0] + WORTH * width) | (upper < ranges.upper[0] - WORTH * width)
        costs = _costs(self._network, ranges, self._rows, blamed[at])
        blame = _blame(self._network, ranges, costs, seen.moves(at))
        worth = blame + LINEAR * np.abs(forms.slopes[at]).mean(1) * width
        following = []
        for place, part in enumerate(parts):
            if part.clips < CLIPS and cut[place].any():
                part.clipped = Part(lower[place], upper[place], part.depth, part.clips + 1)
                following.append(part.clipped)
            else:
                part.dimension = int(worth[place].argmax())
                following += _halved(part)
        return following


def _ties(values: Array) -> NDArray[np.bool_]:
    """Say which rows (B, row) are as near to a proof as the best: rounding is no reason to choose between them."""
    best = values.max(1, keepdims=True)
    return np.asarray(values >= best - TIE * (1.0 + np.abs(best)), dtype=np.bool_)


def _halved(part: Part) -> tuple[Part, Part]:
    at = part.dimension
    middle = 0.5 * part.lower[at] + 0.5 * part.upper[at]
    if part.depth >= DEEPEST or not part.lower[at] < middle < part.upper[at]:
        raise Unprovable("a box that is too small to be halved does not hold")
    left, right = (Part(part.lower.copy(), part.upper.copy(), part.depth + 1) for _ in range(2))
    left.upper[at] = right.lower[at] = middle
    part.halves = left, right
    return left, right


def _best_pairs(forms: Forms, bounds: Array, chosen: Array, lower: Array, upper: Array) -> Array:
    """Return weights (B, row) of the pairs of rows whose linear forms together have the highest least value."""
    best, weights = np.full(len(bounds), -np.inf), chosen.copy()
    for first, second in itertools.combinations(range(chosen.shape[1]), 2):
        for share in SHARES:
            pair = np.zeros_like(chosen)
            pair[:, first], pair[:, second] = share, 1.0 - share
            value = forms.at_least(pair, lower, upper)
            better = value > best
            best[better], weights[better] = value[better], pair[better]
    return weights


def _some(ranges: Ranges, at: Places) -> Ranges:
    def of(side: Array) -> Array:
        return side if len(side) == 1 else side[at]

    return Ranges([of(side) for side in ranges.lower], [of(side) for side in ranges.upper], ball=ranges.ball)


class _Seen:
    """Keeps by how much each input moves the lines about neurons, from the passes back that bound them: a `Watch`."""

    def __init__(self, network: Network, parts: int) -> None:
        self._network, self._parts = network, parts
        self._slopes: dict[int, Array] = {}  # by node: (part, n, input)

    def disjunct(self, target: int) -> None:
        """Leave rows aside."""

    def begin(self, form: Form, ranges: Ranges) -> _Pass | None:
        """Follow forms of neurons."""
        if form.weights is not None:
            return None
        ((node, seeds),) = form.coefficients.items()
        return _Pass(self, form, ranges.place, node, np.abs(seeds).argmax(1))

    def add(self, node: int, place: int, neurons: Places, slopes: Array) -> None:
        """Take in the slopes (B, input) of some neurons' lines on one part."""
        if node not in self._slopes:
            sizes = self._parts, self._network.nodes[node].size, self._network.nodes[0].size
            self._slopes[node] = np.zeros(sizes)
        np.add.at(self._slopes[node][place], neurons, np.abs(slopes))

    def moves(self, at: Places) -> dict[int, Array]:
        """Return by node how far each unit of an input moves lines (part, n, input), on some parts."""
        return {node: slopes[at] for node, slopes in self._slopes.items()}


@dataclass(frozen=True)
class _Pass:
    """A batch of passes back that is followed: a `Trace`."""

    seen: _Seen
    form: Form
    place: int
    node: int
    neurons: Places

    def replaced(self, node: int, coefficients: Array, p: Array | None) -> None:
        """Wait for the input."""

    def bent(self, node: int, p: list[Array], plane: Plane) -> None:
        """Wait for the input."""

    def found(self, bounds: Array) -> None:
        """Take what is left in the end."""
        slopes = self.form.coefficients.get(0)
        if slopes is not None:
            self.seen.add(self.node, self.place, self.neurons, slopes)


def _blame(network: Network, ranges: Ranges, costs: dict[int, Array], lines: dict[int, Array]) -> Array:
    """Return (B, n): what an input's width costs the bound by the neurons that it makes unstable.

    What a neuron costs is divided among the inputs by how far each moves the lines about it (`lines`); where there are
    none, by how far it moves the neuron when every ReLU is its chord.
    """
    width = ranges.upper[0] - ranges.lower[0]
    varying = np.flatnonzero((width > 0.0).any(0))
    moves = [np.zeros((len(width), len(varying), network.nodes[0].size))]  # (B, varying, n) of each node
    moves[0][:, np.arange(len(varying)), varying] = width[:, varying]
    blame = np.zeros_like(width)
    for place, node in enumerate(network.nodes[: max(costs, default=0) + 1]):
        if isinstance(node.op, Relu):
            moves.append(moves[node.inputs[0]] * ranges.triangles(node.inputs[0]).chord[:, None])
        elif isinstance(node.op, Affine):
            values = [moves[w].reshape(-1, network.nodes[w].size) for w in node.inputs]
            moves.append(node.op.forward(values).reshape(len(width), len(varying), node.size))
        elif isinstance(node.op, Nonlinear):
            planes = ranges.planes(network, place)
            slopes = (low + high for low, high in zip(planes.below.slopes, planes.above.slopes, strict=True))
            moved = (0.5 * slope[:, None] * moves[w] for slope, w in zip(slopes, node.inputs, strict=True))
            moves.append(sum(moved, start=np.zeros(moves[node.inputs[0]].shape)))
        if place in costs:
            size = np.abs(moves[place])
            if place in lines:
                size = (lines[place] * width[:, None])[:, :, varying].transpose(0, 2, 1)
            share = costs[place] / np.maximum(size.sum(1), 1e-200)
            blame[:, varying] += np.einsum("bvn,bn->bv", size, share)
    return blame


def _costs(network: Network, ranges: Ranges, rows: Rows, weights: Array) -> dict[int, Array]:
    """Return by hidden node (B, n): what the relaxation of its readers may cost the bound of the rows."""
    coefficients = {len(network.nodes) - 1: weights @ rows.outputs}
    costs: dict[int, Array] = {}
    for node in range(len(network.nodes) - 1, 0, -1):
        a = coefficients.pop(node, None)
        if a is None:
            continue
        op, inputs = network.nodes[node].op, network.nodes[node].inputs
        if isinstance(op, Relu):
            (h,) = inputs
            low, high, lines = ranges.lower[h], ranges.upper[h], ranges.triangles(h)
            widest = np.where(lines.unstable, np.minimum(-low, high), 0.0)
            costs[h] = costs.get(h, 0.0) + np.where(a < 0.0, -a * lines.drop, a * widest)
            parts = [np.where(a < 0.0, a * lines.chord, a * lines.share)]
        elif isinstance(op, Nonlinear):
            planes = ranges.planes(network, node)
            for h in inputs:
                costs[h] = costs.get(h, 0.0) + np.abs(a) * _thickness(planes, ranges, inputs)
            parts = [a * slope for slope in planes.facing(a).slopes]
        else:
            assert isinstance(op, Affine)
            parts = op.adjoint(a)
        for w, part in zip(inputs, parts, strict=True):
            coefficients[w] = coefficients.get(w, 0.0) + part
    return costs


def _thickness(planes: Planes, ranges: Ranges, operands: tuple[int, ...]) -> Array:
    """Return how far an operator's planes are apart in the middle of its operands."""
    thickness = planes.above.constant - planes.below.constant
    for h, above, below in zip(operands, planes.above.slopes, planes.below.slopes, strict=True):
        thickness = thickness + (above - below) * (0.5 * ranges.lower[h] + 0.5 * ranges.upper[h])
    return np.nan_to_num(thickness, nan=HUGE, posinf=HUGE)


def write_boxes(body: Body, root: Part) -> None:
    """Write a tree over boxes in the order in which it is read."""
    stack = [root]
    while stack:
        part = stack.pop()
        if part.clipped is not None:
            body.varint(CLIP)
            stack.append(part.clipped)
            continue
        if part.halves is not None:
            body.varint(INPUT)
            body.varint(part.dimension)
            body.numbers("<f8", part.halves[0].upper[part.dimension : part.dimension + 1])
            stack += [part.halves[1], part.halves[0]]
            continue
        assert part.weights is not None
        if not part.is_whole:
            body.varint(AGAIN)
        body.varint(LEAF)
        first = part.weights[0] == 1.0
        body.byte(0 if first else WEIGHTS)
        if not first:
            body.numbers("<f4", part.weights)
