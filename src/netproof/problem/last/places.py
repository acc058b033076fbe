"""Questions about a last ArgMax, asked of the scores that it compares.

Its output y is one of 0, …, k − 1, so a disjunct with rows on y alone is the union of those with y = v for the v that
satisfy them (`by_place`). And y = v says no more and no less than x_j <= x_v for every other j, strictly for those that
would win a tie: rows over the scores (`over_scores`). Then ArgMax, which jumps, is no part of the problem's graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from netproof.model.combined import AnyNetwork
from netproof.model.evaluate import evaluate
from netproof.model.graph import Graph, Node
from netproof.model.moves import Reshape, Transpose
from netproof.model.network import Network
from netproof.model.ops import Op
from netproof.numerics import down, up
from netproof.problem.property import Disjunct, Property, Row

MOST = 1000  # disjuncts that one may become; of more places the property stays as it is


@dataclass(frozen=True, eq=False)
class Places:
    """A last ArgMax: which node it compares, how many entries at a time, and which of them each output is about."""

    source: int
    size: int
    groups: Sequence[int]  # by output
    last: bool  # whether the last of several largest wins


def last_value(graph: Graph, moving: tuple[type[Op], ...] = (Reshape, Transpose)) -> tuple[Node, list[int]]:
    """Return the node that gives the output but for movements, and which of its entries each output is."""
    node, moves = graph.output, []
    while isinstance(node.op, moving):
        moves.append(node.op)
        node = graph.nodes[node.inputs[0]]
    places = torch.arange(node.size).view(1, *node.shape)
    for move in reversed(moves):
        places = move.forward(places)
    return node, places.flatten().tolist()


def last_argmax(network: Network, graph: Graph, origin: Sequence[int | None]) -> Places | None:
    """Return the ArgMax that gives the output; None where there is none. origin: see `Trace`."""
    if not network.trace.argmax:
        return None
    node, groups = last_value(graph)
    was = origin[node.index]
    found = None if was is None else network.trace.argmax.get(was)
    if found is None or found[0] not in origin:
        return None
    source = list(origin).index(found[0])
    return Places(source, graph.nodes[source].shape[-1], groups, found[1])


def by_place(network: AnyNetwork, property: Property) -> Property:
    """Return the same property with y = v in place of other rows on an output y of a last ArgMax."""
    if not isinstance(network, Network) or property.derived:  # several outputs are joined, products read them all
        return property
    found = last_argmax(network, network.graph, network.trace.origin)
    if found is None or property.outputs != len(found.groups):
        return property
    disjuncts: list[Disjunct] = []
    for disjunct in property.disjuncts:
        allowed = _allowed(disjunct, found.size)
        if allowed is None:
            return property
        rest = tuple(row for row in disjunct.rows if not row.coefs)
        pinned = {i: values for i, values in allowed.items() if len(values) < found.size}
        for chosen in itertools.islice(itertools.product(*pinned.values()), MOST + 1):
            rows = [row for i, v in zip(pinned, chosen, strict=True) for row in _is(i, v)]
            disjuncts.append(replace(disjunct, rows=(*rest, *rows)))
        if len(disjuncts) > MOST:
            return property
    return replace(property, disjuncts=tuple(disjuncts), written=property)


def places_at(network: AnyNetwork, x: NDArray[Any]) -> list[tuple[int, int]] | None:
    """Return by output of a last ArgMax the least and the greatest place that it may be at x, in real arithmetic.

    None where there is no last ArgMax.
    """
    found = last_argmax(network, network.graph, network.trace.origin) if isinstance(network, Network) else None
    if found is None:
        return None
    graph, _ = network.graph.ending_at(found.source)
    point = torch.from_numpy(np.asarray(x, dtype=np.float64)).reshape(1, *graph.input.shape)
    score, error = (t.reshape(-1, found.size) for t in evaluate(graph, point))
    low, high = (side.nan_to_num(nan=nan) for side, nan in ((down(score - error), -inf), (up(score + error), inf)))
    may = (high >= low.amax(1, keepdim=True)).tolist()
    return [(may[i].index(True), found.size - 1 - may[i][::-1].index(True)) for i in found.groups]


def margin_of_places(network: AnyNetwork, written: Property) -> Fraction | None:
    """Return by how much every comparison of a property holds at least, at the places that do not violate it.

    None where the rows of a disjunct read inputs too, or there are no such places.
    """
    found = last_argmax(network, network.graph, network.trace.origin) if isinstance(network, Network) else None
    if found is None or any(row.inputs for disjunct in written.disjuncts for row in disjunct.rows):
        return None
    least: list[Fraction] = []
    for disjunct in written.disjuncts:
        for i in {i for row in disjunct.rows for i in row.coefs}:
            rows = [row for row in disjunct.rows if i in row.coefs]
            for place in map(Fraction, range(found.size)):
                at = {i: place}
                if not all(row.holds({}, at) for row in rows):  # type: ignore[arg-type]
                    least.append(max(row.value({}, at) - row.rhs for row in rows))  # type: ignore[arg-type]
    return min(least, default=None)


def over_scores(found: Places, property: Property, outputs: int) -> Property | None:
    """Return the property over the scores, of which there are `outputs`; None where it asks for more than places."""
    disjuncts = []
    for disjunct in property.disjuncts:
        allowed = _allowed(disjunct, found.size)
        if allowed is None:
            return None
        rows = [row for row in disjunct.rows if not row.coefs]
        for i, values in allowed.items():
            if len(values) == 1:
                rows += _wins(found, found.groups[i], values[0])
            elif len(values) < found.size:
                return None
        disjuncts.append(replace(disjunct, rows=tuple(rows)))
    return replace(property, disjuncts=tuple(disjuncts), outputs=outputs)


def _allowed(disjunct: Disjunct, size: int) -> dict[int, list[int]] | None:
    """Return by output the places that its rows allow; None where a row reads more than one output."""
    found: dict[int, list[int]] = {}
    for row in disjunct.rows:
        if not row.coefs:
            continue
        if len(row.coefs) > 1 or row.inputs:
            return None
        ((i, _),) = row.coefs.items()
        values = found.get(i, list(range(size)))
        found[i] = [v for v in values if row.holds({}, {i: Fraction(v)})]  # type: ignore[arg-type]
    return found


def _is(i: int, value: int) -> tuple[Row, Row]:
    return Row({i: Fraction(1)}, Fraction(value)), Row({i: Fraction(-1)}, Fraction(-value))


def _wins(found: Places, group: int, place: int) -> list[Row]:
    """Return that the score at a place is the one that ArgMax takes, of the scores of a group."""
    start = group * found.size
    return [
        Row({start + j: Fraction(1), start + place: Fraction(-1)}, Fraction(0), strict=(j > place) == found.last)
        for j in range(found.size)
        if j != place
    ]
