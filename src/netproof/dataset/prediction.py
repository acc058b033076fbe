"""Which class a network reads an input as."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netproof.model.network import Network
from netproof.problem.last.order import before_last_map
from netproof.problem.property import Box, Disjunct, Property, Row
from netproof.problem.witness import rounding_gaps


def largest_output(output: NDArray[Any]) -> int:
    """Return the class that an output says: the first of the largest; −1 where it holds no number."""
    flat = np.asarray(output).reshape(-1)
    return int(flat.argmax()) if np.isfinite(flat).all() else -1


def predicted_class(network: Network, x: NDArray[Any]) -> int:
    """Return the class of the largest output that onnxruntime computes at x; −1 where an output is no number.

    Of several that rounding makes equal, as it does two sigmoids near 1, it is the one that is the largest in real
    arithmetic, of which proofs speak; where no one is for certain, the first.
    """
    output = network.replay(x).reshape(-1)
    first = largest_output(output)
    equal = np.flatnonzero(output == output.max()).tolist()
    if first < 0 or len(equal) == 1:
        return first
    low, high = _lead(network, x, equal)
    if min(low) > 0:
        return first
    best = equal[1 + int(np.argmin(high))]
    return best if min(_lead(network, x, [best, *(i for i in equal if i != best)])[0]) > 0 else first


def _lead(network: Network, x: NDArray[Any], classes: Sequence[int]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bound by how much the first class leads each of the others at x, in units of what a last map reads."""
    point = np.asarray(x, dtype=network.input_dtype).astype(np.float64).reshape(-1)
    sides = tuple(map(Fraction, point.tolist()))
    rows = tuple(Row({classes[0]: Fraction(1), other: Fraction(-1)}, Fraction(0)) for other in classes[1:])
    property = Property((Disjunct(Box(sides, sides), rows),), len(sides), network.graph.output.size)
    graph, asked = before_last_map(network, property)
    return rounding_gaps(graph, asked.disjuncts[:1], point)[0]
