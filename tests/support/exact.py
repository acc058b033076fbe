"""Exact minima of tiny networks, by two routes that share nothing with netproof's bounds.

`enumerate_minimum` walks through the activation patterns and solves one LP in the input space for each linear
piece; `milp_minimum` is the textbook big-M encoding, and faster. Both use scipy, read an affine op by its
forward map only, and are exact up to the LP solver's tolerance (about 1e-7): compare with 1e-5, avoid ties.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter

import numpy as np
import torch
from scipy.optimize import LinearConstraint, milp

from netproof.model.graph import Graph, Node
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.ops import Affine, Input
from netproof.problem.property import Disjunct

# A linear function of the input, one row an element: (element, input + 1), the constant last.
Piece = np.ndarray

SAMPLES = 500  # points that show which linear pieces there are, so that LPs need only find the others


@dataclass(frozen=True, eq=False)
class Minimum:
    """min over the box of max_j r_j, and an input that takes it."""

    value: float
    point: np.ndarray  # (input,)


def leak_of(node: Node) -> float:
    """a of max(h, a·h)."""
    if isinstance(node.op, Relu):
        return 0.0
    assert isinstance(node.op, LeakyRelu)
    return node.op.alpha


def rows_of(disjunct: Disjunct, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """(coef (row, output), offset (row,)): the rows as r = coef·y − offset.

    Where a row reads inputs, all of them have a column after the outputs: (row, output + input).
    """
    reads = any(row.inputs for row in disjunct.rows)
    coef = np.zeros((len(disjunct.rows), outputs + reads * len(disjunct.box.lower)))
    for j, row in enumerate(disjunct.rows):
        for i, c in (*row.coefs.items(), *((outputs + i, c) for i, c in row.inputs.items())):
            coef[j, i] = float(c)
    return coef, np.array([float(row.rhs) for row in disjunct.rows])


# --- by enumeration ---


def enumerate_minimum(
    graph: Graph, lower: np.ndarray, upper: np.ndarray, coef: np.ndarray, offset: np.ndarray
) -> Minimum:
    """The least over all linear pieces; lower, upper (input,), coef and offset as of `rows_of`."""
    waiting = []
    for output, region in _pieces(graph, tuple(lower.tolist()), tuple(upper.tolist())):
        rows = coef @ np.vstack([output, np.eye(len(lower), len(lower) + 1)])[: coef.shape[1]]
        rows[:, -1] -= offset
        waiting.append((float(_depths(rows, lower, upper).max()), rows, region))
    best = Minimum(np.inf, lower)
    for depth, rows, region in sorted(waiting, key=itemgetter(0)):
        if depth >= best.value:
            break  # no later one is lower, not even without its region's constraints
        found = _least(rows, region, lower, upper)
        if found is not None and found.value < best.value:
            best = found
    return best


@lru_cache(maxsize=8)  # of one network several minima are asked
def _pieces(graph: Graph, lower: tuple[float, ...], upper: tuple[float, ...]) -> list[tuple[Piece, Piece]]:
    """(output, region) of every linear piece that the box meets; the region is where `region` <= 0."""
    size = len(lower)
    share = np.random.default_rng(0).random((SAMPLES, size))
    points = np.array(lower) + share * (np.array(upper) - np.array(lower))
    whole = _Region(np.zeros((0, size + 1)), points, np.array(lower), np.array(upper))
    return list(_extend(graph, [np.eye(size, size + 1)], whole))


@dataclass(frozen=True, eq=False)
class _Region:
    """The part of the box [lower, upper] where `rows` <= 0, and points of it, at least one: (point, input)."""

    rows: Piece
    points: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def narrowed(self, row: np.ndarray) -> _Region | None:
        """The part where `row` <= 0 as well, or None where there is none; an LP says so where no point is at hand."""
        if _depths(row[None], self.lower, self.upper)[0] > 0:
            return None
        rows = np.vstack([self.rows, row])
        kept = self.points[self.points @ row[:-1] + row[-1] <= 0]
        if len(kept):
            return replace(self, rows=rows, points=kept)
        point = _solve(np.zeros(len(self.lower)), rows[:, :-1], -rows[:, -1], self.lower, self.upper)
        return None if point is None else replace(self, rows=rows, points=point[None])


def _extend(graph: Graph, values: list[Piece], region: _Region) -> Iterator[tuple[Piece, Piece]]:
    if len(values) == len(graph.nodes):
        yield values[-1], region.rows
        return
    node = graph.nodes[len(values)]
    if isinstance(node.op, Affine):
        inputs = [(values[i], graph.nodes[i].shape) for i in node.inputs]
        yield from _extend(graph, [*values, _compose(node.op, inputs)], region)
        return
    h = values[node.inputs[0]]
    for active, part in _patterns(h, 0, region):
        slope = np.where(active, 1.0, leak_of(node))
        yield from _extend(graph, [*values, slope[:, None] * h], part)


def _patterns(h: Piece, first: int, region: _Region) -> Iterator[tuple[list[bool], _Region]]:
    """The sign patterns of h's elements from `first` on that occur somewhere in the region."""
    if first == len(h):
        yield [], region
        return
    for active in (True, False):
        part = region.narrowed(-h[first] if active else h[first])
        if part is not None:
            for rest, final in _patterns(h, first + 1, part):
                yield [active, *rest], final


def _compose(op: Affine, inputs: list[tuple[Piece, tuple[int, ...]]]) -> Piece:
    """The op after linear functions: forward of the constants, and of the coefficients less forward of 0."""
    xs = [torch.from_numpy(piece.T.copy()).reshape(-1, *shape) for piece, shape in inputs]
    values = op.forward(*xs).flatten(1)
    zero = op.forward(*(torch.zeros_like(x[:1]) for x in xs)).flatten(1)
    values[:-1] -= zero
    return values.numpy().T


def _depths(rows: Piece, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """(row,) the least of each over the box."""
    return (rows[:, :-1] * np.where(rows[:, :-1] > 0, lower, upper)).sum(1) + rows[:, -1]


def _least(rows: Piece, region: Piece, lower: np.ndarray, upper: np.ndarray) -> Minimum | None:
    """min t with r_j <= t on one piece, over (x, t)."""
    above = np.hstack([np.vstack([rows, region])[:, :-1], np.zeros((len(rows) + len(region), 1))])
    above[: len(rows), -1] = -1.0
    limit = -np.concatenate([rows[:, -1], region[:, -1]])
    cost = np.append(np.zeros(len(lower)), 1.0)
    found = _solve(cost, above, limit, np.append(lower, -np.inf), np.append(upper, np.inf))
    return None if found is None else Minimum(float(found[-1]), found[:-1])


def _solve(
    cost: np.ndarray, rows: np.ndarray, limit: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray | None:
    """Where cost·x is least under rows·x <= limit, or None. `milp` without integers is the faster `linprog`."""
    found = milp(cost, bounds=(lower, upper), constraints=LinearConstraint(rows, -np.inf, limit))
    return np.array(found.x) if found.success else None


# --- by mixed-integer programming ---


def milp_minimum(
    graph: Graph,
    lower: np.ndarray,
    upper: np.ndarray,
    coef: np.ndarray,
    offset: np.ndarray,
    signs: Mapping[tuple[int, int], int] | None = None,
) -> Minimum:
    """The same minimum with a 0/1 variable for every neuron that intervals leave unstable.

    signs: by (node, element), +1 or −1 where only inputs with that element >= 0 or <= 0 count; +inf if none do.
    """
    encoding = _BigM(graph, lower, upper)
    for (node, element), sign in (signs or {}).items():
        encoding.constrain([(encoding.at[node][element], float(sign))], 0.0, np.inf)
    t = encoding.variables(np.full(1, -np.inf), np.full(1, np.inf))[0]
    for row, rhs in zip(coef, offset, strict=True):
        read = [*encoding.at[-1], *encoding.at[0]][: len(row)]
        encoding.constrain([*zip(read, row, strict=True), (t, -1.0)], -np.inf, rhs)
    return encoding.minimise(t)


class _BigM:
    """Variables for every element of every node, in order of creation."""

    def __init__(self, graph: Graph, lower: np.ndarray, upper: np.ndarray) -> None:
        self.low: list[float] = []
        self.high: list[float] = []
        self.integer: list[bool] = []
        self.rows: list[tuple[list[tuple[int, float]], float, float]] = []
        self.at: list[list[int]] = []
        for node in graph.nodes:
            if isinstance(node.op, Input):
                self.at.append(self.variables(lower, upper))
            elif isinstance(node.op, Affine):
                self.at.append(self._affine(node.op, [graph.nodes[i] for i in node.inputs]))
            else:
                self.at.append([self._hinge(h, leak_of(node)) for h in self.at[node.inputs[0]]])

    def variables(self, lower: np.ndarray, upper: np.ndarray, integer: bool = False) -> list[int]:
        first = len(self.low)
        self.low.extend(lower)
        self.high.extend(upper)
        self.integer.extend([integer] * len(lower))
        return list(range(first, len(self.low)))

    def constrain(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        self.rows.append((terms, low, high))

    def _affine(self, op: Affine, inputs: list[Node]) -> list[int]:
        sizes = [node.size for node in inputs]
        ends = np.cumsum([0, *sizes])
        units = torch.eye(ends[-1] + 1, ends[-1], dtype=torch.float64)  # the last row is the origin
        parts = zip(ends[:-1], ends[1:], inputs, strict=True)
        values = op.forward(*(units[:, a:b].reshape(-1, *node.shape) for a, b, node in parts)).flatten(1).numpy()
        weight, offset = (values[:-1] - values[-1]).T, values[-1]
        source = [index for node in inputs for index in self.at[node.index]]
        low, high = np.array(self.low)[source], np.array(self.high)[source]
        reach = np.clip(weight, 0, None) @ high + np.clip(weight, None, 0) @ low + offset
        depth = np.clip(weight, 0, None) @ low + np.clip(weight, None, 0) @ high + offset
        found = self.variables(depth, reach)
        for index, row, b in zip(found, weight, offset, strict=True):
            self.constrain([(index, 1.0), *zip(source, -row, strict=True)], b, b)
        return found

    def _hinge(self, h: int, leak: float) -> int:
        low, high = self.low[h], self.high[h]
        if low >= 0 or high <= 0:
            slope = 1.0 if low >= 0 else leak
            ends = sorted((slope * low, slope * high))
            (value,) = self.variables(np.array(ends[:1]), np.array(ends[1:]))
            self.constrain([(value, 1.0), (h, -slope)], 0.0, 0.0)
            return value
        (value,) = self.variables(np.array([min(0.0, leak * low)]), np.array([max(high, leak * low)]))
        (active,) = self.variables(np.zeros(1), np.ones(1), integer=True)
        self.constrain([(value, 1.0), (h, -1.0)], 0.0, np.inf)
        self.constrain([(value, 1.0), (h, -leak)], 0.0, np.inf)
        self.constrain([(value, 1.0), (h, -1.0), (active, (leak - 1) * low)], -np.inf, (leak - 1) * low)
        self.constrain([(value, 1.0), (h, -leak), (active, (leak - 1) * high)], -np.inf, 0.0)
        return value

    def minimise(self, target: int) -> Minimum:
        matrix = np.zeros((len(self.rows), len(self.low)))
        for i, (terms, _, _) in enumerate(self.rows):
            for index, value in terms:
                matrix[i, index] += value
        _, low, high = zip(*self.rows, strict=True)
        cost = np.zeros(len(self.low))
        cost[target] = 1.0
        limits = (np.array(side) for side in (self.low, self.high, low, high))
        found = _solve_mixed(cost, np.array(self.integer, dtype=int), matrix, *limits)
        if found is None:
            return Minimum(np.inf, np.array(self.low)[self.at[0]])
        return Minimum(float(found[target]), found[self.at[0]])


_solved: dict[bytes, np.ndarray | None] = {}  # tests ask the same of many methods


def _solve_mixed(
    cost: np.ndarray,
    integer: np.ndarray,
    matrix: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    least: np.ndarray,
    most: np.ndarray,
) -> np.ndarray | None:
    """Where cost·x is least in [lower, upper] under least <= matrix·x <= most, or None where nothing is left."""
    digest = hashlib.sha256(repr(matrix.shape).encode())
    for part in (cost, integer, matrix, lower, upper, least, most):
        digest.update(np.ascontiguousarray(part).tobytes())
    key = digest.digest()
    if key not in _solved:
        rows = LinearConstraint(matrix, least, most)
        found = milp(cost, integrality=integer, bounds=(lower, upper), constraints=rows, options={"mip_rel_gap": 0.0})
        assert found.success or found.status == 2, found.message  # 2: infeasible
        _solved[key] = np.array(found.x) if found.success else None
    return _solved[key]


# --- the verdict ---


def decide(graph: Graph, disjuncts: Sequence[Disjunct], tolerance: float = 1e-4) -> str:
    """unsat: no violation; sat: one exists; tie: too near to call, so a test should pass it over."""
    verdict = "unsat"
    for disjunct in disjuncts:
        if disjunct.box.empty:
            continue
        lower, upper = (np.array([float(v) for v in side]) for side in (disjunct.box.lower, disjunct.box.upper))
        value = enumerate_minimum(graph, lower, upper, *rows_of(disjunct, graph.output.size)).value
        if value < -tolerance:
            return "sat"
        if value <= tolerance:
            verdict = "tie"
    return verdict
