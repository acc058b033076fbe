"""The network condensed to its unstable neurons: every way between them that is linear on the whole input set, folded.

A neuron whose sign is known is linear, so what an unstable neuron reads is an affine form of the unstable neurons
before it and of the input:

    h_k = M_k · v + b_k,   v = (1, y, z_1, …, z_{k−1}),   z_j = g(h_j).

y = W x is what the network sees of its input: the pre-activations of the first nonlinear node (the trunk), or the input
itself where some way passes that node by. A backward bound of a sub-domain is then one matrix product a layer over
some hundred neurons, instead of a convolution over thousands, and so is its gradient.

The forms are computed once, in float64, by the one engine with rounding charged. The rounded coefficients are taken as
exact; `error` is what the exact neuron may differ by on the input set. So a bound of the condensed network, less what
`Charges` says, is a bound of the real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from netproof.bounds.linear.backward import Charge, backward, walk
from netproof.bounds.linear.lined_graph import Layer, LinedGraph, alike, one_hot
from netproof.bounds.linear.memory import climbs_that_fit, rows_that_fit
from netproof.bounds.linear.region import Region
from netproof.core.forms import Interval, LinearForm
from netproof.model.graph import Graph
from netproof.model.ops import Affine
from netproof.numerics import INFLATE, UNDERFLOW, UNIT, gamma, underflow
from netproof.problem.problem import Rows
from netproof.relax import Relaxation


@dataclass(frozen=True, eq=False)
class Trunk:
    """The affine start of the network, x -> y = W (x − centre) + y(centre)."""

    graph: Graph  # the ops up to `node`, linear
    node: int
    index: Tensor  # (Y,) the entries of the flattened node that are kept
    whole: bool  # all of them, in their order
    centre: Tensor  # (Y,): y at the centre of the input set

    @property
    def count(self) -> int:
        return self.index.shape[0]

    def spread(self, coef: Tensor) -> Tensor:
        """(n, Y) -> (n, *node), 0 elsewhere."""
        node = self.graph.nodes[self.node]
        if self.whole:
            return coef.reshape(-1, *node.shape)
        dense = coef.new_zeros(coef.shape[0], node.size)
        return dense.index_copy_(1, self.index, coef).view(-1, *node.shape)

    @cached_property
    def _chain(self) -> list[Affine] | None:
        """The ops one after the other, where each reads only the one before: then a walk needs no bookkeeping."""
        nodes = self.graph.nodes[1 : self.node + 1]
        if any(node.inputs != (node.index - 1,) for node in nodes):
            return None
        return [node.op for node in nodes if isinstance(node.op, Affine)]

    def pull(self, coef: Tensor) -> Tensor:
        """W^T coef: (n, Y) -> (n, *input)."""
        here = self.spread(coef)
        if self._chain is None:
            return backward(self.graph, self.node, here, {}).coef
        for op in reversed(self._chain):
            (here,) = op.adjoint(here)
        return here

    def push(self, shift: Tensor) -> Tensor:
        """y at x = centre + shift: (n, *input) -> (n, Y)."""
        value = self.graph.forward(shift) if self._chain is None else shift
        for op in self._chain or ():
            value = op.forward(value)
        value = value.flatten(1)
        return (value if self.whole else value.index_select(1, self.index)) + self.centre


@dataclass(frozen=True, eq=False)
class Charges:
    """The weights of |coefficient| in the rounding error of a condensed bound, float64."""

    forms: Tensor  # (U,): what a neuron's own form may be off by
    before: Tensor  # (U,) of the coefficient of h
    after: Tensor  # (U,) of the coefficient of z
    seed: Tensor  # (1 + Y + U,) of the form that a bound starts from
    lost: Tensor  # (): what underflow may cost, whatever the coefficients
    trunk: Charge
    graph: Graph  # with constants, for the trunk's own pass


@dataclass(frozen=True, eq=False)
class Condensed:
    """In one precision. Columns of every form: 1, then y, then z of the packed neurons."""

    trunk: Trunk
    region: Region  # in the search shifted to centre 0
    layers: list[Layer]
    matrix: Tensor  # (U, 1 + Y + U), zero from each layer's own columns on
    rows: Tensor  # (target, row, 1 + Y + U): the property's rows
    error: Tensor  # (target, row)
    direct: int  # so many of the first neurons read y itself, the first so many entries of it
    charges: Charges | None  # None: a search copy

    @property
    def count(self) -> int:
        return self.matrix.shape[0]

    @property
    def base(self) -> int:
        """1 + Y: where the columns of z begin."""
        return 1 + self.trunk.count

    @cached_property
    def sizes(self) -> list[int]:
        """U_k of each layer."""
        return [layer.count for layer in self.layers]

    @cached_property
    def onto(self) -> list[Tensor]:
        """By layer (later neurons, U_k): how the neurons after it read it."""
        base = self.base
        ends = [(layer.packed.start, layer.packed.stop) for layer in self.layers]
        return [self.matrix[stop:, base + start : base + stop] for start, stop in ends]

    @cached_property
    def from_before(self) -> list[Tensor]:
        """By layer (1 + Y + its start, U_k): what it reads."""
        return [self.matrix[layer.packed, : self.base + layer.start].mT for layer in self.layers]

    @cached_property
    def onto_base(self) -> Tensor:
        """(U − direct, 1 + Y): how the neurons read y, those apart that read one entry of it each."""
        return self.matrix[self.direct :, : self.base]

    def climbs_that_fit(self) -> int:
        """How many bounds may be climbed at once."""
        trunk = self.trunk.graph.entries
        return climbs_that_fit(self.count, self.base + self.count, trunk, self.matrix.device)

    @property
    def alike(self) -> list[tuple[Relaxation, slice]]:
        """Runs of neurons with the same nonlinearity, and where they are packed."""
        return alike(self.layers)

    def upto(self, depth: int) -> Condensed:
        """The first `depth` layers, without rows."""
        count = self.layers[depth].start if depth < len(self.layers) else self.count
        charges = self.charges
        if charges is not None:
            seed = charges.seed[: self.base + count]
            charges = replace(
                charges,
                forms=charges.forms[:count],
                before=charges.before[:count],
                after=charges.after[:count],
                seed=seed,
            )
        return replace(
            self,
            layers=self.layers[:depth],
            matrix=self.matrix[:count, : self.base + count],
            rows=self.rows[:0, :, : self.base + count],
            error=self.error[:0],
            direct=min(self.direct, count),
            charges=charges,
        )


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
        """(Y,) the entries of the trunk's node that anything reads, those that are unstable first."""
        if self._places is None:
            self._places = _trunk_places(self._proof, self._node)
        return self._places

    @property
    def _direct(self) -> bool:
        """Whether the first layer reads the trunk's node itself."""
        layers = self._proof.layers
        return self._node != 0 and bool(layers) and layers[0].pre == self._node

    def neurons(self, pre: int, places: Tensor) -> tuple[Tensor, Tensor]:
        """The forms (n, 1 + Y + U') and errors (n,) of h at `places` (n,) of node `pre`."""
        graph, device = self._proof.graph, places.device
        parts = []
        for some in places.split(rows_that_fit(graph, pre, device, torch.float64, grad=False)):
            sign = torch.ones(len(some), dtype=torch.float64, device=device)
            parts.append(self.forms(pre, one_hot(some, sign, graph.nodes[pre].shape)))
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    @torch.no_grad()
    def forms(self, start: int, coef: Tensor) -> tuple[Tensor, Tensor]:
        """<coef, z_start> for coef (n, *node) as forms (n, 1 + Y + U') with errors (n,)."""
        proof, graph = self._proof, self._proof.graph
        keep: dict[int, Tensor] = {}
        lines = {n: proof.linear_part(n) for n in graph.nonlinear if n in graph.ancestors[start]}
        done = walk(graph, start, coef, lines, self._node, charge=proof.charge, keep=keep)
        assert done.error is not None
        parts = [done.const[:, None], done.at.flatten(1)[:, self.places]]
        for layer in proof.layers:
            if layer.node in keep:
                parts.append(keep[layer.node].flatten(1)[:, layer.index])
            else:
                parts.append(coef.new_zeros(len(coef), layer.count))
        return torch.cat(parts, 1), done.error

    def add(self, forms: Tensor, errors: Tensor) -> None:
        """The forms of the layer that `proof` has just taken in, and their errors (U_k,)."""
        self._forms.append(forms)
        self._errors.append(errors)

    def catch_up(self) -> None:
        """Add the layers of `proof` that are not here yet."""
        for layer in self._proof.layers[len(self._forms) :]:
            if layer.start == 0 and self._direct:
                forms = torch.zeros(layer.count, 1 + len(self.places), dtype=torch.float64, device=layer.index.device)
                forms[:, 1 : 1 + layer.count].fill_diagonal_(1.0)
                self.add(forms, forms.new_zeros(layer.count))
            else:
                self.add(*self.neurons(layer.pre, layer.index))

    def condensed(self, intervals: Sequence[Interval], rows: Rows | None = None) -> Condensed:
        """The proof's copy, of the layers there are; with all of them there, of the property's rows too."""
        self.catch_up()
        proof, device = self._proof, self.places.device
        base, count = 1 + len(self.places), proof.count
        matrix = torch.zeros(count, base + count, dtype=torch.float64, device=device)
        for layer, forms in zip(proof.layers, self._forms, strict=True):
            matrix[layer.packed, : base + layer.start] = forms[:, : base + layer.start]
        none = matrix.new_zeros(0, 1, base + count), matrix.new_zeros(0, 1)
        out, error = none if rows is None else self._property(rows, intervals)
        start = Graph(proof.graph.nodes[: self._node + 1])
        at_centre = start.forward(proof.region.centre[None]).flatten()[self.places]
        trunk = Trunk(_linear_trunk(proof.graph, self._node), self._node, self.places, self._node == 0, at_centre)
        direct = proof.layers[0].count if self._direct else 0
        charges = self._charges(matrix, intervals)
        return Condensed(trunk, proof.region, list(proof.layers), matrix, out, error, direct, charges)

    def _property(self, rows: Rows, intervals: Sequence[Interval]) -> tuple[Tensor, Tensor]:
        """(target, row, columns) and errors (target, row) of r = coef·f(x) − offset."""
        graph = self._proof.graph
        flat = rows.coef.flatten(0, 1)
        forms, error = self.forms(graph.output.index, flat.view(-1, *graph.output.shape))
        offset = rows.offset.flatten()
        # A coefficient is rounded once as it is read, and the offset's subtraction once.
        size = flat.abs() @ intervals[-1].magnitude.flatten() + forms[:, 0].abs() + offset.abs()
        forms[:, 0] -= offset
        shape = rows.coef.shape[:2]
        return forms.view(*shape, -1), ((error + gamma(8) * size) * INFLATE).view(shape)

    def _charges(self, matrix: Tensor, intervals: Sequence[Interval]) -> Charges:
        proof = self._proof
        assert proof.charge is not None
        trunk = intervals[self._node].magnitude.flatten()[self.places]
        h = [intervals[layer.pre].magnitude.flatten()[layer.index] for layer in proof.layers]
        z = [intervals[layer.node].magnitude.flatten()[layer.index] for layer in proof.layers]
        empty = trunk.new_zeros(0)
        most, out = (torch.cat([empty, *parts]) for parts in (h, z))
        values = torch.cat([trunk.new_ones(1), trunk, out])
        # Every coefficient is one sum of at most U + 4 products, computed from those of the neurons after it.
        unit = gamma(len(most) + 16)
        lines = [layer.relaxation.rounding(_at(intervals[layer.pre], layer.index), unit) for layer in proof.layers]
        error = torch.cat([empty, *self._errors])
        # A bound of h that was rounded out of the subnormals is at most 1e-37 larger, see `numerics.float32_down`.
        most = most + 1e-37
        return Charges(
            forms=error,
            before=(error + unit * (matrix.abs() @ values) + 4 * UNIT[torch.float64] * most) * INFLATE + UNDERFLOW,
            after=torch.cat([empty, *lines]) * INFLATE + UNDERFLOW,
            seed=unit * values * INFLATE,
            lost=underflow(values.sum() + most.sum()),
            trunk=proof.charge,
            graph=proof.graph,
        )


def _at(bounds: Interval, index: Tensor) -> Interval:
    return Interval(*(side.flatten()[index] for side in bounds))


def search_copy(condensed: Condensed, search: LinedGraph) -> Condensed:
    """The same in float32."""
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
    )


def trunk_bound(condensed: Condensed, coef: Tensor) -> LinearForm:
    """<coef, y> for coef (n, Y) as a form over the input, never above it: (n, *input), (n,). Proof copies only."""
    charges = condensed.charges
    assert charges is not None
    trunk = condensed.trunk
    return backward(charges.graph, trunk.node, trunk.spread(coef), {}, charge=charges.trunk)


def trunk_node(graph: Graph) -> int:
    """What the first nonlinear node reads, where every way from the input leads through it; else the input."""
    if not graph.nonlinear:
        return 0
    pre = graph.nodes[graph.nonlinear[0]].inputs[0]
    before = graph.ancestors[pre]
    passes_by = any(
        node.index not in before and any(i in before and i != pre for i in node.inputs) for node in graph.nodes
    )
    return 0 if passes_by or 0 not in before else pre


def _trunk_places(proof: LinedGraph, node: int) -> Tensor:
    """Every entry of the input; of a neuron's node those that are not dead, the first layer's own before the others."""
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
    """The ops up to `node` without their constants."""
    return Graph(
        tuple(replace(n, op=n.op.linear()) if isinstance(n.op, Affine) else n for n in graph.nodes[: node + 1])
    )
