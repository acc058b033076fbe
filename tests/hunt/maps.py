"""Every affine layer as exact sums, and the layers' values at a point: read from ONNX's definitions, in Fractions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt
from typing import NamedTuple

import numpy as np

from hunt.bends import bent, curve
from hunt.network import BENDS, SMOOTH, Layer, Network


class Sum(NamedTuple):
    """bias + Σ weight · element `index` of the layer's input number `slot`."""

    terms: tuple[tuple[int, int, Fraction], ...]  # (slot, index, weight)
    bias: Fraction


Sums = tuple[Sum, ...]  # one an element of the layer


def sums_of(network: Network) -> list[Sums | None]:
    """By layer, its sums; None for the input and what is not affine."""
    return [
        None
        if layer.kind in ("input", *BENDS, *SMOOTH)
        else _READ[layer.kind](layer, [network[i] for i in layer.inputs])
        for layer in network
    ]


def values_at(network: Network, sums: Sequence[Sums | None], x: Sequence[Fraction]) -> list[list[Fraction]]:
    """Every layer at the input x, without rounding; of smooth ones to 60 digits."""
    values: list[list[Fraction]] = []
    for layer, own in zip(network, sums, strict=True):
        if layer.kind == "input":
            values.append(list(x))
        elif layer.kind in SMOOTH:
            values.append([curve(layer.kind, h) for h in values[layer.inputs[0]]])
        elif own is None:
            (source,) = layer.inputs
            constants = [(Fraction(0), value) for value in values[source]]
            values.append([value for _, value in bent(layer, network[source], constants, Fraction(0))])
        else:
            sources = [values[i] for i in layer.inputs]
            values.append([sum((w * sources[s][i] for s, i, w in one.terms), one.bias) for one in own])
    return values


def _gemm(layer: Layer, inputs: list[Layer]) -> Sums:
    weight, bias = layer.constants
    return tuple(_sum([(0, i, w) for i, w in enumerate(row)], b) for row, b in zip(weight, bias, strict=True))


def _conv(layer: Layer, inputs: list[Layer]) -> Sums:
    weight, bias = layer.constants
    kernel, (_, channels, *sides) = weight.shape[2:], inputs[0].shape
    pads, strides, group = (layer.attributes[name] for name in ("pads", "strides", "group"))
    place = np.arange(inputs[0].size).reshape(channels, *sides)
    found = []
    for out in np.ndindex(*layer.shape[1:]):
        first = out[0] // (len(bias) // group) * (channels // group)
        terms = []
        for c, *at in np.ndindex(channels // group, *kernel):
            where = [o * s + k - p for o, s, k, p in zip(out[1:], strides, at, pads, strict=False)]
            if all(0 <= w < side for w, side in zip(where, sides, strict=True)):
                terms.append((0, int(place[(first + c, *where)]), weight[(out[0], c, *at)]))
        found.append(_sum(terms, bias[out[0]]))
    return tuple(found)


def _pool(layer: Layer, inputs: list[Layer]) -> Sums:
    kernel = layer.attributes["kernel_shape"]
    place = np.arange(inputs[0].size).reshape(inputs[0].shape[1:])
    share = Fraction(1, int(np.prod(kernel)))
    found = []
    for channel, *out in np.ndindex(*layer.shape[1:]):
        block = itertools.product(*(range(o * k, o * k + k) for o, k in zip(out, kernel, strict=True)))
        found.append(Sum(tuple((0, int(place[(channel, *at)]), share) for at in block), Fraction(0)))
    return tuple(found)


def _norm(layer: Layer, inputs: list[Layer]) -> Sums:
    """(x − mean)/√(variance + ε)·scale + bias; the generator picks variances whose root is rational."""
    epsilon = Fraction(float(np.float32(layer.attributes["epsilon"])))
    found = []
    for index, (channel, *_) in enumerate(np.ndindex(*layer.shape[1:])):
        scale, bias, mean, variance = (Fraction(float(c[channel])) for c in layer.constants)
        factor = scale / _root(variance + epsilon)
        found.append(Sum(((0, index, factor),), bias - mean * factor))
    return tuple(found)


def _root(value: Fraction) -> Fraction:
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    if root * root != value:
        raise ValueError(f"{value} has no rational root")
    return root


def _elementwise(signs: tuple[int, ...]) -> Callable[[Layer, list[Layer]], Sums]:
    def read(layer: Layer, inputs: list[Layer]) -> Sums:
        return tuple(
            Sum(tuple((slot, i, Fraction(sign)) for slot, sign in enumerate(signs)), Fraction(0))
            for i in range(layer.size)
        )

    return read


def _concat(layer: Layer, inputs: list[Layer]) -> Sums:
    """Along the channels of a batch of one, so one input's elements after the other's."""
    return tuple(
        Sum(((slot, i, Fraction(1)),), Fraction(0)) for slot, source in enumerate(inputs) for i in range(source.size)
    )


def _sum(terms: Sequence[tuple[int, int, float]], bias: float) -> Sum:
    kept = tuple((slot, i, Fraction(float(w))) for slot, i, w in terms if w != 0)
    return Sum(kept, Fraction(float(bias)))


_READ: dict[str, Callable[[Layer, list[Layer]], Sums]] = {
    "gemm": _gemm,
    "conv": _conv,
    "pool": _pool,
    "norm": _norm,
    "add": _elementwise((1, 1)),
    "sub": _elementwise((1, -1)),
    "concat": _concat,
    "reshape": _elementwise((1,)),
}
