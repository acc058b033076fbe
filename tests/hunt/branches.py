"""Residual networks one of whose branches is linear throughout: a Reshape and three convolutions, no hinge between.

A verifier that bounds neurons alone has nothing to bound on such a branch, and must not leave it out.
"""

from __future__ import annotations

import numpy as np

from hunt import sets
from hunt.generate import Made, asked
from hunt.nets import Grower, coarse
from hunt.oracle import Oracle, reach
from hunt.question import Question

SHAPE = (1, 2, 2, 2)


def branches(rng: np.random.Generator) -> Made:
    """Violations, and properties that hold, by a share of the range from 1e-4 to 0.3."""
    k = sets.direction(rng, int(rng.integers(1, 5)))
    box = sets.box(rng, len(k), str(rng.choice(["plain", "decimal"])))
    grow = Grower(rng, k, sets.hull([reach(box, k)]), 1, len(k))
    place = grow.flat(grow.enter(rng.normal(size=8)))
    for _ in range(int(rng.integers(1, 3))):
        place = block(grow, place if rng.random() < 0.5 else grow.bend(place))
    grow.linear(place, int(rng.integers(1, 4)), centred=False)
    oracle = Oracle(grow.finish(), k)

    def margins() -> tuple[float, str]:
        return float(10 ** rng.uniform(-4, -0.5)), "span"

    return Question(oracle.network, k, asked(rng, oracle, [box], margins)), oracle


def block(grow: Grower, place: int) -> int:
    """Add a linear branch to one that bends, in either order; sometimes it is a bend of their sum that goes on."""
    rng = grow.rng
    linear = _linear(grow, place)
    bent = grow.bend(grow.linear(place, grow.size(place)))
    if rng.random() < 0.3:
        bent = grow.linear(bent, grow.size(place))
    pair = (linear, bent) if rng.random() < 0.5 else (bent, linear)
    both = grow.add(*pair, kind=str(rng.choice(["add", "sub"])))
    return grow.bend(both) if rng.random() < 0.5 else both


def _linear(grow: Grower, place: int) -> int:
    """Three convolutions that keep the shape; each of them may be of another kernel."""
    rng = grow.rng
    place = grow.reshape(place, SHAPE)
    for _ in range(3):
        side, group = int(rng.choice([1, 3])), int(rng.choice([1, 2]))
        weight = coarse(rng.normal(scale=0.6, size=(2, 2 // group, side, side)))
        place = grow.conv(place, weight, coarse(rng.normal(size=2)), pad=side // 2, group=group)
    return grow.flat(place)
