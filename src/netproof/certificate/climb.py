"""Better slopes, multipliers and weights, by the gradient of the checker's own bound.

The bound of a form is the least value of a Lagrangian over the box. Where x attains it, the values that the network
has there when every ReLU is replaced by its line are the gradient: of a slope a⁺·h, of a multiplier ∓h, of a weight
its row. One pass back gives a, one pass forward gives h. Planes of other operators stay as they are. What is found is
only tried: the checker's routine values it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from npcheck.bound import Ranges
from npcheck.network import Affine, Network, Nonlinear, Plane, Relu
from npcheck.ranges import Signs
from npcheck.statement import Array, Rows

RATE, DECAY = 0.1, 0.98
LOOK = 8  # steps between two looks at what may still get there
HOPE = 0.7  # of the last rise, that each later one may be

Coefficients = dict[int, Array]  # by node (B, n)


class Goal(Protocol):
    """The forms that are to be made as large as they get."""

    def form(self, weights: Array) -> tuple[Coefficients, Array]:
        """Return the forms of weights (B, row): coefficients, and constants (B,)."""

    def of_weights(self, values: list[Array]) -> Array:
        """Return the gradient (B, row) from the values of all nodes."""


@dataclass(frozen=True)
class RowsGoal:
    """Weighted sums of a disjunct's rows."""

    rows: Rows
    output: int

    def form(self, weights: Array) -> tuple[Coefficients, Array]:
        """Return Σ λ r."""
        coefficients = {self.output: weights @ self.rows.outputs}
        if self.rows.inputs is not None:
            coefficients[0] = weights @ self.rows.inputs
        return coefficients, -(weights @ self.rows.right)

    def of_weights(self, values: list[Array]) -> Array:
        """Return the rows."""
        rows = values[self.output] @ self.rows.outputs.T - self.rows.right
        return rows if self.rows.inputs is None else rows + values[0] @ self.rows.inputs.T


@dataclass(frozen=True)
class NeuronsGoal:
    """h_i or −h_i of neurons of one node, each a form by itself."""

    node: int
    seeds: Array  # (B, n)

    def form(self, weights: Array) -> tuple[Coefficients, Array]:
        """Return the neurons' own forms."""
        return {self.node: self.seeds}, np.zeros(len(self.seeds))

    def of_weights(self, values: list[Array]) -> Array:
        """There is nothing to weigh."""
        return np.zeros((len(self.seeds), 1))


@dataclass
class Point:
    """What forms (B, …) are bounded with."""

    slopes: dict[int, Array]  # by node that a ReLU reads (B, n), in [0, 1]
    multipliers: dict[int, Array]  # (B, n), >= 0, where there is a split
    weights: Array  # (B, row), >= 0, 1 in all

    def parts(self) -> list[Array]:
        """Return all that moves."""
        return [*self.slopes.values(), *self.multipliers.values(), self.weights]

    def some(self, at: NDArray[np.int64]) -> Point:
        """Return those of some forms, as copies."""
        slopes, multipliers = ({k: v[at] for k, v in of.items()} for of in (self.slopes, self.multipliers))
        return Point(slopes, multipliers, self.weights[at])


@dataclass(frozen=True)
class Climbed:
    """What a climb came to."""

    values: Array  # (B,): the best, without rounding charged
    point: Point  # where these are
    losses: dict[int, Array]  # by node (B, n): what each neuron's relaxation may cost, when last looked at


def climb(
    network: Network,
    ranges: Ranges,
    goal: Goal,
    signs: dict[int, Signs],
    start: Point,
    steps: int,
    enough: float = np.inf,
) -> Climbed:
    """Climb from a start until all forms are above a value, or cannot be expected to get there.

    ranges: of the forms' sub-domains, with their splits. signs: by node (B, n), of the splits.
    """
    every = np.arange(len(start.weights))
    point, best = start.some(every), start.some(every)
    values, looked = np.full(len(every), -np.inf), np.full(len(every), -np.inf)
    moments = [(np.zeros_like(part), np.zeros_like(part)) for part in point.parts()]
    losses: dict[int, Array] = {}
    for step in range(steps + 1):
        value, gradient, losses = _evaluate(network, ranges, goal, signs, point)
        better = value > values
        values = np.where(better, value, values)
        for old, new in zip(best.parts(), point.parts(), strict=True):
            old[better] = new[better]
        if step == steps:
            break
        if step % LOOK == LOOK - 1:
            expected = values + HOPE * (values - looked) * (steps - step) / LOOK
            if ((values > enough) | (expected <= enough)).all() and np.isfinite(enough):
                break
            looked = values
        _move(point, gradient, moments, step)
    return Climbed(values, best, losses)


def _move(point: Point, gradient: Point, moments: list[tuple[Array, Array]], step: int) -> None:
    """Take one step of Adam, and stay within what is allowed."""
    length = RATE * DECAY**step / (1 - 0.9 ** (step + 1))
    for part, slope, (first, second) in zip(point.parts(), gradient.parts(), moments, strict=True):
        first += 0.1 * (slope - first)
        second += 0.001 * (slope * slope - second)
        part += length * first / (np.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-8)
    for slopes in point.slopes.values():
        np.clip(slopes, 0.0, 1.0, out=slopes)
    for multipliers in point.multipliers.values():
        np.maximum(multipliers, 0.0, out=multipliers)
    weights = point.weights
    np.maximum(weights, 0.0, out=weights)
    total = weights.sum(1, keepdims=True)
    weights[:] = np.where(total > 0.0, weights / np.where(total > 0.0, total, 1.0), 1.0 / weights.shape[1])


def _evaluate(
    network: Network, ranges: Ranges, goal: Goal, signs: dict[int, Signs], point: Point
) -> tuple[Array, Point, dict[int, Array]]:
    """Return the bound (B,), its gradient, and by node what each neuron's relaxation may cost (B, n)."""
    coefficients, constant = goal.form(point.weights)
    top = max(coefficients)
    lines: dict[int, Plane] = {}
    scale: dict[int, Array] = {}
    losses: dict[int, Array] = {}
    for node in range(top, 0, -1):
        a = coefficients.pop(node, None)
        if a is None:
            continue
        op, inputs = network.nodes[node].op, network.nodes[node].inputs
        if isinstance(op, Relu):
            (h,) = inputs
            slope, offset = _line(a, ranges.lower[h], ranges.upper[h], point.slopes[h])
            lines[node], losses[h] = Plane((slope,), offset), np.abs(a) * height(ranges.lower[h], ranges.upper[h])
            scale[h] = np.where((ranges.lower[h] < 0.0) & (ranges.upper[h] > 0.0) & (a >= 0.0), a, 0.0)
            constant = constant + (a * offset).sum(1)
            p = a * slope
            parts = [p - signs[h] * point.multipliers[h] if h in signs else p]
        elif isinstance(op, Nonlinear):
            lines[node] = ranges.planes(network, node).facing(a)
            constant = constant + np.where(a == 0.0, 0.0, a * lines[node].constant).sum(1)
            parts = [a * slope for slope in lines[node].slopes]
        else:
            assert isinstance(op, Affine)
            if op.bias is not None:
                constant = constant + a @ op.bias
            parts = op.adjoint(a)
        for w, part in zip(inputs, parts, strict=True):
            coefficients[w] = coefficients[w] + part if w in coefficients else part
    a = coefficients.get(0, np.zeros((len(constant), network.nodes[0].size)))
    low, high = ranges.lower[0], ranges.upper[0]
    x = np.where(a >= 0.0, low, high) if ranges.ball is None else ranges.ball.furthest(a, low, high)
    values = _forward(network, x, lines, top)
    gradient = Point(
        {h: scale[h] * values[h] if h in scale else np.zeros_like(part) for h, part in point.slopes.items()},
        {h: -signs[h] * values[h] if h in scale else np.zeros_like(part) for h, part in point.multipliers.items()},
        goal.of_weights(values),
    )
    return constant + (a * x).sum(1), gradient, losses


def _line(a: Array, low: Array, high: Array, share: Array) -> tuple[Array, Array]:
    """Return the line (slope, offset) that each ReLU has here."""
    unstable = (low < 0.0) & (high > 0.0)
    chord = np.where(unstable, high, 0.0) / np.where(unstable, high - low, 1.0)
    slope = np.where(unstable, np.where(a >= 0.0, share, chord), np.where(low >= 0.0, 1.0, 0.0))
    return slope, np.where(unstable & (a < 0.0), -chord * low, 0.0)


def height(low: Array, high: Array) -> Array:
    """Return how high the triangle of a ReLU is: how far its lines are apart at 0."""
    unstable = (low < 0.0) & (high > 0.0)
    return np.where(unstable, -low * high / np.where(unstable, high - low, 1.0), 0.0)


def _forward(network: Network, x: Array, lines: dict[int, Plane], last: int) -> list[Array]:
    """Return the values of the nodes up to one where each ReLU is its line; those without one are as they are."""
    values = [x]
    for place, node in enumerate(network.nodes[1 : last + 1], 1):
        op = node.op
        if place in lines:
            value = lines[place].constant
            for w, slope in zip(node.inputs, lines[place].slopes, strict=True):
                value = value + slope * values[w]
            values.append(value)
            continue
        if isinstance(op, Relu):
            values.append(np.maximum(values[node.inputs[0]], 0.0))
            continue
        if isinstance(op, Nonlinear):
            values.append(op.near([values[w] for w in node.inputs]))
            continue
        assert isinstance(op, Affine)
        value = op.forward([values[w] for w in node.inputs])
        values.append(value if op.bias is None else value + op.bias)
    return values
