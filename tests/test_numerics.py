"""Rounding goes the way it says, and error terms cover what they stand for."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from netproof.numerics import (
    UNIT,
    down,
    float32_down,
    float32_outward,
    float32_up,
    float_down,
    float_up,
    gamma,
    generator,
    nearest_float32,
    up,
    use_strict_float32,
)

TINY = 2.0**-126  # the least float32 that is not subnormal
LARGEST = float(np.finfo(np.float32).max)

doubles = (
    st.floats(-1e45, 1e45)
    | st.floats(-1e-30, 1e-30)
    | st.floats(-2 * TINY, 2 * TINY)
    | st.floats(width=32, allow_nan=False, allow_infinity=False)
)
fractions = st.fractions() | st.builds(lambda f, n: Fraction(f) + Fraction(n, 10**40), st.floats(-9, 9), st.integers())


def as_double(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@given(doubles)
def test_float32_is_outward_tight_and_never_subnormal(x: float) -> None:
    for rounded, side in ((float32_down(as_double(x)), -1), (float32_up(as_double(x)), 1)):
        assert rounded.dtype == torch.float32
        y = float(rounded)
        assert y <= x if side < 0 else y >= x
        assert y == 0 or abs(y) >= TINY
        if TINY <= abs(x) <= LARGEST:  # no float32 lies between the two
            inner = float(np.nextafter(np.float32(y), np.float32(-side * math.inf)))
            assert y == x or (inner > x if side < 0 else inner < x)


@pytest.mark.parametrize(
    ("x", "below", "above"),
    [
        (0.0, 0.0, 0.0),
        (1e-50, 0.0, TINY),
        (-1e-50, -TINY, 0.0),
        (TINY, TINY, TINY),
        (TINY * 0.75, 0.0, TINY),
        (-TINY * 0.75, -TINY, 0.0),
        (1e39, LARGEST, math.inf),
        (-1e39, -math.inf, -LARGEST),
        (0.5, 0.5, 0.5),
    ],
)
def test_float32_at_the_edges(x: float, below: float, above: float) -> None:
    assert float(float32_down(as_double(x))) == below
    assert float(float32_up(as_double(x))) == above
    assert tuple(map(float, float32_outward(as_double(x), as_double(x)))) == (below, above)


def test_float32_is_outward_where_subnormals_are_flushed() -> None:
    """As some devices do, and a CPU where a caller has told torch so."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU flushes nothing")
    try:
        for x in (2e-39, -2e-39, 1e-45, -1e-45):
            below, above = map(float, float32_outward(as_double(x), as_double(x)))
            assert (below, above) == ((0.0, TINY) if x > 0 else (-TINY, 0.0))
    finally:
        torch.set_flush_denormal(False)


@given(st.floats(-1e300, 1e300), st.integers(1, 4))
def test_down_and_up_step_through_the_floats(x: float, steps: int) -> None:
    expected = x
    for _ in range(steps):
        expected = math.nextafter(expected, -math.inf)
    assert float(down(as_double(x), steps)) == expected
    assert float(up(down(as_double(x), steps), steps)) == x


@given(fractions)
def test_float64_brackets_the_fraction_with_nothing_between(x: Fraction) -> None:
    low, high = float_down(x), float_up(x)
    assert Fraction(low) <= x <= Fraction(high)
    assert (low == high) == (Fraction(float(x)) == x)
    assert high in (low, math.nextafter(low, math.inf))


@given(fractions)
def test_nearest_float32_has_no_nearer_neighbour(x: Fraction) -> None:
    near = np.float32(nearest_float32(x))
    gap = abs(Fraction(float(near)) - x)
    for side in (-np.inf, np.inf):
        assert abs(Fraction(float(np.nextafter(near, np.float32(side)))) - x) >= gap


def test_nearest_float32_is_not_fooled_by_rounding_twice() -> None:
    # Just above halfway between two float32; as a float64 it is halfway, which goes to the even one, below.
    halfway = Fraction(1) + Fraction(1, 2**24)
    assert nearest_float32(halfway + Fraction(1, 2**80)) == 1 + 2.0**-23
    assert nearest_float32(halfway - Fraction(1, 2**80)) == 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 3, 100, 10_000])
def test_gamma_is_not_below_its_definition(n: int, dtype: torch.dtype) -> None:
    nu = n * Fraction(UNIT[dtype])
    assert nu / (1 - nu) <= Fraction(gamma(n, dtype)) <= nu / (1 - nu) * Fraction(1001, 1000)


def test_gamma_covers_a_sum_of_products_in_float32() -> None:
    rng = np.random.default_rng(0)
    worst = 0.0
    for n in (2, 5, 50):
        for _ in range(100):
            a, b = rng.standard_normal((2, n)).astype(np.float32)
            total = np.float32(0)
            for product in a * b:
                total = np.float32(total + product)
            pairs = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)]
            error, size = abs(Fraction(float(total)) - sum(pairs)), sum(map(abs, pairs))
            assert error <= Fraction(gamma(n, torch.float32)) * size
            worst = max(worst, float(error / (Fraction(gamma(n, torch.float32)) * size)))
    assert worst > 0.1  # the bound is of the right size


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_unit_is_half_a_step_at_1(dtype: torch.dtype) -> None:
    one = torch.ones((), dtype=dtype)
    assert float(one + 2 * UNIT[dtype]) > 1.0
    assert float(one + UNIT[dtype]) == 1.0  # the largest that is rounded away


def test_gamma_refuses_sums_beyond_the_analysis() -> None:
    with pytest.raises(ValueError, match="beyond the error analysis"):
        gamma(2**23, torch.float32)
    assert gamma(2**23 - 1, torch.float32) < 1.01


def test_tf32_is_off_and_kernels_are_deterministic() -> None:
    flags = [torch.backends.cuda.matmul, torch.backends.cudnn]
    before = [flag.allow_tf32 for flag in flags]
    try:
        for flag in flags:
            flag.allow_tf32 = True
        use_strict_float32()
        assert [flag.allow_tf32 for flag in flags] == [False, False]
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark
    finally:
        for flag, value in zip(flags, before, strict=True):
            flag.allow_tf32 = value


def test_a_seed_names_a_stream() -> None:
    streams = [torch.rand(4, generator=generator(seed)).tolist() for seed in (0, 0, 1)]
    assert streams[0] == streams[1]
    assert all(a != b for a, b in itertools.product(streams[:1], streams[2:]))
