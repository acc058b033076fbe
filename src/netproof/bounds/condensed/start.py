"""The affine start of a network about the centre of its input set, in float32, and what that may be off by."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.condensed.network import Condensed
from netproof.bounds.linear.interval import Intervals
from netproof.bounds.linear.region import Region
from netproof.core.forms import Interval
from netproof.model.graph import Graph
from netproof.model.ops import Affine
from netproof.numerics import enlarged, rounding, up

NARROW = torch.float32


@dataclass(frozen=True, eq=False)
class Start:
    """y = y(centre) + W (x − centre), of the entries that are kept.

    W^T coef is computed op after op. Each way from an entry of the input to one of y is a product of weights, and no
    result on it is rounded more often than all ops together have terms: so what float32 misses is at most γ_n |W|^T
    |coef|, with |W| the sum of the sizes of all ways.
    """

    graph: Graph  # float32, without constants, every sum a plain one
    centre: Tensor  # (Y,) float64: y there
    away: Tensor  # (Y,): the largest |y − centre|
    error: Tensor  # (Y,): what W^T coef may be off by on the input set, for each coefficient of 1
    reach: Tensor  # (): the largest |values| of all nodes about the centre, added up
    growth: Tensor  # (ops,): the most that coefficients grow by through each op, and from y to what it reads
    roundings: int

    @classmethod
    def of(cls, net: Condensed) -> Start:
        """Take the start of a condensed network, to prove with."""
        assert net.charges is not None
        node, places = net.trunk.node, net.trunk.index
        graph = Graph(net.charges.trunk.graph.nodes[: node + 1])
        low, high = (side.flatten()[places] for side in _at_a_point(graph, net.region.centre))
        centre = low / 2 + high / 2
        sizes, off = _spread(graph, net.region.radius)
        size, wrong = (t[node].flatten()[places] for t in (sizes, off))
        roundings = sum(n.op.fan + len(n.inputs) + 4 for n in graph.nodes if isinstance(n.op, Affine))
        lost = up(torch.maximum(high - centre, centre - low)) + wrong
        error = lost + rounding(size, roundings, NARROW) if roundings else lost
        reach = torch.stack([t.sum() for t in sizes]).sum()
        away, narrow = enlarged(size + lost), _narrow(graph, centre.device)
        growth = _growth(narrow, centre.device)
        return cls(narrow, centre, away, enlarged(error), reach, growth, roundings)


def _narrow(graph: Graph, device: torch.device) -> Graph:
    """Return the ops in float32 without their constants, every sum a plain one."""
    nodes = graph.to(device, NARROW).nodes
    return Graph(tuple(replace(n, op=n.op.linear().summed()) if isinstance(n.op, Affine) else n for n in nodes))


def _at_a_point(graph: Graph, point: Tensor) -> Interval:
    """Return what the exact output is between at a point, constants and their radii included."""
    found = Intervals(graph, Region(point, torch.zeros_like(point), point, point, None))
    for _ in graph.nodes:
        found.extend()
    return found.of[-1]


def _spread(graph: Graph, radius: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Return by node the largest |value| about the centre for inputs within `radius`, and what weights may be off by.

    (*node) each. The second is how much the values of the exact weights may differ from those of the stored ones.
    """
    sizes, off = [radius], [torch.zeros_like(radius)]
    for node in graph.nodes[1:]:
        op = node.op
        assert isinstance(op, Affine)
        size, wrong = ([t[i][None] for i in node.inputs] for t in (sizes, off))
        through = op.absolute().linear()
        both = through.forward(*(torch.cat(pair) for pair in zip(size, wrong, strict=True)))  # one pass for both
        sizes.append(enlarged(both[0]))
        wrong_now = both[1]
        if op.radius is not None:
            wrong_now = wrong_now + op.radius.linear().forward(*(a + b for a, b in zip(size, wrong, strict=True)))[0]
        off.append(enlarged(wrong_now))
    return sizes, off


def _growth(graph: Graph, device: torch.device) -> Tensor:
    """Return how large coefficients may get on their way from ones at the output, and through each op from ones.

    In float32 as well: what it is compared with leaves room for that.
    """
    output = graph.output
    ones = torch.ones(1, *output.shape, dtype=NARROW, device=device)
    found, pending = [ones.amax()], {output.index: ones}
    for node in reversed(graph.nodes[1:]):
        here = pending.pop(node.index, None)
        if here is None:
            continue
        assert isinstance(node.op, Affine)
        op = node.op.absolute().linear()
        found += [part.amax() for part in op.adjoint(torch.ones_like(here))]
        for i, part in zip(node.inputs, op.adjoint(here), strict=True):
            pending[i] = pending[i] + part if i in pending else part
            found.append(pending[i].amax())
    return torch.stack(found)
