"""Leaves of trees: parts of a set that are tried with given numbers, then climbed, then divided further.

What shows a part is valued by the checker's own routine, as the certificate will store it. A part that still misses
after a climb is split on a neuron, and its halves begin where its climb ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netproof.certificate.body import Raw
from netproof.certificate.climb import Goal, Point, RowsGoal, climb
from netproof.certificate.leaf_lp import Duals, duals
from netproof.certificate.spool import LEVELS, Hint, Levels
from netproof.certificate.trie import Path
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


class Unprovable(Exception):
    """What the search proved cannot be certified: why."""


class TooWeak(Exception):
    """Too many parts miss: the bounds of the neurons are weaker than the search's."""


TOO_MANY = "it takes too many splits"


@dataclass
class Numbers:
    """What a leaf is bounded with, as the certificate stores it."""

    slopes: Levels  # (packed,)
    multipliers: NDArray[np.float32]  # (packed,)
    weights: Array  # (row,)


@dataclass
class Part:
    """A part of the set: split, or shown at once."""

    signs: Signs  # (packed,), as in a leaf
    path: tuple[int, ...]  # the packed neurons that were split, in order
    numbers: Numbers
    goal: int = 0  # which of the aim's
    split: int = -1
    halves: tuple[Part, Part] | None = None
    leaf: Leaf | None = None


class Aim(Protocol):
    """Forms that are to be shown above 0 on every leaf, by number."""

    @property
    def rows(self) -> int:
        """Return how many weights each form has."""

    @property
    def strict(self) -> Rows | None:
        """Return the rows of which strict ones may hold by a tie."""

    def form(self, goals: Sequence[int], weights: Array, known: Ranges) -> Form:
        """Return the forms of some leaves."""

    def climbing(self, goals: Sequence[int]) -> Goal:
        """Return the same to be climbed."""

    def duals(self, network: Network, packed: Packed, ranges: Ranges, signs: Signs) -> Duals | None:
        """Return what an LP finds where nothing is left to split."""


@dataclass(frozen=True)
class OfRows:
    """Weighted sums of a disjunct's rows."""

    of: Rows
    output: int

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return len(self.of.right)

    @property
    def strict(self) -> Rows:
        """Return the rows."""
        return self.of

    def form(self, goals: Sequence[int], weights: Array, known: Ranges) -> Form:
        """Return Σ λ r."""
        return Form.of_rows(self.of, weights, self.output, known)

    def climbing(self, goals: Sequence[int]) -> Goal:
        """Return the same to be climbed."""
        return RowsGoal(self.of, self.output)

    def duals(self, network: Network, packed: Packed, ranges: Ranges, signs: Signs) -> Duals | None:
        """Return what an LP finds."""
        return duals(network, packed, ranges, self.of, signs)


class Prover:
    """Makes leaves of parts, on what is known of the neurons."""

    def __init__(
        self, network: Network, packed: Packed, ranges: Ranges, region: Region, aim: Aim, deadline: Deadline
    ) -> None:
        self._network, self._packed, self._ranges, self._region, self._aim = network, packed, ranges, region, aim
        self._deadline = deadline
        self.at_once = most_at_once(network)
        self._places = list(zip(packed.nodes, packed.neurons, strict=True))

    # --- hints ---

    def of_hint(self, hint: Hint) -> Numbers:
        """Translate what a sub-domain was bounded with to the packed neurons; what is said of others is left out."""
        at = self._by_name[hint.splits]
        known = at >= 0
        multipliers = np.zeros(self._packed.count, dtype=np.float32)
        multipliers[at[known]] = hint.multipliers[known]
        slopes, where = self._default_slopes.copy(), self._by_name[hint.names]
        slopes[where[where >= 0]] = hint.levels[where >= 0]
        weights = np.zeros(self._aim.rows)
        weights[: len(hint.weights)] = hint.weights[: self._aim.rows]
        return Numbers(slopes, multipliers, weights)

    def path_of(self, hint: Hint) -> Path:
        """Return a sub-domain's splits of packed neurons."""
        at = self._by_name[hint.splits]
        known = at >= 0
        return tuple(zip(at[known].tolist(), hint.signs[known].tolist(), strict=True))

    def part(self, path: Path, numbers: Numbers | None = None, goal: int = 0) -> Part:
        """Return the part that a path leads to; without numbers, with those to start from."""
        signs = np.zeros(self._packed.count, dtype=np.int8)
        for neuron, sign in path:
            signs[neuron] = sign
        return Part(signs, tuple(neuron for neuron, _ in path), numbers or self._first, goal)

    @cached_property
    def _first(self) -> Numbers:
        rows = self._aim.rows
        nothing = np.zeros(self._packed.count, dtype=np.float32)
        return Numbers(self._default_slopes, nothing, np.full(rows, 1.0 / rows if rows else 0.0))

    @cached_property
    def _default_slopes(self) -> Levels:
        low, high = (
            np.concatenate([np.zeros(0), *(side[node][0, at] for node, at in self._places)])
            for side in (self._ranges.lower, self._ranges.upper)
        )
        return np.where(high >= -low, LEVELS, 0).astype(np.uint8)

    @cached_property
    def _by_name(self) -> NDArray[np.int64]:
        return places_by_name(self._network, self._packed)

    # --- closing ---

    def close(self, parts: Sequence[Part], spare: dict[int, float]) -> dict[int, str]:
        """Make leaves of parts, or of what they are divided into; `spare` has the splits that each goal may take.

        Return the goals that were given up, and why: TOO_MANY where that takes more.
        """
        level, given_up = list(parts), dict[int, str]()
        while level:
            left = [part for i in range(0, len(level), self.at_once) for part in self._try(level[i : i + self.at_once])]
            for part in left:
                spare[part.goal] -= 1
                if spare[part.goal] < 0:
                    given_up.setdefault(part.goal, TOO_MANY)
                elif part.split < 0:
                    given_up.setdefault(part.goal, "a part on which nothing is left to split does not hold")
            level = [half for part in left if part.goal not in given_up for half in self._halved(part)]
        return given_up

    def _try(self, parts: Sequence[Part]) -> list[Part]:
        """Make leaves of parts; return those that do not hold, with the neuron to split."""
        left = self.as_they_are(parts)
        if not left:
            return []
        if self._deadline.expired:
            raise DeadlineExpired
        return self._climbed(left)

    def as_they_are(self, parts: Sequence[Part]) -> list[Part]:
        """Make leaves of the parts that hold with their numbers; return the others."""
        if not parts:
            return []
        leaves = [self._leaf(part) for part in parts]
        left = []
        for part, leaf, bound in zip(parts, leaves, self._bounds(parts, leaves), strict=True):
            if bound > 0.0:
                part.leaf = leaf
            else:
                left.append(part)
        return left

    def values(self, parts: Sequence[Part]) -> Array:
        """Make leaves of all parts; return what the checker will make of them, (part,)."""
        bounds = []
        for begin in range(0, len(parts), self.at_once):
            some = parts[begin : begin + self.at_once]
            for part in some:
                part.leaf = self._leaf(part)
            bounds.append(self._bounds(some, [part.leaf for part in some if part.leaf is not None]))
        return np.concatenate([np.zeros(0), *bounds])

    def _bounds(self, parts: Sequence[Part], leaves: list[Leaf]) -> Array:
        goals = [part.goal for part in parts]

        def form_of(weights: Array, known: Ranges) -> Form:
            return self._aim.form(goals, weights, known)

        bounds = bounds_of(self._network, self._packed, Batch(False, leaves), self._ranges, form_of)
        rows = self._aim.strict
        near = np.flatnonzero((bounds <= 0.0) & (bounds > -NEAR)) if rows is not None else NOWHERE
        for place in near.tolist():
            one = Batch(False, [leaves[place]])
            if rows is not None and is_tie(self._network, self._packed, one, self._ranges, rows, form_of):
                bounds[place] = np.inf
        return bounds

    def _leaf(self, part: Part) -> Leaf:
        numbers = part.numbers
        slopes = np.where(part.signs == 0, numbers.slopes / float(LEVELS), np.nan)
        multipliers = np.where(part.signs != 0, numbers.multipliers, 0.0)
        largest = float(multipliers.max(initial=1.0))  # weights and multipliers may shrink together
        shrink = 1.0 if largest <= LARGEST else 2.0 ** np.ceil(np.log2(largest / LARGEST))
        multipliers = (multipliers / shrink).astype(np.float16).astype(np.float64)
        weights = (numbers.weights / shrink).astype(np.float32).astype(np.float64)
        return Leaf(0, part.signs, self._region.lower, self._region.upper, weights, slopes, multipliers, None)

    def _climbed(self, parts: list[Part]) -> list[Part]:
        """Climb from the parts' numbers; return what does not hold even so, each with the neuron to split."""
        signs = packed_signs(self._network, self._packed, np.stack([part.signs for part in parts]))
        ranges = Ranges(list(self._ranges.lower), list(self._ranges.upper), ball=self._ranges.ball)
        for h, own in signs.items():
            restrict(ranges, h, own)
        numbers = [part.numbers for part in parts]
        start = Point(
            self._spread(np.stack([one.slopes / float(LEVELS) for one in numbers]), ranges),
            self._packed.spread(np.stack([one.multipliers for one in numbers]).astype(float), self._network, _nothing),
            np.stack([one.weights for one in numbers]),
        )
        goal = self._aim.climbing([part.goal for part in parts])
        climbed = climb(self._network, ranges, goal, signs, start, STEPS, enough=0.0)
        for place, part in enumerate(parts):
            part.numbers = self._rounded(climbed.point, place)
        left = {id(part) for part in self.as_they_are(parts)}
        for place, part in enumerate(parts):
            if id(part) in left:
                part.split = self._worst(climbed.losses, place, part.signs)
                if part.split < 0 and self._by_lp(part):
                    left.remove(id(part))
        return [part for part in parts if id(part) in left]

    def _by_lp(self, part: Part) -> bool:
        """Make a leaf of a part with nothing left to split by its LP's duals; say whether it holds."""
        leaf = self._leaf(part)
        signs = packed_signs(self._network, self._packed, part.signs[None])
        ranges = ranges_of(self._network, Batch(False, [leaf]), self._ranges, signs)
        found = self._aim.duals(self._network, self._packed, ranges, part.signs)
        if found is None:
            return False
        weights = found.weights.astype(np.float32).astype(np.float64)
        chosen = Chosen(self._network, self._packed, signs, found.multipliers)
        carry_back(self._network, self._aim.form([part.goal], weights[None], ranges), ranges, chosen)
        leaf = replace(leaf, weights=weights, duals=chosen.values.astype(np.float32).astype(np.float64))
        if self._bounds([part], [leaf])[0] > 0.0:
            part.leaf = leaf
        return part.leaf is not None

    def _spread(self, shares: Array, ranges: Ranges) -> dict[int, Array]:
        """Return the slopes of all nodes' neurons (B, n), by rule where they are not packed."""
        spread = self._packed.spread(shares, self._network, lambda node: np.full((1, 1), np.nan))
        whole = {}
        for node in self._network.hidden:
            if not ranges.lower[node].shape[1]:  # it is not bounded yet
                continue
            low, high = ranges.lower[node], ranges.upper[node]
            rule = np.broadcast_to(np.where(high >= -low, 1.0, 0.0), (len(shares), low.shape[1]))
            given = spread.get(node)
            whole[node] = rule.copy() if given is None else np.where(np.isnan(given), rule, given)
        return whole

    def _rounded(self, best: Point, place: int) -> Numbers:
        slopes = [best.slopes[node][place, at] for node, at in self._places]
        multipliers = [best.multipliers[node][place, at] for node, at in self._places]
        levels = np.rint(np.concatenate([np.zeros(0), *slopes]) * LEVELS).astype(np.uint8)
        return Numbers(levels, np.concatenate([np.zeros(0), *multipliers]).astype(np.float32), best.weights[place])

    def _worst(self, losses: dict[int, Array], place: int, signs: Signs) -> int:
        """Return the packed neuron that costs most, −1 where none is left to split."""
        each = [losses[node][place, at] if node in losses else np.zeros(len(at)) for node, at in self._places]
        loss = np.where(signs == 0, np.concatenate([np.zeros(0), *each]), -1.0)
        worst = int(loss.argmax()) if len(loss) else -1
        return worst if worst >= 0 and loss[worst] > 0.0 else -1

    @staticmethod
    def _halved(part: Part) -> tuple[Part, Part]:
        halves = []
        for sign in (1, -1):
            signs = part.signs.copy()
            signs[part.split] = sign
            halves.append(Part(signs, (*part.path, part.split), part.numbers, part.goal))
        part.halves = halves[0], halves[1]
        return part.halves


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


def places_by_name(network: Network, packed: Packed) -> NDArray[np.int64]:
    """Return by name the packed neuron, −1 where it is not packed."""
    sizes = [network.nodes[node].size for node in network.hidden]
    begins = dict(zip(network.hidden, np.cumsum([0, *sizes]).tolist(), strict=False))
    places = np.full(sum(sizes), -1, dtype=np.int64)
    own = [at + begins[node] for node, at in zip(packed.nodes, packed.neurons, strict=True)]
    names = np.concatenate([np.zeros(0, dtype=np.int64), *own])
    places[names] = np.arange(len(names))
    return places


def _nothing(node: int) -> Array:
    return np.zeros((1, 1))


def write_part(body: Raw, root: Part) -> int:
    """Write a part's tree in the order in which it is read; return how many leaves it has."""
    stack, leaves = [root], 0
    while stack:
        part = stack.pop()
        if part.halves is not None:
            body.varint(NEURON + part.split)
            stack += [part.halves[1], part.halves[0]]
            continue
        assert part.leaf is not None
        body.varint(LEAF)
        write_leaf(body, part.leaf, part.path)
        leaves += 1
    return leaves


def write_leaf(body: Raw, leaf: Leaf, path: tuple[int, ...]) -> None:
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
