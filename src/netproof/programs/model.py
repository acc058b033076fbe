"""Linear programs as plain arrays, and the sparse matrix of any affine op.

A program here is both what the solver is given and what its duals are checked against. So every coefficient
is exactly a weight of the network, and every bound is confirmed: each value that the network takes on the
domain satisfies the program in exact arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from netproof.bounds.linear.ball import Ball
from netproof.core.deadline import Deadline
from netproof.model.graph import Node
from netproof.model.ops import Affine

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CHUNK = 1 << 22  # entries of a dense block of unit vectors: 32 MiB in float64


class Entries(NamedTuple):
    """Coefficients (entry,) of a sparse matrix. A place that occurs twice counts as the sum of both."""

    row: Ints
    col: Ints
    value: Floats

    @staticmethod
    def join(parts: list[Entries]) -> Entries:
        if not parts:
            return Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        return Entries(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class RoundBall:
    """An ℓ2 ball that some columns lie in, on top of the rows: ‖x − centre‖₂ <= radius."""

    columns: Ints  # (n,)
    centre: Floats  # (n,)
    shape: Ball  # about the centre, cut by the columns' bounds or wider ones


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """min cost·x subject to row_lower <= A x <= row_upper and lower <= x <= upper, and some of x in a ball, if any."""

    cost: Floats  # (col,)
    lower: Floats  # (col,)
    upper: Floats  # (col,)
    row_lower: Floats  # (row,)
    row_upper: Floats  # (row,)
    entries: Entries
    ball: RoundBall | None = None

    def next_rows(self, count: int) -> Ints:
        """Return the indices (count,) of rows that are yet to be added."""
        return len(self.row_lower) + np.arange(count, dtype=np.int64)

    def minimising(self, rows: list[Entries], upper: Floats, least: Floats, most: Floats) -> LinearProgram:
        """Return min t over the same, with rows r − t <= upper (n,), their entries given as those of `next_rows`.

        least, most: the ranges of all r that are not free.
        """
        count, t = len(upper), len(self.cost)
        slack = Entries(self.next_rows(count), np.full(count, t), -np.ones(count))
        return LinearProgram(
            np.append(self.cost, 1.0),
            np.append(self.lower, least.max(initial=-math.inf)),
            np.append(self.upper, most.max(initial=-math.inf)),
            np.append(self.row_lower, np.full(count, -math.inf)),
            np.append(self.row_upper, upper),
            Entries.join([self.entries, *rows, slack]),
            self.ball,
        )


class Layout(NamedTuple):
    """The places of a matrix by rows, each once, as solvers want them."""

    start: Ints  # (row + 1,)
    column: Ints  # (place,)
    place: Ints  # (entry,) where each entry went

    @classmethod
    def of(cls, entries: Entries, rows: int, columns: int) -> Layout:
        key, place = np.unique(entries.row * columns + entries.col, return_inverse=True)
        start = np.searchsorted(key, np.arange(rows + 1, dtype=np.int64) * columns)
        return cls(start, key % columns, place)

    def values(self, value: Floats) -> Floats:
        """Add up values (entry,) by place, (place,). Repeated entries may round: good enough to find duals, and the
        check reads the entries as they are."""
        return np.bincount(self.place, value, len(self.column)).astype(np.float64)


class Program:
    """Columns and rows as they are collected."""

    def __init__(self) -> None:
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._row_lower: list[Floats] = []
        self._row_upper: list[Floats] = []
        self._entries: list[Entries] = []
        self.ball: RoundBall | None = None
        self.columns = 0
        self.rows = 0
        self.entries = 0

    def add_columns(self, lower: Floats, upper: Floats) -> Ints:
        """Add columns; return their indices, (n,)."""
        self._lower.append(lower)
        self._upper.append(upper)
        first, self.columns = self.columns, self.columns + len(lower)
        return np.arange(first, self.columns, dtype=np.int64)

    def add_rows(self, lower: Floats, upper: Floats) -> Ints:
        """Add rows, whose coefficients follow by `add_entries`; return their indices, (n,)."""
        self._row_lower.append(lower)
        self._row_upper.append(upper)
        first, self.rows = self.rows, self.rows + len(lower)
        return np.arange(first, self.rows, dtype=np.int64)

    def add_equalities(self, value: Floats, error: Floats) -> Ints:
        """Add rows … = value, within the error of each, rounded outward; return their indices, (n,)."""
        wide = error > 0
        return self.add_rows(
            np.where(wide, np.nextafter(value - error, -np.inf), value),
            np.where(wide, np.nextafter(value + error, np.inf), value),
        )

    def add_entries(self, row: Ints, col: Ints, value: Floats | float) -> Ints:
        """Add entries; return their places among all entries, (n,)."""
        self._entries.append(Entries(row, col, np.broadcast_to(np.float64(value), row.shape)))
        first, self.entries = self.entries, self.entries + len(row)
        return np.arange(first, self.entries, dtype=np.int64)

    def finish(self) -> LinearProgram:
        parts = (self._lower, self._upper, self._row_lower, self._row_upper)
        lower, upper, row_lower, row_upper = (np.concatenate([np.zeros(0), *part]) for part in parts)
        entries = Entries.join(self._entries)
        if min(entries.row.min(initial=0), entries.col.min(initial=0)) < 0:  # numpy takes −1 for the last
            raise RuntimeError("an entry of a linear program has no row or no column")
        return LinearProgram(np.zeros(self.columns), lower, upper, row_lower, row_upper, entries, self.ball)


def matrix_of(node: Node, wanted: Ints, deadline: Deadline) -> list[Entries]:
    """Return the rows `wanted` of an affine node's matrix, one block per input of the node.

    Row numbers count within `wanted`. The adjoint of a unit vector is a row of the matrix, and exactly so:
    in float64 every sum in it has one term that is not zero.
    """
    assert isinstance(node.op, Affine)
    found: list[list[Entries]] = [[] for _ in node.inputs]
    chunk = max(1, CHUNK // max(1, node.size))
    for first in range(0, len(wanted), chunk):
        deadline.check()
        some = torch.from_numpy(wanted[first : first + chunk])
        units = torch.zeros(len(some), node.size, dtype=torch.float64)
        units[torch.arange(len(some)), some] = 1.0
        blocks = node.op.adjoint(units.reshape(-1, *node.shape))
        for parts, block in zip(found, blocks, strict=True):
            dense = block.reshape(len(some), -1).numpy()
            row, col = np.nonzero(dense)
            parts.append(Entries(row + first, col, dense[row, col]))
    return [Entries.join(parts) for parts in found]


def offset_of(node: Node) -> Floats:
    """Return b of an affine node, flat."""
    assert isinstance(node.op, Affine)
    offset = node.op.offset()
    if offset is None:
        return np.zeros(node.size)
    return np.ascontiguousarray(offset.to(torch.float64).expand(node.shape).reshape(-1).numpy())


def aliases(blocks: list[Entries], offset: Floats) -> Bools:
    """Say which rows are a copy of one entry, or constantly zero: those need no column of their own."""
    joined = Entries.join(blocks)
    count = np.bincount(joined.row, minlength=len(offset))
    ones = np.bincount(joined.row, joined.value == 1.0, minlength=len(offset))
    single: Bools = (count <= 1) & (ones == count) & (offset == 0.0)
    return single
