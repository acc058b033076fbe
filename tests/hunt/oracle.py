"""The exact answer: the network as a piecewise linear function of t = Σ k_i x_i, in rationals from end to end.

A convex input set shows the network an interval of t. The interval is cut where a layer bends, so that on each piece
every layer is a linear function of t; there the rows are lines, and least values and violations are read off them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import isqrt

import numpy as np

from hunt.bends import Line, bent, switches, value
from hunt.maps import Sum, Sums, sums_of, values_at
from hunt.network import Network
from hunt.question import Disjunct, InputSet, Row

MOST_PIECES = 4000


class TooManyPiecesError(Exception):
    """The network bends too often to be followed."""


@dataclass(frozen=True)
class Piece:
    low: Fraction
    high: Fraction
    outputs: tuple[Line, ...]


@dataclass(frozen=True)
class Answer:
    """Of one disjunct: the least of max_j r_j over its set, where, and whether there is a violation."""

    least: Fraction
    at: Fraction  # t
    violated: bool


class Oracle:
    """One network, read once; asks cost little more."""

    def __init__(self, network: Network, direction: Sequence[int]) -> None:
        self.network, self.direction = network, tuple(direction)
        self.sums = sums_of(network)
        self._entries = _entries(network, self.sums, self.direction)
        self._pieces: dict[tuple[Fraction, Fraction], list[Piece]] = {}

    def outputs(self, x: Sequence[Fraction]) -> list[Fraction]:
        """The real network at x."""
        return values_at(self.network, self.sums, x)[-1]

    def pieces(self, low: Fraction, high: Fraction) -> list[Piece]:
        """The outputs over [low, high]."""
        if (low, high) not in self._pieces:
            found = []
            for piece in self._extend([], low, high):
                found.append(piece)
                if len(found) > MOST_PIECES:
                    raise TooManyPiecesError
            self._pieces[low, high] = found
        return self._pieces[low, high]

    def answer(self, disjunct: Disjunct) -> Answer:
        """Strict rows count as written in `violated`; `least` is over the closed set."""
        best: tuple[Fraction, Fraction] | None = None
        violated = False
        for piece in self.pieces(*reach(disjunct.inputs, self.direction)):
            rows = [_row_line(piece.outputs, row, self.direction) for row in disjunct.rows]
            here = min((max(value(r, t) for r in rows), t) for t in _corners(piece, rows))
            best = here if best is None else min(best, here)
            violated = violated or _violable(piece, rows, [row.strict for row in disjunct.rows])
        assert best is not None
        return Answer(*best, violated)

    def ranges(self, inputs: InputSet) -> list[tuple[Fraction, Fraction]]:
        """Least and greatest value of each output."""
        pieces = self.pieces(*reach(inputs, self.direction))
        ends = [
            [value(line, t) for p in pieces for line in (p.outputs[i],) for t in (p.low, p.high)] for i in self._all
        ]
        return [(min(values), max(values)) for values in ends]

    @cached_property
    def _all(self) -> range:
        return range(self.network[-1].size)

    def _extend(self, lines: list[list[Line] | None], low: Fraction, high: Fraction) -> Iterator[Piece]:
        """The pieces of [low, high], on which the first layers are `lines`; None where a layer is not read by t."""
        lines = list(lines)
        while len(lines) < len(self.network):
            place = len(lines)
            layer, own = self.network[place], self.sums[place]
            if self._entries[place] is not None:
                lines.append(self._entries[place])
            elif layer.kind in ("input", "reshape") and _raw(self.network, place):
                lines.append(None)
            elif own is not None:
                lines.append([_combine(one, [lines[i] for i in layer.inputs]) for one in own])
            else:
                h = lines[layer.inputs[0]]
                assert h is not None
                source = self.network[layer.inputs[0]]
                turns = {t for t in (-b / a for a, b in switches(layer, source, h) if a) if low < t < high}
                for left, right in pairwise([low, *sorted(turns), high]):
                    yield from self._extend([*lines, bent(layer, source, h, (left + right) / 2)], left, right)
                return
        last = lines[-1]
        assert last is not None
        yield Piece(low, high, tuple(last))


def reach(inputs: InputSet, direction: Sequence[int]) -> tuple[Fraction, Fraction]:
    """The values of t on the set; the set must not be empty."""
    sides = [
        (k * lo, k * hi) if k > 0 else (k * hi, k * lo)
        for k, lo, hi in zip(direction, inputs.lower, inputs.upper, strict=True)
    ]
    if inputs.centre is None:
        return sum((s[0] for s in sides), Fraction(0)), sum((s[1] for s in sides), Fraction(0))
    middle = sum((k * c for k, c in zip(direction, inputs.centre, strict=True)), Fraction(0))
    if inputs.p == 2:
        length = _norm(direction) * inputs.radius
        if not _box_holds_ball(inputs):
            raise ValueError("an ℓ2 ball that its box cuts has no answer here")
        return middle - length, middle + length
    return middle - _farthest(inputs, direction, -1), middle + _farthest(inputs, direction, 1)


def _farthest(inputs: InputSet, direction: Sequence[int], sign: int) -> Fraction:
    """max sign·k·(x − centre) over the ℓ1 ball cut by the box: the radius is spent where it moves t most."""
    assert inputs.centre is not None
    left, total = inputs.radius, Fraction(0)
    for k, lo, hi, c in sorted(
        zip(direction, inputs.lower, inputs.upper, inputs.centre, strict=True), key=lambda z: -abs(z[0])
    ):
        assert lo <= c <= hi
        step = min(left, hi - c if k * sign > 0 else c - lo)
        total += abs(k) * step
        left -= step
    return total


def _box_holds_ball(inputs: InputSet) -> bool:
    assert inputs.centre is not None
    return all(
        lo <= c - inputs.radius and c + inputs.radius <= hi
        for lo, c, hi in zip(inputs.lower, inputs.centre, inputs.upper, strict=True)
    )


def _norm(direction: Sequence[int]) -> int:
    square = sum(k * k for k in direction)
    if isqrt(square) ** 2 != square:
        raise ValueError(f"the length of {direction} is not rational")
    return isqrt(square)


def _raw(network: Network, place: int) -> bool:
    """Whether a layer only moves inputs about."""
    layer = network[place]
    return layer.kind == "input" or (layer.kind == "reshape" and _raw(network, layer.inputs[0]))


def _entries(network: Network, sums: Sequence[Sums | None], direction: Sequence[int]) -> list[list[Line] | None]:
    """By layer, its elements as lines in t where it reads the inputs themselves."""
    found: list[list[Line] | None] = []
    for place, layer in enumerate(network):
        own = sums[place]
        if own is None or _raw(network, place) or not any(_raw(network, i) for i in layer.inputs):
            found.append(None)
            continue
        lines = []
        for one in own:
            weights = [Fraction(0)] * len(direction)
            for _, index, weight in one.terms:
                weights[index] += weight
            slopes = {w / k for w, k in zip(weights, direction, strict=True)}
            if len(slopes) != 1:
                raise ValueError("the network does not read its input through one combination")
            lines.append((slopes.pop(), one.bias))
        found.append(lines)
    return found


def _combine(one: Sum, sources: Sequence[Sequence[Line] | None]) -> Line:
    slope, constant = Fraction(0), one.bias
    for slot, index, weight in one.terms:
        a, b = sources[slot][index]
        slope += weight * a
        constant += weight * b
    return slope, constant


def _row_line(outputs: Sequence[Line], row: Row, direction: Sequence[int]) -> Line:
    slope = sum((c * outputs[i][0] for i, c in row.coefs.items()), Fraction(0))
    if row.inputs:
        slopes = {row.inputs.get(i, Fraction(0)) / k for i, k in enumerate(direction)}
        if len(slopes) != 1:
            raise ValueError("a row does not read the input through one combination")
        slope += slopes.pop()
    return slope, sum((c * outputs[i][1] for i, c in row.coefs.items()), -row.rhs)


def _corners(piece: Piece, rows: Sequence[Line]) -> list[Fraction]:
    """Where the greatest of the rows can be least: the ends, and where two rows meet."""
    found = [piece.low, piece.high]
    for (a, b), (c, d) in combinations(rows, 2):
        if a != c and piece.low < (d - b) / (a - c) < piece.high:
            found.append((d - b) / (a - c))
    return found


def _violable(piece: Piece, rows: Sequence[Line], strict: Sequence[bool]) -> bool:
    """Whether some t of the piece has every row below 0, or at 0 where that is enough."""
    low, high, low_open, high_open = piece.low, piece.high, False, False
    for (a, b), less in zip(rows, strict, strict=True):
        if a == 0:
            if b > 0 or (less and b == 0):
                return False
            continue
        turn = -b / a
        if a > 0 and turn <= high:
            high_open = less or (high_open and turn == high)
            high = turn
        if a < 0 and turn >= low:
            low_open = less or (low_open and turn == low)
            low = turn
    return low < high or (low == high and not low_open and not high_open)


def magnitudes(network: Network, sums: Sequence[Sums | None], inputs: Sequence[float]) -> list[np.ndarray]:
    """By layer, |W|·|z| + |b|: what rounding is relative to."""
    found: list[np.ndarray] = []
    for layer, own in zip(network, sums, strict=True):
        if layer.kind == "input":
            found.append(np.asarray(inputs, dtype=np.float64))
        elif own is None:
            sizes = found[layer.inputs[0]]
            found.append(sizes if layer.size == len(sizes) else np.full(layer.size, sizes.max()))
        else:
            sources = [found[i] for i in layer.inputs]
            found.append(
                np.array([float(abs(s.bias)) + sum(float(abs(w)) * sources[k][i] for k, i, w in s.terms) for s in own])
            )
    return found


def scale_of(oracle: Oracle, disjunct: Disjunct) -> float:
    """The size of the numbers that a disjunct's rows are the small difference of."""
    reach_of = [
        float(max(abs(lo), abs(hi))) for lo, hi in zip(disjunct.inputs.lower, disjunct.inputs.upper, strict=True)
    ]
    last = magnitudes(oracle.network, oracle.sums, reach_of)[-1]
    return max(
        sum(abs(float(c)) * last[i] for i, c in row.coefs.items()) + abs(float(row.rhs)) for row in disjunct.rows
    )
