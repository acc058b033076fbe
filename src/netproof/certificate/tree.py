"""A tree of a proof that is being made: from hints of the search to leaves that the checker's own routine values.

A hint is a sub-domain that the search closed: its splits in their order, and the slopes, multipliers and weights that
its bound had. Nothing of it is believed. The tree follows the hints' splits; a leaf is tried with its hint's numbers
as the certificate will store them, then climbed, and split further where it still does not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netproof.certificate.body import Body
from netproof.certificate.climb import Point, RowsGoal, climb
from netproof.certificate.leaf_lp import duals
from netproof.certificate.spool import LEVELS, Hint
from netproof.core.deadline import Deadline, DeadlineExpired
from npcheck.bound import Form, Places, Ranges, carry_back
from npcheck.network import Network
from npcheck.ranges import NOWHERE, Signs, restrict
from npcheck.statement import Array, Region, Rows
from npcheck.ties import is_tie
from npcheck.tree import (
    DUALS,
    LEAF,
    MULTIPLIERS,
    NEURON,
    WEIGHTS,
    Batch,
    Leaf,
    Packed,
    bounds_of,
    most_at_once,
    packed_signs,
    ranges_of,
)

STEPS = 40
LARGEST = 2.0**14  # multiplier, so that each fits its 16 bits
NEAR = 1e-9  # below 0, where a strict row may hold by a tie


@dataclass(frozen=True)
class Guide:
    """A hint in terms of the neurons that the certificate packs; splits of others are left out."""

    path: tuple[tuple[int, int], ...]  # packed neuron and sign, in the order of the splits
    slopes: NDArray[np.uint8]  # (packed,): of LEVELS, beyond them where the rule decides
    multipliers: Array  # (packed,)
    weights: Array  # (row,)

    @classmethod
    def of(cls, hint: Hint, places: NDArray[np.int64], count: int) -> Guide:
        """Translate a hint; places: by name, the packed neuron, or −1."""
        at = places[hint.splits]
        known = at >= 0
        path = tuple(zip(at[known].tolist(), hint.signs[known].tolist(), strict=True))
        multipliers = np.zeros(count)
        multipliers[at[known]] = hint.multipliers[known]
        slopes = np.full(count, LEVELS + 1, dtype=np.uint8)
        where = places[hint.names]
        slopes[where[where >= 0]] = hint.levels[where >= 0]
        return cls(path, slopes, multipliers, hint.weights.astype(np.float64))


@dataclass
class Node:
    """A part of the set: split, or shown at once."""

    signs: Signs  # (packed,), as in a leaf
    path: tuple[int, ...]  # the packed neurons that were split, in order
    hints: list[Guide]
    split: int = -1
    halves: tuple[Node, Node] | None = None
    leaf: Leaf | None = None


@dataclass
class Numbers:
    """What a leaf is bounded with, as the certificate stores it."""

    slopes: NDArray[np.uint8]  # (packed,)
    multipliers: Array  # (packed,)
    weights: Array  # (row,)


class TreeMaker:
    """Makes the tree of one disjunct."""

    def __init__(
        self, network: Network, packed: Packed, ranges: Ranges, region: Region, rows: Rows, deadline: Deadline
    ) -> None:
        self._network, self._packed, self._ranges, self._region, self._rows = network, packed, ranges, region, rows
        self._deadline = deadline
        self._most = most_at_once(network)
        self._output = len(network.nodes) - 1
        self.leaves = 0

    def holds(self, hints: Sequence[Hint]) -> float:
        """Return the share of some hints that hold as they are."""
        places, count = self._by_name(), self._packed.count
        nodes = []
        for guide in (Guide.of(hint, places, count) for hint in hints):
            signs = np.zeros(count, dtype=np.int8)
            for neuron, sign in guide.path:
                signs[neuron] = sign
            nodes.append(Node(signs, tuple(neuron for neuron, _ in guide.path), [guide]))
        left = sum(len(self._as_they_are(nodes[i : i + self._most])) for i in range(0, len(nodes), self._most))
        return 1.0 - left / len(nodes)

    def make(self, hints: Sequence[Hint]) -> Node:
        """Return a tree whose leaves all hold; DeadlineExpired where time is up before."""
        places, count = self._by_name(), self._packed.count
        root = Node(np.zeros(count, dtype=np.int8), (), [Guide.of(hint, places, count) for hint in hints])
        level = [root]
        while level:
            due = [node for node in level if not node.hints or any(_left(hint, node) is None for hint in node.hints)]
            open_ones = {id(node) for node in level} - {id(node) for node in due}
            rest = [node for node in level if id(node) in open_ones]
            for begin in range(0, len(due), self._most):
                rest += self._try(due[begin : begin + self._most])
            level = [half for node in rest for half in self._halved(node)]
        return root

    def _try(self, nodes: list[Node]) -> list[Node]:
        """Make leaves of nodes; return those that do not hold, with the neuron to split."""
        left = self._as_they_are(nodes)
        if not left:
            return []
        if self._deadline.expired:
            raise DeadlineExpired
        return self._climbed(left)

    def _as_they_are(self, nodes: list[Node]) -> list[Node]:
        numbers = [self._hinted(node) for node in nodes]
        return self._keep(nodes, numbers)

    def _hinted(self, node: Node) -> Numbers:
        """Return the numbers of a hint that ends here, or those to start from."""
        count, rows = self._packed.count, len(self._rows.right)
        hint = next((hint for hint in node.hints if _left(hint, node) is None), None)
        if hint is None:
            weights = np.full(rows, 1.0 / rows)
            return Numbers(self._default_slopes(), np.zeros(count), weights)
        slopes = np.where(hint.slopes <= LEVELS, hint.slopes, self._default_slopes())
        weights = np.zeros(rows)
        weights[: len(hint.weights)] = hint.weights[:rows]
        return Numbers(slopes, hint.multipliers, weights)

    def _default_slopes(self) -> NDArray[np.uint8]:
        low, high = (
            np.concatenate([side[node][0, places] for node, places in self._places]) if self._places else np.zeros(0)
            for side in (self._ranges.lower, self._ranges.upper)
        )
        return np.where(high >= -low, LEVELS, 0).astype(np.uint8)

    def _by_name(self) -> NDArray[np.int64]:
        """Return by name the packed neuron, −1 where it is not packed."""
        sizes = [self._network.nodes[node].size for node in self._network.hidden]
        begins = dict(zip(self._network.hidden, np.cumsum([0, *sizes]).tolist(), strict=False))
        places = np.full(sum(sizes), -1, dtype=np.int64)
        names = np.concatenate([np.zeros(0, dtype=np.int64), *(at + begins[node] for node, at in self._places)])
        places[names] = np.arange(len(names))
        return places

    @property
    def _places(self) -> list[tuple[int, NDArray[np.int64]]]:
        return list(zip(self._packed.nodes, self._packed.neurons, strict=True))

    def _keep(self, nodes: list[Node], numbers: list[Numbers]) -> list[Node]:
        """Value nodes with numbers as they will be stored; make leaves of those that hold, return the others."""
        leaves = [self._leaf(node, one) for node, one in zip(nodes, numbers, strict=True)]
        left = []
        for node, leaf, bound in zip(nodes, leaves, self._bounds(leaves), strict=True):
            if bound > 0.0:
                node.leaf = leaf
                self.leaves += 1
            else:
                left.append(node)
        return left

    def _bounds(self, leaves: list[Leaf]) -> Array:
        def form_of(weights: Array, known: Ranges) -> Form:
            return Form.of_rows(self._rows, weights, self._output, known)

        bounds = bounds_of(self._network, self._packed, Batch(False, leaves), self._ranges, form_of)
        for place in ((bounds <= 0.0) & (bounds > -NEAR)).nonzero()[0].tolist():
            one = Batch(False, [leaves[place]])
            if is_tie(self._network, self._packed, one, self._ranges, self._rows, form_of):
                bounds[place] = np.inf
        return bounds

    def _leaf(self, node: Node, numbers: Numbers) -> Leaf:
        slopes = np.where(node.signs == 0, numbers.slopes / float(LEVELS), np.nan)
        multipliers = np.where(node.signs != 0, numbers.multipliers, 0.0)
        largest = float(multipliers.max(initial=1.0))  # weights and multipliers may shrink together
        shrink = 1.0 if largest <= LARGEST else 2.0 ** np.ceil(np.log2(largest / LARGEST))
        multipliers = (multipliers / shrink).astype(np.float16).astype(np.float64)
        weights = (numbers.weights / shrink).astype(np.float32).astype(np.float64)
        return Leaf(0, node.signs, self._region.lower, self._region.upper, weights, slopes, multipliers, None)

    def _climbed(self, nodes: list[Node]) -> list[Node]:
        """Climb from the hints; return what does not hold even so, each with the neuron that is worth splitting."""
        numbers = [self._hinted(node) for node in nodes]
        signs = packed_signs(self._network, self._packed, np.stack([node.signs for node in nodes]))
        ranges = Ranges(list(self._ranges.lower), list(self._ranges.upper), ball=self._ranges.ball)
        for h, part in signs.items():
            restrict(ranges, h, part)
        start = Point(
            self._spread(np.stack([one.slopes / float(LEVELS) for one in numbers]), ranges),
            self._packed.spread(np.stack([one.multipliers for one in numbers]), self._network, _nothing),
            np.stack([one.weights for one in numbers]),
        )
        climbed = climb(self._network, ranges, RowsGoal(self._rows, self._output), signs, start, STEPS, enough=0.0)
        left = {id(node) for node in self._keep(nodes, [self._rounded(climbed.point, i) for i in range(len(nodes))])}
        for place, node in enumerate(nodes):
            if id(node) not in left or any(_left(hint, node) is not None for hint in node.hints):
                continue
            node.split = self._worst(climbed.losses, place, node.signs)
            if node.split < 0 and self._by_lp(node):
                left.remove(id(node))
        return [node for node in nodes if id(node) in left]

    def _by_lp(self, node: Node) -> bool:
        """Make a leaf of a node with nothing left to split by its LP's duals; say whether it holds."""
        leaf = self._leaf(
            node, Numbers(self._default_slopes(), np.zeros(len(node.signs)), np.ones(len(self._rows.right)))
        )
        signs = packed_signs(self._network, self._packed, node.signs[None])
        ranges = ranges_of(self._network, Batch(False, [leaf]), self._ranges, signs)
        found = duals(self._network, self._packed, ranges, self._rows, node.signs)
        if found is None:
            return False
        weights = found.weights.astype(np.float32).astype(np.float64)
        chosen = Chosen(self._network, self._packed, signs, found.multipliers)
        form = Form.of_rows(self._rows, weights[None], self._output, ranges)
        carry_back(self._network, form, ranges, chosen)
        node.leaf = replace(leaf, weights=weights, duals=chosen.values.astype(np.float32).astype(np.float64))
        if self._bounds([node.leaf])[0] > 0.0:
            self.leaves += 1
            return True
        node.leaf = None
        return False

    def _spread(self, shares: Array, ranges: Ranges) -> dict[int, Array]:
        """Return the slopes of all nodes' neurons (B, n), by rule where they are not packed."""
        spread = self._packed.spread(shares, self._network, lambda node: np.full((1, 1), np.nan))
        whole = {}
        for node in self._network.hidden:
            low, high = ranges.lower[node], ranges.upper[node]
            rule = np.broadcast_to(np.where(high >= -low, 1.0, 0.0), (len(shares), low.shape[1]))
            given = spread.get(node)
            whole[node] = rule.copy() if given is None else np.where(np.isnan(given), rule, given)
        return whole

    def _rounded(self, best: Point, place: int) -> Numbers:
        slopes = [best.slopes[node][place, places] for node, places in self._places]
        multipliers = [best.multipliers[node][place, places] for node, places in self._places]
        levels = np.rint(np.concatenate([np.zeros(0), *slopes]) * LEVELS).astype(np.uint8)
        return Numbers(levels, np.concatenate([np.zeros(0), *multipliers]), best.weights[place])

    def _worst(self, losses: dict[int, Array], place: int, signs: Signs) -> int:
        """Return the packed neuron that costs most, −1 where none is left to split."""
        each = [
            losses[node][place, places] if node in losses else np.zeros(len(places)) for node, places in self._places
        ]
        loss = np.where(signs == 0, np.concatenate([np.zeros(0), *each]), -1.0)
        worst = int(loss.argmax()) if len(loss) else -1
        return worst if worst >= 0 and loss[worst] > 0.0 else -1

    def _halved(self, node: Node) -> Iterator[Node]:
        """Split a node on what most hints have next, or on what was found to be worst."""
        wanted = Counter(following for hint in node.hints if (following := _left(hint, node)) is not None)
        neuron = wanted.most_common(1)[0][0] if wanted else node.split
        if neuron < 0:
            raise Unprovable("a part on which nothing is left to split does not hold")
        halves = []
        for sign in (1, -1):
            signs = node.signs.copy()
            signs[neuron] = sign
            hints = [hint for hint in node.hints if (neuron, -sign) not in hint.path]
            halves.append(Node(signs, (*node.path, neuron), hints))
        node.split, node.halves, node.hints = neuron, (halves[0], halves[1]), []
        yield from halves


class Chosen:
    """Chooses p by lines and multipliers of packed neurons, on one leaf, and keeps it."""

    def __init__(self, network: Network, packed: Packed, signs: dict[int, Signs], multipliers: Array) -> None:
        self._packed, self._signs = packed, signs
        self._multipliers = packed.spread(multipliers[None], network, _nothing)
        self._p: dict[int, Array] = {}

    def shares(self, node: int) -> None:
        """Take the default."""

    def columns(self, node: int) -> Places:
        """Choose for all packed neurons."""
        return self._packed.neurons[self._packed.nodes.index(node)] if node in self._signs else NOWHERE

    def choose(self, node: int, p: Array, columns: Places) -> Array:
        """Return p (1, column)."""
        p = p - self._signs[node][:, columns] * self._multipliers[node][:, columns]
        self._p[node] = np.zeros(self._signs[node].shape)
        self._p[node][:, columns] = p
        return p

    @property
    def values(self) -> Array:
        """Return p of the packed neurons (packed,)."""
        each = [
            self._p[node][0, places] if node in self._p else np.zeros(len(places))
            for node, places in zip(self._packed.nodes, self._packed.neurons, strict=True)
        ]
        return np.concatenate([np.zeros(0), *each])


class Unprovable(Exception):
    """What the search proved cannot be certified: why."""


def _left(hint: Guide, node: Node) -> int | None:
    """Return the next neuron that a hint splits, None where all of its splits were made."""
    return next((neuron for neuron, _ in hint.path if node.signs[neuron] == 0), None)


def _nothing(node: int) -> Array:
    return np.zeros((1, 1))


def write_tree(body: Body, root: Node) -> None:
    """Write a tree in the order in which it is read."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.halves is not None:
            body.varint(NEURON + node.split)
            stack += [node.halves[1], node.halves[0]]
            continue
        assert node.leaf is not None
        body.varint(LEAF)
        write_leaf(body, node.leaf, node.path)


def write_leaf(body: Body, leaf: Leaf, path: tuple[int, ...]) -> None:
    """Write what a leaf is bounded with; what is nothing is left out."""
    weights = len(leaf.weights) > 1 or leaf.weights[0] != 1.0
    if leaf.duals is not None:
        body.byte(DUALS | (WEIGHTS if weights else 0))
        if weights:
            body.numbers("<f4", leaf.weights)
        body.numbers("<f4", leaf.duals)
        return
    multipliers = bool(path)
    slopes = bool((leaf.signs == 0).any())
    body.byte((3 if slopes else 0) | (MULTIPLIERS if multipliers else 0) | (WEIGHTS if weights else 0))
    if weights:
        body.numbers("<f4", leaf.weights)
    if slopes:
        unsplit = leaf.slopes[leaf.signs == 0]
        body.levels(4, np.rint(unsplit * LEVELS).astype(np.uint8))
    if multipliers:
        body.numbers("<f2", leaf.multipliers[list(path)])
