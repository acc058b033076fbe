"""Layers that are not affine, as lines in t: where they bend, and which line counts between; smooth ones at a point."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from hunt.network import Layer

Line = tuple[Fraction, Fraction]  # slope and constant in t


def value(line: Line, t: Fraction) -> Fraction:
    return line[0] * t + line[1]


def slope_below(layer: Layer) -> Fraction:
    """a of h -> h where h >= 0, else a·h."""
    below = {"relu": 0.0, "leaky": layer.attributes.get("alpha", 0.01), "abs": -1.0}[layer.kind]
    return Fraction(float(np.float32(below)))


def switches(layer: Layer, source: Layer, h: Sequence[Line]) -> list[Line]:
    """Lines such that the layer, which reads the lines h, bends only where one of them is 0."""
    if layer.kind == "clip":
        return [(a, b - Fraction(float(end))) for a, b in h for end in layer.constants]
    if layer.kind == "peak":
        pairs = {pair for window in windows(layer, source) for pair in combinations(sorted(window), 2)}
        return [(h[i][0] - h[j][0], h[i][1] - h[j][1]) for i, j in pairs]
    return list(h)


def bent(layer: Layer, source: Layer, h: Sequence[Line], t: Fraction) -> list[Line]:
    """What the layer makes of the lines h, right around t if it does not bend there."""
    if layer.kind == "clip":
        low, high = (Fraction(float(end)) for end in layer.constants)
        ends = [(Fraction(0), low), (Fraction(0), high)]
        return [ends[0] if value(line, t) < low else ends[1] if value(line, t) > high else line for line in h]
    if layer.kind == "peak":
        return [max((h[i] for i in window), key=lambda line: value(line, t)) for window in windows(layer, source)]
    below = slope_below(layer)
    return [line if value(line, t) >= 0 else (below * line[0], below * line[1]) for line in h]


def windows(layer: Layer, source: Layer) -> list[list[int]]:
    """By entry of a MaxPool, the entries of its input that it is the greatest of."""
    _, channels, *sides = source.shape
    place = np.arange(source.size).reshape(channels, *sides)
    names = ("kernel_shape", "strides", "pads")
    kernel, strides, pads = (layer.attributes[name] for name in names)
    found = []
    for channel, *out in np.ndindex(*layer.shape[1:]):
        reach = [
            range(max(0, o * s - p), min(side, o * s - p + k))
            for o, s, p, k, side in zip(out, strides, pads, kernel, sides, strict=False)
        ]
        found.append([int(place[(channel, *at)]) for at in product(*reach)])
    return found


def curve(kind: str, h: Fraction) -> Fraction:
    """Sigmoid or Tanh, to 60 digits."""
    digits = Context(prec=70)
    scale = -2 if kind == "tanh" else -1
    power = digits.exp(digits.divide(Decimal(scale * h.numerator), Decimal(h.denominator)))
    sigmoid = Fraction(digits.divide(Decimal(1), digits.add(Decimal(1), power)))
    return 2 * sigmoid - 1 if kind == "tanh" else sigmoid
