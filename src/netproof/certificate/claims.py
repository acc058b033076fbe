"""Bounds of single neurons by trees: the leaves that the search had, valued by the checker's own routine.

A claim is what its tree shows: a little less than the least bound of its leaves. It is stored where slopes alone leave
the neuron's sign open, and the tree tells more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from netproof.certificate.body import Raw
from netproof.certificate.climb import Coefficients, Goal
from netproof.certificate.leaf_lp import Duals
from netproof.certificate.leaves import Part, Prover, write_part
from netproof.certificate.spool import Hint
from netproof.certificate.trie import NONE, Trie
from netproof.core.deadline import Deadline, DeadlineExpired
from npcheck.bound import Form, Ranges
from npcheck.network import Network
from npcheck.ranges import Signs
from npcheck.statement import Array, Region
from npcheck.tree import NEURON, Packed

AT_ONCE = 2048  # leaves whose numbers are in memory
MARGIN = 1e-6  # by which a claim is less than what its tree shows: other batches round in other ways
SOME = 8  # splits, beside one for each leaf that the search had, to show what is wished for


@dataclass(frozen=True)
class OfNeurons:
    """h or −h of neurons of one node, each less a number."""

    node: int
    size: int
    neurons: Sequence[int]
    signs: Sequence[float]  # −1 for those from above
    less: Array  # (goal,)
    rows: int = 1
    strict: None = None

    def form(self, goals: Sequence[int], weights: Array, known: Ranges) -> Form:
        """Return the forms of some leaves."""
        return Form(-self.less[list(goals)], np.zeros(len(goals)), {self.node: self._seeds(goals)})

    def climbing(self, goals: Sequence[int]) -> Goal:
        """Return the same to be climbed."""
        return _Climbed(self.node, self._seeds(goals), -self.less[list(goals)])

    def duals(self, network: Network, packed: Packed, ranges: Ranges, signs: Signs) -> Duals | None:
        """Do without: a lower claim is shown too."""
        return None

    def _seeds(self, goals: Sequence[int]) -> Array:
        seeds = np.zeros((len(goals), self.size))
        for row, goal in enumerate(goals):
            seeds[row, self.neurons[goal]] = self.signs[goal]
        return seeds


@dataclass(frozen=True)
class _Climbed:
    """The same forms for a climb."""

    node: int
    seeds: Array
    constants: Array

    def form(self, weights: Array) -> tuple[Coefficients, Array]:
        """Return the forms."""
        return {self.node: self.seeds}, self.constants

    def of_weights(self, values: list[Array]) -> Array:
        """There is nothing to weigh."""
        return np.zeros((len(self.seeds), 1))


@dataclass(frozen=True)
class Claim:
    """A bound of h or of −h, and the tree that shows it, as it is written."""

    least: float
    tree: bytes
    leaves: int


@dataclass(frozen=True)
class Known:
    """What trees of neurons rest on."""

    network: Network
    packed: Packed  # before the node
    ranges: Ranges
    region: Region
    deadline: Deadline


@dataclass(frozen=True)
class Wish:
    """A side of a neuron, and what a search knew of it."""

    neuron: int
    above: bool
    least: float  # what it is to be shown above
    hints: list[Hint]  # leaves of its tree


def claims(known: Known, node: int, wishes: Iterable[Wish]) -> Iterator[tuple[Wish, Claim]]:
    """Return what trees show of sides of a node: what is wished for, or less where that takes too many splits."""
    for some in _groups(wishes):
        if known.deadline.expired:
            raise DeadlineExpired
        trees = _Trees(known, node, some)
        trees.raise_to_wishes()
        yield from zip(some, trees.claims(), strict=True)


def _groups(wishes: Iterable[Wish]) -> Iterator[list[Wish]]:
    """Take so many wishes at a time as fit."""
    some: list[Wish] = []
    for wish in wishes:
        some.append(wish)
        if sum(len(one.hints) for one in some) > AT_ONCE:
            yield some
            some = []
    if some:
        yield some


class _Trees:
    """The trees of some sides of one node."""

    def __init__(self, known: Known, node: int, wishes: Sequence[Wish]) -> None:
        self._known, self._node, self._wishes = known, node, wishes
        self._prover = self._proving(np.zeros(len(wishes)))
        self._orders = [self._order(goal, wish.hints) for goal, wish in enumerate(wishes)]

    def _proving(self, less: Array) -> Prover:
        """Return what shows the sides' forms above numbers."""
        known, size = self._known, self._known.network.nodes[self._node].size
        signs = [-1.0 if wish.above else 1.0 for wish in self._wishes]
        aim = OfNeurons(self._node, size, [wish.neuron for wish in self._wishes], signs, less)
        return Prover(known.network, known.packed, known.ranges, known.region, aim, known.deadline)

    def _order(self, goal: int, hints: list[Hint]) -> list[int | Part]:
        """Return splits and leaves of a tree in the order in which they are written."""
        trie = Trie()
        for number, hint in enumerate(hints):
            trie.add(number, self._prover.path_of(hint))
        order: list[int | Part] = []
        for place, split, number, path in trie.parts():
            if number == NONE and split != NONE:
                order.append(split)
                continue
            trie.close(place)  # its parts are shown with it
            numbers = None if number == NONE else self._prover.of_hint(hints[number])
            order.append(self._prover.part(path, numbers, goal))
        return order

    def raise_to_wishes(self) -> None:
        """Climb and divide the leaves that are not above what is wished for, where few splits are enough."""
        prover = self._proving(np.array([wish.least for wish in self._wishes]))
        parts = [part for order in self._orders for part in _parts(order)]
        prover.close(parts, {goal: SOME + len(_parts(order)) for goal, order in enumerate(self._orders)})

    def claims(self) -> list[Claim]:
        """Return what the trees show, as they are."""
        leaves = [leaf for order in self._orders for part in _parts(order) for leaf in _leaves(part)]
        values = self._prover.values(leaves)
        least = np.full(len(self._wishes), np.inf)
        np.minimum.at(least, [leaf.goal for leaf in leaves], values)
        return [_claim(order, value) for order, value in zip(self._orders, least.tolist(), strict=True)]


def _parts(order: list[int | Part]) -> list[Part]:
    return [one for one in order if isinstance(one, Part)]


def _leaves(part: Part) -> list[Part]:
    """Return the leaves of a part, whether they hold or not."""
    if part.halves is None:
        return [part]
    return [leaf for half in part.halves for leaf in _leaves(half)]


def _claim(order: list[int | Part], least: float) -> Claim:
    """Write a tree; what it claims is less than its least bound, and 0 where that settles the neuron's sign."""
    claim = np.float32(least - MARGIN * (1.0 + abs(least)))
    raw, leaves = Raw(), 0
    for one in order:
        if isinstance(one, Part):
            leaves += write_part(raw, one)
        else:
            raw.varint(NEURON + one)
    return Claim(min(float(claim), 0.0), bytes(raw.raw), leaves)
