"""Rows asked before the last map of a network, where that says the same.

**Order.** With y = softmax(z), y_i = e^(z_i) / Σ e^(z_j). So y_i − y_j <= 0 says no more and no less than
z_i − z_j <= 0, for i and j of one vector. The same is true of any function that increases strictly and is defined
everywhere, applied to each entry: a sigmoid, say. A log softmax is z_i − L with one L for the vector, so a row whose
coefficients add up to 0 over each vector stays as it is.

**Numbers.** If g increases strictly and g(t) >= v, then g(z) <= v implies z <= t. If g(t) <= v, then g(z) >= v implies
z >= t. So c·y_i <= d becomes c·z_i <= c·t, with a float t for which bounds of g(t) show this. A row for which no such t
is found becomes 0 <= 0, which any point fulfils: that asks for more.

What only picks, scales or shifts entries on the way is taken into the rows: y = f·z + b with numbers of the file, in
fractions. All maps that can be left out one after the other are; where a row does not fit, the map stays a part of the
network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from npcheck.exponential import FARTHEST
from npcheck.network import Network, Scale, Take
from npcheck.smooth import Curve
from npcheck.vnnlib_file import Question, Row

HALVINGS = 100  # more than the bits of a float in [−700, 700] and of its place after the point

Move = Callable[[Row], Row | None]


def before_last_map(network: Network, question: Question) -> tuple[Network, Question, tuple[str, ...]]:
    """Return the network without its last maps, the question about what is left, and the names of these maps."""
    place, asked, left, names = len(network.nodes) - 1, question, (network, question), list[str]()
    steps = 0
    while asked.outputs == network.nodes[place].size:
        source, move, name = _step(network, place)
        if move is None:
            break
        moved = _moved(asked, move, network.nodes[source].size)
        if moved is None:
            break
        place, asked = source, moved
        if name:
            names.append(name)
            left = network.ending_at(place), asked
        steps += 1
    return *left, tuple(names)


def _step(network: Network, place: int) -> tuple[int, Move | None, str]:
    """Return what a node is made of, how a row is asked of that, and the name of the map, if it is one."""
    node = network.nodes[place]
    if place in network.uncut:
        return place, None, ""
    if place in network.maps:
        found = network.maps[place]
        if found.log:
            return found.source, lambda row: _of_differences(row, found.width), "log softmax"
        return found.source, lambda row: _of_order(row, found.width), "softmax"
    op = node.op
    if isinstance(op, Curve) and op.keeps_order:
        return node.inputs[0], lambda row: _of_order(row) or _of_number(row, op), op.name
    if isinstance(op, Scale) and not op.folded:
        return node.inputs[0], lambda row: _scaled(row, op), ""
    if isinstance(op, Take) and len(node.inputs) == 1 and not op.folded:
        return node.inputs[0], lambda row: _picked(row, op), ""
    return place, None, ""


def _moved(question: Question, move: Move, outputs: int) -> Question | None:
    """Return the question about the node before; None where some row cannot be asked there."""
    disjuncts = []
    for disjunct in question.disjuncts:
        rows = [move(row) if row.outputs else row for row in disjunct.rows]
        if any(row is None for row in rows):
            return None
        disjuncts.append(replace(disjunct, rows=tuple(row for row in rows if row is not None)))
    return replace(question, outputs=outputs, disjuncts=tuple(disjuncts))


def _scaled(row: Row, op: Scale) -> Row:
    factors = {i: c * Fraction(float(op.factor[i])) for i, c in row.outputs.items()}
    shift = Fraction(0)
    if op.bias is not None:
        shift = sum((c * Fraction(float(op.bias[i])) for i, c in row.outputs.items()), Fraction(0))
    return replace(row, outputs={i: c for i, c in factors.items() if c}, right=row.right - shift)


def _picked(row: Row, op: Take) -> Row:
    outputs, shift = dict[int, Fraction](), Fraction(0)
    for i, c in row.outputs.items():
        source = int(op.index[i])
        if source >= 0:
            outputs[source] = outputs.get(source, Fraction(0)) + c
        if op.bias is not None:
            shift += c * Fraction(float(op.bias[i]))
    return replace(row, outputs={i: c for i, c in outputs.items() if c}, right=row.right - shift)


def _of_order(row: Row, width: int = 0) -> Row | None:
    """Return c·(y_i − y_j) <= 0, of one vector where there is a width, as it is."""
    coefficients = list(row.outputs.values())
    compares = len(coefficients) == 2 and coefficients[0] == -coefficients[1] and row.right == 0 and not row.inputs
    return row if compares and (not width or len({i // width for i in row.outputs}) == 1) else None


def _of_differences(row: Row, width: int) -> Row | None:
    """Return a row whose coefficients add up to 0 over each vector as it is."""
    sums = dict[int, Fraction]()
    for i, c in row.outputs.items():
        sums[i // width] = sums.get(i // width, Fraction(0)) + c
    return None if any(sums.values()) else row


def _of_number(row: Row, op: Curve) -> Row | None:
    """Return c·y_i <= d as c·z_i <= c·t."""
    if len(row.outputs) != 1 or row.inputs:
        return None
    ((i, c),) = row.outputs.items()
    t = _end(op, row.right / c, up=c > 0)
    if t is None:
        return replace(row, outputs={}, right=Fraction(0), strict=False)
    return replace(row, outputs={i: c}, right=c * Fraction(t))


def _end(op: Curve, value: Fraction, up: bool) -> float | None:
    """Return t with g(t) >= value, or <= where not up: the nearest that halving finds."""

    def is_beyond(t: float) -> bool:
        low, high = (float(side[0]) for side in op.at(np.array([t])).value)
        end = low if up else high
        return bool(np.isfinite(end)) and (Fraction(end) >= value if up else Fraction(end) <= value)

    beyond, within = (FARTHEST, -FARTHEST) if up else (-FARTHEST, FARTHEST)
    if not is_beyond(beyond):
        return None
    for _ in range(HALVINGS):
        middle = 0.5 * beyond + 0.5 * within
        beyond, within = (middle, within) if is_beyond(middle) else (beyond, middle)
    return beyond
