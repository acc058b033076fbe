"""A small network with everything affine composed once, for bounds of boxes by few and large products.

Whatever the graph looks like, a layer is then h = Σ_j H_j z_j + b over the nonlinear nodes j before it and the input.
All rounding of a backward pass is charged by one weight a nonlinear node. There a coefficient A of z becomes
A' = A·slope of h, one rounding; <A, intercept> is a sum of m terms, each as large as the line at 0; A'H is taken
as it comes out, which changes its value by at most γ<|A'|, |H||z|>; <A', b> likewise; H itself is off by what its
composition cost; and what is added to the constant or to another branch is rounded as often as there are terms in all.
|A'| <= steepest·|A|, so every one of these is a multiple of |A|.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

import torch
from torch import Tensor

from netproof.bounds.boxes.net import BoxNet
from netproof.bounds.linear.backward import Backward
from netproof.bounds.linear.coefficients import Dense
from netproof.bounds.linear.interval import Intervals
from netproof.core.forms import Interval, LinearForm
from netproof.model.graph import Graph
from netproof.numerics import enlarged, enlarged_rounding, rounding, vanishing, with_vanishing
from netproof.problem.problem import Rows
from netproof.relax import relaxation_of
from netproof.relax.slots import in_all_slots

COMPOSED = 1 << 24  # entries of the largest matrix that is composed


def fits(graph: Graph, rows: Rows) -> bool:
    """Say whether the composed matrices, and the products on the way to them, stay small."""
    wide = max(sum(graph.nodes[i].size for i in (0, *graph.nonlinear)), *(node.size for node in graph.nodes))
    tall = [graph.nodes[graph.nodes[i].inputs[0]].size for i in graph.nonlinear]
    return max(rows.valid.numel(), *tall, 1) * wide <= COMPOSED


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of an affine map over the nodes j: Σ_j coef_j z_j + const, off by at most `error`."""

    coef: dict[int, Tensor]  # (row, m_j) each
    const: Tensor  # (row,)
    error: Tensor  # (row,)

    def to(self, device: torch.device) -> Block:
        return Block({j: h.to(device) for j, h in self.coef.items()}, self.const.to(device), self.error.to(device))


def compose(graph: Graph, hull: Intervals, start: int, coef: Tensor) -> Block:
    """Carry <coef, z_start>, coef (row, *node), back through affine nodes to nonlinear ones or the input."""
    begin = Dense(coef, len(graph.nodes[start].shape))
    done = Backward(graph, hull.charge).walk(start, begin, None, 0, keep=True)
    assert done.error is not None
    found = done.kept if done.at is None else {0: done.at, **done.kept}
    return Block({j: part.dense().flatten(1) for j, part in found.items()}, done.const, done.error)


class BlockNet(BoxNet):
    """`hull`: intervals of every node on a set that contains all boxes. All is given on the CPU, and composed there."""

    def __init__(self, graph: Graph, rows: Rows, hull: Intervals, device: torch.device) -> None:
        self._graph, self._device = graph, device
        self._terms = 4 * len(graph.nonlinear) + 16  # more than are ever added up for one number
        self._magnitude = [m.flatten() for m in hull.charge.magnitude]
        self._lost = self._terms * float(vanishing(torch.stack([m.sum() for m in self._magnitude]).sum()))
        self._block: dict[int, Block] = {}  # by the node that a nonlinear one reads
        self._absolute: dict[int, dict[int, Tensor]] = {}  # |H|
        self._slack: dict[int, Tensor] = {}  # rounding of H z + b, H's own error included
        self._weight: dict[int, Tensor] = {}  # by nonlinear node: the charge of |A|
        for index in graph.nonlinear:
            (pre,) = graph.nodes[index].inputs
            if pre not in self._block:
                self._add(pre, hull)
            relaxation, h = relaxation_of(graph.nodes[index].op), hull.of[pre].flat
            own = relaxation.rounding(h, rounding(1.0, graph.nodes[pre].size + self._terms), times=2)
            read = (relaxation.steepest(h) * self._slack[pre].cpu()).view(relaxation.arity, -1).sum(0)
            self._weight[index] = enlarged(own + read).to(device)
        self._input_weight = hull.charge.weight[0].flatten().to(device)
        self._add_rows(rows, hull)

    def _add(self, pre: int, hull: Intervals) -> None:
        size, shape = self._graph.nodes[pre].size, self._graph.nodes[pre].shape
        block = compose(self._graph, hull, pre, torch.eye(size, dtype=torch.float64).view(size, *shape))
        absolute = {j: h.abs() for j, h in block.coef.items()}
        reach = block.const.abs()
        for j, h in absolute.items():
            reach = reach + h @ self._magnitude[j]
        fan = size + sum(self._graph.nodes[j].size for j in block.coef) + self._terms
        self._slack[pre] = (block.error + enlarged_rounding(reach, fan)).to(self._device)
        self._block[pre] = block.to(self._device)
        self._absolute[pre] = {j: h.to(self._device) for j, h in absolute.items()}

    def _add_rows(self, rows: Rows, hull: Intervals) -> None:
        """Compose the rows; their constants have all rounding taken off, of the coefficients and of the sums here."""
        last = self._graph.output
        block = compose(self._graph, hull, last.index, rows.coef.reshape(-1, *last.shape))
        const = block.const.view_as(rows.offset)
        size = rows.coef.abs() @ self._magnitude[last.index] + rows.offset.abs() + const.abs()
        const = const - rows.offset - (block.error.view_as(const) + rounding(size, 8))
        self._rows = block.to(self._device)
        self._row_const = const.to(self._device)

    def interval(self, pre: int, known: MutableMapping[int, Interval]) -> Interval:
        # The radius is not enlarged beyond the slack, as in `through`.
        middle, spread = self._block[pre].const, with_vanishing(enlarged(self._slack[pre] * 4))
        for j, coef in self._block[pre].coef.items():
            lower, upper = known[j]
            mid = lower / 2 + upper / 2
            radius = torch.maximum(upper - mid, mid - lower)
            middle = torch.addmm(middle, mid, coef.T)
            spread = torch.addmm(spread, radius, self._absolute[pre][j].T)
        return Interval(middle - spread, middle + spread)

    def neurons(self, pre: int, neuron: Tensor, box: Tensor, lines: Mapping[int, Tensor]) -> LinearForm:
        block = self._block[pre]
        pending = {}
        for j, coef in block.coef.items():
            rows = coef.index_select(0, neuron)
            pending[j] = torch.cat([rows, -rows])
        const = block.const[neuron]
        return self._pass(pending, torch.cat([const, -const]), block.error[neuron].repeat(2), box.repeat(2), lines)

    def of_rows(self, target: Tensor, lines: Mapping[int, Tensor], keep: dict[int, Tensor]) -> LinearForm:
        boxes, rows = len(target), self._row_const.shape[1]
        each = (target[:, None] * rows + torch.arange(rows, device=target.device)).flatten()
        box = torch.arange(boxes, device=target.device).repeat_interleave(rows)
        pending = {j: coef.index_select(0, each) for j, coef in self._rows.coef.items()}
        const = self._row_const[target].flatten()
        form = self._pass(pending, const, torch.zeros_like(const), box, lines, keep)
        for j in keep:
            keep[j] = keep[j].view(boxes, rows, -1)
        return LinearForm(form.coef.view(boxes, rows, -1), form.const.view(boxes, rows))

    def _pass(
        self,
        pending: dict[int, Tensor],
        const: Tensor,
        error: Tensor,
        box: Tensor,
        lines: Mapping[int, Tensor],
        keep: dict[int, Tensor] | None = None,
    ) -> LinearForm:
        """Carry rows over the nodes j, coef (row, m_j), each on its own box (row,), back to the input."""
        error = error + rounding(const.abs(), self._terms)
        for j in reversed(self._graph.nonlinear):
            coef = pending.pop(j, None)
            if coef is None:
                continue
            if keep is not None:
                keep[j] = coef
            error = torch.addmv(error, coef.abs(), self._weight[j])
            low, high, lift, *offset = lines[j].index_select(0, box).unbind(1)
            coef = in_all_slots(low.shape[1] // coef.shape[1], coef)
            negative = coef.clamp(max=0)
            const = const + (negative * lift).sum(1)
            if offset:
                const = const + ((coef - negative) * offset[0]).sum(1)
            coef = torch.addcmul(negative * high, coef - negative, low)
            block = self._block[self._graph.nodes[j].inputs[0]]
            const = torch.addmv(const, coef, block.const)
            for i, weight in block.coef.items():
                pending[i] = torch.addmm(pending[i], coef, weight) if i in pending else coef @ weight
        if 0 not in pending:  # nothing here depends on the input
            pending[0] = const.new_zeros(len(const), self._graph.input.size)
        error = torch.addmv(error, pending[0].abs(), self._input_weight)
        return LinearForm(pending[0], const - (enlarged(error) + self._lost))
