"""Smooth functions between their lines, against values of many digits."""

from __future__ import annotations

import pytest

from netproof.relax import relaxation_of
from support.conformance import Conformance, usual_bounds
from support.smooth import FUNCTIONS

WIDE = [(-3.0, 3.0), (-1.0, 9.0), (-9.0, 1.0), (-4.0, -0.3), (0.2, 4.5), (-50.0, 40.0), (-2.0, 2.5), (-3.5, 0.1)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_lines_enclose(name: str, seed: int) -> None:
    op, exact, some = FUNCTIONS[name]
    bounds = [*usual_bounds(seed), *WIDE, *((3 + low, 3 + high) for low, high in usual_bounds(seed + 9)[:20])]
    Conformance(relaxation_of(op), exact, some(bounds)).check()
