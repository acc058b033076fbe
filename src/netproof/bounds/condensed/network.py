"""The network condensed to its unstable neurons: every way between them that is linear on the whole input set, folded.

A neuron whose sign is known is linear, so what an unstable neuron reads is an affine form of the unstable neurons
before it and of the input:

    h_k = M_k · v + b_k,   v = (1, y, z_1, …, z_{k−1}),   z_j = g(h_j).

y = W x is what the network sees of its input: the pre-activations of the first nonlinear node (the trunk), or the input
itself where some way passes that node by. A backward bound of a sub-domain is then one matrix product per layer over
some hundred neurons, instead of a convolution over thousands, and so is its gradient.

The forms are computed once, in float64, by the one engine with rounding charged. The rounded coefficients are taken as
exact; `error` is what the exact neuron may differ by on the input set. So a bound of the condensed network, less what
`Charges` says, is a bound of the real one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from netproof.bounds.linear.backward import Backward
from netproof.bounds.linear.layers import Layer
from netproof.bounds.linear.memory import climbs_that_fit
from netproof.bounds.linear.region import Region
from netproof.bounds.net import Forwarded, Net, Pulled
from netproof.bounds.packed import Lagrangian
from netproof.bounds.planes.planes import Lift, Planes
from netproof.core.forms import LinearForm
from netproof.model.graph import Graph
from netproof.model.ops import Affine
from netproof.numerics import enlarged, enlarged_rounding, few_roundings, rounding, vanishing


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
        """Spread (n, Y) over the node, with 0 elsewhere: (n, *node)."""
        node = self.graph.nodes[self.node]
        if self.whole:
            return coef.reshape(-1, *node.shape)
        dense = coef.new_zeros(coef.shape[0], node.size)
        return dense.index_copy_(1, self.index, coef).view(-1, *node.shape)

    @cached_property
    def _chain(self) -> list[Affine] | None:
        """Return the ops in turn where each reads only the one before: then a walk needs no bookkeeping."""
        nodes = self.graph.nodes[1 : self.node + 1]
        if any(node.inputs != (node.index - 1,) for node in nodes):
            return None
        return [node.op for node in nodes if isinstance(node.op, Affine)]

    def pull(self, coef: Tensor) -> Tensor:
        """Return W^T coef: (n, Y) -> (n, *input)."""
        here = self.spread(coef)
        if self._chain is None:
            return Backward(self.graph).form(self.node, here, {}).coef
        for op in reversed(self._chain):
            (here,) = op.adjoint(here)
        return here

    def push(self, shift: Tensor) -> Tensor:
        """Return y at x = centre + shift: (n, *input) -> (n, Y)."""
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
    values: Tensor  # (1 + Y + U,): the largest |value| of each column
    lost: Tensor  # (): what underflow may cost, whatever the coefficients
    trunk: Backward  # the graph with constants, for the trunk's own pass
    read: Tensor  # (U,): the largest |h|
    middle: Tensor  # (U,): the middle of the bounds of z, and how far z is from it at most
    away: Tensor  # (U,)

    def upto(self, count: int, columns: int) -> Charges:
        """Return those of the first `count` neurons, in forms of so many columns."""
        return Charges(
            forms=self.forms[:count],
            before=self.before[:count],
            after=self.after[:count],
            seed=self.seed[:columns],
            values=self.values[:columns],
            lost=self.lost,
            trunk=self.trunk,
            read=self.read[:count],
            middle=self.middle[:count],
            away=self.away[:count],
        )


@dataclass(frozen=True, eq=False)
class Condensed(Net):
    """In one precision. Columns of every form: 1, then y, then z of the packed neurons."""

    trunk: Trunk
    region: Region  # in the search shifted to centre 0
    layers: list[Layer]
    matrix: Tensor  # (U, 1 + Y + U), zero from each layer's own columns on
    rows: Tensor  # (target, row, 1 + Y + U): the property's rows
    error: Tensor  # (target, row)
    direct: int  # so many of the first neurons read y itself, the first so many entries of it
    charges: Charges | None  # None: a search copy
    origin: Tensor | None = None
    planes: Planes | None = None

    @property
    def proof(self) -> bool:
        return self.charges is not None

    @property
    def count(self) -> int:
        return self.matrix.shape[0]

    @property
    def base(self) -> int:
        """Return 1 + Y, where the columns of z begin."""
        return 1 + self.trunk.count

    @cached_property
    def sizes(self) -> list[int]:
        """Return U_k of each layer."""
        return [layer.count for layer in self.layers]

    @cached_property
    def onto(self) -> list[Tensor]:
        """Return by layer (later neurons, U_k): how the neurons after it read it."""
        base = self.base
        ends = [(layer.packed.start, layer.packed.stop) for layer in self.layers]
        return [self.matrix[stop:, base + start : base + stop] for start, stop in ends]

    @cached_property
    def from_before(self) -> list[Tensor]:
        """Return by layer (1 + Y + its start, U_k): what it reads."""
        return [self.matrix[layer.packed, : self.base + layer.start].mT for layer in self.layers]

    @cached_property
    def onto_base(self) -> Tensor:
        """Return (U − direct, 1 + Y): how the neurons read y, those apart that read one entry of it each."""
        return self.matrix[self.direct :, : self.base]

    def climbs_that_fit(self) -> int:
        """Return how many bounds may be climbed at once."""
        trunk = self.trunk.graph.entries
        return climbs_that_fit(self.count, self.base + self.count, trunk, self.matrix.device)

    def upto(self, depth: int) -> Condensed:
        """Return the first `depth` layers, without rows."""
        count = self.layers[depth].start if depth < len(self.layers) else self.count
        return replace(
            self,
            layers=self.layers[:depth],
            matrix=self.matrix[:count, : self.base + count],
            rows=self.rows[:0, :, : self.base + count],
            error=self.error[:0],
            direct=min(self.direct, count),
            charges=None if self.charges is None else self.charges.upto(count, self.base + count),
            planes=None,  # they are the rows'
        )

    def neurons(self, depth: int, which: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows of the matrix; a search copy does not know what they may be off by."""
        start = self.layers[depth].start
        forms = self.matrix[start + which, : self.base + start]
        return forms, forms.new_zeros(which.shape) if self.charges is None else self.charges.forms[start + which]

    def with_rows(self, rows: Tensor, error: Tensor) -> Condensed:
        """Return the same with other forms to bound."""
        return replace(self, rows=rows, error=error, planes=None)

    def with_planes(self, planes: Planes) -> Condensed:
        """Return the same with planes of each target."""
        return replace(self, planes=planes)

    def mixing(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the weight of |form| in the rounding of a mix of forms, and what underflow may cost."""
        assert self.charges is not None
        return enlarged_rounding(self.charges.values, count + 8), self.charges.lost

    def backward(self, seed: Tensor, relaxed: Lagrangian) -> Pulled:
        """Bound each form of seed (domain, 1 + Y + U) from below, one matrix product per layer."""
        lines, signed, offset, region, lift = relaxed
        count, base, first = self.count, self.base, self.direct
        after, before = seed[:, base:].clone(), seed.new_empty(len(seed), count)
        # Taking many small views costs as much as the arithmetic on a GPU, so they are taken all at once.
        upper, lower = lines.upper_slope.split(self.sizes, 1), lines.lower_slope.split(self.sizes, 1)
        a, p = after.split(self.sizes, 1), before.split(self.sizes, 1)
        split = None if signed is None else signed.split(self.sizes, 1)
        for k in reversed(range(len(self.layers))):
            if self.onto[k].shape[0]:
                a[k].addmm_(before[:, self.layers[k].packed.stop :], self.onto[k])
            if self.layers[k].arity > 1:
                a[k].copy_(self.layers[k].in_all_slots(a[k][:, : len(self.layers[k].outputs)]))
            torch.mul(a[k], torch.where(a[k] < 0, upper[k], lower[k]), out=p[k])
            if split is not None:
                p[k].sub_(split[k])
        falls, carried = after.clamp(max=0), None if lift is None else lift.carried(after)
        if lift is not None and carried is not None:
            lift.reads.add_(before, -carried * lift.reads.of(lines.upper_slope))
            lift.reads.add_(falls, -carried)
        lost = (falls * lines.upper_intercept).sum(1)
        if lift is not None and carried is not None:
            lost = lost + (carried * lift.above.height).sum(1)
        at_base = seed[:, :base]
        if first < count:
            at_base = torch.addmm(at_base, before[:, first:], self.onto_base)
        if first:
            at_base = at_base.clone() if first == count else at_base
            at_base[:, 1 : 1 + first].add_(before[:, :first])
        if lines.lower_intercept is not None:
            lost = lost + (after.clamp(min=0) * lines.lower_intercept).sum(1)
        if self.charges is not None:
            return self.proved(seed, at_base, lost, after, before, relaxed)
        at_input, over = self.trunk.pull(at_base[:, 1:]), region or self.region
        if lift is not None and carried is not None:
            at_input = at_input + lift.above.over_input(carried).view_as(at_input)
        value = at_base[:, 0] + at_base[:, 1:] @ self.trunk.centre + lost + over.least_of(at_input)
        if offset is not None:
            value = value + offset.sum(1)
        return Pulled(value, after, before, at_input, over, lines, lift=lift)

    def proved(
        self,
        seed: Tensor,
        at_base: Tensor,
        lost: Tensor,
        after: Tensor,
        before: Tensor,
        relaxed: Lagrangian | None = None,
    ) -> Pulled:
        """Bound at_base (domain, 1 + Y) over (1, y) and what neurons lose (domain,), with every rounding taken off.

        relaxed: what gave these numbers; None: no lines, and nothing is split.
        """
        lines, _, offset, region, lift = relaxed or (None, None, None, None, None)
        charges = self.charges
        assert charges is not None
        form = self.trunk_bound(at_base[:, 1:])
        more = lost.new_zeros(())
        if lift is not None:
            form, more = self._lifted(form, lift, after, before)
        over = region or self.region
        least = over.least(form)
        charge = before.abs() @ charges.before + after.abs() @ charges.after + seed.abs() @ charges.seed
        charge = charge + charges.lost + more
        if offset is not None:  # one rounding of each product, and those of their sum
            lost = lost + offset.sum(1)
            charge = charge + rounding(offset.abs().sum(1), self.count + 16)
        size = at_base[:, 0].abs() + lost.abs() + least.abs() + charge
        value = at_base[:, 0] + lost + least - enlarged(charge) - rounding(size, 8)
        return Pulled(value, after, before, form.coef, over, lines, lift=lift)

    def _lifted(self, form: LinearForm, lift: Lift, after: Tensor, before: Tensor) -> tuple[LinearForm, Tensor]:
        """Return a form over the input with what planes carry, and what rounding may cost by that (domain,)."""
        assert self.charges is not None
        own, carried = form.coef.flatten(1), lift.carried(after)
        reach = self.region.centre.abs().flatten() + self.region.radius.flatten()
        cost = lift.charged(after, before, carried, self.charges.read)
        cost = cost + few_roundings(own.abs() @ reach, 4) + vanishing(reach.sum())
        coef = (own + lift.above.over_input(carried)).view_as(form.coef)
        return LinearForm(coef, form.const), cost

    def trunk_bound(self, coef: Tensor) -> LinearForm:
        """Return <coef, y> for coef (n, Y) as a form over the input, never above it: (n, *input), (n,). In proofs."""
        assert self.charges is not None
        return self.charges.trunk.form(self.trunk.node, self.trunk.spread(coef), {})

    def forward(self, pulled: Pulled) -> Forwarded:
        """Evaluate the relaxed network at the minimiser; its columns are v = (1, y, z)."""
        assert self.charges is None  # the trunk counts from the centre, as a search copy's region does
        base, count = self.base, self.count
        values = pulled.value.new_empty(len(pulled.value), base + count)
        values[:, 0] = 1.0
        point, lift = pulled.region.minimiser(pulled.at_input), pulled.lift
        values[:, 1:base] = self.trunk.push(point)
        above = None if lift is None else lift.above.at(point.flatten(1))
        h = torch.empty_like(pulled.after)
        slope, intercept = pulled.line
        read, z = h.split(self.sizes, 1), values[:, base:].split(self.sizes, 1)
        slope_of, lift_of = slope.split(self.sizes, 1), intercept.split(self.sizes, 1)
        for k, layer in enumerate(self.layers):
            if layer.packed.stop <= self.direct:
                read[k].copy_(values[:, 1 : 1 + self.direct])
            else:
                torch.mm(values[:, : base + layer.start], self.from_before[k], out=read[k])
            torch.addcmul(lift_of[k], slope_of[k], read[k], out=z[k])
            if k == 0 and lift is not None and above is not None:
                lift.raise_(pulled.after, z[k], above)
            if layer.arity > 1:
                z[k].copy_(layer.in_first_slots(z[k].unflatten(1, (layer.arity, len(layer.outputs))).sum(1)))
        return Forwarded(h, values, above)
