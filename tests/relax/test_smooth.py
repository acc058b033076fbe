"""Smooth functions between their lines, against values of many digits."""

from __future__ import annotations

import pytest
import torch
from mpmath import mp

from netproof.core.forms import Interval
from netproof.model.nonlinear.smooth import TanhGate
from netproof.relax import relaxation_of
from support.conformance import Conformance, usual_bounds
from support.smooth import FUNCTIONS

WIDE = [(-3.0, 3.0), (-1.0, 9.0), (-9.0, 1.0), (-4.0, -0.3), (0.2, 4.5), (-50.0, 40.0), (-2.0, 2.5), (-3.5, 0.1)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lines_enclose(name: str) -> None:
    op, exact, some = FUNCTIONS[name]
    bounds = [*usual_bounds(0), *WIDE, *((3 + low, 3 + high) for low, high in usual_bounds(9)[:20])]
    Conformance(relaxation_of(op), exact, some(bounds)).check()


@pytest.mark.parametrize("k", [0.797, 0.79788456, 0.7988])
@pytest.mark.parametrize("a", [0.04462, 0.044715, 0.0448])
def test_the_range_of_a_gate_reaches_its_least_value_whatever_its_constants(k: float, a: float) -> None:
    relaxation = relaxation_of(TanhGate(k, a))
    bounds = Interval(torch.tensor([-2.0], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64))
    found = float(relaxation.range(bounds).lower)
    with mp.workdps(40):
        values = [x * (1 + mp.tanh(mp.mpf(k) * (x + mp.mpf(a) * x**3))) for x in mp.linspace(-2, 1, 3001)]
    assert min(values) - mp.mpf("1e-5") <= found <= min(values)
