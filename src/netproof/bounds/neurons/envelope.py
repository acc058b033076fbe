"""A network with its smooth nonlinearities enclosed once and for all, so that hinges alone are left to split.

On the bounds that a root has of h, every g(h) other than a hinge lies between two parallel planes:

    g(h) = s·h + e,   e in [low, high].

Which, is said by a bound of the whole set: one of the two is the line that it rests on, so that it loses nothing.
So at every x there is an e at which the enveloped network, with s·h + e in place of g(h), has the values of the real
one: what holds for all x and e of a box holds for the network. e is more input, and all that is left is affine or a
hinge. What a search of it pays for, then, are the hinges, however many products and exponentials lie between them; and
it has the condensed form and the tighter roots of such networks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netproof.bounds.linear.interval import Intervals, interval_bounds
from netproof.bounds.linear.region import Region
from netproof.bounds.neurons.root import Root
from netproof.core.forms import Interval
from netproof.model.affine import Scale, Sum
from netproof.model.graph import Graph, Node, append
from netproof.model.moves import Index, Reshape, SumAxes
from netproof.model.ops import Input, Nonlinear
from netproof.numerics import rounding, with_vanishing
from netproof.problem.problem import InputSet, Problem
from netproof.relax import Relaxation, relaxation_of
from netproof.relax.hinge import HingeRelaxation
from netproof.relax.parallel import Parallel, parallel_planes


@dataclass(frozen=True, eq=False)
class Enveloped:
    """The problem of the enveloped network, with every input first and then the e of all nodes, as one vector."""

    problem: Problem
    # Bounds of its nodes, float64, on the root's device: at every x with the e that makes it the network, which is all
    # that a proof is about, and not at every e of the box.
    known: Intervals
    inputs: tuple[int, ...]  # the shape of the network's own input

    def points(self, points: Tensor) -> Tensor:
        """Return the network's own part of inputs (n, entries): (n, *input)."""
        return points[:, : torch.Size(self.inputs).numel()].reshape(-1, *self.inputs)


def can_be_enveloped(graph: Graph) -> bool:
    """Say whether the network has hinges, and something else that is not linear."""
    kinds = {_is_enveloped(graph.nodes[i]) for i in graph.nonlinear}
    return kinds == {False, True}


def enveloped(root: Root, slopes: Tensor, coef: Tensor) -> Enveloped:
    """Envelop a network on the bounds of a root, whose input set is a box.

    slopes, coef (U,): what a bound of the whole set was got with, and the coefficients of the packed neurons in it.
    """
    problem, graph = root.problem, root.problem.graph
    nodes = [graph.nodes[i] for i in graph.nonlinear]
    planes = {node.index: _planes(root, node, slopes, coef) for node in nodes if _is_enveloped(node)}
    noise = _Noise(graph, planes)
    built = _Builder(graph, noise.count)
    for node in graph.nodes[1:]:
        built.take(node, planes.get(node.index))
        if node.index in noise.at:
            built.add_noise(node, *noise.at[node.index])
    inputs = problem.input_set
    sides = (inputs.lower, [box.lower for box in noise.boxes]), (inputs.upper, [box.upper for box in noise.boxes])
    lower, upper = (torch.cat([own.flatten(), *(side.flatten() for side in rest)]) for own, rest in sides)
    new = replace(problem, graph=Graph(tuple(built.nodes)), input_set=InputSet(lower, upper))
    device = root.device
    known = interval_bounds(new.graph.to(device, torch.float64), Region.of(new.input_set, device, torch.float64))
    for pre in (graph.nodes[i].inputs[0] for i in graph.nonlinear if i not in planes):
        known.tighten(built.now[pre], root.intervals.of[pre])
    return Enveloped(new, known, graph.input.shape)


def share_of_others(root: Root, lost: Tensor) -> float:
    """Return what share of the losses (U,) of neurons is not of hinges: none of it goes by splitting these alone."""
    hinges = sum(float(lost[layer.packed].sum()) for layer in root.layers if _is_hinge(layer.relaxation))
    others = sum(
        float(lost[layer.packed].sum()) / layer.arity for layer in root.layers if not _is_hinge(layer.relaxation)
    )
    return others / max(hinges + others, 1e-30)


def _is_hinge(relaxation: Relaxation) -> bool:
    return isinstance(relaxation, HingeRelaxation)


def _is_enveloped(node: Node) -> bool:
    return isinstance(node.op, Nonlinear) and not _is_hinge(relaxation_of(node.op))


def _planes(root: Root, node: Node, slopes: Tensor, coef: Tensor) -> Parallel:
    """Return parallel planes about a node on the root's bounds: slopes (*pre), which is (arity, *node), and (*node)."""
    (pre,), relaxation = node.inputs, relaxation_of(node.op)
    h = root.intervals.of[pre].flat
    t, falls = relaxation.initial(h), torch.zeros(node.size, dtype=torch.bool, device=root.device)
    for layer in root.layers:
        if layer.node == node.index:
            t[layer.index] = slopes[layer.packed].to(t).clamp(0.0, 1.0)
            falls[layer.outputs] = coef[layer.packed][: len(layer.outputs)] < 0
    found = parallel_planes(relaxation, h, t, falls)
    shapes = root.problem.graph.nodes[pre].shape, node.shape, node.shape
    return Parallel(*(t.view(shape).cpu() for t, shape in zip(found, shapes, strict=True)))


class _Noise:
    """The boxes of e and where each is added: after the node, or after the sum that alone reads it."""

    def __init__(self, graph: Graph, planes: dict[int, Parallel]) -> None:
        self.at: dict[int, tuple[int, int]] = {}  # by node: the first entry and how many
        self.boxes: list[Interval] = []
        self.count = 0
        for index, plane in planes.items():
            readers = [node for node in graph.nodes if index in node.inputs]
            place, box = graph.nodes[index], Interval(plane.low, plane.high)
            if len(readers) == 1 and isinstance(readers[0].op, SumAxes):
                place = readers[0]
                box = _summed(readers[0].op, box)
            self.at[place.index] = self.count, place.size
            self.boxes.append(box)
            self.count += place.size


def _summed(op: SumAxes, box: Interval) -> Interval:
    """Return the bounds of sums of entries, rounded outward."""
    lower, upper = (op.forward(side[None])[0] for side in box)
    slack = with_vanishing(rounding(op.forward(box.magnitude[None])[0], op.fan + 8), op.fan)
    return Interval(lower - slack, upper + slack)


class _Builder:
    """Writes the enveloped graph, node by node of the one it is made of."""

    def __init__(self, graph: Graph, noise: int) -> None:
        given = graph.input
        self._entries, self._first = given.size + noise, given.size
        self.nodes = [Node(0, Input(), (), (self._entries,), given.name)]
        self.now = {0: self._taken(0, given.size, given.shape, given.name)}  # by old index

    def take(self, node: Node, planes: Parallel | None) -> None:
        """Add a node as it is, or s·h where it has planes."""
        if planes is None:
            self.now[node.index] = append(
                self.nodes, node.op, tuple(self.now[i] for i in node.inputs), node.shape, node.name
            )
            return
        assert isinstance(node.op, Nonlinear)
        read, shape = self.now[node.inputs[0]], tuple(planes.slope.shape)
        at = append(self.nodes, Scale(planes.slope), (read,), shape, node.name)
        if node.op.arity > 1:
            at = append(self.nodes, SumAxes(shape, (0,)), (at,), (1, *shape[1:]), node.name)
            at = append(self.nodes, Reshape((1, *shape[1:]), node.shape), (at,), node.shape, node.name)
        self.now[node.index] = at

    def add_noise(self, node: Node, first: int, count: int) -> None:
        """Add `count` entries of e, from the `first` on, to what stands for a node."""
        noise = self._taken(self._first + first, count, node.shape, node.name)
        self.now[node.index] = append(self.nodes, Sum((1, 1)), (self.now[node.index], noise), node.shape, node.name)

    def _taken(self, first: int, count: int, shape: tuple[int, ...], name: str) -> int:
        """Add entries of the input, as a node of this shape."""
        some = append(self.nodes, Index(0, torch.arange(first, first + count), self._entries), (0,), (count,), name)
        return append(self.nodes, Reshape((count,), shape), (some,), shape, name)
