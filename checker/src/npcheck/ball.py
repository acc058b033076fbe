"""Balls: the last step of a pass back where a part is a box cut by a ball ‖x − c‖ <= r, in some of the inputs.

For any numbers u and v with u + v = a, where u is 0 but at the ball's inputs, and every x of the box and the ball,

    a·x = u·x + v·x >= u·c − r·‖u‖ + Σ min( v_i l_i, v_i u_i ),

since u·(x − c) >= −‖u‖·‖x − c‖. With u = 0 this is the box's bound, and with u = a the ball's. Nothing rests on how u
is chosen; the best u is |u_i| = min( |a_i|, μ·k_i ), where k_i is how far the box reaches from c against the sign of
a_i, and μ makes the point c − sign(a)·min( k, |a| / μ ) lie on the sphere.

**Charges.** u is exact from where it is chosen. v = fl(a − u) is off by 2^-53 of itself. ‖u‖ is m·√Σ(u_i / m)² with m
the largest |u_i|, so that nothing underflows but what does not count: a quotient, a square, at most n − 1 additions, a
root, and two products are off by less than (n + 10)·2^-53 of r·‖u‖. u·c and the sum over v have at most n products.
All of that is added to c of the form, with a rounding each, of at most 2^-53 of the magnitudes and of the result. So

    g·( ⟨|u|, |c|⟩ + r·‖u‖ + ⟨|v|, Z_0⟩ + |result| )

pays four times for all of it, as g has more than n + 64 terms. A product with r that underflows is off by 2^-1022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ball:
    """‖x − centre‖ <= radius, over some of the inputs; it contains the specification's."""

    inputs: NDArray[np.int64]  # (k,)
    centre: Array  # (k,)
    radius: float

    @classmethod
    def around(cls, inputs: Sequence[int], centre: Sequence[Fraction], square: Fraction) -> Ball:
        """Return a ball that contains one of exact numbers: its centre is moved to float64, and it grows by that."""
        near = [float(c) for c in centre]
        moved = sum(((Fraction(x) - c) ** 2 for x, c in zip(near, centre, strict=True)), Fraction(0))
        radius = root_above(square) + root_above(moved)
        rounded = float(radius)
        if Fraction(rounded) < radius:
            rounded = float(np.nextafter(rounded, np.inf))
        return cls(np.array(inputs, dtype=np.int64), np.array(near) + 0.0, rounded)

    @property
    def key(self) -> bytes:
        """Return what equal balls have in common."""
        return self.inputs.tobytes() + self.centre.tobytes() + np.float64(self.radius).tobytes()

    def divided(self, a: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return u (B, k) and v (B, n) for coefficients a (B, n), on boxes (B, n) or (1, n)."""
        own = a[:, self.inputs]
        low, high = lower[:, self.inputs], upper[:, self.inputs]
        reach = np.maximum(np.where(own > 0.0, self.centre - low, high - self.centre), 0.0)
        u = np.sign(own) * np.minimum(np.abs(own), _most(np.abs(own), reach, self.radius))
        u = np.where(np.isfinite(u), u, 0.0)
        v = a.copy()
        v[:, self.inputs] -= u
        return u, v

    def least(self, a: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the bound of a·x (B,) before roundings are charged, and the magnitudes that they are measured by."""
        u, v = self.divided(a, lower, upper)
        fall = self.radius * _norm(u)
        value = u @ self.centre - fall + np.minimum(v * lower, v * upper).sum(1)
        sizes = np.abs(u) @ np.abs(self.centre) + fall
        return value, sizes + (np.abs(v) * np.maximum(np.abs(lower), np.abs(upper))).sum(1)

    def furthest(self, a: Array, lower: Array, upper: Array) -> Array:
        """Return about where a·x is least, (B, n): for trials, no proof rests on it."""
        u, v = self.divided(a, lower, upper)
        norm = _norm(u)[:, None]
        points = np.where(v >= 0.0, lower, upper)
        sphere = self.centre - self.radius * u / np.where(norm > 0.0, norm, 1.0)
        points[:, self.inputs] = np.where(v[:, self.inputs] == 0.0, sphere, points[:, self.inputs])
        return points


def root_above(square: Fraction) -> Fraction:
    """Return a number that is not below the root of another, and above it by at most 2^-120 of it."""
    wanted = square.numerator * square.denominator
    shift = max(0, 128 - wanted.bit_length() // 2)
    root = math.isqrt(wanted << 2 * shift)
    if root * root < wanted << 2 * shift:
        root += 1
    return Fraction(root, square.denominator << shift)


def _norm(u: Array) -> Array:
    """Return ‖u‖ of each row (B,)."""
    largest = np.abs(u).max(1, initial=0.0)
    scaled = u / np.where(largest > 0.0, largest, 1.0)[:, None]
    return np.asarray(largest * np.sqrt((scaled * scaled).sum(1)))


def _most(sizes: Array, reach: Array, radius: float) -> Array:
    """Return μ·k (B, k): what the ball takes of |a|, at most.

    Coordinates are at the end of the box for μ up to t = |a| / k. With these in descending order, the first J of them
    are, as long as the rest of the radius is enough for the others: μ² = Σ_{i>J} a² / ( r² − Σ_{i<=J} k² ).
    """
    scaled = sizes / np.maximum(sizes.max(1, initial=0.0), 1e-300)[:, None]
    radii = reach / (radius or 1.0)
    turns = np.where(radii > 0.0, scaled / np.where(radii > 0.0, radii, 1.0), np.inf)
    order = np.argsort(-turns, axis=1)
    turns, k, w = (np.take_along_axis(part, order, 1) for part in (turns, np.broadcast_to(radii, scaled.shape), scaled))
    boxed = np.cumsum(k * k, 1)
    free = np.cumsum((w * w)[:, ::-1], 1)[:, ::-1] - w * w  # of those behind each
    far = boxed + np.where(turns > 0.0, free / np.where(turns > 0.0, turns, 1.0) ** 2, np.inf) <= 1.0
    count = far.sum(1)
    padded = np.concatenate([np.zeros((len(w), 1)), boxed], 1)
    rest = np.concatenate([(w * w).sum(1, keepdims=True), free], 1)
    at = np.arange(len(w))
    price = np.sqrt(rest[at, count] / np.maximum(1.0 - padded[at, count], 1e-300))
    price = np.where(count == w.shape[1], 0.0, price)
    scale = np.maximum(sizes.max(1, initial=0.0), 1e-300) / (radius or 1.0)
    most: Array = (price * scale)[:, None] * reach
    return most
