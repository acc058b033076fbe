"""What bounds of boxes need from a network: intervals of a layer, and backward passes with lines that differ by box.

`WalkedNet` walks the graph itself, so it takes networks of any size; `blocks.BlockNet` is the quicker form of small
ones. A node's values are flattened here: (box, m) for a node of m neurons. The lines of a nonlinear node are one tensor
(box, 3, m), the lower slope, the upper slope and the upper intercept, so that rows gather theirs in one go; (box, 4, m)
where there are lower intercepts too. Of a function of several operands they are those of its slots (`relax.slots`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping

import torch
from torch import Tensor

from netproof.bounds.linear.backward import Backward
from netproof.bounds.linear.coefficients import Dense
from netproof.bounds.linear.interval import Intervals, through
from netproof.bounds.linear.lined_graph import one_hot, shaped
from netproof.bounds.linear.sums import tightened
from netproof.core.forms import Interval, LinearForm
from netproof.model.graph import Graph
from netproof.model.ops import Affine
from netproof.numerics import rounding
from netproof.problem.problem import Rows
from netproof.relax import Lines


class BoxNet(ABC):
    """Everything it returns holds in real arithmetic: rounding is taken off on the way."""

    @abstractmethod
    def interval(self, pre: int, known: MutableMapping[int, Interval]) -> Interval:
        """Bound h of node `pre` (box, m) from intervals (box, ·) of the input and of the nonlinear nodes before."""

    @abstractmethod
    def neurons(self, pre: int, neuron: Tensor, box: Tensor, lines: Mapping[int, Tensor]) -> LinearForm:
        """Lower bounds of h and then of −h at the neurons (pair,) of the boxes (pair,): coef (2·pair, input)."""

    @abstractmethod
    def of_rows(self, target: Tensor, lines: Mapping[int, Tensor], keep: dict[int, Tensor]) -> LinearForm:
        """Lower bounds of every row of the targets (box,): coef (box, row, input), const (box, row).

        keep: receives the coefficients at the nonlinear nodes, (box, row, m).
        """


class WalkedNet(BoxNet):
    """By the one engine of backward passes. `hull`: intervals of every node on a set that contains all boxes."""

    def __init__(self, graph: Graph, rows: Rows, hull: Intervals) -> None:
        self._graph, self._rows, self._charge = graph, rows, hull.charge
        self._back = Backward(graph, hull.charge)

    def interval(self, pre: int, known: MutableMapping[int, Interval]) -> Interval:
        for node in self._graph.nodes[: pre + 1]:
            if node.index in known or node.index not in self._graph.ancestors[pre]:
                continue
            assert isinstance(node.op, Affine)
            inputs = [self._shaped(i, known[i]) for i in node.inputs]
            found = through(node.op, inputs, self._charge.weight[node.index])  # as for the hull
            lower, upper = tightened(self._graph, node, found, lambda i: self._shaped(i, known[i]))
            known[node.index] = Interval(lower.flatten(1), upper.flatten(1))
        return known[pre]

    def _shaped(self, index: int, x: Interval) -> Interval:
        shape = (-1, *self._graph.nodes[index].shape)
        return Interval(x.lower.reshape(shape), x.upper.reshape(shape))

    def neurons(self, pre: int, neuron: Tensor, box: Tensor, lines: Mapping[int, Tensor]) -> LinearForm:
        signs = torch.tensor([[1.0], [-1.0]], dtype=torch.float64, device=box.device)
        coef = one_hot(neuron.expand(2, -1), signs, self._graph.nodes[pre].shape).flatten(0, 1)
        form = self._back.form(pre, coef, _ByRow(self._graph, lines, box.repeat(2)))
        return LinearForm(form.coef.flatten(1), form.const)

    def of_rows(self, target: Tensor, lines: Mapping[int, Tensor], keep: dict[int, Tensor]) -> LinearForm:
        last = self._graph.output
        coef, offset = self._rows.coef[target], self._rows.offset[target]
        start = coef.view(*offset.shape, *last.shape)
        begin, by_row = Dense(start, len(last.shape)), _ByRow(self._graph, lines, None)
        done = self._back.walk(last.index, begin, by_row, 0, keep=True)
        form = self._back.over_input(done)
        keep.update({index: coef.dense().flatten(2) for index, coef in done.kept.items()})
        # One rounding of the coefficients as they were read, and those of the sum here.
        size = coef.abs() @ self._charge.magnitude[last.index].flatten() + offset.abs() + form.const.abs()
        return LinearForm(form.coef.flatten(2), form.const - offset - rounding(size, 8))


class _ByRow(Mapping[int, Lines]):
    """Lines of boxes as the engine wants them, one node at a time: of box[i] for row i, or with a row axis of 1."""

    def __init__(self, graph: Graph, lines: Mapping[int, Tensor], box: Tensor | None) -> None:
        self._graph, self._lines, self._box = graph, lines, box

    def __getitem__(self, node: int) -> Lines:
        lines = self._lines[node][:, :, None] if self._box is None else self._lines[node].index_select(0, self._box)
        return shaped(self._graph.nodes[node], Lines(*lines.unbind(1)))

    def __iter__(self) -> Iterator[int]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)
