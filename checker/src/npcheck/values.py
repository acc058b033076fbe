"""The values of a network at one point: enclosed in float64, or exactly, in whole numbers times powers of 2.

Enclosed: the intervals of `ranges` on the box that is the point alone, with their charges. Exactly: every weight and
every number of the point is a float, so each value is a whole number times a power of 2, and Python's integers hold it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from npcheck.errors import Refused
from npcheck.exact import Dyadic, Integers, dyadic
from npcheck.network import SINGLE, Affine, Convolution, Input, Linear, Network, Node, Relu, Scale, Sum, Take
from npcheck.ranges import interval, start
from npcheck.statement import Array

MOST_PRODUCTS = 1 << 27  # of all exact operators: some ten seconds
MOST_BITS = 1 << 16  # of an exact value
MOST_HELD = 1 << 33  # bits of all values of a node
MOST_SHIFT = 2200  # bits that one product with a float adds to a value, brought to the lowest exponent
WEIGHTS = 1 << 20  # that are held as whole numbers at once


@dataclass(frozen=True)
class Enclosed:
    """Numbers between two ends; None: without an end."""

    lower: list[Fraction | None]
    upper: list[Fraction | None]


def enclosed_values(network: Network, point: Array) -> Enclosed:
    """Return what the outputs at a point (n,) are between."""
    ranges = start(network, point[None], point[None])
    for node in range(1, len(network.nodes)):
        ranges.lower[node], ranges.upper[node] = interval(network, node, ranges)
        if network.cuts(node, ranges.lower[node], ranges.upper[node]):
            nothing: list[Fraction | None] = [None] * network.nodes[-1].size
            return Enclosed(nothing, nothing)
    lower, upper = ([_fraction(end) for end in side[-1][0].tolist()] for side in (ranges.lower, ranges.upper))
    return Enclosed(lower, upper)


def _fraction(end: float) -> Fraction | None:
    return Fraction(end) if np.isfinite(end) else None


def exact_values(network: Network, point: Array) -> Enclosed:
    """Return the outputs at a point (n,); Refused where exact arithmetic cannot do that, or would take too long."""
    if sum(_products(node) for node in network.nodes) > MOST_PRODUCTS:
        raise Refused(f"exact arithmetic would take more than {MOST_PRODUCTS} products")
    last = {w: place for place, node in enumerate(network.nodes) for w in node.inputs}
    values: dict[int, Dyadic] = {}
    for place, node in enumerate(network.nodes):
        values[place] = _value(node, point, [values[w] for w in node.inputs])
        if place in network.uncut and any(abs(values[place].fraction(i)) > SINGLE for i in range(node.size)):
            raise Refused(f"{node.name}: a value is beyond a float32, where the model clips it")
        for w in set(node.inputs):
            if last[w] == place:
                del values[w]
    output = values[len(network.nodes) - 1]
    exact: list[Fraction | None] = [output.fraction(i) for i in range(len(output.numbers))]
    return Enclosed(exact, exact)


def _value(node: Node, point: Array, inputs: list[Dyadic]) -> Dyadic:
    op = node.op
    if isinstance(op, Input):
        return dyadic(point)
    if isinstance(op, Relu):
        return Dyadic(np.maximum(inputs[0].numbers, 0), inputs[0].exponent)
    if not isinstance(op, Affine) or op.folded:
        why = "some of its numbers were computed in float64" if isinstance(op, Affine) else "it is no ReLU"
        raise Refused(f"{node.name} has no exact value: {why}")
    biases = [] if op.bias is None else [dyadic(op.bias)]
    if (_bits([*inputs, *biases]) + MOST_SHIFT) * max(op.size, *op.sizes) > MOST_HELD:
        raise Refused(f"{node.name}: its exact values have more than {MOST_HELD} bits together")
    value = _forward(op, inputs)
    for bias in biases:
        value = value + bias
    if int(np.max(np.abs(value.numbers), initial=0)).bit_length() > MOST_BITS:
        raise Refused(f"{node.name}: an exact value has more than {MOST_BITS} bits")
    return value


def _bits(values: list[Dyadic]) -> int:
    """Return how many bits a number has at most once all are brought to one exponent."""
    lowest = min(value.exponent for value in values)
    most = (int(np.max(np.abs(value.numbers), initial=0)).bit_length() + value.exponent for value in values)
    return max(most) - lowest


def _products(node: Node) -> int:
    op = node.op
    if isinstance(op, Linear):
        return op.copies * int(op.weight.size)
    if isinstance(op, Convolution):
        return op.size * int(op.taps[:, :, 0, 0].size)
    return node.size


def _forward(op: Affine, inputs: list[Dyadic]) -> Dyadic:
    """Return W·w, without b."""
    (x, *_) = inputs
    if isinstance(op, Linear):
        return _linear(op, x)
    if isinstance(op, Convolution):
        taps = dyadic(op.taps)
        return Dyadic(_convolved(op, taps.numbers, x.numbers), taps.exponent + x.exponent)
    if isinstance(op, Scale):
        return x * dyadic(op.factor)
    if isinstance(op, Sum):
        total = Dyadic(np.zeros(op.size, dtype=object), 0)
        for sign, value in zip(op.signs, inputs, strict=True):
            total = total + value if sign > 0 else total - value
        return total
    assert isinstance(op, Take), "an operator that is not known here"
    lowest = min(value.exponent for value in inputs)
    joined = np.concatenate([value.at(lowest) for value in inputs])
    return Dyadic(np.where(op.index >= 0, joined[np.maximum(op.index, 0)], 0), lowest)


def _linear(op: Linear, x: Dyadic) -> Dyadic:
    """Multiply by some rows of the matrix at a time."""
    vectors = x.numbers.reshape(op.copies, -1)
    used = (vectors != 0).any(0)
    if not used.any():
        return Dyadic(np.zeros(op.size, dtype=object), 0)
    step = max(1, WEIGHTS // op.weight.shape[1])
    parts = []
    for begin in range(0, len(op.weight), step):
        some = dyadic(op.weight[begin : begin + step, used])
        parts.append(Dyadic(vectors[:, used] @ some.numbers.T, x.exponent + some.exponent))
    lowest = min(part.exponent for part in parts)
    return Dyadic(np.concatenate([part.at(lowest) for part in parts], axis=1).reshape(-1), lowest)


def _convolved(op: Convolution, taps: Integers, pixels: Integers) -> Integers:
    """Add, for every entry of the kernel, the products with the pixels that lie under it."""
    top, left, _, _ = op.windows.pads
    height, width = op.windows.image
    padded = np.zeros((op.group, op.ins, *op.windows.padded), dtype=object)
    padded[..., top : top + height, left : left + width] = pixels.reshape(op.group, op.ins, height, width)
    result = np.zeros((op.group, op.outs, op.windows.result[0] * op.windows.result[1]), dtype=object)
    for i, j in op.windows.positions():
        rows, columns = op.windows.under(i, j)
        under = padded[..., rows, columns].reshape(op.group, op.ins, -1)
        for group in range(op.group):
            result[group] += taps[i, j, group] @ under[group]
    return result.reshape(-1)
