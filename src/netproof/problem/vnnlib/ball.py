"""From an inequality with squares of inputs to the ball that it says."""

from __future__ import annotations

import math
from fractions import Fraction

from netproof.problem.property import Ball
from netproof.problem.vnnlib.terms import SQUARE, Linear


def ball_of(term: Linear, inputs: int) -> Ball | str:
    """Bring s·Σ x² + Σ b·x + d <= 0 to ‖x − c‖₂ <= r with c = −b / 2s and r² = Σ c² − d / s; or say what it is not."""
    scales = [term.get((SQUARE, i), Fraction(0)) for i in range(inputs)]
    scale = scales[0]
    if any(key is not None and key[0] == "Y" and c for key, c in term.items()):
        return "an output is among them"
    if any(c != scale for c in scales):
        return "the squares of all inputs must have the same factor"
    if scale < 0:
        return "it is the outside of one"
    centre = tuple(term.get(("X", i), Fraction(0)) / (-2 * scale) for i in range(inputs))
    square = sum((c * c for c in centre), Fraction(0)) - term.get(None, Fraction(0)) / scale
    if square < 0:
        return "no input is in it"
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    if root * root != square:
        return "its radius is no fraction, and would be rounded"
    return Ball(centre, root, 2)
