"""The lines lie on their sides of max(h, a·h) on the whole interval; in proofs, without a tolerance."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netproof.core.forms import Interval
from netproof.errors import ModelError
from netproof.model.affine import Scale
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.numerics import float32_down, float32_up
from netproof.relax import Relaxation, relaxation_of
from netproof.relax.hinge import HingeRelaxation

LEAKS = (0.0, 0.01, 0.1, 1 / 3, 0.999)

positive = st.one_of(
    st.floats(0.01, 100.0),
    st.floats(1e-300, 1e-20),
    st.floats(1e20, 1e150),
    st.floats(5e-324, 1e-310),
    st.sampled_from([1.0, 1e-16, 2.0**-53, 5e-324, 1e-12, 1e8]),
)


def hinge(leak: float, h: Fraction) -> Fraction:
    return max(h, Fraction(leak) * h)


def tensors(*values: float) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor([v], dtype=torch.float64) for v in values)


def bounds(low: float, high: float) -> Interval:
    return Interval(*tensors(low, high))


def upper_line(leak: float, h: Interval, *, proof: bool) -> tuple[torch.Tensor, torch.Tensor]:
    lines = HingeRelaxation(leak).family(h, proof=proof).at(torch.zeros_like(h.lower))
    return lines.upper_slope, lines.upper_intercept


def exact_gaps(leak: float, low: float, high: float, slope: torch.Tensor, intercept: torch.Tensor) -> list[Fraction]:
    """How far the upper line is above g at both ends and at 0; convexity settles the rest."""
    s, t = Fraction(slope.item()), Fraction(intercept.item())
    return [s * h + t - hinge(leak, h) for h in (Fraction(low), Fraction(0), Fraction(high))]


@settings(max_examples=400)
@given(st.sampled_from(LEAKS), positive, positive)
@example(0.0, 5e-324, 5e-324)
@example(1 / 3, 1.0, 1e-300)
@example(0.999, 1e150, 1e-300)
@example(0.1, 1e-300, 1e150)
def test_in_proofs_the_upper_line_is_above_without_a_tolerance(leak: float, below: float, high: float) -> None:
    slope, intercept = upper_line(leak, bounds(-below, high), proof=True)
    assert min(exact_gaps(leak, -below, high, slope, intercept)) >= 0


@pytest.mark.parametrize("leak", LEAKS)
def test_in_proofs_the_upper_line_is_above_however_its_products_round(leak: float) -> None:
    """Three roundings the same way are rare, so many intervals are tried."""
    rng = torch.Generator().manual_seed(0)
    low, high = (torch.rand(4000, generator=rng, dtype=torch.float64) * 0.99 + 0.01 for _ in range(2))
    slope, intercept = upper_line(leak, Interval(-low, high), proof=True)
    for below, above, s, t in zip(*(v.tolist() for v in (low, high, slope, intercept)), strict=True):
        assert min(exact_gaps(leak, -below, above, *tensors(s, t))) >= 0


@settings(max_examples=200)
@given(st.sampled_from(LEAKS), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_in_proofs_the_upper_line_is_nearly_the_chord(leak: float, below: float, high: float) -> None:
    slope, intercept = upper_line(leak, bounds(-below, high), proof=True)
    gaps = exact_gaps(leak, -below, high, slope, intercept)
    assert max(gaps[0], gaps[2]) <= Fraction(1e-14) * Fraction(below + high)


def test_without_the_lift_the_rounded_chord_dips_below() -> None:
    generator = torch.Generator().manual_seed(0)
    low = -torch.rand(500, generator=generator, dtype=torch.float64)
    high = torch.rand(500, generator=generator, dtype=torch.float64)
    slope, intercept = upper_line(0.1, Interval(low, high), proof=False)
    gaps = [
        min(exact_gaps(0.1, *(float(v) for v in (lo, hi)), s, t))
        for lo, hi, s, t in zip(low, high, slope, intercept, strict=True)
    ]
    assert min(gaps) < 0  # so the test above can fail
    assert float(min(gaps)) > -1e-15


@pytest.mark.parametrize("proof", [False, True])
@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, 0.0), (0.0, 2.0), (1.0, 1.0), (0.5, 3.0), (-3.0, -1.0), (-2.0, 0.0), (-1.0, -1.0), (1e-300, 1e300)],
)
def test_where_the_sign_is_known_both_lines_are_g_itself(leak: float, low: float, high: float, proof: bool) -> None:
    relaxation, h = HingeRelaxation(leak), bounds(low, high)
    for t in (0.0, 0.3, 1.0):
        lines = relaxation.family(h, proof=proof).at(*tensors(t))
        assert (lines.upper_intercept.item(), lines.lower_intercept) == (0.0, None)
        assert lines.lower_slope.item() == lines.upper_slope.item()
        for end in (Fraction(low), Fraction(high)):
            assert Fraction(lines.upper_slope.item()) * end == hinge(leak, end)
    assert relaxation.linear_on(h).item()
    assert not relaxation.splittable(h).item()


@pytest.mark.parametrize(("low", "high"), [(1.0, -1.0), (-1.0, -2.0), (2.0, 1.0), (1e-300, -1e300)])
def test_an_empty_interval_is_stable_and_gives_finite_lines(low: float, high: float) -> None:
    assert not HingeRelaxation(0.0).unstable(bounds(low, high)).item()
    slope, intercept = upper_line(0.0, bounds(low, high), proof=True)
    assert slope.item() in (0.0, 1.0)
    assert intercept.item() == 0.0


@given(st.sampled_from(LEAKS), st.floats(0, 1), st.floats(-10, 10))
def test_every_parameter_gives_a_lower_line(leak: float, t: float, h: float) -> None:
    """In real arithmetic: the slope may not leave [a, 1] by rounding."""
    (slope,) = HingeRelaxation(leak).family(bounds(-10.0, 10.0), proof=True).at(*tensors(t)).lower_slope.tolist()
    assert leak <= slope <= 1.0
    assert Fraction(slope) * Fraction(h) <= hinge(leak, Fraction(h))
    assert slope == pytest.approx(leak + t * (1 - leak), rel=1e-15)


@pytest.mark.parametrize(("low", "high", "first"), [(-1.0, 2.0, 1.0), (-2.0, 1.0, 0.25), (-1.0, 1.0, 0.25)])
def test_slopes_start_as_crown_has_them(low: float, high: float, first: float) -> None:
    relaxation, h = HingeRelaxation(0.25), bounds(low, high)
    assert relaxation.family(h, proof=False).at(relaxation.initial(h)).lower_slope.item() == first


def test_the_registry_knows_every_nonlinearity_and_nothing_else() -> None:
    assert relaxation_of(Relu()) == HingeRelaxation(0.0)
    assert relaxation_of(LeakyRelu(0.25)) == HingeRelaxation(0.25)
    assert relaxation_of(LeakyRelu(0.25)).steepest(bounds(-1.0, 1.0)).item() == 1.0
    with pytest.raises(ModelError, match="Scale"):
        relaxation_of(Scale())


def test_float32_lines_are_above_up_to_float32_rounding() -> None:
    generator = torch.Generator().manual_seed(1)
    low = -(10 ** (torch.rand(200, generator=generator) * 8 - 4))
    high = 10 ** (torch.rand(200, generator=generator) * 8 - 4)
    slope, intercept = upper_line(0.0, Interval(low, high), proof=False)
    assert slope.dtype == torch.float32
    gap = torch.minimum(slope * low + intercept, slope * high + intercept - high)
    assert bool((gap >= -1e-6 * (high - low)).all())
    assert math.isfinite(float(gap.abs().max()))


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("t", [-0.5, 1.5])
def test_in_proofs_a_slope_cannot_leave_its_range(leak: float, t: float) -> None:
    (slope,) = HingeRelaxation(leak).family(bounds(-1.0, 1.0), proof=True).at(*tensors(t)).lower_slope.tolist()
    assert slope == (leak if t < 0 else 1.0)


class Steep(HingeRelaxation):
    """A relaxation whose slopes grow so fast that bounds rounded to float32 have much steeper lines."""

    def steepest(self, h: Interval) -> torch.Tensor:
        return h.magnitude**400

    def range(self, h: Interval) -> Interval:
        return Interval(0.0 * h.lower, 0.0 * h.upper)


def test_rounding_is_charged_on_bounds_that_were_rounded_to_float32() -> None:
    h = bounds(-1.0 - 2.0**-40, 1.0 + 2.0**-40)
    wide = Interval(float32_down(h.lower).double(), float32_up(h.upper).double())
    charged = Relaxation.rounding(Steep(0.0), h, 1.0)
    assert float(charged) >= float(Steep(0.0).steepest(wide) * wide.magnitude) * 2
