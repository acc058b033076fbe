"""Random input sets: boxes with decimals, pinned and narrow sides, and balls, clipped or not."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hunt.question import InputSet

# Directions of rational length, for ℓ2 balls.
PYTHAGOREAN = ((3, 4), (1, 2, 2), (2, 3, 6), (1, 1, 1, 1), (4, -3), (2, -1, 2), (1, -1, 1, -1))


def direction(rng: np.random.Generator, inputs: int) -> tuple[int, ...]:
    return tuple(int(k) for k in rng.choice([-3, -2, -1, 1, 2, 3], inputs))


def box(rng: np.random.Generator, inputs: int, kind: str) -> InputSet:
    """kind: "plain" (sides that floats hold), "decimal", "narrow", "pinned" or "point"."""
    steps = {"plain": 64, "decimal": 1000, "narrow": 10**7, "pinned": 10**9, "point": 1000}[kind]
    lower = [Fraction(int(rng.integers(-2 * steps, 2 * steps)), steps) for _ in range(inputs)]
    widths = [Fraction(int(rng.integers(steps // 4, 2 * steps)), steps) for _ in range(inputs)]
    if kind == "narrow":
        widths[0] = Fraction(int(rng.integers(1, 40)), steps)
    if kind == "pinned":
        widths[int(rng.integers(inputs))] = Fraction(0)
    if kind == "point":
        widths = [Fraction(0)] * inputs
    return InputSet(tuple(lower), tuple(lo + w for lo, w in zip(lower, widths, strict=True)))


def ball(rng: np.random.Generator, inputs: int, p: int) -> InputSet:
    """p = 1 may be clipped; p = 2 is not."""
    centre = tuple(Fraction(int(rng.integers(-2000, 2000)), 1000) for _ in range(inputs))
    radius = Fraction(int(rng.integers(100, 2000)), 1000)
    lower, upper = [c - radius for c in centre], [c + radius for c in centre]
    if p == 1 and rng.random() < 0.5:
        gaps = [Fraction(int(rng.integers(0, 1000)), 1000) * radius for _ in range(2 * inputs)]
        lower = [max(lo, c - g) for lo, c, g in zip(lower, centre, gaps, strict=False)]
        upper = [min(hi, c + g) for hi, c, g in zip(upper, centre, gaps[inputs:], strict=True)]
    return InputSet(tuple(lower), tuple(upper), centre, radius, p)


def hull(reaches: Sequence[tuple[Fraction, Fraction]]) -> tuple[float, float]:
    return float(min(low for low, _ in reaches)), float(max(high for _, high in reaches))
