"""The one engine of linear bounds: a linear form of a node, carried back to the input.

Given c·z for a node z, each step rewrites it over the node's inputs, never above the true value: exactly
through an affine op (its adjoint), by lines through a nonlinear one (the lower line where the coefficient is
positive, the upper line where it is negative). This is section 2.3 of the paper on general graphs; to bound from
above, bound −c·z from below.

With a `Charge` the same walk, in float64, is a proof. The rounded coefficients that an op returns are taken as
they are, as an exact new form; what they miss of the exact adjoint, E with |E| <= γ|W|^T|c|, can change the form's
value by at most <|E|, |z_in|> <= γ <|c|, |W||z_in|>. So one weight a node, γ(|W||z_in| + |b|), computed once from
the confirmed intervals, makes the whole error of a pass a sum of dot products with |c|, subtracted on the way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from netproof.core.forms import LinearForm
from netproof.model.graph import Graph, Node
from netproof.model.ops import Affine, Input
from netproof.numerics import INFLATE, UNIT, gamma, underflow
from netproof.relax import Lines


@dataclass(frozen=True, eq=False)
class Charge:
    """What rounding may cost: per node, the weight of |coef| in a step, and the node's largest |value|."""

    weight: list[Tensor]  # (*node) each
    magnitude: list[Tensor]  # (*node) each

    _reach: dict[int, Tensor] = field(default_factory=dict)

    def reach(self, node: Node) -> Tensor:
        """The sizes of all that the node reads, added up; kept, as magnitudes may only shrink."""
        if node.index not in self._reach:
            sizes = [self.magnitude[i].sum() for i in node.inputs or (node.index,)]
            self._reach[node.index] = torch.stack(sizes).sum()
        return self._reach[node.index]


@dataclass(frozen=True, eq=False)
class Walk:
    """Where a walk arrived: <coef, z_start> >= <at, z_stop> + const − error; rounding goes into `error` alone."""

    at: Tensor  # (*lead, *node)
    const: Tensor  # (*lead)
    error: Tensor | None  # (*lead); None without a charge


def backward(
    graph: Graph,
    start: int,
    coef: Tensor,
    lines: Mapping[int, Lines],
    *,
    charge: Charge | None = None,
    keep: dict[int, Tensor] | None = None,
) -> LinearForm:
    """A lower bound of <coef, z_start> as a form over the input.

    coef: (*lead, *node). lines: for every nonlinear ancestor of `start`, broadcastable to (*lead, *its node).
    keep: receives the coefficient at each nonlinear node's output, for branching.
    """
    done = walk(graph, start, coef, lines, graph.input.index, charge=charge, keep=keep)
    return LinearForm(done.at, done.const if done.error is None else done.const - done.error)


def walk(
    graph: Graph,
    start: int,
    coef: Tensor,
    lines: Mapping[int, Lines],
    stop: int,
    *,
    charge: Charge | None = None,
    keep: dict[int, Tensor] | None = None,
) -> Walk:
    """`backward`, ending at node `stop` (every way back to the input must lead through it)."""
    lead = coef.shape[: coef.dim() - len(graph.nodes[start].shape)]
    const = _Constant(coef.new_zeros(lead), track=charge is not None)
    arrived = coef.new_zeros((*lead, *graph.nodes[stop].shape))
    pending = {start: coef}
    for node in reversed(graph.nodes[: start + 1]):
        if node.index not in pending:
            continue
        here = pending.pop(node.index)
        if node.index == stop and not isinstance(node.op, Input):
            arrived = here
            continue
        if charge is not None:
            const.charge(_dot(here.abs(), charge.weight[node.index], lead) + underflow(charge.reach(node)))
        if isinstance(node.op, Input):
            arrived = here
            continue
        if isinstance(node.op, Affine):
            offset = node.op.offset()
            if offset is not None:
                const.add(_dot(here, offset.expand(node.shape), lead))
            flat = node.op.adjoint(here.reshape(math.prod(lead), *node.shape))
            back = [f.reshape(*lead, *f.shape[1:]) for f in flat]
        else:
            if keep is not None:
                keep[node.index] = here
            line = lines[node.index]
            const.add((here.clamp(max=0) * line.upper_intercept).flatten(len(lead)).sum(-1))
            if line.lower_intercept is not None:
                const.add((here.clamp(min=0) * line.lower_intercept).flatten(len(lead)).sum(-1))
            back = [here * torch.where(here < 0, line.upper_slope, line.lower_slope)]
        for index, more in zip(node.inputs, back, strict=True):
            if index not in pending:
                pending[index] = more
                continue
            pending[index] = total = pending[index] + more
            if charge is not None:
                const.charge(_dot(total.abs(), charge.magnitude[index], lead) * (2.0 * UNIT[total.dtype]))
    return Walk(arrived, *const.value())


class _Constant:
    """The running constant of a form; in a proof, beside what rounding may have taken from it."""

    def __init__(self, zero: Tensor, *, track: bool) -> None:
        self._sum = zero
        self._size = zero if track else None  # Σ |term|
        self._charged = zero
        self._terms = 4  # the last subtraction is paid for here too

    def add(self, term: Tensor) -> None:
        self._sum = self._sum + term
        self._terms += 1
        if self._size is not None:
            self._size = self._size + term.abs()

    def charge(self, amount: Tensor) -> None:
        self._charged = self._charged + amount

    def value(self) -> tuple[Tensor, Tensor | None]:
        if self._size is None:
            return self._sum, None
        return self._sum, (self._charged + self._size * gamma(self._terms, self._sum.dtype)) * INFLATE


def _dot(coef: Tensor, weight: Tensor, lead: torch.Size) -> Tensor:
    """<coef, weight> over the node's axes: (*lead, *node), (*node) -> (*lead)."""
    return (coef.reshape(math.prod(lead), -1) @ weight.reshape(-1)).reshape(lead)
