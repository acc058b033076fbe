"""Intervals of scaled nodes and of sums of two, max(a, b) and min(a, b) among them, by the ends of what they read.

The reader writes these as b + relu(a − b) and b − relu(b − a). Intervals of the parts forget that both hold b, and lose
the width of b for every one; a pool is a tree of them. And where a pool's entries are 0, as behind a ReLU that is off,
their difference is 0 too, exactly: a hair beside it would be one more neuron to bound and to split.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from netproof.core.forms import Interval
from netproof.model.affine import Scale, Sum
from netproof.model.graph import Graph, Node
from netproof.model.moves import SumAxes
from netproof.model.nonlinear import Relu
from netproof.numerics import down, up


def tightened(graph: Graph, node: Node, bound: Interval, of: Callable[[int], Interval]) -> Interval:
    """Return a node's bounds (*lead, *node), tighter where it is scaled or a sum of two; float64.

    `of` gives those of a node before.
    """
    op = node.op
    if isinstance(op, Scale) and op.radius is None:
        return _within(bound, _scaled(op, of(node.inputs[0])))
    if isinstance(op, SumAxes):
        return _not_negative(op, bound, of(node.inputs[0]))
    if not isinstance(op, Sum) or len(node.inputs) != 2:
        return bound
    first, second = (of(i) if sign > 0 else _negated(of(i)) for i, sign in zip(node.inputs, op.signs, strict=True))
    bound = _within(bound, _sum(first, second))
    extreme = extreme_of(graph, node)
    if extreme is None:
        return bound
    pick, a, b = extreme
    return _within(bound, Interval(*(pick(*ends) for ends in zip(of(a), of(b), strict=True))))


def _not_negative(op: SumAxes, bound: Interval, x: Interval) -> Interval:
    """Return bounds of a sum, at least 0 where nothing in it is negative: of squares there is a root."""
    axes = [axis - len(op.in_shape) for axis in op.axes]
    least = x.lower.amin(axes, keepdim=True) if axes else x.lower
    return Interval(torch.where(least >= 0, bound.lower.clamp(min=0), bound.lower), bound.upper)


def _within(bound: Interval, better: Interval) -> Interval:
    return Interval(torch.maximum(bound.lower, better.lower), torch.minimum(bound.upper, better.upper))


def _scaled(op: Scale, x: Interval) -> Interval:
    """Return bounds of mult·x + add by those of x, rounded outward; times 1 or −1 nothing is rounded."""
    if op.mult is not None:
        mult = op.mult
        ends = mult * x.lower, mult * x.upper
        exact = mult.abs() == 1
        low, high = torch.minimum(*ends), torch.maximum(*ends)
        x = Interval(torch.where(exact, low, down(low)), torch.where(exact, high, up(high)))
    return x if op.add is None else _sum(x, Interval(op.add, op.add))


def _negated(x: Interval) -> Interval:
    return Interval(-x.upper, -x.lower)


def _sum(x: Interval, y: Interval) -> Interval:
    """Return bounds of x + y, rounded outward; a float sum that is 0 is so exactly, and so is one with 0."""
    lower, upper = x.lower + y.lower, x.upper + y.upper
    exact = [(s == 0) | (a == 0) | (b == 0) for s, a, b in zip((lower, upper), x, y, strict=True)]
    return Interval(torch.where(exact[0], lower, down(lower)), torch.where(exact[1], upper, up(upper)))


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
