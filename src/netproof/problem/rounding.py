"""Exact fractions to floats, many at once, in whichever direction soundness asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT32_MAX = float(np.finfo(np.float32).max)

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Floats = NDArray[Any]  # float32, or float64 where a network takes that


@dataclass(frozen=True, eq=False)
class Rounded:
    """x = `near` + something whose sign is `rest`, with `near` the float64 nearest to x.

    The pair gives every other rounding of x without the fraction. It rests on two facts:
    a float (32 or 64 bits) other than `near` lies on the same side of x as of `near`; and where two float32
    are equally far from `near`, the sign of the rest breaks the tie.
    """

    near: Doubles  # (n,)
    rest: NDArray[np.int8]  # (n,), -1, 0 or 1

    @staticmethod
    def of(values: Sequence[Fraction]) -> Rounded:
        """Round fractions; OverflowError where a value is beyond float64."""
        near = np.array([v.numerator / v.denominator for v in values], dtype=np.float64)
        rest = np.array([_rest_sign(v, y) for v, y in zip(values, near.tolist(), strict=True)], dtype=np.int8)
        return Rounded(near, rest)

    def down(self) -> Doubles:
        """Return the largest float64 <= x."""
        return np.where(self.rest < 0, np.nextafter(self.near, -np.inf), self.near)

    def up(self) -> Doubles:
        """Return the smallest float64 >= x."""
        return np.where(self.rest > 0, np.nextafter(self.near, np.inf), self.near)

    def single_down(self) -> Singles:
        """Return the largest float32 <= x."""
        y, side = self._single()
        return np.where(side > 0, np.nextafter(y, np.float32(-np.inf)), y)

    def single_up(self) -> Singles:
        """Return the smallest float32 >= x."""
        y, side = self._single()
        return np.where(side < 0, np.nextafter(y, np.float32(np.inf)), y)

    def single_near(self) -> Singles:
        """Return the float32 nearest to x; a true tie goes to the even one."""
        y, side = self._single()
        towards = np.where(side > 0, np.float32(-np.inf), np.float32(np.inf)).astype(np.float32)
        other = np.nextafter(y, towards)
        # Both distances are exact: neighbours in float32, and a float64 between them.
        tie = np.abs(y.astype(np.float64) - self.near) == np.abs(other.astype(np.float64) - self.near)
        # `side` > 0 means that y lies above x; on a tie in `near`, x itself lies towards `rest`.
        wrong = tie & (self.rest != 0) & (np.sign(side) == -self.rest)
        return np.where(wrong, other, y)

    def is_single(self) -> NDArray[np.bool_]:
        """Say where x itself is a float32."""
        return np.equal(self._single()[1], 0)

    def _single(self) -> tuple[Singles, NDArray[np.float64]]:
        """Return the float32 nearest to `near`, and the sign of it minus x."""
        y = self.near.astype(np.float32)
        gap = np.sign(y.astype(np.float64) - self.near)
        return y, np.where(gap == 0, -self.rest.astype(np.float64), gap)


def _rest_sign(x: Fraction, y: float) -> int:
    n, d = y.as_integer_ratio()
    left, right = x.numerator * d, n * x.denominator
    return (left > right) - (left < right)
