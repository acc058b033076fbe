"""Networks with Sigmoid and Tanh: their least values are not known, but values at points are, to 60 digits.

So a statement is false where a point shows it. One that is true is so by as much as a fine grid can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hunt.maps import sums_of, values_at
from hunt.network import SMOOTH, Network
from hunt.oracle import Answer, Oracle, reach
from hunt.question import Disjunct, InputSet

GRID = 24
SURE = Fraction(1, 10**40)  # beyond what the digits of a value may be off by


class Sampled(Oracle):
    """The values of a network at points along t, as an oracle; `least` is the least of them."""

    def __init__(self, network: Network, direction: Sequence[int]) -> None:
        self.network, self.direction = network, tuple(direction)
        self.sums = sums_of(network)
        self._values: dict[InputSet, list[tuple[Fraction, list[Fraction], list[Fraction]]]] = {}

    def answer(self, disjunct: Disjunct) -> Answer:
        """Violated is what some point shows, surely."""
        best, violated = None, False
        for t, x, y in self._along(disjunct.inputs):
            values = [-row.rhs for row in disjunct.rows]
            for at, row in enumerate(disjunct.rows):
                values[at] += sum((c * y[i] for i, c in row.coefs.items()), Fraction(0))
                values[at] += sum((c * x[i] for i, c in row.inputs.items()), Fraction(0))
            here = max(values), t
            best = here if best is None else min(best, here)
            violated = violated or max(values) < -SURE
        assert best is not None
        return Answer(*best, violated)

    def ranges(self, inputs: InputSet) -> list[tuple[Fraction, Fraction]]:
        columns = zip(*(y for _, _, y in self._along(inputs)), strict=True)
        return [(min(column), max(column)) for column in map(list, columns)]

    def _along(self, inputs: InputSet) -> list[tuple[Fraction, list[Fraction], list[Fraction]]]:
        """t, x and y on the way from where t is least to where it is greatest."""
        if inputs not in self._values:
            low, high = reach(inputs, self.direction)
            found = []
            for step in range(GRID + 1):
                x = [a + Fraction(step, GRID) * (b - a) for a, b in _ends(inputs, self.direction)]
                y = values_at(self.network, self.sums, x)[-1]
                found.append((low + Fraction(step, GRID) * (high - low), x, y))
            self._values[inputs] = found
        return self._values[inputs]


def _ends(inputs: InputSet, direction: Sequence[int]) -> list[tuple[Fraction, Fraction]]:
    if inputs.centre is None:
        return [
            (lo, hi) if k > 0 else (hi, lo) for k, lo, hi in zip(direction, inputs.lower, inputs.upper, strict=True)
        ]
    length = Fraction(sum(k * k for k in direction))
    reach_of = (reach(inputs, direction)[1] - reach(inputs, direction)[0]) / 2
    return [
        (c - k * reach_of / length, c + k * reach_of / length) for c, k in zip(inputs.centre, direction, strict=True)
    ]


def oracle_of(network: Network, direction: Sequence[int]) -> Oracle:
    """The exact oracle where the network is piecewise linear, else points."""
    bends = any(layer.kind in SMOOTH for layer in network)
    return Sampled(network, direction) if bends else Oracle(network, direction)


def is_exact(oracle: Oracle) -> bool:
    """Whether a statement that the oracle finds no violation of is true."""
    return not isinstance(oracle, Sampled)
