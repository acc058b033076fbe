from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from netproof.errors import SpecError
from netproof.problem.property import Ball, Box, Disjunct, Property, Row
from netproof.problem.reduce import input_set, reduce, rows
from netproof.problem.vnnlib.reader import parse_property

HEAD = "".join(f"(declare-const {n} Real)" for n in ("X_0", "X_1", "Y_0", "Y_1"))
IDENTITY = [[1.0, 0.0], [0.0, 1.0]]

decimals = st.builds(lambda n, k: Fraction(n, 10**k), st.integers(-(10**12), 10**12), st.integers(0, 14))


def test_disjuncts_on_one_set_become_targets_of_one_problem(affine) -> None:
    text = """(assert (<= 0 X_1 1))
    (assert (or (and (<= 0 X_0 1) (<= Y_0 0.1)) (and (<= 2 X_0 3) (< Y_0 Y_1))
                (and (<= 0 X_0 1) (>= Y_0 1) (> Y_1 2)) (and (<= 5 X_0 4) (<= Y_0 0))))"""
    network = affine(IDENTITY)
    first, second = reduce(network, parse_property(HEAD + text))
    assert (first.disjuncts, second.disjuncts) == ((0, 2), (1,))
    assert first.graph is network.graph
    assert first.input_set.lower.shape == (1, 2)
    assert first.rows.coef.tolist() == [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, -1.0]]]
    assert first.rows.offset.tolist() == [[0.1, 0.0], [-1.0, -2.0]]
    assert first.rows.strict.tolist() == [[False, False], [False, True]]
    assert first.rows.valid.tolist() == [[True, False], [True, True]]
    assert second.rows.strict.tolist() == [[True]]
    assert all(t.dtype == torch.float64 for t in (first.rows.coef, first.rows.offset, second.input_set.lower))


def test_equal_boxes_that_are_different_objects_are_one_problem(affine) -> None:
    boxes = [Box((Fraction(0), Fraction(0)), (Fraction(1), Fraction(1))) for _ in range(2)]
    ball = Ball((Fraction(0), Fraction(0)), Fraction(1), 2)
    disjuncts = [Disjunct(b, (Row({0: Fraction(1)}, Fraction(0)),)) for b in boxes] + [Disjunct(boxes[0], (), ball)]
    problems = reduce(affine(IDENTITY), Property(tuple(disjuncts), 2, 2))
    assert [p.disjuncts for p in problems] == [(0, 1), (2,)]
    assert [p.input_set.p for p in problems] == [None, 2]


def test_a_disjunct_without_rows_is_always_violated(affine) -> None:
    (problem,) = reduce(affine(IDENTITY), parse_property(HEAD + "(assert (<= 0 X_0 1))(assert (<= 0 X_1 1))"))
    target = problem.rows
    assert (target.coef.abs().sum(), target.offset.tolist(), target.valid.tolist()) == (0, [[0.0]], [[True]])
    assert not target.strict.any()


def test_nothing_is_left_when_every_box_is_empty(affine) -> None:
    assert reduce(affine(IDENTITY), parse_property(HEAD + "(assert (<= 1 X_0 0))(assert (<= 0 X_1 1))")) == []


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ([[1.0], [1.0]], r"has 2 inputs, the network .*affine.* has 1 \(shape \[1, 1\]\)"),
        ([[1.0, 1.0]], r"has 2 outputs, the network .*affine.* has 1 \(shape \[1, 1\]\)"),
    ],
)
def test_sizes_must_agree(affine, weight: list[list[float]], said: str) -> None:
    spec = parse_property(HEAD + "(assert (<= 0 X_0 1))(assert (<= 0 X_1 1))", "spec.vnnlib")
    with pytest.raises(SpecError, match=said) as caught:
        reduce(affine(weight), spec)
    assert caught.value.file == "spec.vnnlib"


@pytest.mark.parametrize(
    "text",
    [
        "(assert (<= 0 X_0 1e39))",
        "(assert (<= 0 X_0 1e400))",
        "(assert (<= -1e39 X_0 1))",
        "(assert (<= 0 X_0 1))(assert (<= (* 1e200 Y_0) 1))",
        "(assert (<= 0 X_0 1))(assert (<= (* 1e-200 Y_0) 1))",
        "(assert (<= 0 X_0 1))(assert (<= Y_0 1e200))",
    ],
)
def test_numbers_beyond_the_formats_are_refused(affine, text: str) -> None:
    with pytest.raises(SpecError, match="beyond"):
        reduce(affine(IDENTITY), parse_property(HEAD + "(assert (<= 0 X_1 1))" + text))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(decimals, decimals), min_size=1, max_size=4))
def test_the_proved_box_holds_the_decimals_and_every_float32_witness(
    pairs: list[tuple[Fraction, Fraction]],
) -> None:
    box = Box(tuple(min(p) for p in pairs), tuple(max(p) for p in pairs))
    proved = input_set(box, None, (len(pairs),))
    lower32, upper32, _ = box.float32
    for i, (low, high) in enumerate(zip(proved.lower.tolist(), proved.upper.tolist(), strict=True)):
        assert Fraction(low) <= box.lower[i]
        assert box.upper[i] <= Fraction(high)
        # Python floats on both sides: numpy would compare in float32.
        images = [np.float32(float(end)) for end in (box.lower[i], box.upper[i])]
        if lower32[i] <= upper32[i]:
            assert all(low <= float(v) <= high for v in (*images, lower32[i], upper32[i]))
        else:
            assert low >= np.nextafter(float(box.lower[i]), -np.inf)  # no witness needs more than the decimals
            assert high <= np.nextafter(float(box.upper[i]), np.inf)
        # and no wider than the formats force it to be
        assert low >= float(np.nextafter(np.float32(float(box.lower[i])), np.float32(-np.inf)))
        assert high <= float(np.nextafter(np.float32(float(box.upper[i])), np.float32(np.inf)))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(decimals, min_size=1, max_size=4),
    st.builds(lambda n, k: Fraction(n, 10**k), st.integers(0, 10**9), st.integers(0, 12)),
    st.sampled_from([1, 2]),
    st.lists(st.fractions(-1, 1), min_size=4, max_size=4),
)
def test_the_proved_ball_holds_both_balls(
    centre: list[Fraction], radius: Fraction, p: int, direction: list[Fraction]
) -> None:
    n = len(centre)
    ball = Ball(tuple(centre), radius, p)
    around = Box(tuple(c - radius for c in centre), tuple(c + radius for c in centre))
    proved = input_set(around, ball, (n,))
    assert proved.centre is not None
    assert proved.centre.tolist() == [float(c) for c in centre]
    grown = Ball(tuple(Fraction(c) for c in proved.centre.tolist()), Fraction(proved.radius), p)
    # Points on the rim of the ball as written, and of the same ball about the float32 centre.
    for middle in (centre, [Fraction(float(np.float32(float(c)))) for c in centre]):
        for i in range(n):
            for sign in (1, -1):
                rim = [m + sign * radius * (j == i) for j, m in enumerate(middle)]
                assert grown.contains(rim)
        if sum(map(abs, direction[:n])) > 0:
            size = sum(map(abs, direction[:n])) if p == 1 else None
            length = size or Fraction(math.sqrt(float(sum(d * d for d in direction[:n])))) * (1 + Fraction(1, 2**50))
            if length > 0:
                assert grown.contains([m + radius * d / length for m, d in zip(middle, direction, strict=False)])


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.integers(0, 2), decimals.filter(bool), max_size=3), decimals)
def test_rows_are_never_above_the_exact_row(coefs: dict[int, Fraction], rhs: Fraction) -> None:
    box = Box((Fraction(0),), (Fraction(1),))
    made = rows([Disjunct(box, (Row(coefs, rhs),))], 3)
    assert Fraction(made.offset.item()) >= rhs
    assert made.offset.item() <= math.nextafter(float(rhs), math.inf)
    unit = Fraction(1, 2**53)
    for i, c in enumerate(made.coef[0, 0].tolist()):
        assert abs(Fraction(c) - coefs.get(i, Fraction(0))) <= unit * abs(coefs.get(i, Fraction(0)))
