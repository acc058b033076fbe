"""The same proof by other codes of the format: each change is kept where npcheck still accepts the whole.

netproof's writer has no need of some codes: slopes of one or two bits, rays, splits that do nothing, say. A certificate
that has them is damaged like any other.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np

from hunt.certificates.parts import (
    AGAIN,
    CLIP,
    TREE,
    Body,
    Leaf,
    Region,
    Split,
    Tree,
    Wrap,
    certificate,
    trees_of,
    written,
)
from npcheck.bound import Form, Ranges
from npcheck.network import Network
from npcheck.region import check_region, read_bounds
from npcheck.statement import Region as Box
from npcheck.statement import Statement
from npcheck.stream import Stream
from npcheck.work import Here

Holds = Callable[[Body], bool]
TRIES = 14
LEAVES = 8  # whose flags are tried


def rewritten(rng: np.random.Generator, body: Body, network: Network, statement: Statement, holds: Holds) -> Body:
    """Some changes, one after the other."""
    for _ in range(TRIES):
        other = deepcopy(body)
        change = CHANGES[int(rng.integers(len(CHANGES)))]
        if change(rng, other, network, statement) and holds(other):
            body = other
    return _with_other_flags(rng, body, holds)


def _with_other_flags(rng: np.random.Generator, body: Body, holds: Holds) -> Body:
    """Leaves as rays, and with slopes of fewer bits, where they hold so."""
    count = sum(isinstance(part, Leaf) for region in body for tree in region.trees for part in trees_of(tree))
    for place in rng.permutation(count)[:LEAVES]:
        for change in (_ray, _slopes):
            other = deepcopy(body)
            leaves = (part for region in other for tree in region.trees for part in trees_of(tree))
            leaf = [part for part in leaves if isinstance(part, Leaf)][place]
            if change(rng, leaf) and holds(other):
                body = other
    return body


Change = Callable[[np.random.Generator, Body, Network, Statement], bool]  # in place; False where there is no ground


def some_leaf(rng: np.random.Generator, body: Body) -> Leaf:
    leaves = [part for region in body for tree in region.trees for part in trees_of(tree) if isinstance(part, Leaf)]
    return leaves[int(rng.integers(len(leaves)))]


def put_in_place(region: Region, old: Tree, new: Tree) -> None:
    """Replace a part of one of the disjuncts' trees."""
    region.trees = [new if tree is old else tree for tree in region.trees]
    for tree in region.trees:
        for part in trees_of(tree):
            if part is new:
                continue
            if isinstance(part, Split):
                part.halves = [new if half is old else half for half in part.halves]
            if isinstance(part, Wrap):
                part.inner = [new if inner is old else inner for inner in part.inner]


def some_part(rng: np.random.Generator, body: Body) -> tuple[int, Tree]:
    """The place of a region, and a part of one of its disjuncts' trees."""
    parts = [(at, part) for at, region in enumerate(body) for tree in region.trees for part in trees_of(tree)]
    return parts[int(rng.integers(len(parts)))]


def _slopes(rng: np.random.Generator, leaf: Leaf) -> bool:
    if leaf.duals is not None or leaf.ray or not len(leaf.slopes):
        return False
    if not leaf.kind:
        leaf.slopes = [np.ones(len(leaf.slopes)), rng.random(len(leaf.slopes))][int(rng.integers(2))]
    leaf.kind = int(rng.integers(1, 4))
    return True


def _ray(rng: np.random.Generator, leaf: Leaf) -> bool:
    leaf.weights, leaf.ray = None, True
    if leaf.duals is None and rng.random() < 0.5:
        leaf.multipliers = np.ones(len(leaf.slopes))
    return True


def _multipliers(rng: np.random.Generator, body: Body, network: Network, statement: Statement) -> bool:
    leaf = some_leaf(rng, body)
    if leaf.duals is not None:
        return False
    leaf.multipliers = np.zeros(len(leaf.slopes)) if leaf.multipliers is None else None
    return True


def _corner(rng: np.random.Generator, body: Body, network: Network, statement: Statement) -> bool:
    """A split of a neuron on half of the box, where all neurons are bounded again: a part of it may be empty."""
    at, part = some_part(rng, body)
    if not body[at].packed:
        return False
    neuron = int(rng.integers(body[at].packed))
    halves: list[Tree] = [Split(neuron, None, [deepcopy(part), deepcopy(part)]) for _ in range(2)]
    put_in_place(body[at], part, Wrap(AGAIN, [_halved(rng, statement.regions[at], halves)]))
    return True


def _halved(rng: np.random.Generator, region: Box, halves: list[Tree]) -> Split:
    dimension = int(rng.integers(len(region.lower)))
    share = float(rng.choice([0.1, 0.5, 0.9]))
    point = region.lower[dimension] + share * (region.upper[dimension] - region.lower[dimension])
    return Split(dimension, float(point), halves)


def _weights(rng: np.random.Generator, body: Body, network: Network, statement: Statement) -> bool:
    at = int(rng.integers(len(body)))
    place = int(rng.integers(len(body[at].trees)))
    rows = len(statement.regions[at].rows[place].right)
    for part in trees_of(body[at].trees[place]):
        if isinstance(part, Leaf) and part.weights is None and rows:
            part.weights, part.ray = np.eye(rows)[0] * float(rng.choice([0.5, 1.0, 3.0])), False
    return True


def _split(rng: np.random.Generator, body: Body, network: Network, statement: Statement) -> bool:
    at, part = some_part(rng, body)
    halves = [deepcopy(part), deepcopy(part)]
    if rng.random() < 0.5 or not body[at].packed:
        put_in_place(body[at], part, _halved(rng, statement.regions[at], halves))
    else:
        put_in_place(body[at], part, Split(int(rng.integers(body[at].packed)), None, halves))
    return True


def _wrap(rng: np.random.Generator, body: Body, network: Network, statement: Statement) -> bool:
    at, part = some_part(rng, body)
    put_in_place(body[at], part, Wrap(int(rng.choice([CLIP, AGAIN])), [part]))
    return True


def _code(rng: np.random.Generator, body: Body, network: Network, statement: Statement) -> bool:
    """Another code for one side; a claim is a little below what is known."""
    at = int(rng.integers(len(body)))
    if not body[at].sections:
        return False
    number = int(rng.integers(len(body[at].sections)))
    section = body[at].sections[number]
    before = sum(int(other.packed.sum()) for other in body[at].sections[:number])
    side, neuron = int(rng.integers(2)), int(rng.integers(section.codes.shape[1]))
    old, new = int(section.codes[side, neuron]), int(rng.integers(4))
    if old in (TREE, new):
        return False
    codes = section.codes.reshape(-1)
    flat = side * section.codes.shape[1] + neuron
    slopes = [np.ones(before), rng.random(before)][int(rng.integers(2))]
    low, high = _known(network, statement, body, at, network.hidden[number])
    if old == 2:
        slopes = section.slopes.pop(int((codes[:flat] == 2).sum()))
    if new == 2:
        section.slopes.insert(int((codes[:flat] == 2).sum()), slopes)
    if new == TREE:
        place = int((codes[:flat] == TREE).sum())
        least = float((low, -high)[side][neuron]) - float(rng.choice([1e-6, 1e-3])) * float(high[neuron] - low[neuron])
        section.claims = np.insert(section.claims, place, least)
        leaf = Leaf(3 if before else 0, slopes if old == 2 else np.round(slopes))
        tree: Tree = leaf if old == 2 or rng.random() < 0.3 else Leaf(0, np.zeros(before))
        if before and rng.random() < 0.5:
            tree = Split(int(rng.integers(before)), None, [tree, deepcopy(tree)])
        section.trees.insert(place, tree)
    codes[flat] = new
    section.codes = codes.reshape(section.codes.shape)
    return True


def _known(network: Network, statement: Statement, body: Body, at: int, node: int) -> tuple[np.ndarray, np.ndarray]:
    region = statement.regions[at]
    stream = Stream(io.BytesIO(_chunks(written([replace(body[at], trees=[])]))))
    with np.errstate(all="ignore"):
        ranges, _ = read_bounds(network, region, stream, Here(network, _unheard))
    return ranges.lower[node][0], ranges.upper[node][0]


def _unheard(what: str, leaves: int) -> None:
    pass


def _chunks(raw: bytes) -> bytes:
    return certificate(raw, "", "").split(b"\n", 1)[1]


def _duals(rng: np.random.Generator, body: Body, network: Network, statement: Statement) -> bool:
    """p itself for a leaf, as npcheck chose it."""
    at = int(rng.integers(len(body)))
    heard = _Heard(network)
    with np.errstate(all="ignore"):
        stream = Stream(io.BytesIO(_chunks(written([body[at]]))))
        check_region(network, statement.regions[at], stream, Here(network, _unheard), heard)
    leaves = [part for tree in body[at].trees for part in trees_of(tree) if isinstance(part, Leaf)]
    chosen = [p for trace in heard.traces for p in trace.of_leaves()]
    if len(chosen) != len(leaves):
        return False
    some = rng.random(len(leaves)) < 0.5
    for leaf, p, wanted in zip(leaves, chosen, some, strict=True):
        if wanted:
            places = zip(network.hidden, body[at].sections, strict=True)
            each = [p.get(node, np.zeros(len(s.packed)))[s.packed] for node, s in places]
            leaf.duals = np.concatenate([np.zeros(0), *each])
            leaf.kind, leaf.multipliers = 0, None
    return bool(some.any())


class _Heard:
    """A watch that keeps p of every leaf of the disjuncts' trees."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.traces: list[_Trace] = []

    def begin(self, form: Form, ranges: Ranges) -> _Trace | None:
        if form.weights is None:
            return None
        self.traces.append(_Trace(self._network, len(form.weights)))
        return self.traces[-1]

    def disjunct(self, target: int) -> None:
        pass


class _Trace:
    def __init__(self, network: Network, count: int) -> None:
        self._network, self._count = network, count
        self._p: dict[int, np.ndarray] = {}

    def replaced(self, node: int, coefficients: np.ndarray, p: np.ndarray | None) -> None:
        if p is not None:
            self._p[self._network.nodes[node].inputs[0]] = p.copy()

    def bent(self, node: int, slopes: object, plane: object) -> None:
        pass

    def found(self, bounds: np.ndarray) -> None:
        pass

    def of_leaves(self) -> list[dict[int, np.ndarray]]:
        return [{node: p[at] for node, p in self._p.items()} for at in range(self._count)]


CHANGES: tuple[Change, ...] = (_multipliers, _weights, _split, _corner, _corner, _wrap, _code, _code, _code, _duals)
