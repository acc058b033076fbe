"""A network relaxed over the root's input set: everything a backward pass needs, in one precision.

Two copies exist: float32 to search with, float64 with rounding charged to prove with. They share the packing of the
unstable neurons, so the slopes found by one are evaluated by the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from netproof.bounds.linear.backward import Backward, Charge
from netproof.bounds.linear.coefficients import Coefficients, Dense
from netproof.bounds.linear.layers import Layer
from netproof.bounds.linear.memory import rows_that_fit
from netproof.bounds.linear.region import Region
from netproof.bounds.windows.plan import FEW, dense_walk, windows_pay
from netproof.bounds.windows.windowed import Windowed
from netproof.core.forms import Interval
from netproof.model.graph import Graph, Node
from netproof.model.ops import Nonlinear
from netproof.numerics import rounding, with_vanishing
from netproof.relax import Lines, relaxation_of


@dataclass(eq=False)
class LinedGraph:
    graph: Graph
    region: Region
    charge: Charge | None  # None: a search copy; not None: proofs
    free_splits: bool = False  # whether lower lines keep their slopes where a split holds h on one side
    layers: list[Layer] = field(default_factory=list)
    _stable: dict[int, Lines] = field(default_factory=dict)  # where g is linear, (slots,); anything elsewhere
    _layer_of: dict[int, int] = field(default_factory=dict)

    @cached_property
    def back(self) -> Backward:
        """Return what carries forms back through this graph, rounding charged in proofs."""
        return Backward(self.graph, self.charge)

    @property
    def dtype(self) -> torch.dtype:
        return self.region.centre.dtype

    def add(self, node: int, pre: int, bounds: Interval) -> None:
        """Register a nonlinear node of a graph to prove with, by confirmed root bounds of its input, in that shape."""
        assert self.charge is not None
        relaxation = relaxation_of(self.graph.nodes[node].op)
        bounds = bounds.flat
        lines = relaxation.family(bounds, proof=True).at(relaxation.initial(bounds))
        _refuse_crossing(self.graph.nodes[node], relaxation.arity, bounds, lines)
        unstable = relaxation.unstable(bounds) | _are_two(bounds, lines)
        if relaxation.arity > 1:
            unstable = unstable.view(relaxation.arity, -1)
            unstable = unstable.any(0).expand_as(unstable).flatten()
        index = unstable.nonzero()[:, 0]
        packed = relaxation.with_free_splits() if self.free_splits else relaxation
        self._take(node, lines, Layer(node, pre, index, self.count, packed) if len(index) else None)

    def add_as(self, proof: LinedGraph, node: int) -> None:
        """Register a node as the graph to prove with has it: both must fold the same neurons, one line bit for bit."""
        lines = Lines(*(None if t is None else t.to(self.dtype) for t in proof._stable[node]))  # type: ignore[arg-type]
        layer = proof._layer_of.get(node)
        self._take(node, lines, None if layer is None else proof.layers[layer])

    def _take(self, node: int, lines: Lines, layer: Layer | None) -> None:
        self._stable[node] = lines
        if layer is not None:
            self._layer_of[node] = len(self.layers)
            self.layers.append(layer)

    @property
    def count(self) -> int:
        """Return U: how many slots of neurons are unstable at the root."""
        return self.layers[-1].packed.stop if self.layers else 0

    def linear_part(self, node: int) -> Lines:
        """Return g where it is linear on the whole input set, as both lines, and 0 at the other neurons: (*node)."""
        stable = self._stable[node]
        slope, intercept = stable.upper_slope, stable.upper_intercept
        if node in self._layer_of:
            index = self.layers[self._layer_of[node]].index
            slope, intercept = (t.index_fill(0, index, 0.0) for t in (slope, intercept))
        return shaped(
            self.graph.nodes[node],
            Lines(slope, slope, intercept, None if stable.lower_intercept is None else intercept),
        )

    def begin(self, start: int, coef: Tensor) -> Coefficients:
        """Return coefficients (*lead, *node) of node `start`, whatever they are."""
        return Dense(coef, len(self.graph.nodes[start].shape))

    def begin_at(self, start: int, places: Tensor, signs: Tensor, *, narrow: bool = False) -> Coefficients:
        """Return numbers (n,) at places (n,) of the flattened node `start`: windows, where walks gain by them.

        narrow: also where dense ones would be quicker.
        """
        shape = self.graph.nodes[start].shape
        if windows_pay(self.graph, start) and (narrow or not self._are_few(start, places)):
            return Windowed.at(places, signs, shape)
        return Dense(one_hot(places, signs, shape), len(shape))

    def _are_few(self, start: int, places: Tensor) -> bool:
        """Say whether dense walks from places (n,) take less time than the launches of windows, and fit."""
        count, device = len(places), places.device
        if count * dense_walk(self.graph, start) > FEW[device.type]:
            return False
        return count <= rows_that_fit(self.graph, start, device, self.dtype, grad=False)

    def spread(self, layer: Layer, lines: Lines) -> Lines:
        """Return the lines (n, U_k) of a layer's neurons among the linear ones of its node: (n, *node) each."""
        node, stable = self.graph.nodes[layer.node], self._stable[layer.node]
        size, pairs = self.graph.nodes[layer.pre].size, zip(lines, stable, strict=True)
        return shaped(
            node,
            Lines(*(None if own is None else _among(own, rest, layer.index, size) for own, rest in pairs)),  # type: ignore[arg-type]
        )


def _are_two(bounds: Interval, lines: Lines) -> Tensor:
    """Say where the two lines are not the same: whatever a relaxation calls linear, there it is not folded."""
    below = 0.0 if lines.lower_intercept is None else lines.lower_intercept
    same = (lines.lower_slope == lines.upper_slope) & (lines.upper_intercept == below)
    return ~same & (bounds.lower <= bounds.upper)


def _refuse_crossing(node: Node, arity: int, bounds: Interval, lines: Lines) -> None:
    """Raise where the lower line is above the upper one: a relaxation that is wrong must not prove anything."""
    offset = lines.upper_intercept - (0.0 if lines.lower_intercept is None else lines.lower_intercept)
    slopes = lines.lower_slope.abs() + lines.upper_slope.abs()
    size = slopes * bounds.magnitude + lines.upper_intercept.abs() + offset.abs()
    apart = torch.minimum(*((lines.upper_slope - lines.lower_slope) * end for end in bounds)) + offset
    real = bounds.lower <= bounds.upper
    apart, size, real = (t.view(arity, -1) for t in (apart, size, real))
    if bool(((apart.sum(0) < -with_vanishing(rounding(size.sum(0), 16 + arity))) & real.all(0)).any()):
        raise RuntimeError(f"node {node.name!r}: the lower line of {type(node.op).__name__} is above its upper one")


def shaped(node: Node, lines: Lines) -> Lines:
    """Return lines (*lead, slots) in the shape of their node: (*lead, *node), slopes with the operands before."""
    assert isinstance(node.op, Nonlinear)
    operands = (node.op.arity,) if node.op.arity > 1 else ()
    slopes = (t.unflatten(-1, (*operands, *node.shape)) for t in lines[:2])
    intercepts = (None if t is None else t[..., : node.size].unflatten(-1, node.shape) for t in lines[2:])
    return Lines(*slopes, *intercepts)


def _among(packed: Tensor, stable: Tensor | None, index: Tensor, size: int) -> Tensor:
    """Put (n, U_k) at `index` among what all slots have (size,), None for 0: (n, size)."""
    rest = packed.new_zeros(size) if stable is None else stable
    return rest.expand(len(packed), -1).index_copy(1, index, packed)


def one_hot(places: Tensor, signs: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Put values (*lead) at positions (*lead) of a flattened node, with 0 elsewhere: (*lead, *node)."""
    coef = torch.zeros(*places.shape, math.prod(shape), device=signs.device, dtype=signs.dtype)
    coef.scatter_(-1, places[..., None], signs.expand(places.shape)[..., None])
    return coef.view(*places.shape, *shape)
