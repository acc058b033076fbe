"""Intervals of sums of two nodes, of max(a, b) and min(a, b) among them.

The reader writes these as b + relu(a − b) and b − relu(b − a). Intervals of the parts forget that both hold b, and lose
the width of b for every one; a pool is a tree of them. And where a pool's entries are 0, as behind a ReLU that is off,
their difference is 0 too, exactly: a hair beside it would be one more neuron to bound and to split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.affine import Sum
from netproof.model.graph import Graph, Node
from netproof.model.nonlinear import Relu
from netproof.numerics import down, up


def tightened(graph: Graph, node: Node, bound: Interval, of: Sequence[Interval] | Mapping[int, Interval]) -> Interval:
    """Return a node's bounds, tighter where it is a sum of two; `of` has those of the nodes before, all float64."""
    if not isinstance(node.op, Sum) or len(node.inputs) != 2:
        return bound
    first, second = (of[i] if sign > 0 else _negated(of[i]) for i, sign in zip(node.inputs, node.op.signs, strict=True))
    found = [_sum(first, second)]
    extreme = extreme_of(graph, node)
    if extreme is not None:
        pick, a, b = extreme
        found.append(Interval(pick(of[a].lower, of[b].lower), pick(of[a].upper, of[b].upper)))
    for better in found:
        bound = Interval(torch.maximum(bound.lower, better.lower), torch.minimum(bound.upper, better.upper))
    return bound


def _negated(x: Interval) -> Interval:
    return Interval(-x.upper, -x.lower)


def _sum(x: Interval, y: Interval) -> Interval:
    """Return bounds of x + y, rounded outward; a float sum that is 0 is so exactly."""
    lower, upper = x.lower + y.lower, x.upper + y.upper
    return Interval(torch.where(lower == 0, lower, down(lower)), torch.where(upper == 0, upper, up(upper)))


def extreme_of(graph: Graph, node: Node) -> tuple[Callable[..., Tensor], int, int] | None:
    """Return which extreme of which two nodes a sum of two is; None where it is none."""
    assert isinstance(node.op, Sum)
    b, hinge = node.inputs
    difference = graph.nodes[graph.nodes[hinge].inputs[0]] if isinstance(graph.nodes[hinge].op, Relu) else None
    if difference is None or not isinstance(difference.op, Sum) or difference.op.signs != (1, -1):
        return None
    first, second = difference.inputs
    if node.op.signs == (1, 1) and second == b:
        return torch.maximum, first, b
    if node.op.signs == (1, -1) and first == b:
        return torch.minimum, second, b
    return None
