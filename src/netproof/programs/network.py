"""The triangle relaxation of a network as columns and rows, built once per problem.

Each element of each node is a column, except where it is a copy of another (data movement, a ReLU that is
active on the whole input set) or nothing depends on it (what feeds an inactive ReLU). Affine ops are equality
rows. What a domain changes, bounds and the chords of the nonlinear neurons, is left to `triangle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from netproof.bounds.linear.ball import Ball
from netproof.core.deadline import Deadline
from netproof.model.graph import Graph, Node
from netproof.model.ops import Affine, Input
from netproof.numerics import enlarged, with_vanishing
from netproof.problem.problem import InputSet
from netproof.programs.model import (
    Bools,
    Entries,
    Floats,
    Ints,
    LinearProgram,
    Program,
    RoundBall,
    aliases,
    matrix_of,
    offset_of,
)
from netproof.relax import relaxation_of
from netproof.relax.hinge import HingeRelaxation


@dataclass(frozen=True, eq=False)
class Hinges:
    """The neurons max(h, a·h) of one node that are unstable on the whole input set."""

    node: int
    relaxation: HingeRelaxation
    element: Ints  # (n,) which of the node's elements
    before: Ints  # (n,) columns of h
    after: Ints  # (n,) columns of the value
    identity: Ints  # (n,) rows  value − h >= 0
    scaled: Ints  # (n,) rows  value − a·h >= 0; none when a = 0, where a column bound says it
    chord: Ints  # (n,) rows  value − slope·h <= intercept
    slope: Ints  # (n,) entries that hold −slope


@dataclass(frozen=True, eq=False)
class NetworkProgram:
    """Cost-free; a column per live element, `columns[node]` (size,), −1 where nothing depends on it."""

    program: LinearProgram
    columns: list[Ints]
    hinges: list[Hinges]


class Bounds:
    """Confirmed lower and upper of every node, flat; what is not a number is no bound."""

    def __init__(self, graph: Graph, intervals: Sequence[tuple[object, object]]) -> None:
        if len(intervals) != len(graph.nodes):
            raise ValueError(f"{len(intervals)} intervals for {len(graph.nodes)} nodes")
        pairs = [flat_bounds(pair, node.size) for pair, node in zip(intervals, graph.nodes, strict=True)]
        self.lower = [np.where(np.isnan(lower), -np.inf, lower) for lower, _ in pairs]
        self.upper = [np.where(np.isnan(upper), np.inf, upper) for _, upper in pairs]


def flat_bounds(pair: tuple[object, object], size: int) -> tuple[Floats, Floats]:
    lower, upper = (np.asarray(side, dtype=np.float64).reshape(-1) for side in pair)
    if lower.shape != (size,) or upper.shape != (size,):
        raise ValueError(f"bounds of {lower.size} and {upper.size} elements for a node of {size}")
    return lower, upper


def network_program(graph: Graph, inputs: InputSet, bounds: Bounds, deadline: Deadline) -> NetworkProgram:
    """Build the program; raises DeadlineExpired: reading the matrices of a large network takes seconds."""
    return _Builder(graph, bounds).build(inputs, deadline)


def add_input_set(program: Program, inputs: InputSet, lower: Floats, upper: Floats) -> Ints:
    """Add the input's columns (input,), no wider than lower and upper, and return them.

    A box; around it the ball's own box; for ℓ1 also distances e >= |x − centre| with Σe <= radius. An ℓ2 ball is not
    linear: it is kept beside the rows, for `programs/ball.py` and `programs/check.py`.
    """
    lower = np.fmax(lower, inputs.lower.reshape(-1).numpy())
    upper = np.fmin(upper, inputs.upper.reshape(-1).numpy())
    if inputs.centre is not None:
        centre = inputs.centre.reshape(-1).numpy()
        lower = np.maximum(lower, np.nextafter(centre - inputs.radius, -np.inf))
        upper = np.minimum(upper, np.nextafter(centre + inputs.radius, np.inf))
    x = program.add_columns(lower, upper)
    if inputs.centre is None:
        return x
    if inputs.p == 2:
        about, ball = Ball.of(inputs)
        program.ball = RoundBall(x, about.reshape(-1).numpy(), ball)
        return x
    infinite = np.full(len(x), np.inf)
    far = program.add_columns(np.zeros(len(x)), np.full(len(x), inputs.radius))
    for sign, side in ((-1.0, -centre), (1.0, centre)):  # e − x >= −centre, e + x >= centre
        rows = program.add_rows(side, infinite)
        program.add_entries(rows, far, 1.0)
        program.add_entries(rows, x, sign)
    (total,) = program.add_rows(np.array([-np.inf]), np.array([inputs.radius]))
    program.add_entries(np.full(len(x), total), far, 1.0)
    return x


class _Builder:
    def __init__(self, graph: Graph, bounds: Bounds) -> None:
        self.graph = graph
        self.bounds = bounds
        self.program = Program()
        self.columns: list[Ints] = [np.full(node.size, -1, np.int64) for node in graph.nodes]
        self.hinges: list[Hinges] = []
        self.blocks: dict[int, list[Entries]] = {}
        self.zero: int | None = None

    def build(self, inputs: InputSet, deadline: Deadline) -> NetworkProgram:
        live = self._live(deadline)
        for node in self.graph.nodes:
            wanted = np.flatnonzero(live[node.index])
            if isinstance(node.op, Input):
                self.columns[0] = add_input_set(self.program, inputs, self.bounds.lower[0], self.bounds.upper[0])
            elif isinstance(node.op, Affine):
                self._affine(node, wanted)
            else:
                self._hinge(node, wanted)
        return NetworkProgram(self.program.finish(), self.columns, self.hinges)

    def _live(self, deadline: Deadline) -> list[Bools]:
        """Say which elements the output depends on, by going backwards; read the matrices too."""
        live = [np.zeros(node.size, dtype=np.bool_) for node in self.graph.nodes]
        live[-1][:] = True
        for node in reversed(self.graph.nodes):
            if isinstance(node.op, Affine):
                self.blocks[node.index] = matrix_of(node, np.flatnonzero(live[node.index]), deadline)
                for index, block in zip(node.inputs, self.blocks[node.index], strict=True):
                    live[index][block.col] = True
            elif not isinstance(node.op, Input):
                live[node.inputs[0]] |= live[node.index] & ~self._vanishes(node)
        return live

    def _vanishes(self, node: Node) -> Bools:
        """Say where a hinge is 0 whatever it reads, (size,): also where that is 0, which is nobody's column then."""
        vanishes: Bools = (self.bounds.upper[node.inputs[0]] <= 0) & (_hinge_of(node).leak == 0)
        return vanishes

    def _affine(self, node: Node, wanted: Ints) -> None:
        """Add value − W x = b, within the radius of folded weights; copies take over the columns they copy."""
        blocks = self.blocks.pop(node.index)
        offset = offset_of(node)[wanted]
        radius = self._radius(node)[wanted]
        copy = aliases(blocks, offset) & (radius == 0)
        columns = np.full(len(wanted), -1, np.int64)
        constant = copy & (np.bincount(Entries.join(blocks).row, minlength=len(wanted)) == 0)
        columns[constant] = self._zero() if bool(constant.any()) else -1
        own = np.flatnonzero(~copy)
        columns[own] = self._new_columns(node, wanted[own])
        rows = np.full(len(wanted), -1, np.int64)
        rows[own] = self.program.add_equalities(offset[own], radius[own])
        self.program.add_entries(rows[own], columns[own], 1.0)
        for index, block in zip(node.inputs, blocks, strict=True):
            source = self.columns[index][block.col]
            copied = copy[block.row]
            columns[block.row[copied]] = source[copied]
            self.program.add_entries(rows[block.row[~copied]], source[~copied], -block.value[~copied])
        self.columns[node.index][wanted] = columns

    def _radius(self, node: Node) -> Floats:
        """Return the most that the exact weights' value may differ from the stored ones', (size,)."""
        assert isinstance(node.op, Affine)
        radius = node.op.radius
        if radius is None:
            return np.zeros(node.size)
        sizes = []
        for index in node.inputs:
            size = np.maximum(np.abs(self.bounds.lower[index]), np.abs(self.bounds.upper[index]))
            sizes.append(torch.from_numpy(size).reshape(1, *self.graph.nodes[index].shape))
        most = with_vanishing(enlarged(radius.forward(*sizes).reshape(-1).numpy()))
        return np.where(np.isnan(most), np.inf, most)

    def _hinge(self, node: Node, wanted: Ints) -> None:
        relaxation = _hinge_of(node)
        (index,) = node.inputs
        before = self.columns[index][wanted]
        lower, upper = self.bounds.lower[index][wanted], self.bounds.upper[index][wanted]
        columns, vanishes = np.full(len(wanted), -1, np.int64), self._vanishes(node)[wanted]
        columns[vanishes] = self._zero() if bool(vanishes.any()) else -1
        active = ~vanishes & (lower >= 0)
        columns[active] = before[active]
        inactive = ~vanishes & ~active & (upper <= 0)
        if bool(inactive.any()):
            columns[inactive] = self._new_columns(node, wanted[inactive])
            rows = self._equal_rows(columns[inactive])
            self.program.add_entries(rows, before[inactive], -relaxation.leak)
        unstable = np.flatnonzero(~vanishes & ~active & ~inactive)
        columns[unstable] = self._new_columns(node, wanted[unstable])
        self._add_hinges(node, relaxation, wanted[unstable], before[unstable], columns[unstable])
        self.columns[node.index][wanted] = columns

    def _add_hinges(self, node: Node, relaxation: HingeRelaxation, element: Ints, before: Ints, after: Ints) -> None:
        identity = self._equal_rows(after)
        self.program.add_entries(identity, before, -1.0)
        scaled = np.zeros(0, np.int64)
        if relaxation.leak != 0:
            scaled = self._equal_rows(after)
            self.program.add_entries(scaled, before, -relaxation.leak)
        chord = self._equal_rows(after)
        slope = self.program.add_entries(chord, before, -1.0)
        self.hinges.append(Hinges(node.index, relaxation, element, before, after, identity, scaled, chord, slope))

    def _equal_rows(self, columns: Ints) -> Ints:
        """Add rows  column + … = 0; return their indices."""
        rows = self.program.add_rows(np.zeros(len(columns)), np.zeros(len(columns)))
        self.program.add_entries(rows, columns, 1.0)
        return rows

    def _new_columns(self, node: Node, elements: Ints) -> Ints:
        lower, upper = self.bounds.lower[node.index], self.bounds.upper[node.index]
        return self.program.add_columns(lower[elements], upper[elements])

    def _zero(self) -> int:
        """Return the one column that stands for every constant zero."""
        if self.zero is None:
            (column,) = self.program.add_columns(np.zeros(1), np.zeros(1))
            self.zero = int(column)
        return self.zero


def _hinge_of(node: Node) -> HingeRelaxation:
    relaxation = relaxation_of(node.op)
    if not isinstance(relaxation, HingeRelaxation) or relaxation.leak > 1:
        raise TypeError(f"node {node.name!r}: the triangle relaxation needs max(h, a·h) with a <= 1")
    return relaxation
