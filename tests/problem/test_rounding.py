from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netproof import numerics
from netproof.problem.rounding import Rounded

single = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100)
HALF = Fraction(1, 2**24)  # half an ulp of float32 above 1, so 1 + HALF is a tie
TINY = Fraction(1, 10**40)


def near_single(value: float, steps: int, tiny: int) -> Fraction:
    """Around the midpoints and the ends of float32 intervals, where roundings go wrong."""
    following = float(np.nextafter(np.float32(value), np.float32(np.inf)))
    return Fraction(value) + (Fraction(following) - Fraction(value)) * Fraction(steps, 4) + tiny * TINY


fractions = (
    st.fractions(min_value=-(10**6), max_value=10**6)
    | st.floats(min_value=-1e30, max_value=1e30).map(Fraction)
    | st.builds(near_single, single, st.integers(-4, 4), st.integers(-1, 1))
)


@settings(max_examples=500, deadline=None)
@given(st.lists(fractions, min_size=1, max_size=4))
@example([1 + HALF, 1 + HALF + TINY, 1 + HALF - TINY, 1 + 3 * HALF - TINY, -1 - HALF - TINY])
@example([Fraction(1, 10), Fraction(0), TINY, -TINY, Fraction(1, 10**60), Fraction(1, 2**150), Fraction(3, 2**150)])
def test_agrees_with_the_scalar_roundings_and_brackets_x(values: list[Fraction]) -> None:
    rounded = Rounded.of(values)
    assert rounded.down().tolist() == [numerics.float_down(v) for v in values]
    assert rounded.up().tolist() == [numerics.float_up(v) for v in values]
    down, up, near = rounded.single_down(), rounded.single_up(), rounded.single_near()
    for v, lo, hi, mid, exact in zip(values, down, up, near, rounded.is_single(), strict=True):
        assert Fraction(float(lo)) <= v <= Fraction(float(hi))
        assert exact == (lo == hi == mid)
        assert exact or np.nextafter(lo, np.float32(np.inf)) == hi
        assert abs(Fraction(float(mid)) - v) == min(v - Fraction(float(lo)), Fraction(float(hi)) - v)
        assert abs(Fraction(numerics.nearest_float32(v)) - v) == abs(Fraction(float(mid)) - v)
