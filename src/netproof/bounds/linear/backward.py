"""The one engine of linear bounds: a linear form of a node, carried back to the input.

Given c·z for a node z, each step rewrites it over the node's inputs, never above the true value: exactly
through an affine op (its adjoint), by lines through a nonlinear one (the lower line where the coefficient is
positive, the upper line where it is negative). This is section 2.3 of the paper on general graphs; to bound from
above, bound −c·z from below.

With a `Charge` the same walk, in float64, is a proof. The rounded coefficients that an op returns are taken as
they are, as an exact new form; what they miss of the exact adjoint, E with |E| <= γ|W|^T|c|, can change the form's
value by at most <|E|, |z_in|> <= γ <|c|, |W||z_in|>. So one weight per node, γ(|W||z_in| + |b|), computed once from
the confirmed intervals, makes the whole error of a pass a sum of dot products with |c|, subtracted on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from netproof.bounds.linear.coefficients import Coefficients, Dense
from netproof.bounds.linear.region import Region
from netproof.core.forms import LinearForm
from netproof.model.graph import Graph, Node
from netproof.model.ops import Affine, Input, Nonlinear
from netproof.numerics import enlarged, few_roundings, rounding, vanishing
from netproof.relax import Lines


@dataclass(frozen=True, eq=False)
class Charge:
    """What rounding may cost: per node, the weight of |coef| in a step, and the node's largest |value|."""

    weight: list[Tensor]  # (*node) each
    magnitude: list[Tensor]  # (*node) each

    _vanished: dict[int, Tensor] = field(default_factory=dict)

    def vanished(self, node: Node) -> Tensor:
        """Return what underflow may cost at a node, by the sizes of all it reads; kept, as these may only shrink."""
        if node.index not in self._vanished:
            sizes = [self.magnitude[i].sum() for i in node.inputs or (node.index,)]
            self._vanished[node.index] = vanishing(sizes[0] if len(sizes) == 1 else torch.stack(sizes).sum())
        return self._vanished[node.index]


@dataclass(frozen=True, eq=False)
class Walk:
    """Where a walk arrived: <coef, z_start> >= <at, z_stop> + const − error; rounding goes into `error` alone."""

    at: Coefficients | None  # None: nothing depends on node `stop`
    const: Tensor  # (*lead)
    error: Tensor | None  # (*lead); None without a charge
    kept: dict[int, Coefficients]  # where asked for, those at each nonlinear node's output

    def lowered_const(self) -> Tensor:
        """Return the constant with rounding taken off, (*lead)."""
        return self.const if self.error is None else self.const - self.error


@dataclass(frozen=True, eq=False)
class Backward:
    """A graph to carry linear forms back through; with a charge, in float64, every form that arrives is a proof."""

    graph: Graph
    charge: Charge | None = None

    def form(self, start: int, coef: Tensor, lines: Mapping[int, Lines]) -> LinearForm:
        """Return a lower bound of <coef, z_start> as a form over the input.

        coef: (*lead, *node). lines: for every nonlinear ancestor of `start`, broadcastable to (*lead, *its node).
        """
        begin = Dense(coef, len(self.graph.nodes[start].shape))
        return self.over_input(self.walk(start, begin, lines, self.graph.input.index))

    def over_input(self, done: Walk) -> LinearForm:
        """Return where a walk to the input arrived as a lower bound, rounding taken off."""
        const = done.lowered_const()
        if done.at is None:
            return LinearForm(const.new_zeros((*const.shape, *self.graph.input.shape)), const)
        return LinearForm(done.at.dense(), const)

    def least(self, region: Region, done: Walk) -> Tensor:
        """Return the least value over the input set of where a walk to the input arrived, rounding taken off."""
        if done.at is None or region.ball is not None:
            return region.least(self.over_input(done))
        return done.lowered_const() + (done.at.dot(region.centre) - done.at.size(region.radius))

    def walk(
        self,
        start: int,
        coef: Coefficients,
        lines: Mapping[int, Lines] | None,
        stop: int,
        *,
        taken: Mapping[int, Tensor] | None = None,
        keep: bool = False,
    ) -> Walk:
        """Walk back as `form` does, ending at node `stop` (every way back to the input must lead through it).

        Without lines every way ends at the first nonlinear node too, whose coefficients are then part of the form.
        taken: by nonlinear node, what is taken off the coefficients of what it reads, (*lead, *node). keep: return
        the coefficients of nonlinear nodes too.
        """
        charge, const = self.charge, _Constant(track=self.charge is not None)
        arrived: Coefficients | None = None
        pending, kept = {start: coef}, dict[int, Coefficients]()
        for node in reversed(self.graph.nodes[: start + 1]):
            here = pending.pop(node.index, None)
            if here is None:
                continue
            if node.index == stop and not isinstance(node.op, Input):
                arrived = here
                continue
            if keep and isinstance(node.op, Nonlinear):
                kept[node.index] = here
            if lines is None and isinstance(node.op, Nonlinear):
                continue
            if charge is not None:
                const.charge(here.size(charge.weight[node.index]) + charge.vanished(node))
            if isinstance(node.op, Input):
                arrived = here
                continue
            for index, more in zip(node.inputs, _step(node, here, lines, charge, taken, const), strict=True):
                if index not in pending:
                    pending[index] = more
                    continue
                pending[index] = total = pending[index].plus(more)
                if charge is not None:
                    const.charge(few_roundings(total.size(charge.magnitude[index]), 2))
        return Walk(arrived, *const.value(coef), kept)


def _step(
    node: Node,
    here: Coefficients,
    lines: Mapping[int, Lines] | None,
    charge: Charge | None,
    taken: Mapping[int, Tensor] | None,
    const: _Constant,
) -> Sequence[Coefficients]:
    """Carry coefficients of a node to those of the nodes that it reads; what is constant goes into `const`."""
    if isinstance(node.op, Affine):
        offset = node.op.offset()
        if offset is not None:
            const.add(here.dot(offset.expand(node.shape)))
        return here.adjoint(node.op)
    assert lines is not None
    assert isinstance(node.op, Nonlinear)
    less = None if taken is None else taken.get(node.index)
    back, terms = here.relaxed(lines[node.index], less, node.op.arity)
    for term in terms:
        const.add(term)
    if charge is not None and less is not None:
        const.charge(few_roundings(back.size(charge.magnitude[node.inputs[0]]), 2))
    return [back]


class _Constant:
    """The running constant of a form; in a proof (float64), beside what rounding may have taken from it."""

    def __init__(self, *, track: bool) -> None:
        self._sum: Tensor | float = 0.0
        self._size: Tensor | float = 0.0  # Σ |term|
        self._charged: Tensor | float = 0.0
        self._terms = 4  # the last subtraction is paid for here too
        self._track = track

    def add(self, term: Tensor) -> None:
        self._sum = self._sum + term
        self._terms += 1
        if self._track:
            self._size = self._size + term.abs()

    def charge(self, amount: Tensor) -> None:
        self._charged = self._charged + amount

    def value(self, like: Coefficients) -> tuple[Tensor, Tensor | None]:
        """Return the constant and its error for forms of the shape of `like`."""
        zero = like.zero()
        if not self._track:
            return zero + self._sum, None
        charged, size = zero + self._charged, zero + self._size
        return zero + self._sum, enlarged(charged + rounding(size, self._terms))
