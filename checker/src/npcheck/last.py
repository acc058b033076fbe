"""Rows asked before the last map of a network, where that says the same.

**Order.** With y = softmax(z), y_i = e^(z_i) / Σ e^(z_j). So y_i − y_j <= 0 says no more and no less than
z_i − z_j <= 0, for i and j of one vector. The same is true of any function that increases strictly and is defined
everywhere, applied to each entry: a sigmoid, say. A log softmax is z_i − L with one L for the vector, so a row whose
coefficients add up to 0 over each vector stays as it is.

**Places.** y = argmax(z) is one of 0, …, w − 1 for each vector. So rows that compare single outputs with numbers allow
some places of each, and their disjunct is the union of those with one place each. y = v says no more and no less than
z_j − z_v <= 0 for all other j, strictly for those that would win a tie.

**Numbers.** If g increases strictly and g(t) >= v, then g(z) <= v implies z <= t. If g(t) <= v, then g(z) >= v implies
z >= t. So c·y_i <= d becomes c·z_i <= c·t, with a float t for which bounds of g(t) show this. A row for which no such t
is found becomes 0 <= 0, which any point fulfils: that asks for more.

What only picks, scales or shifts entries on the way is taken into the rows: y = f·z + b with numbers of the file, in
fractions. All maps that can be left out one after the other are; where a row does not fit, the map stays a part of the
network.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from npcheck.exponential import FARTHEST
from npcheck.network import Network, Nonlinear, OrderMap, Plane, Planes, Scale, Take
from npcheck.smooth import Curve, Pair
from npcheck.statement import Array
from npcheck.vnnlib_file import Disjunct, Question, Row

HALVINGS = 100  # more than the bits of a float in [−700, 700] and of its place after the point
STEPS = 16  # back from the output, so that a long file takes no time
MOST = 10**5  # rows that a disjunct may become
MOST_TOGETHER = 3 * 10**5  # rows of all disjuncts, if they become more

Move = Callable[[Disjunct], list[Disjunct] | None]


class ArgMax(Nonlinear):
    """The place of the largest of several operands. Where no row can be asked of these, it lies between two places."""

    name = "argmax"

    def __init__(self, operands: int, last: bool) -> None:
        self.operands, self._last = operands, last

    def interval(self, lows: Sequence[Array], highs: Sequence[Array]) -> Pair:
        wins = np.stack(np.broadcast_arrays(*highs)) >= np.maximum.reduce(list(lows))
        first, last = wins.argmax(0), len(wins) - 1 - wins[::-1].argmax(0)
        return first.astype(np.float64), last.astype(np.float64)

    def near(self, values: Sequence[Array]) -> Array:
        sides = np.stack(values)
        places = len(sides) - 1 - sides[::-1].argmax(0) if self._last else sides.argmax(0)
        return np.asarray(places, dtype=np.float64)

    def planes(self, lows: Sequence[Array], highs: Sequence[Array]) -> Planes:
        least, most = self.interval(lows, highs)
        level = (np.zeros_like(least),) * self.operands
        return Planes(Plane(level, least), Plane(level, most))


def before_last_map(network: Network, question: Question) -> tuple[Network, Question, tuple[str, ...]]:
    """Return the network without its last maps, the question about what is left, and the names of these maps."""
    place, asked, left, names = len(network.nodes) - 1, question, (network, question), list[str]()
    for _ in range(STEPS):
        if asked.outputs != network.nodes[place].size:
            break
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
    return *left, tuple(names)


def _step(network: Network, place: int) -> tuple[int, Move | None, str]:
    """Return what a node is made of, how a disjunct is asked of that, and the name of the map, if it is one."""
    node = network.nodes[place]
    if place in network.uncut:
        return place, None, ""
    if place in network.maps:
        known = network.maps[place]
        return known.source, _of_map(known), known.kind
    op = node.op
    if isinstance(op, Curve) and op.keeps_order:
        return node.inputs[0], _by_row(lambda row: _of_order(row) or _of_number(row, op)), op.name
    if isinstance(op, Scale) and not op.folded:
        return node.inputs[0], _by_row(lambda row: _scaled(row, op)), ""
    if isinstance(op, Take) and len(node.inputs) == 1 and not op.folded:
        return node.inputs[0], _by_row(lambda row: _picked(row, op)), ""
    return place, None, ""


def _of_map(known: OrderMap) -> Move:
    if known.kind == "softmax":
        return _by_row(lambda row: _of_order(row, known.width))
    if known.kind == "log softmax":
        return _by_row(lambda row: _of_differences(row, known.width))
    return lambda disjunct: _of_places(disjunct, known.width, known.kind == "argmax, last")


def _by_row(move: Callable[[Row], Row | None]) -> Move:
    """Return what moves each row of a disjunct that has outputs."""

    def moved(disjunct: Disjunct) -> list[Disjunct] | None:
        rows = [move(row) if row.outputs else row for row in disjunct.rows]
        known = tuple(row for row in rows if row is not None)
        return [replace(disjunct, rows=known)] if len(known) == len(rows) else None

    return moved


def _moved(question: Question, move: Move, outputs: int) -> Question | None:
    """Return the question about the node before; None where some disjunct cannot be asked there."""
    disjuncts: list[Disjunct] = []
    more = 0
    for disjunct in question.disjuncts:
        parts = move(disjunct)
        more += 0 if parts is None else sum(len(part.rows) for part in parts) - len(disjunct.rows)
        if parts is None or more > MOST_TOGETHER:
            return None
        disjuncts += parts
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


def _of_places(disjunct: Disjunct, width: int, last: bool) -> list[Disjunct] | None:
    """Return the disjuncts with one place for each output that rows speak of, unless they allow all places."""
    allowed: dict[int, list[int]] = {}
    for row in disjunct.rows:
        if not row.outputs:
            continue
        if len(row.outputs) > 1 or row.inputs:
            return None
        ((i, c),) = row.outputs.items()
        known = allowed.get(i, list(range(width)))
        allowed[i] = [v for v in known if c * v < row.right or (c * v == row.right and not row.strict)]
    asked = {i: places for i, places in sorted(allowed.items()) if len(places) < width}
    kept = [row for row in disjunct.rows if not row.outputs]
    if math.prod(map(len, asked.values())) * (len(kept) + len(asked) * (width - 1)) > MOST:
        return None
    disjuncts: list[Disjunct] = []
    for chosen in itertools.product(*asked.values()):
        rows = [row for i, v in zip(asked, chosen, strict=True) for row in _wins(i * width, v, width, last)]
        disjuncts.append(replace(disjunct, rows=(*kept, *rows)))
    return disjuncts


def _wins(begin: int, place: int, width: int, last: bool) -> list[Row]:
    """Return that an entry of a vector, which begins at an entry of the node, is the one that argmax takes."""
    one, others = Fraction(1), (j for j in range(width) if j != place)
    return [Row({begin + j: one, begin + place: -one}, {}, Fraction(0), strict=(j > place) == last) for j in others]


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
