"""What `numerics` says that rounding costs is never less than it does, in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from netproof.numerics import (
    FLOATS,
    UNIT,
    coarseness,
    compounded,
    enlarged,
    enlarged_rounding,
    few_roundings,
    lowered,
    raised,
    rounding,
    size_behind,
    vanishing,
    with_vanishing,
)

SINGLE, DOUBLE = torch.float32, torch.float64
sizes = st.floats(1e-200, 1e200)


def unit(dtype: torch.dtype) -> Fraction:
    return Fraction(UNIT[dtype])


def exact_gamma(n: int, dtype: torch.dtype) -> Fraction:
    return n * unit(dtype) / (1 - n * unit(dtype))


@given(sizes, st.integers(1, 10**6), st.sampled_from([SINGLE, DOUBLE]))
def test_rounding_of_a_sum_is_at_least_its_share_of_the_size(size: float, terms: int, dtype: torch.dtype) -> None:
    cost = Fraction(rounding(size, terms, dtype))
    assert exact_gamma(terms, dtype) <= cost / Fraction(size) <= exact_gamma(terms, dtype) * Fraction(1001, 1000)


def test_rounding_is_the_same_of_numbers_arrays_and_tensors() -> None:
    values = [0.0, 0.3, 7e-300, 2.5e8]
    expected = [rounding(value, 40) for value in values]
    assert rounding(np.array(values), 40).tolist() == expected
    assert rounding(torch.tensor(values, dtype=DOUBLE), 40).tolist() == expected


def test_a_size_that_lost_its_small_terms_is_paid_for() -> None:
    small, count = 2.0**-54, 10**6
    size = 1.0
    for _ in range(count):
        size += small
    assert size == 1.0
    exact = 1 + count * Fraction(small)
    assert Fraction(rounding(size, 9)) >= exact_gamma(9, DOUBLE) * exact
    assert Fraction(enlarged(size)) >= exact
    assert Fraction(enlarged_rounding(size, 9)) >= Fraction(rounding(size, 9)) * exact


@given(st.integers(1, 1000), st.sampled_from([SINGLE, DOUBLE]))
def test_few_roundings_are_one_less_than_they_say(count: int, dtype: torch.dtype) -> None:
    assert Fraction(few_roundings(1.0, count + 1, dtype)) >= exact_gamma(count, dtype)


@given(sizes, st.integers(0, 1000), st.sampled_from([SINGLE, DOUBLE]))
def test_raised_is_above_what_was_rounded(size: float, count: int, dtype: torch.dtype) -> None:
    value = torch.tensor(min(max(size, 1e-30), 1e30), dtype=dtype)
    most = Fraction(float(value)) / (1 - unit(dtype)) ** count
    assert Fraction(float(raised(value, count + 3, dtype))) >= most


@given(st.floats(-1e200, 1e200), st.floats(0, 1e200))
def test_lowered_is_below_the_difference(value: float, charge: float) -> None:
    found = lowered(torch.tensor(value, dtype=DOUBLE), torch.tensor(charge, dtype=DOUBLE))
    assert Fraction(float(found)) <= Fraction(value) - Fraction(charge)


def test_products_that_vanish_are_paid_for() -> None:
    coefficient, value = 1e-200, 1e-150
    assert coefficient * value == 0.0
    assert with_vanishing(0.0) >= 1e-300
    assert with_vanishing(1.0, 5, SINGLE) - 1.0 >= 0.0
    assert with_vanishing(0.0, 5, SINGLE) >= 5 * 2.0**-126
    # A coefficient that vanished stood before a large value.
    assert float(vanishing(torch.tensor(1e30, dtype=DOUBLE))) >= 2.0**-1074 * 1e30


@pytest.mark.parametrize("n", [1, 100, 1023, 1024, 5000, 10**5])
def test_roundings_compound_beyond_the_analysis(n: int) -> None:
    exact = (1 + Fraction(1, 2**11)) ** n - 1
    assert compounded(n, torch.float16) >= exact
    assert compounded(n, torch.float16) <= 2.1 * exact


def test_more_roundings_than_a_float_can_say_cost_everything() -> None:
    assert compounded(2**22, torch.float16) == math.inf


def test_types_are_ordered_by_their_rounding() -> None:
    assert sorted(FLOATS, key=coarseness) == [torch.float64, torch.float32, torch.float16]
    assert coarseness(DOUBLE) == 1.0
    error = torch.tensor([0.5, 3e-9], dtype=DOUBLE)
    assert torch.equal(few_roundings(size_behind(error, SINGLE), 1, SINGLE), error)
