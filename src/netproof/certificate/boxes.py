"""A tree over boxes of the input, searched again with the checker's own routine: it needs nothing of the search.

Each part is bounded as the checker will bound it: every neuron by default slopes on the part's own box, and then the
rows. A part that does not hold is halved where the relaxation of its neurons costs the bound most: what a neuron costs
is divided among the inputs by their shares in its width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from npcheck.bound import Form, Ranges, lower_bound
from npcheck.network import Affine, Network, Relu
from npcheck.ranges import Lines, by_default
from npcheck.statement import Array, Region, Rows
from npcheck.tree import AGAIN, INPUT, LEAF, WEIGHTS

from netproof.certificate.body import Body
from netproof.certificate.tree import Unprovable
from netproof.core.deadline import Deadline, DeadlineExpired

AT_ONCE = 64
LINEAR = 0.01  # the weight of the rows' own slopes beside what neurons cost
DEEPEST = 200


@dataclass
class Part:
    """A box of the input: halved, or shown at once."""

    lower: Array  # (n,)
    upper: Array
    depth: int = 0
    weights: Array | None = None  # (row,): what it is shown with
    dimension: int = -1
    halves: tuple[Part, Part] | None = None


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
            rest: list[Part] = []
            for begin in range(0, len(level), AT_ONCE):
                if self._deadline.expired:
                    raise DeadlineExpired
                rest += self._try(level[begin : begin + AT_ONCE])
            level = [half for part in rest for half in self._halved(part)]
        return root

    def _try(self, parts: list[Part]) -> list[Part]:
        """Make leaves of parts that hold; return the others, each with the input to halve."""
        lower, upper = np.stack([part.lower for part in parts]), np.stack([part.upper for part in parts])
        whole = parts[0].depth == 0  # of which the region's own bounds say as much
        ranges = self._known if whole else by_default(self._network, lower, upper, {}, self._known)
        count = len(self._rows.right)
        single = np.eye(count)
        bounds, scores = np.full(len(parts), -np.inf), np.zeros_like(lower)
        chosen = np.zeros((len(parts), count))
        for weights in single:
            form = Form.of_rows(self._rows, np.tile(weights, (len(parts), 1)), len(self._network.nodes) - 1, ranges)
            value = lower_bound(self._network, form, ranges, Lines({}))
            better = value > bounds
            bounds[better], chosen[better] = value[better], weights
            scores += np.abs(form.coefficients.get(0, np.zeros_like(lower))) * (upper - lower)
        rest = []
        for place, part in enumerate(parts):
            if bounds[place] > 0.0:
                part.weights = chosen[place]
                self.leaves += 1
            else:
                rest.append(part)
        if rest:
            at = np.array([place for place in range(len(parts)) if parts[place].weights is None])
            blame = _blame(self._network, _some(ranges, at), self._rows, chosen[at])
            worth = blame * (upper - lower)[at] + LINEAR * scores[at] / count
            for part, dimension in zip(rest, worth.argmax(1).tolist(), strict=True):
                part.dimension = dimension
        return rest

    def _halved(self, part: Part) -> tuple[Part, Part]:
        at = part.dimension
        middle = 0.5 * part.lower[at] + 0.5 * part.upper[at]
        if part.depth >= DEEPEST or not part.lower[at] < middle < part.upper[at]:
            raise Unprovable("a box that is too small to be halved does not hold")
        left, right = (Part(part.lower.copy(), part.upper.copy(), part.depth + 1) for _ in range(2))
        left.upper[at] = right.lower[at] = middle
        part.halves = left, right
        return left, right


def _some(ranges: Ranges, at: Array) -> Ranges:
    def of(side: Array) -> Array:
        return side if len(side) == 1 else side[at]

    return Ranges([of(side) for side in ranges.lower], [of(side) for side in ranges.upper])


def _blame(network: Network, ranges: Ranges, rows: Rows, weights: Array) -> Array:
    """Return (B, n): what each unit of an input's width costs the bound by the neurons that it makes unstable."""
    costs = _costs(network, ranges, rows, weights)
    blame = np.zeros((len(weights), network.nodes[0].size))
    for node, cost in costs.items():
        batch, neurons = (cost > 0.0).nonzero()
        if len(batch) == 0:
            continue
        form = Form.of_neurons(node, network.nodes[node].size, neurons, 1.0)
        lower_bound(network, form, ranges.on(batch), Lines({}))
        slopes = np.abs(form.coefficients.get(0, np.zeros((len(batch), blame.shape[1]))))
        wide = slopes * (ranges.upper[0] - ranges.lower[0])[batch]
        share = slopes / np.maximum(wide.sum(1, keepdims=True), 1e-300)
        np.add.at(blame, batch, cost[batch, neurons][:, None] * share)
    return blame


def _costs(network: Network, ranges: Ranges, rows: Rows, weights: Array) -> dict[int, Array]:
    """Return by node that a ReLU reads (B, n): what its relaxation may cost the bound of the rows."""
    coefficients = {len(network.nodes) - 1: weights @ rows.outputs}
    costs = {}
    lines, every = Lines({}), np.arange(max(node.size for node in network.nodes))
    for node in range(len(network.nodes) - 1, 0, -1):
        a = coefficients.pop(node, None)
        if a is None:
            continue
        op, inputs = network.nodes[node].op, network.nodes[node].inputs
        if isinstance(op, Relu):
            (h,) = inputs
            low, high = ranges.lower[h], ranges.upper[h]
            unstable = (low < 0.0) & (high > 0.0)
            height = np.where(unstable, -low * high / np.where(unstable, high - low, 1.0), 0.0)
            costs[h] = np.where(a < 0.0, -a * height, a * np.where(unstable, np.minimum(-low, high), 0.0))
            parts = [lines(h, a, low, high, every[: a.shape[1]])]
        else:
            assert isinstance(op, Affine)
            parts = op.adjoint(a)
        for w, part in zip(inputs, parts, strict=True):
            coefficients[w] = coefficients.get(w, 0.0) + part
    return costs


def write_boxes(body: Body, root: Part) -> None:
    """Write a tree over boxes in the order in which it is read."""
    stack = [root]
    while stack:
        part = stack.pop()
        if part.halves is not None:
            body.varint(INPUT)
            body.varint(part.dimension)
            body.numbers("<f8", part.halves[0].upper[part.dimension : part.dimension + 1])
            stack += [part.halves[1], part.halves[0]]
            continue
        assert part.weights is not None
        if part.depth > 0:
            body.varint(AGAIN)
        body.varint(LEAF)
        first = part.weights[0] == 1.0
        body.byte(0 if first else WEIGHTS)
        if not first:
            body.numbers("<f4", part.weights)
