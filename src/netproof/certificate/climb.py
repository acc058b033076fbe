"""Better slopes, multipliers and weights for leaves that do not hold yet, by the gradient of the checker's own bound.

The bound of a leaf is the least value of a Lagrangian over its box. Where x attains it, the values that the network
has there when every ReLU is replaced by its line are the gradient: of a slope a⁺·h, of a multiplier ∓h, of a weight
its row. One pass back gives a, one pass forward gives h. What is found is only tried: the checker's routine values it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from npcheck.bound import Ranges
from npcheck.network import Affine, Network, Relu
from npcheck.statement import Array, Rows

RATE, DECAY = 0.1, 0.98


@dataclass
class Point:
    """What leaves (B, …) are bounded with."""

    slopes: dict[int, Array]  # by node that a ReLU reads (B, n), in [0, 1]
    multipliers: dict[int, Array]  # (B, n), >= 0, where there is a split
    weights: Array  # (B, row), >= 0

    def parts(self) -> list[Array]:
        """Return all that moves."""
        return [*self.slopes.values(), *self.multipliers.values(), self.weights]

    def copied(self) -> Point:
        """Return a copy."""
        slopes, multipliers = ({k: v.copy() for k, v in of.items()} for of in (self.slopes, self.multipliers))
        return Point(slopes, multipliers, self.weights.copy())


def climb(
    network: Network, ranges: Ranges, rows: Rows, signs: dict[int, Array], start: Point, steps: int
) -> tuple[Array, Point, dict[int, Array]]:
    """Return the best values (B,) seen from a start, without rounding charged, where, and what each neuron loses last.

    ranges: of each leaf, with its splits. signs: by node (B, n), of its splits.
    """
    point, best = start.copied(), start.copied()
    values = np.full(len(start.weights), -np.inf)
    moments = [(np.zeros_like(part), np.zeros_like(part)) for part in point.parts()]
    for step in range(steps + 1):
        value, gradient, losses = _evaluate(network, ranges, rows, signs, point)
        better = value > values
        values = np.where(better, value, values)
        for old, new in zip(best.parts(), point.parts(), strict=True):
            old[better] = new[better]
        if step == steps or (values > 0).all():
            break
        _move(point, gradient, moments, step)
    return values, best, losses


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
    network: Network, ranges: Ranges, rows: Rows, signs: dict[int, Array], point: Point
) -> tuple[Array, Point, dict[int, Array]]:
    """Return the bound (B,), its gradient, and by node what each neuron's relaxation may lose (B, n)."""
    coefficients: dict[int, Array] = {len(network.nodes) - 1: point.weights @ rows.outputs}
    constant = -(point.weights @ rows.right)
    if rows.inputs is not None:
        coefficients[0] = point.weights @ rows.inputs
    lines: dict[int, tuple[Array, Array]] = {}
    gradient = Point({}, {}, np.zeros_like(point.weights))
    scale: dict[int, Array] = {}
    losses: dict[int, Array] = {}
    for node in range(len(network.nodes) - 1, 0, -1):
        a = coefficients.pop(node, None)
        if a is None:
            continue
        op, inputs = network.nodes[node].op, network.nodes[node].inputs
        if isinstance(op, Relu):
            (h,) = inputs
            p, slope, offset, pull = _line(a, ranges.lower[h], ranges.upper[h], point.slopes[h])
            lines[node], scale[h] = (slope, offset), pull
            losses[h] = np.abs(a) * _triangle(ranges.lower[h], ranges.upper[h])
            constant = constant + (a * offset).sum(1)
            if h in signs:
                p = p - signs[h] * point.multipliers[h]
            coefficients[h] = coefficients.get(h, 0.0) + p
            continue
        assert isinstance(op, Affine)
        if op.bias is not None:
            constant = constant + a @ op.bias
        for w, part in zip(inputs, op.adjoint(a), strict=True):
            coefficients[w] = coefficients.get(w, 0.0) + part
    a = coefficients.get(0, np.zeros((len(constant), network.nodes[0].size)))
    low, high = ranges.lower[0], ranges.upper[0]
    x = np.where(a >= 0.0, low, high)
    value = constant + (a * x).sum(1)
    values = _forward(network, x, lines)
    for h in point.slopes:
        gradient.slopes[h] = scale[h] * values[h] if h in scale else np.zeros_like(point.slopes[h])
    for h in point.multipliers:
        gradient.multipliers[h] = -signs[h] * values[h]
    gradient.weights = values[len(network.nodes) - 1] @ rows.outputs.T - rows.right
    if rows.inputs is not None:
        gradient.weights = gradient.weights + x @ rows.inputs.T
    return value, gradient, losses


def _line(a: Array, low: Array, high: Array, share: Array) -> tuple[Array, Array, Array, Array]:
    """Return p, the line (slope, offset) that the ReLU has here, and a where p follows the slope chosen."""
    unstable = (low < 0.0) & (high > 0.0)
    chord = np.where(unstable, high, 0.0) / np.where(unstable, high - low, 1.0)
    below = a >= 0.0
    slope = np.where(unstable, np.where(below, share, chord), np.where(low >= 0.0, 1.0, 0.0))
    offset = np.where(unstable & ~below, -chord * low, 0.0)
    return a * slope, slope, offset, np.where(unstable & below, a, 0.0)


def _triangle(low: Array, high: Array) -> Array:
    """Return how high the triangle of a ReLU is: what its lines are apart at 0."""
    unstable = (low < 0.0) & (high > 0.0)
    return np.where(unstable, -low * high / np.where(unstable, high - low, 1.0), 0.0)


def _forward(network: Network, x: Array, lines: dict[int, tuple[Array, Array]]) -> list[Array]:
    """Return the value of every node where each ReLU is its line; those behind no line are left out as zeros."""
    values = [x]
    for node in network.nodes[1:]:
        op = node.op
        if isinstance(op, Relu):
            given = lines.get(len(values))
            before = values[node.inputs[0]]
            values.append(np.maximum(before, 0.0) if given is None else given[0] * before + given[1])
            continue
        assert isinstance(op, Affine)
        value = op.forward([values[w] for w in node.inputs])
        values.append(value if op.bias is None else value + op.bias)
    return values
