"""Cutting boxes: no point that breaks the rows is ever cut off, and the charge for it is needed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import npcheck.clip
from npcheck.network import Affine, Linear, Relu
from npcheck.ranges import interval, start
from npcheck.statement import Rows
from test_bound import exact_values, random_network
from test_charges import chain, dot, without

NO_CHARGE = (" + away[:, None]", "")
NO_STEPS = [
    ("np.nextafter(np.nextafter(end, np.inf), np.inf)", "end"),
    ("np.nextafter(np.nextafter(end, -np.inf), -np.inf)", "end"),
]


def ranges_of(network: Any, low: np.ndarray, high: np.ndarray) -> Any:
    ranges = start(network, low[None], high[None])
    for node in range(1, len(network.nodes)):
        ranges.lower[node], ranges.upper[node] = interval(network, node, ranges)
    return ranges


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_points_that_break_the_rows_stay(seed: int) -> None:
    """The right side is put where a point breaks both rows just so."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    n, m = network.nodes[0].size, network.nodes[-1].size
    low = rng.standard_normal(n)
    high = low + rng.random(n) * 2.0 ** rng.integers(-20, 3, n)
    sides, inputs = rng.standard_normal((2, m)), rng.standard_normal((2, n)) * rng.integers(0, 2)
    points = np.clip(low + rng.random((5, n)) * (high - low), low, high)
    exact = [[Fraction(x) for x in point] for point in points.tolist()]
    values = [exact_values(network, point)[-1] for point in exact]
    rows = [
        [
            sum((Fraction(c) * v for c, v in zip(side.tolist(), value, strict=True)), dot(a, point))
            for side, a in zip(sides, inputs, strict=True)
        ]
        for value, point in zip(values, points, strict=True)
    ]
    right = np.array([float(x) for x in rows[0]])
    with np.errstate(all="ignore"):
        lower, upper = npcheck.clip.clipped(network, Rows(sides, inputs, right), ranges_of(network, low, high))
    for point, found in zip(exact, rows, strict=True):
        if all(value <= Fraction(end) for value, end in zip(found, right.tolist(), strict=True)):
            inside = zip(lower[0].tolist(), point, upper[0].tolist(), strict=True)
            assert all(least <= x <= most for least, x, most in inside)


def cut_off(*changes: tuple[str, str]) -> int:
    """Say how often the ends of Σ a_i x_i <= Σ a_i x°_i cut off x°, whose other entries are the box."""
    module, count, cut = without(npcheck.clip, *changes), 6, 0
    rng = np.random.default_rng(3)
    for _ in range(200):
        a, point = rng.standard_normal(count), rng.standard_normal(count) * 2.0 ** rng.integers(-20, 20, count)
        low, high = point[None].copy(), point[None].copy()
        low[0, 0], high[0, 0] = -(2.0**40), 2.0**40
        rest = -dot(a[1:], point[1:])  # a_0 x_0 <= rest − C with C = 0
        module._cut(low, high, a[None], np.zeros(1))
        end = rest / Fraction(float(a[0]))
        cut += Fraction(float(high[0, 0])) < end if a[0] > 0 else Fraction(float(low[0, 0])) > end
    return cut


def test_the_charge_is_needed() -> None:
    """The steps outward are covered by it."""
    assert cut_off() == 0
    assert cut_off(*NO_STEPS) == 0
    assert cut_off(NO_CHARGE) > 0
    assert cut_off(NO_CHARGE, *NO_STEPS) > 0


def test_a_box_is_cut() -> None:
    """x0 + x1 <= −1 on [−1, 1]²: both are at most 0; with relu(x0) in place of x0, x1 is at most −1."""
    low, high = -np.ones(2), np.ones(2)
    plain: tuple[Affine | Relu, ...] = (Linear(np.eye(2)),)
    for ops, most in ((plain, [0.0, 0.0]), ((*plain, Relu(), Linear(np.eye(2))), [1.0, 1.0])):
        network = chain(2, *ops)
        rows = Rows(np.ones((1, 2)), None, np.array([-1.0]))
        lower, upper = npcheck.clip.clipped(network, rows, ranges_of(network, low, high))
        np.testing.assert_allclose(lower[0], low)
        if len(ops) == 1:
            np.testing.assert_allclose(upper[0], most, atol=1e-9)
        else:
            assert (upper[0] <= most).all()


def test_what_is_not_a_number_moves_nothing() -> None:
    for wild in (np.nan, np.inf):
        low, high = -np.ones((1, 2)), np.ones((1, 2))
        with np.errstate(all="ignore"):
            npcheck.clip._cut(low, high, np.array([[1.0, wild]]), np.zeros(1))
            npcheck.clip._cut(low, high, np.array([[1.0, 1.0]]), np.array([-wild]))
        assert (low == -1.0).all()
        assert (high == 1.0).all()
