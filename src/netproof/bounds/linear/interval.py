"""Interval bounds (IBP) of every node, rigorous in float64, and the rounding weights that follow from them.

A box's first neurons lose nothing by intervals. A ball's would: they are bounded one by one, by the dual norm.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from netproof.bounds.linear.backward import Backward, Charge
from netproof.bounds.linear.lined_graph import one_hot
from netproof.bounds.linear.memory import rows_that_fit
from netproof.bounds.linear.region import Region
from netproof.bounds.linear.sums import tightened
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.errors import Unbounded
from netproof.model.graph import Graph, Node
from netproof.model.ops import Affine, Input, Nonlinear
from netproof.numerics import enlarged, lowered, rounding, with_vanishing
from netproof.relax import relaxation_of


class Intervals:
    """Confirmed bounds of the nodes, filled in topological order, in float64.

    The caller may tighten a node before the next is computed; what is downstream gains from it.
    """

    def __init__(self, graph: Graph, region: Region) -> None:
        self.graph = graph
        self.region = region
        self.of: list[Interval] = []  # (*node) each
        self.charge = Charge([], [])

    @property
    def back(self) -> Backward:
        """Return what carries forms back through the graph, rounding charged by these bounds."""
        return Backward(self.graph, self.charge)

    def extend(self, deadline: Deadline | None = None) -> Interval:
        """Bound the next node from its inputs' bounds; past the deadline, over a ball as over a box."""
        node = self.graph.nodes[len(self.of)]
        weight = self._weight(node)
        bound = self._bound(node, weight)
        finite = bound.lower.isfinite() & bound.upper.isfinite()
        if not bool(finite.all()):
            raise Unbounded(self._why(node, finite), place=f"node {node.name!r}", remedy="use a smaller input set")
        self.of.append(bound)
        self.charge.magnitude.append(self.of[-1].magnitude)
        self.charge.weight.append(weight)
        if self.linear_on_a_ball(node.index) and self._is_read(node):
            self._over_the_ball(node, deadline or Deadline())
        return self.of[-1]

    def _why(self, node: Node, finite: Tensor) -> str:
        """Say why not all entries of a node are finite: where its function is not defined, with the bounds there."""
        why = "values overflow float64 on this input set"
        if not isinstance(node.op, Nonlinear):
            return why
        relaxation, h = relaxation_of(node.op), self.of[node.inputs[0]].flat
        if h.lower.numel() != finite.numel():  # of several operands
            return relaxation.undefined or why
        entry = int(finite.flatten().int().argmin())
        low, high = h.lower[entry], h.upper[entry]
        found = relaxation.why_infinite(Interval(low, high))
        return why if found is None else f"{found}, which is bounded by {low:.6g} and {high:.6g}"

    def tighten(self, index: int, better: Interval) -> None:
        """Replace a node's bounds by confirmed, tighter ones."""
        self.of[index] = better
        self.charge.magnitude[index] = better.magnitude

    def copy(self) -> Intervals:
        """Return the same bounds, to be tightened without a change to these."""
        other = Intervals(self.graph, self.region)
        other.of, other.charge = list(self.of), Charge(list(self.charge.weight), list(self.charge.magnitude))
        return other

    def linear_on_a_ball(self, index: int) -> bool:
        """Say whether the input set is a ball and a node depends on it without any nonlinearity between."""
        before = self.graph.ancestors[index]
        return self.region.ball is not None and not any(isinstance(self.graph.nodes[i].op, Nonlinear) for i in before)

    def _is_read(self, node: Node) -> bool:
        """Say whether it is what the network answers, or read by a nonlinear node: other bounds only serve these."""
        readers = (n.op for n in self.graph.nodes if node.index in n.inputs)
        return node.index == self.graph.output.index or any(isinstance(op, Nonlinear) for op in readers)

    def _over_the_ball(self, node: Node, deadline: Deadline) -> None:
        """Bound each entry over the ball itself; once the deadline is over the others keep their intervals."""
        found, device = self.of[node.index], self.region.centre.device
        sides = torch.stack([found.lower.flatten(), -found.upper.flatten()])
        rows = rows_that_fit(self.graph, node.index, device, torch.float64, grad=False)
        for places in torch.arange(node.size, device=device).split(max(1, rows // 2)):
            if deadline.expired:
                break
            coef = one_hot(places.expand(2, -1), sides.new_tensor([[1.0], [-1.0]]), node.shape)
            value = self.region.least(self.back.form(node.index, coef, {}))
            sides[:, places] = sides[:, places].fmax(lowered(value))
        lower, upper = (side.view_as(found.lower) for side in (sides[0], -sides[1]))
        self.tighten(node.index, Interval(lower, upper))

    def _bound(self, node: Node, weight: Tensor) -> Interval:
        if isinstance(node.op, Input):
            return Interval(self.region.lower, self.region.upper)
        inputs = [self.of[i] for i in node.inputs]
        if not isinstance(node.op, Affine):
            lower, upper = relaxation_of(node.op).range(self.of[node.inputs[0]].flat)
            return Interval(lower.view(node.shape), upper.view(node.shape))
        lower, upper = through(node.op, [Interval(x.lower[None], x.upper[None]) for x in inputs], weight)
        return tightened(self.graph, node, Interval(lower[0], upper[0]), self.of.__getitem__)

    def _weight(self, node: Node) -> Tensor:
        """Return what a coefficient of this node may cost by rounding, with what the weight lost to underflow."""
        return with_vanishing(self._rounding(node))

    def _rounding(self, node: Node) -> Tensor:
        """Return γ·(|W||z_in| + |b|), plus what the folded weights themselves may be off by."""
        if isinstance(node.op, Input):
            return self.region.charge()
        magnitudes = [self.charge.magnitude[i][None] for i in node.inputs]
        if not isinstance(node.op, Affine):
            unit = rounding(1.0, magnitudes[0].numel() + 8)
            charge = relaxation_of(node.op).rounding(self.of[node.inputs[0]].flat, unit)
            return charge.view(node.shape)
        weight = rounding(node.op.absolute().forward(*magnitudes)[0], node.op.fan + node.size + 8)
        if node.op.radius is not None:
            weight = weight + enlarged(node.op.radius.forward(*magnitudes)[0])
        return weight


def through(op: Affine, inputs: Sequence[Interval], weight: Tensor) -> Interval:
    """Bound an affine op on intervals (n, *node) of what it reads; weight (*node): its charge by rounding.

    Midpoint and radius: |W m + b − exact|, the rounding of |W| r, of r itself and of the ends are each under the
    weight, γ(|W||x| + |b|). The radius is not enlarged beyond that: a sum of squares must not seem negative. What only
    moves numbers moves their bounds.
    """
    if not op.fan and op.radius is None:
        return Interval(*(op.forward(*side) for side in zip(*inputs, strict=True)))
    mids = [x.lower / 2 + x.upper / 2 for x in inputs]
    radii = [torch.maximum(x.upper - m, m - x.lower) for x, m in zip(inputs, mids, strict=True)]
    middle, spread = op.forward(*mids), op.absolute().linear().forward(*radii)
    spread = spread + with_vanishing(enlarged(weight * 4))
    return Interval(middle - spread, middle + spread)


def interval_bounds(graph: Graph, region: Region) -> Intervals:
    """Plain IBP of the whole graph (float64)."""
    intervals = Intervals(graph, region)
    for _ in graph.nodes:
        intervals.extend()
    return intervals
