"""Bounds of e^x and log x as fractions, and networks in them: what the checker's own enclosures are compared with."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from npcheck.exponential import Exp, Log, Sigmoid, Softplus
from npcheck.network import Affine, Network, Nonlinear, Relu
from npcheck.product import Product, Reciprocal, Root, Square
from npcheck.smooth import Curve

BITS = 250  # behind the point, of everything here
Ends = tuple[Fraction, Fraction]


def outward(low: Fraction, high: Fraction, bits: int = BITS) -> Ends:
    """Return shorter fractions below and above."""
    scale = 1 << bits
    below, above = low.numerator * scale // low.denominator, -(-high.numerator * scale // high.denominator)
    return Fraction(below, scale), Fraction(above, scale)


def exp(x: Fraction) -> Ends:
    """Return bounds of e^x that are hardly apart: Taylor's series of x / 2^k, squared k times."""
    if x < 0:
        low, high = exp(-x)
        size = BITS + 2 * high.numerator.bit_length()
        return outward(1 / high, 1 / low, size)
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 4)
    small, term, total = x / 2**halvings, Fraction(1), Fraction(1)
    for k in range(1, 60):
        term = outward(term * small / k, Fraction(0), 2 * BITS)[0]
        total += term
    low, high = total, total + Fraction(100, 2 ** (2 * BITS)) + small**60  # of the series' rest, less than its first
    for _ in range(halvings):
        low, high = outward(low * low, high * high, 2 * BITS)
    return low, high


def log(y: Fraction) -> Ends:
    """Return bounds of log y, by Newton's steps from a float and one look at e^x on each side."""
    x = Fraction(float(np.log(float(y))))
    for _ in range(2):  # each has three times as many digits as the one before
        near = exp(x)[0]
        x = outward(x + 2 * (y - near) / (y + near), Fraction(0))[0]
    away = Fraction(1, 2**150)
    assert exp(x - away)[1] <= y <= exp(x + away)[0]
    return x - away, x + away


def root(x: Fraction) -> Ends:
    """Return bounds of √x."""
    scale = 1 << (2 * BITS)
    found = _integer_root(x.numerator * scale // x.denominator)
    return Fraction(found, 1 << BITS), Fraction(found + 1, 1 << BITS)


def _integer_root(n: int) -> int:
    x = 1 << (n.bit_length() // 2 + 1)
    while x * x > n:
        x = (x + n // x) // 2
    return x


def sigmoid(x: Fraction) -> Ends:
    low, high = exp(-x)
    return 1 / (1 + high), 1 / (1 + low)


def softplus(x: Fraction) -> Ends:
    low, high = exp(x)
    if x < -60:
        return low - low * low / 2, high
    return log(1 + low)[0], log(1 + high)[1]


VALUES: dict[type[Curve], Callable[[Fraction], Ends]] = {
    Exp: exp,
    Log: log,
    Reciprocal: lambda x: (1 / x, 1 / x),
    Root: root,
    Sigmoid: sigmoid,
    Softplus: softplus,
    Square: lambda x: (x * x, x * x),
}


def _slope_of_sigmoid(x: Fraction) -> Ends:
    low, high = exp(-abs(x))
    return low / (1 + low) ** 2, high / (1 + high) ** 2


SLOPES: dict[type[Curve], Callable[[Fraction], Ends]] = {
    Exp: exp,
    Log: lambda x: (1 / x, 1 / x),
    Reciprocal: lambda x: (-1 / x**2, -1 / x**2),
    Root: lambda x: (1 / (2 * root(x)[1]), 1 / (2 * root(x)[0])),
    Sigmoid: _slope_of_sigmoid,
    Softplus: sigmoid,
    Square: lambda x: (2 * x, 2 * x),
}


def matrix(op: Affine) -> list[list[Fraction]]:
    """Return W from unit vectors: its rows."""
    units = np.eye(sum(op.sizes))
    dense = op.forward(np.split(units, np.cumsum(op.sizes)[:-1], axis=1)).T
    return [[Fraction(entry) for entry in row] for row in dense.tolist()]


def exact_values(network: Network, point: list[Fraction]) -> list[list[Fraction]]:
    """Return the values of all nodes: exactly, but for 1e-60 or so where an operator has no exact one."""
    values: list[list[Fraction]] = [point]
    for node in network.nodes[1:]:
        operands = [values[i] for i in node.inputs]
        if isinstance(node.op, Relu):
            values.append([max(value, Fraction(0)) for value in operands[0]])
        elif isinstance(node.op, Product):
            values.append([x * y for x, y in zip(*operands, strict=True)])
        elif isinstance(node.op, Nonlinear):
            assert isinstance(node.op, Curve)
            function = VALUES[type(node.op)]
            values.append([outward(*function(value))[0] for value in operands[0]])
        else:
            assert isinstance(node.op, Affine)
            values.append(_affine(node.op, list(itertools.chain.from_iterable(operands))))
    return values


def _affine(op: Affine, operands: list[Fraction]) -> list[Fraction]:
    found = [sum((w * x for w, x in zip(row, operands, strict=True)), Fraction(0)) for row in matrix(op)]
    bias = [0.0] * len(found) if op.bias is None else op.bias.tolist()
    return [value + Fraction(b) for value, b in zip(found, bias, strict=True)]
