"""Rows that only compare outputs, asked of what a last Softmax, LogSoftmax or other increasing map is of.

y = softmax(x) keeps the order of x, so y_i − y_j <= 0 says no more and no less than x_i − x_j <= 0; log softmax keeps
differences, so any row of one group whose coefficients add up to 0 stays as it is; of a sigmoid y_i <= c is
x_i <= log(c / (1 − c)) too, rounded so that no violation is lost. Then the map is no part of the problem's graph, and
its relaxation costs nothing. All of that is said of real numbers; a witness is replayed by the whole network.

Only a map that is a finite number at every argument is left out.
What compares arguments of a Log or Sqrt where they are negative, or of an Exp where it overflows, says nothing of the
outputs, which are no numbers there: the points that it finds violate nothing, and hide those that do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction

from netproof.model.combined import AnyNetwork
from netproof.model.graph import Graph
from netproof.model.network import Network
from netproof.model.nonlinear import LeakyRelu
from netproof.model.nonlinear.smooth import Sigmoid, Softplus, Tanh
from netproof.model.ops import Input, Op
from netproof.problem.last.places import last_argmax, last_value, over_scores
from netproof.problem.property import Disjunct, Property, Row

INCREASING: tuple[type[Op], ...] = (Sigmoid, Tanh, Softplus)  # strictly, with a number everywhere
_DIGITS = Context(prec=80)  # its logarithms are correctly rounded
_MARGIN = Decimal("1e-60")  # of the size of a logit: more than its roundings


@dataclass(frozen=True, eq=False)
class _Map:
    """The last map of a graph: of which entry of its argument each output is, and what becomes of a row."""

    source: int
    places: Sequence[int]  # by output
    row: Callable[[Row], Row | None]  # over its argument; None: the row asks for more than order


def before_last_map(network: AnyNetwork, property: Property) -> tuple[Graph, Property]:
    """Return the graph without increasing maps at its end, and the rows over what is left; both as they are if none."""
    if not isinstance(network, Network) or property.derived:  # several outputs are joined, products read them all
        return network.graph, property
    graph, origin = network.graph, list(network.trace.origin)
    while property.disjuncts and all(any(row.coefs for row in d.rows) for d in property.disjuncts):
        places = last_argmax(network, graph, origin)
        if places is not None:
            scores = over_scores(places, property, graph.nodes[places.source].size)
            if scores is None or isinstance(graph.nodes[places.source].op, Input):
                break
            graph, kept = graph.ending_at(places.source)
            property, origin = scores, [origin[i] for i in kept]
            continue
        found = _last_map(graph, network.trace.softmax, origin)
        asked = None if found is None else _all_over(found, property)
        if found is None or asked is None:
            break
        graph, kept = graph.ending_at(found.source)
        property, origin = asked, [origin[i] for i in kept]
    return graph, property


def _last_map(graph: Graph, softmax: Mapping[int, tuple[int, bool]], origin: Sequence[int | None]) -> _Map | None:
    """Return the map that gives the output, but for movements of its entries; None where there is none.

    softmax, origin: see `Trace`.
    """
    node, places = last_value(graph)
    rows, source = _ordered, -1
    was = origin[node.index]
    if was is not None and was in softmax:
        before, log = softmax[was]
        width = node.shape[-1]
        source = origin.index(before) if before in origin else -1
        rows = (lambda row: _of_differences(row, width)) if log else (lambda row: _ordered_within(row, width))
    elif isinstance(node.op, INCREASING) or (isinstance(node.op, LeakyRelu) and node.op.alpha > 0.0):
        source = node.inputs[0]
        rows = _of_sigmoid if isinstance(node.op, Sigmoid) else _ordered
    if source < 0 or isinstance(graph.nodes[source].op, Input):
        return None
    return _Map(source, places, rows)


def _all_over(found: _Map, property: Property) -> Property | None:
    """Return the property over the argument of the map; None where some row cannot be asked there."""
    at = found.places
    disjuncts: list[Disjunct] = []
    for disjunct in property.disjuncts:
        moved = [replace(row, coefs={at[i]: c for i, c in row.coefs.items()}) for row in disjunct.rows]
        rows = [found.row(row) if row.coefs else row for row in moved]
        if any(row is None for row in rows):
            return None
        disjuncts.append(replace(disjunct, rows=tuple(row for row in rows if row is not None)))
    return replace(property, disjuncts=tuple(disjuncts))


def _ordered(row: Row) -> Row | None:
    """Return c·(y_i − y_j) <= 0 as it is."""
    coefs = list(row.coefs.values())
    compares = len(coefs) == 2 and coefs[0] == -coefs[1] and row.rhs == 0 and not row.inputs
    return row if compares else None


def _ordered_within(row: Row, width: int) -> Row | None:
    """Return the same where both entries lie in one group of `width`."""
    return _ordered(row) if len({i // width for i in row.coefs}) == 1 else None


def _of_differences(row: Row, width: int) -> Row | None:
    """Return a row as it is where the coefficients of every group add up to 0."""
    sums: dict[int, Fraction] = {}
    for i, c in row.coefs.items():
        sums[i // width] = sums.get(i // width, Fraction(0)) + c
    return None if any(sums.values()) else row


def _of_sigmoid(row: Row) -> Row | None:
    """Return c·y_i <= d as c·x_i <= c·logit(d/c), no smaller; where no logit is, or more is asked, as any map's."""
    if len(row.coefs) != 1 or row.inputs:
        return _ordered(row)
    ((i, c),) = row.coefs.items()
    value = row.rhs / c if c else Fraction(0)
    if not 0 < value < 1:
        return None
    logit, off = _logit(value)
    return replace(row, coefs={i: Fraction(c)}, rhs=c * logit + abs(c) * off)


def _logit(value: Fraction) -> tuple[Fraction, Fraction]:
    """Return log(value / (1 − value)) and how far it may be off."""

    def log(x: Fraction) -> Decimal:
        return _DIGITS.ln(_DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator)))

    parts = log(value), log(1 - value)
    off = _DIGITS.multiply(_MARGIN, 1 + abs(parts[0]) + abs(parts[1]))
    return Fraction(parts[0]) - Fraction(parts[1]), Fraction(off)
