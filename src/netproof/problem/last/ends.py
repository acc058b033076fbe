"""Rows that ask an output beyond an end that its last operator has: a ReLU below 0, a sigmoid above 1.

Bounds are charged for rounding, so that they never quite reach such an end, and a strict comparison with it is a tie
that no split resolves. What the operator is says that nothing lies beyond, whatever its argument is: where every
operator before it has a value everywhere. A file may put any number in the place of a NaN that another one gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import torch

from netproof.core.reasons import BEYOND
from netproof.model.combined import AnyNetwork
from netproof.model.graph import Graph, Node
from netproof.model.nonlinear import Relu, SoftmaxEntry
from netproof.model.nonlinear.smooth import Smooth
from netproof.model.nonlinear.steps import Step, Within
from netproof.model.ops import Affine, Op
from netproof.problem.property import Disjunct, Property, Row

Ends = tuple[np.ndarray, np.ndarray]  # of each entry, flat: the least and the largest that it may be


def within_ends(network: AnyNetwork, property: Property) -> Property:
    """Return the property without its disjuncts, where all of them ask strictly for more than an end of the outputs.

    Some of them alone stay: how far the others are from a violation would not be how far the property is.
    """
    if not any(_is_of_outputs(row, property) for disjunct in property.disjuncts for row in disjunct.rows):
        return property
    if property.outputs != network.graph.output.size or not all(_is_total(node.op) for node in network.graph.nodes):
        return property
    low, high = (side.tolist() for side in _ends(network.graph, network.graph.output))
    if not all(_is_beyond(disjunct, property, low, high) for disjunct in property.disjuncts):
        return property
    return replace(property, disjuncts=(), vacuous=property.vacuous or BEYOND)


def _is_of_outputs(row: Row, property: Property) -> bool:
    """Say whether a row is strict and reads outputs alone."""
    return row.strict and bool(row.coefs) and not row.inputs and max(row.coefs) < property.outputs


def _is_beyond(disjunct: Disjunct, property: Property, low: Sequence[float], high: Sequence[float]) -> bool:
    """Say whether a row needs less than the least that it can be, which is all that it asks for."""
    for row in disjunct.rows:
        if _is_of_outputs(row, property):
            ends = [(c, low[i] if c > 0 else high[i]) for i, c in row.coefs.items() if c]
            if all(map(math.isfinite, (end for _, end in ends))):
                least = sum((c * Fraction(end) for c, end in ends), Fraction(0))
                if least == row.rhs:  # beyond that bounds tell by themselves
                    return True
    return False


def _ends(graph: Graph, node: Node) -> Ends:
    """Return the ends of a node, through what only moves numbers."""
    op = node.op
    if isinstance(op, Affine) and not op.fan and op.offset() is None:
        sides = [_ends(graph, graph.nodes[i]) for i in node.inputs]
        low, high = (np.concatenate([np.zeros(1), *side]) for side in zip(*sides, strict=True))
        source = _sources(op, [graph.nodes[i] for i in node.inputs])
        return low[source], high[source]
    least, most = _range(op)
    return np.full(node.size, least), np.full(node.size, most)


def _sources(op: Affine, inputs: Sequence[Node]) -> np.ndarray:
    """Return which entry of all inputs, one after the other, counted from 1, each entry is; 0: it is filled with 0."""
    first, numbers = 1, []
    for node in inputs:
        numbers.append(torch.arange(first, first + node.size, dtype=torch.float64).reshape(1, *node.shape))
        first += node.size
    return op.forward(*numbers).flatten().to(torch.int64).numpy()


def _is_total(op: Op) -> bool:
    """Say whether an operator has a value for every argument."""
    if isinstance(op, Smooth):
        return bool(op.exists(torch.tensor(-math.inf), torch.tensor(math.inf)))
    return not isinstance(op, Within)


def _range(op: Op) -> tuple[float, float]:
    """Return what a function never goes beyond, whatever its argument is."""
    if isinstance(op, Relu):
        return 0.0, math.inf
    if isinstance(op, SoftmaxEntry | Step):
        return 0.0, 1.0
    return (op.least, op.most) if isinstance(op, Smooth) else (-math.inf, math.inf)
