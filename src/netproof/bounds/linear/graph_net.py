"""The graph itself as a `Net`: for networks of any size, and for neurons before there is a condensed network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from netproof.bounds.linear.layers import Layer
from netproof.bounds.linear.lined_graph import LinedGraph, one_hot
from netproof.bounds.linear.memory import graph_climbs_that_fit
from netproof.bounds.linear.region import Region
from netproof.bounds.net import Forwarded, Net, Pulled
from netproof.bounds.packed import Lagrangian
from netproof.model.graph import Graph
from netproof.model.ops import Nonlinear
from netproof.numerics import enlarged_rounding, rounding, vanishing
from netproof.problem.problem import Rows
from netproof.relax import Lines


@dataclass(frozen=True, eq=False)
class GraphNet(Net):
    """Columns of every form: 1, then the values of node `start`."""

    lined: LinedGraph
    layers: Sequence[Layer]  # of the nodes before; where `start` does not depend on one, its splits go unused
    start: int
    rows: Tensor
    error: Tensor

    @classmethod
    def before(cls, lined: LinedGraph, start: int) -> GraphNet:
        """Return the network up to node `start`, as far as its layers are known, without rows."""
        centre = lined.region.centre
        rows = centre.new_zeros(0, 1, 1 + lined.graph.nodes[start].size)
        return cls(lined, list(lined.layers), start, rows, rows[:, :, 0])

    @classmethod
    def whole(cls, lined: LinedGraph, rows: Rows) -> GraphNet:
        """Return the whole network with the rows r = coef·f(x) − offset of a property."""
        net = cls.before(lined, lined.graph.output.index)
        coef, offset = rows.coef.to(lined.dtype), rows.offset.to(lined.dtype)
        error = torch.zeros_like(offset)
        if lined.charge is not None:  # a coefficient is rounded once as it is read
            sizes = lined.charge.magnitude[-1].flatten()
            error = enlarged_rounding(coef.abs() @ sizes + offset.abs(), 4)
        return net.with_rows(torch.cat([-offset[..., None], coef], 2), error)

    @property
    def graph(self) -> Graph:
        return self.lined.graph

    @property
    def region(self) -> Region:  # type: ignore[override]
        return self.lined.region

    @property
    def proof(self) -> bool:
        return self.lined.charge is not None

    def upto(self, depth: int) -> GraphNet:
        """Return the network before layer `depth`."""
        return replace(GraphNet.before(self.lined, self.layers[depth].pre), layers=self.layers[:depth])

    def neurons(self, depth: int, which: Tensor) -> tuple[Tensor, Tensor]:
        """Return neurons' h as forms that are exact: one 1 each."""
        layer = self.layers[depth]
        return self.at_places(layer.pre, layer.index[which])

    def at_places(self, pre: int, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values at `places` (n,) of the flattened node `pre` as forms (n, columns), and their errors."""
        signs = torch.ones(places.shape, dtype=self.dtype, device=places.device)
        coef = one_hot(places, signs, (self.graph.nodes[pre].size,))
        return torch.nn.functional.pad(coef, (1, 0)), torch.zeros_like(signs)

    def with_rows(self, rows: Tensor, error: Tensor) -> GraphNet:
        """Return the same with other forms to bound."""
        return replace(self, rows=rows, error=error)

    def mixing(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the weight of |form| in the rounding of a mix of forms, and what underflow may cost."""
        assert self.lined.charge is not None
        values = torch.nn.functional.pad(self.lined.charge.magnitude[self.start].flatten(), (1, 0), value=1.0)
        return enlarged_rounding(values, count + 8), vanishing(values.sum())

    def climbs_that_fit(self) -> int:
        """Return how many bounds may be climbed at once: coefficients and lines of every node of each."""
        return graph_climbs_that_fit(self.graph, self.start, self.region.centre.device)

    def backward(self, seed: Tensor, relaxed: Lagrangian) -> Pulled:
        """Bound each form of seed (domain, columns) from below, by the one engine of backward passes."""
        lines, signed, offset, region, _ = relaxed
        coef = seed[:, 1:].reshape(-1, *self.graph.nodes[self.start].shape)
        if self._unread is not None:  # a walk does not come by these, so what their splits give must not count
            signed, offset = (None if t is None else t.masked_fill(self._unread, 0.0) for t in (signed, offset))
        spread = _ByNode(self, lines)
        taken = None if signed is None else _Taken(self, signed)
        begin = self.lined.begin(self.start, coef)
        done = self.lined.back.walk(self.start, begin, spread, 0, taken=taken, keep=True)
        form = self.lined.back.over_input(done)
        kept = [layer for layer in self.layers if layer.node in done.kept]
        read = {layer.node: layer.in_all_slots(done.kept[layer.node].take(layer.outputs)) for layer in kept}
        after = self._packed(read, len(seed))
        before = after * torch.where(after < 0, lines.upper_slope, lines.lower_slope)
        over = region or self.region
        least, const = over.least(form), seed[:, 0]
        if signed is not None:
            before = before - signed
        if offset is not None:
            const = const + offset.sum(1)
        value = const + least
        if self.proof:
            value = value - rounding(seed[:, 0].abs() + least.abs(), 8)
            if offset is not None:  # one rounding of each product, and those of their sum
                value = value - rounding(offset.abs().sum(1), self.count + 16)
        return Pulled(value, after, before, form.coef, over, lines)

    @torch.no_grad()
    def least_at(self, places: Tensor, signs: Tensor, lines: Mapping[int, Lines]) -> Tensor:
        """Bound sign·h at places (n,) of node `start` from below: (n,), rounding taken off in a proof.

        signs (n,): ±1. lines: as `spread` gives them.
        """
        begin = self.lined.begin_at(self.start, places, signs.to(self.dtype))
        least = self.lined.back.least(self.region, self.lined.back.walk(self.start, begin, lines, 0))
        return least - rounding(least.abs(), 8) if self.proof else least

    def spread(self, lines: Lines) -> dict[int, Lines]:
        """Return the lines (1, U) of the packed neurons by node, among those of the linear ones."""
        every = _ByNode(self, lines)
        return {i: every[i] for i in self.graph.nonlinear if i in self.graph.ancestors[self.start] and i <= self.start}

    @cached_property
    def by_node(self) -> dict[int, Layer]:
        """Return the layers by the nonlinear nodes that they are of."""
        return {layer.node: layer for layer in self.layers}

    @cached_property
    def _unread(self) -> Tensor | None:
        """Return (U,) bool: the packed neurons that node `start` does not depend on; None where there are none."""
        before = self.graph.ancestors[self.start]
        parts = [torch.full_like(layer.index, layer.node not in before, dtype=torch.bool) for layer in self.layers]
        return torch.cat(parts) if any(layer.node not in before for layer in self.layers) else None

    def _packed(self, by_node: Mapping[int, Tensor], count: int) -> Tensor:
        """Join the layers' numbers (domain, U_k), by node: (domain, U); 0 where a node has none."""
        nothing = self.region.centre.new_zeros(count, 0)
        parts = (by_node.get(layer.node, nothing.new_zeros(count, layer.count)) for layer in self.layers)
        return torch.cat([nothing, *parts], 1)

    def forward(self, pulled: Pulled) -> Forwarded:
        """Evaluate the relaxed network at the minimiser."""
        slope, lift = pulled.line
        spread = _ByNode(self, Lines(slope, slope, lift))
        point = pulled.region.minimiser(pulled.at_input)
        values: dict[int, Tensor] = {}
        for node in self.graph.nodes[: self.start + 1]:
            if node.index not in self.graph.ancestors[self.start]:
                continue
            if isinstance(node.op, Nonlinear):
                line, h = spread[node.index], values[node.inputs[0]]
                if node.op.arity > 1:
                    values[node.index] = line.upper_intercept + (line.upper_slope * h).sum(1)
                else:
                    values[node.index] = torch.addcmul(line.upper_intercept, line.upper_slope, h)
            else:
                values[node.index] = node.op.forward(*(values[i] for i in node.inputs)) if node.inputs else point
        layers = [layer for layer in self.layers if layer.pre in values]
        read = {layer.node: values[layer.pre].flatten(1)[:, layer.index] for layer in layers}
        last = values[self.start].flatten(1)
        return Forwarded(self._packed(read, len(last)), torch.nn.functional.pad(last, (1, 0), value=1.0))


class _ByNode(Mapping[int, Lines]):
    """Lines of packed neurons as the engine wants them, made one node at a time: all at once would take much memory."""

    def __init__(self, net: GraphNet, lines: Lines) -> None:
        self._net, self._lines = net, lines

    def __getitem__(self, node: int) -> Lines:
        layer = self._net.by_node.get(node)
        if layer is None:
            return self._net.lined.linear_part(node)
        mine = Lines(*(None if t is None else t[:, layer.packed] for t in self._lines))  # type: ignore[arg-type]
        return self._net.lined.spread(layer, mine)

    def __iter__(self) -> Iterator[int]:
        return iter(self._net.graph.nonlinear)

    def __len__(self) -> int:
        return len(self._net.graph.nonlinear)


class _Taken(Mapping[int, Tensor]):
    """What splits take off the coefficients of a node's h, by nonlinear node."""

    def __init__(self, net: GraphNet, signed: Tensor) -> None:
        self._net, self._signed = net, signed

    def __getitem__(self, node: int) -> Tensor:
        layer = self._net.by_node[node]
        read = self._net.graph.nodes[layer.pre]
        dense = self._signed.new_zeros(len(self._signed), read.size)
        return dense.index_copy_(1, layer.index, self._signed[:, layer.packed]).view(-1, *read.shape)

    def __iter__(self) -> Iterator[int]:
        return iter(self._net.by_node)

    def __len__(self) -> int:
        return len(self._net.by_node)
