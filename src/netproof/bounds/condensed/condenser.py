"""Condenses a network layer by layer: the forms of its unstable neurons, folded once in float64 with errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from netproof.bounds.condensed.network import Charges, Condensed, Trunk
from netproof.bounds.linear.coefficients import Coefficients
from netproof.bounds.linear.layers import Layer
from netproof.bounds.linear.lined_graph import LinedGraph
from netproof.bounds.linear.memory import climbs_that_fit, holds, places_that_fit
from netproof.bounds.windows.plan import walked
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.model.graph import Graph
from netproof.model.ops import Affine
from netproof.numerics import enlarged, few_roundings, rounding, up, vanishing, with_vanishing
from netproof.problem.problem import Rows


class Condenser:
    """Condenses a network layer by layer, as the root learns which of its neurons are unstable."""

    def __init__(self, proof: LinedGraph) -> None:
        self._proof = proof
        self._node = trunk_node(proof.graph)
        self._forms: list[Tensor] = []  # by layer (U_k, 1 + Y + its start)
        self._errors: list[Tensor] = []
        self._places: Tensor | None = None

    @property
    def places(self) -> Tensor:
        """Return (Y,) the entries of the trunk's node that anything reads, those that are unstable first."""
        if self._places is None:
            self._places = _trunk_places(self._proof, self._node)
        return self._places

    @property
    def fits(self) -> bool:
        """Say whether the matrix of all packed neurons there are, in both precisions, leaves room for the search."""
        each = torch.float32.itemsize + torch.float64.itemsize
        return holds(each * self._proof.count * self._columns, self.places.device)

    @property
    def work(self) -> int:
        """Return how many numbers it takes to carry all packed neurons back to those before them."""
        graph = self._proof.graph
        return sum(layer.count * walked(graph, layer.pre) for layer in self._proof.layers)

    def climbs_that_fit(self) -> int:
        """Return how many bounds of the condensed network may be climbed at once, before there is one."""
        return climbs_that_fit(self._proof.count, self._columns, self._trunk.entries, self.places.device)

    @property
    def _base(self) -> int:
        """Return how many columns come before those of neurons: 1, and the trunk's entries."""
        return 1 + len(self.places)

    @property
    def _columns(self) -> int:
        """Return how many columns a form has."""
        return self._base + self._proof.count

    @property
    def _trunk(self) -> Graph:
        """Return the graph up to the trunk's node."""
        return Graph(self._proof.graph.nodes[: self._node + 1])

    @property
    def _direct(self) -> bool:
        """Say whether the first layer reads the trunk's node itself."""
        layers = self._proof.layers
        return self._node != 0 and bool(layers) and layers[0].pre == self._node

    def neurons(self, pre: int, places: Tensor, deadline: Deadline | None = None) -> tuple[Tensor, Tensor]:
        """Return the forms (n, 1 + Y + U') and errors (n,) of h at `places` (n,) of node `pre`.

        Past the deadline raises DeadlineExpired.
        """
        graph, device = self._proof.graph, places.device
        parts = []
        for some in places.split(places_that_fit(graph, pre, device, torch.float64)):
            if deadline is not None:
                deadline.check()
            sign = torch.ones(len(some), dtype=torch.float64, device=device)
            parts.append(self.forms(pre, self._proof.begin_at(pre, some, sign)))
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    @torch.no_grad()
    def forms(self, start: int, coef: Coefficients) -> tuple[Tensor, Tensor]:
        """Return <coef, z_start> for coefficients of n forms as forms (n, 1 + Y + U') with errors (n,)."""
        proof, graph = self._proof, self._proof.graph
        lines = {n: proof.linear_part(n) for n in graph.nonlinear if n in graph.ancestors[start]}
        done = proof.back.walk(start, coef, lines, self._node, keep=True)
        assert done.error is not None
        const, count = done.const, len(done.const)
        none = const.new_zeros(count, len(self.places))
        parts = [const[:, None], none if done.at is None else done.at.take(self.places)]
        for layer in proof.layers:
            here, none = done.kept.get(layer.node), const.new_zeros(count, layer.count)
            parts.append(none if here is None else layer.in_first_slots(here.take(layer.outputs)))
        return torch.cat(parts, 1), done.error

    def add(self, forms: Tensor, errors: Tensor) -> None:
        """Take in the forms of the layer that `proof` has just taken in, and their errors (U_k,)."""
        self._forms.append(forms)
        self._errors.append(errors)

    def catch_up(self, deadline: Deadline | None = None) -> None:
        """Add the layers of `proof` that are not here yet; past the deadline raises DeadlineExpired."""
        for layer in self._proof.layers[len(self._forms) :]:
            if layer.start == 0 and self._direct:
                forms = torch.zeros(layer.count, self._base, dtype=torch.float64, device=layer.index.device)
                forms[:, 1 : 1 + layer.count].fill_diagonal_(1.0)
                self.add(forms, forms.new_zeros(layer.count))
            else:
                self.add(*self.neurons(layer.pre, layer.index, deadline))

    def condensed(self, intervals: Sequence[Interval], rows: Rows | None = None) -> Condensed:
        """Return the proof's copy, of the layers there are; with all of them there, of the property's rows too."""
        self.catch_up()
        proof, device = self._proof, self.places.device
        base, columns = self._base, self._columns
        matrix = torch.zeros(proof.count, columns, dtype=torch.float64, device=device)
        for layer, forms in zip(proof.layers, self._forms, strict=True):
            matrix[layer.packed, : base + layer.start] = forms[:, : base + layer.start]
        none = matrix.new_zeros(0, 1, columns), matrix.new_zeros(0, 1)
        out, error = none if rows is None else self._property(rows, intervals)
        at_centre = self._trunk.forward(proof.region.centre[None]).flatten()[self.places]
        trunk = Trunk(_linear_trunk(proof.graph, self._node), self._node, self.places, self._node == 0, at_centre)
        direct = proof.layers[0].count if self._direct else 0
        charges = self._charges(matrix, intervals)
        return Condensed(trunk, proof.region, list(proof.layers), matrix, out, error, direct, charges)

    def _property(self, rows: Rows, intervals: Sequence[Interval]) -> tuple[Tensor, Tensor]:
        """Return (target, row, columns) and errors (target, row) of r = coef·f(x) − offset."""
        graph = self._proof.graph
        flat = rows.coef.flatten(0, 1)
        forms, error = self.forms(
            graph.output.index, self._proof.begin(graph.output.index, flat.view(-1, *graph.output.shape))
        )
        offset = rows.offset.flatten()
        # A coefficient is rounded once as it is read, and the offset's subtraction once.
        size = flat.abs() @ intervals[-1].magnitude.flatten() + forms[:, 0].abs() + offset.abs()
        forms[:, 0] -= offset
        shape = rows.coef.shape[:2]
        return forms.view(*shape, -1), enlarged(error + rounding(size, 8)).view(shape)

    def _charges(self, matrix: Tensor, intervals: Sequence[Interval]) -> Charges:
        proof = self._proof
        trunk = intervals[self._node].magnitude.flatten()[self.places]
        h = [intervals[layer.pre].magnitude.flatten()[layer.index] for layer in proof.layers]
        z = [layer.in_first_slots(intervals[layer.node].magnitude.flatten()[layer.outputs]) for layer in proof.layers]
        empty = trunk.new_zeros(0)
        most, out = (torch.cat([empty, *parts]) for parts in (h, z))
        values = torch.cat([trunk.new_ones(1), trunk, out])
        # Every coefficient is one sum of at most U + 4 products, computed from those of the neurons after it.
        terms = len(most) + 16
        unit = rounding(1.0, terms)
        lines = [
            layer.in_first_slots(layer.relaxation.rounding(_at(intervals[layer.pre], layer.index), unit))
            for layer in proof.layers
        ]
        error = torch.cat([empty, *self._errors])
        # A bound of h that was rounded out of the subnormals is at most 1e-37 larger, see `numerics.float32_down`.
        most = most + 1e-37
        around = [_around(layer, intervals[layer.node]) for layer in proof.layers]
        # A split's multiplier is taken off the coefficient of h: some roundings of that beside those of the form.
        before = error + rounding(matrix.abs() @ values, terms) + few_roundings(most, 4)
        return Charges(
            forms=error,
            before=with_vanishing(enlarged(before)),
            after=with_vanishing(enlarged(torch.cat([empty, *lines]))),
            seed=enlarged(rounding(values, terms)),
            values=values,
            lost=vanishing(values.sum() + most.sum()),
            trunk=proof.back,
            read=most,
            middle=torch.cat([empty, *(side[0] for side in around)]),
            away=torch.cat([empty, *(side[1] for side in around)]),
        )


def _at(bounds: Interval, index: Tensor) -> Interval:
    return Interval(*(side.flatten()[index] for side in bounds))


def _around(layer: Layer, z: Interval) -> tuple[Tensor, Tensor]:
    """Return the middle of the bounds of a layer's outputs, and at least how far they are from it: (slots,) each."""
    lower, upper = _at(z, layer.outputs)
    middle = lower / 2 + upper / 2
    away = up(torch.maximum(upper - middle, middle - lower))
    return layer.in_first_slots(middle), layer.in_first_slots(away)


def search_copy(condensed: Condensed, search: LinedGraph) -> Condensed:
    """Return the same in float32."""
    trunk = condensed.trunk
    linear = _linear_trunk(search.graph, trunk.node)
    return Condensed(
        Trunk(linear, trunk.node, trunk.index, trunk.whole, trunk.centre.float()),
        search.region.about_centre(),
        list(search.layers),
        condensed.matrix.float(),
        condensed.rows.float(),
        condensed.error.float(),
        condensed.direct,
        None,
        search.region.centre,
    )


def trunk_node(graph: Graph) -> int:
    """Return what the first nonlinear node reads, where every way from the input leads through it; else the input."""
    if not graph.nonlinear:
        return 0
    pre = graph.nodes[graph.nonlinear[0]].inputs[0]
    before = graph.ancestors[pre]
    passes_by = any(
        node.index not in before and any(i in before and i != pre for i in node.inputs) for node in graph.nodes
    )
    return 0 if passes_by or 0 not in before else pre


def _trunk_places(proof: LinedGraph, node: int) -> Tensor:
    """Return the entries of the node that are not dead, the first layer's own first; of the input, all."""
    graph = proof.graph
    size, device = graph.nodes[node].size, proof.region.centre.device
    everything = torch.arange(size, device=device)
    if node == 0:
        return everything
    readers = [n.index for n in graph.nodes if node in n.inputs]
    own = proof.layers[0].index if proof.layers and proof.layers[0].pre == node else everything[:0]
    used = torch.ones(size, dtype=torch.bool, device=device)
    if readers == [graph.nonlinear[0]]:
        used = proof.linear_part(readers[0]).upper_slope.flatten() != 0
    used[own] = False
    return torch.cat([own, used.nonzero()[:, 0]])


def _linear_trunk(graph: Graph, node: int) -> Graph:
    """Return the ops up to `node` without their constants."""
    return Graph(
        tuple(replace(n, op=n.op.linear()) if isinstance(n.op, Affine) else n for n in graph.nodes[: node + 1])
    )
