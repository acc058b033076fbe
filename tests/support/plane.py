"""The exact minimum of a one-layer network over a ball of the plane cut by a box, by its finitely many candidates.

On each linear piece of the network the least value is taken at a corner of the piece: where two lines meet (kinks of
neurons, sides of the box, sides of an ℓ1 ball), where a line meets the circle of an ℓ2 ball, or where the circle's
normal is the piece's slope. The network is evaluated at every such point of the set, in float64.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Disc:
    """The points with ‖x − centre‖_p <= radius and low <= x <= high."""

    centre: np.ndarray  # (2,)
    radius: float
    p: int
    low: np.ndarray  # (2,)
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class Layer:
    """f(x) = out·relu(weight x + bias) + shift."""

    weight: np.ndarray  # (n, 2)
    bias: np.ndarray  # (n,)
    out: np.ndarray  # (n,)
    shift: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(point, 2) -> (point,)."""
        return np.maximum(x @ self.weight.T + self.bias, 0.0) @ self.out + self.shift


def exact_minimum(layer: Layer, disc: Disc) -> tuple[float, np.ndarray]:
    """The least value, and a point where it is taken."""
    points = np.array([point for point in candidates(layer, disc) if _inside(point, disc)])
    values = layer(points)
    return float(values.min()), points[values.argmin()]


def candidates(layer: Layer, disc: Disc) -> list[np.ndarray]:
    lines = [(w, -b) for w, b in zip(layer.weight, layer.bias, strict=True)]  # w·x = −b
    lines += [(axis, side[i]) for i, axis in enumerate(np.eye(2)) for side in (disc.low, disc.high)]
    if disc.p == 1:
        corners = (np.array(signs) for signs in itertools.product((-1.0, 1.0), repeat=2))
        lines += [(c, c @ disc.centre + disc.radius) for c in corners]
    found = [disc.centre]
    for (a, s), (b, t) in itertools.combinations(lines, 2):
        if abs(a[0] * b[1] - a[1] * b[0]) > 1e-12:
            found.append(np.linalg.solve(np.array([a, b]), np.array([s, t])))
    if disc.p == 2:
        found += [point for line in lines for point in _on_circle(*line, disc)]
        for active in itertools.product((0.0, 1.0), repeat=len(layer.bias)):
            slope = (layer.out * np.array(active)) @ layer.weight
            if np.linalg.norm(slope) > 0:
                found.append(disc.centre - disc.radius * slope / np.linalg.norm(slope))
    return found


def _on_circle(normal: np.ndarray, value: float, disc: Disc) -> list[np.ndarray]:
    size = np.linalg.norm(normal)
    away = (value - normal @ disc.centre) / size
    if abs(away) > disc.radius:
        return []
    foot, along = disc.centre + away * normal / size, np.array([-normal[1], normal[0]]) / size
    half = np.sqrt(disc.radius**2 - away**2)
    return [foot + half * along, foot - half * along]


def _inside(x: np.ndarray, disc: Disc) -> bool:
    """Up to rounding, 1e-12."""
    in_box = (x >= disc.low - 1e-12).all() and (x <= disc.high + 1e-12).all()
    return bool(in_box and np.linalg.norm(x - disc.centre, ord=disc.p) <= disc.radius + 1e-12)
