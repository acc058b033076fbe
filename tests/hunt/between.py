"""Boxes some of whose intervals lie between two neighbours of float32: more than one number, and no float in them.

Nothing can be replayed on such a set, so `sat` is always wrong there; what is proved is judged as everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from hunt import generate, sets
from hunt.generate import Made, asked
from hunt.oracle import Oracle
from hunt.question import InputSet, Question


def between(rng: np.random.Generator) -> Made:
    """Margins from the widths of such intervals to what the rows span; a box that holds floats may be among them."""
    k = sets.direction(rng, int(rng.integers(1, 4)))
    boxes = [narrowed(rng, sets.box(rng, len(k), "plain"))]
    if rng.random() < 0.3:
        boxes.append(sets.box(rng, len(k), str(rng.choice(["plain", "pinned"]))))
    oracle = Oracle(generate.grown(rng, boxes, k), k)

    def margins() -> tuple[float, str]:
        return (generate.wide(rng), "span") if rng.random() < 0.4 else (float(10 ** rng.uniform(-10, -5)), "scale")

    return Question(oracle.network, k, asked(rng, oracle, boxes, margins)), oracle


def narrowed(rng: np.random.Generator, inputs: InputSet) -> InputSet:
    """The box with some coordinates, or all, moved between two neighbours of float32."""
    lower, upper = list(inputs.lower), list(inputs.upper)
    count = int(rng.integers(1, len(lower) + 1))
    for i in rng.choice(len(lower), count, replace=False).tolist():
        below = np.float32(float(lower[i]) or 0.5)
        ends = Fraction(float(below)), Fraction(float(np.nextafter(below, np.float32(np.inf))))
        shares = sorted(rng.choice(np.arange(1, 100), 2, replace=False).tolist())
        lower[i], upper[i] = (ends[0] + Fraction(share, 100) * (ends[1] - ends[0]) for share in shares)
    return replace(inputs, lower=tuple(lower), upper=tuple(upper))
