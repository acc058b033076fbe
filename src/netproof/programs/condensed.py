"""The triangle LP of the condensed network: small, and of one shape for every sub-domain.

Every neuron that is stable on the whole input set is folded away (`Condenser`). An unstable one is h = p − w, the
positive and the negative part of what it reads; on l <= h <= u the hull of its two cases is

    p >= 0,   w >= 0,   p/u + w/|l| <= 1,

the triangle relaxation, whatever the slope below 0: max(h, a·h) = p − a·w. A split h >= 0 only sets the upper bound of
w to 0, and h <= 0 that of p, so that a parent's optimal basis is a start for its children. Measured on a network of
three thousand neurons: a fifth of a second from nothing, a few hundredths from the parent.

All coefficients are the condensed forms', taken as exact; what they may be off by widens the row. So the program holds
for the real network, and its duals are worth what `programs/check.py` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from netproof.bounds.linear.lined_graph import one_hot
from netproof.bounds.linear.memory import rows_that_fit
from netproof.bounds.neurons.root import Root
from netproof.core.deadline import Deadline
from netproof.core.forms import Interval
from netproof.numerics import enlarged
from netproof.programs.model import Entries, Floats, Ints, Layout, LinearProgram, Program
from netproof.programs.network import add_input_set
from netproof.programs.triangle import row_range
from netproof.relax.hinge import HingeRelaxation


@dataclass(frozen=True, eq=False)
class Target:
    """The program of one target on the whole input set."""

    program: LinearProgram
    layout: Layout


@dataclass(frozen=True, eq=False)
class Places:
    """Where columns, rows and entries are in every program."""

    x: Ints  # (input,) columns
    positive: Ints  # (U,) columns of p
    negative: Ints  # (U,) columns of w
    chord: Ints  # (U,) rows p/u + w/|l| <= 1, scaled
    chord_positive: Ints  # (U,) entries of p in them
    chord_negative: Ints


class CondensedLP:
    """min t subject to r_j <= t for every row of a target, over the relaxation of a sub-domain.

    Raises DeadlineExpired while it is made: reading a large network takes seconds.
    """

    def __init__(self, root: Root, deadline: Deadline) -> None:
        self._condensed, self._rows = root.condensed64, root.problem.rows  # not the root itself, which may be its key
        self._output = root.intervals.of[-1]
        self._net, self.places = _build(root, deadline)
        self._targets: dict[int, Target] = {}

    def layout(self, target: int) -> Layout:
        return self._target(target).layout

    def program(self, target: int, lower: Tensor, upper: Tensor) -> LinearProgram:
        """Return the program of the sub-domain with bounds (U,) of h, float32 and lower <= upper."""
        base = self._target(target).program
        at = self.places
        low, high = (side.cpu().numpy().astype(np.float64) for side in (lower, upper))
        column_lower, column_upper = base.lower.copy(), base.upper.copy()
        column_lower[at.positive], column_upper[at.positive] = low.clip(min=0), high.clip(min=0)
        column_lower[at.negative], column_upper[at.negative] = (-high).clip(min=0), (-low).clip(min=0)
        row_upper, value = base.row_upper.copy(), base.entries.value.copy()
        # |l|·p + u·w <= u·|l|, divided by the larger of u and |l|. One quotient is 1; the other is rounded towards 0,
        # which only weakens the row, as p and w are not negative.
        unstable = HingeRelaxation(0.0).unstable(Interval(lower, upper)).cpu().numpy()
        down, up = np.where(unstable, -low, 1.0), np.where(unstable, high, 1.0)
        most = np.maximum(down, up)
        row_upper[at.chord] = np.where(unstable, np.minimum(down, up), math.inf)
        value[at.chord_positive] = np.where(down == most, 1.0, np.nextafter(down / most, 0.0))
        value[at.chord_negative] = np.where(up == most, 1.0, np.nextafter(up / most, 0.0))
        return replace(
            base,
            lower=column_lower,
            upper=column_upper,
            row_upper=row_upper,
            entries=base.entries._replace(value=value),
        )

    def _target(self, target: int) -> Target:
        if target not in self._targets:
            self._targets[target] = self._with_rows(target)
        return self._targets[target]

    def _with_rows(self, target: int) -> Target:
        """Add the column t and, for each valid row, form·v − t <= error − constant."""
        base, rows = self._net.program, self._rows
        valid = rows.valid[target].numpy()
        forms = self._condensed.rows[target].cpu().numpy()[valid]
        error = enlarged(self._condensed.error[target].cpu().numpy()[valid])
        coef, offset = rows.coef[target].numpy()[valid], rows.offset[target].numpy()[valid]
        least, most = row_range(coef, offset, _flat(self._output.lower), _flat(self._output.upper))
        read = list(self._net.read(base.next_rows(len(forms)), forms, 1.0))
        program = base.minimising(read, np.nextafter(error - forms[:, 0], math.inf), least, most)
        return Target(program, Layout.of(program.entries, len(program.row_lower), len(program.cost)))


@dataclass(frozen=True, eq=False)
class Net:
    """The rows that every target shares, and how a form over (1, y, z) is read off the columns."""

    program: LinearProgram
    y: Ints  # (Y,) columns; of an unstable neuron's own y, that of p
    minus: Ints  # (Y,) columns to be taken off: of an unstable neuron's own y that of w, else −1
    z: Ints  # (U,) columns

    def read(self, rows: Ints, forms: Floats, sign: float) -> Iterator[Entries]:
        """Yield the entries of sign·form (n, 1 + Y + U') in the rows (n,), without the constants."""
        count = len(self.y)
        row, col = np.nonzero(forms[:, 1:])
        value = sign * forms[row, 1 + col]
        of_y = col < count
        yield Entries(rows[row[of_y]], self.y[col[of_y]], value[of_y])
        yield Entries(rows[row[~of_y]], self.z[col[~of_y] - count], value[~of_y])
        twice = np.flatnonzero(of_y)[self.minus[col[of_y]] >= 0]
        yield Entries(rows[row[twice]], self.minus[col[twice]], -value[twice])


def _build(root: Root, deadline: Deadline) -> tuple[Net, Places]:
    condensed, program = root.condensed64, Program()
    box = root.intervals.of[0]
    x = add_input_set(program, root.problem.input_set, _flat(box.lower), _flat(box.upper))
    zero, endless = np.zeros(condensed.count), np.full(condensed.count, math.inf)
    p, w = program.add_columns(zero, endless), program.add_columns(zero, endless)  # a sub-domain bounds them
    y, minus = _trunk(root, program, x, p, w, deadline)
    z = _leaky(root, program, p, w)
    net = Net(program.finish(), y, minus, z)
    _neurons(root, program, net, p, w)
    chord = program.add_rows(np.full(len(p), -math.inf), endless)
    places = Places(x, p, w, chord, program.add_entries(chord, p, 1.0), program.add_entries(chord, w, 1.0))
    return replace(net, program=program.finish()), places


def _trunk(root: Root, program: Program, x: Ints, p: Ints, w: Ints, deadline: Deadline) -> tuple[Ints, Ints]:
    """Add y = W x; return columns (Y,) to add and to subtract: the first neurons' own y is p − w."""
    trunk, graph = root.condensed64.trunk, root.graph64.graph
    if trunk.node == 0 or trunk.count == 0:
        return x[trunk.index.cpu().numpy()], np.full(trunk.count, -1)
    direct = root.condensed64.direct
    bounds = root.intervals.of[trunk.node]
    others = trunk.index[direct:]
    own = program.add_columns(_flat(bounds.lower.flatten()[others]), _flat(bounds.upper.flatten()[others]))
    y = np.concatenate([p[:direct], own])
    minus = np.concatenate([w[:direct], np.full(len(own), -1)])
    done = 0
    for some in trunk.index.split(rows_that_fit(graph, trunk.node, root.device, torch.float64, grad=False)):
        deadline.check()
        unit = one_hot(
            some, torch.ones(len(some), dtype=torch.float64, device=root.device), graph.nodes[trunk.node].shape
        )
        form = root.graph64.back.walk(trunk.node, root.graph64.begin(trunk.node, unit), {}, 0)
        assert form.error is not None
        assert form.at is not None
        here = np.arange(done, done + len(some))
        rows = program.add_equalities(_flat(form.const), enlarged(_flat(form.error)))
        program.add_entries(rows, y[here], 1.0)
        split = minus[here] >= 0
        program.add_entries(rows[split], minus[here][split], -1.0)
        weight = form.at.dense().flatten(1).cpu().numpy()
        row, col = np.nonzero(weight)
        program.add_entries(rows[row], x[col], -weight[row, col])
        done += len(some)
    return y, minus


def _leaky(root: Root, program: Program, p: Ints, w: Ints) -> Ints:
    """Return the columns (U,) of each neuron's output: p itself for a ReLU, else a new z = p − a·w."""
    columns = p.copy()
    for layer in root.condensed64.layers:
        assert isinstance(layer.relaxation, HingeRelaxation)
        leak, here = layer.relaxation.leak, np.arange(layer.packed.start, layer.packed.stop)
        if leak == 0:
            continue
        bounds = root.intervals.of[layer.node]
        lower, upper = (_flat(side.flatten()[layer.index]) for side in (bounds.lower, bounds.upper))
        columns[here] = program.add_columns(lower, upper)
        rows = program.add_rows(np.zeros(len(here)), np.zeros(len(here)))
        for column, value in ((columns, 1.0), (p, -1.0), (w, leak)):
            program.add_entries(rows, column[here], value)
    return columns


def _neurons(root: Root, program: Program, net: Net, p: Ints, w: Ints) -> None:
    """Add the rows p − w − form·v = constant, for the neurons that do not read y itself."""
    condensed = root.condensed64
    assert condensed.charges is not None
    here = np.arange(condensed.direct, condensed.count)
    forms = condensed.matrix[condensed.direct :].cpu().numpy()
    rows = program.add_equalities(forms[:, 0], enlarged(_flat(condensed.charges.forms[condensed.direct :])))
    program.add_entries(rows, p[here], 1.0)
    program.add_entries(rows, w[here], -1.0)
    for entries in net.read(rows, forms, -1.0):
        program.add_entries(*entries)


def _flat(values: Tensor) -> Floats:
    found: Floats = values.detach().cpu().reshape(-1).numpy().astype(np.float64)
    return found
