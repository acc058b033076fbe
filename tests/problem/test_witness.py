from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netproof.core.verdict import Witness
from netproof.problem.property import Ball, Box, Disjunct, Property, Row
from netproof.problem.vnnlib.reader import parse_property
from netproof.problem.witness import (
    confirm,
    confirmed,
    format_witness,
    project,
    rounding_gaps,
    violated,
)

IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
HEAD = "".join(f"(declare-const {n} Real)" for n in ("X_0", "X_1", "Y_0", "Y_1"))
UNIT = "(assert (<= 0 X_0 1))(assert (<= 0 X_1 1))"

decimals = st.builds(lambda n, k: Fraction(n, 10**k), st.integers(-(10**12), 10**12), st.integers(0, 14))
singles = st.floats(width=32, min_value=-1024, max_value=1024).map(Fraction)
ends = decimals | singles


def box_of(pairs: list[tuple[Fraction, Fraction]], opened: frozenset[int] = frozenset()) -> Box:
    return Box(tuple(min(p) for p in pairs), tuple(max(p) for p in pairs), opened, opened)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(ends, ends) | ends.map(lambda v: (v, v)), min_size=1, max_size=4),
    st.sets(st.integers(0, 3)),
)
def test_the_float32_box_is_inward_and_as_large_as_can_be(
    pairs: list[tuple[Fraction, Fraction]], opened: set[int]
) -> None:
    box = box_of(pairs, frozenset(i for i in opened if i < len(pairs) and pairs[i][0] != pairs[i][1]))
    lower, upper, pinned = box.float32
    assert lower.dtype == upper.dtype == np.float32

    def inside(i: int, value: np.float32) -> bool:
        one = Box((box.lower[i],), (box.upper[i],), *(frozenset({0} if i in o else ()) for o in opens))
        return one.contains([Fraction(float(value))])

    opens = (box.open_lower, box.open_upper)
    for i in range(len(pairs)):
        below = np.nextafter(lower[i], np.float32(-np.inf))
        above = np.nextafter(upper[i], np.float32(np.inf))
        assert not inside(i, below)
        assert not inside(i, above)
        if i in pinned:
            assert lower[i] == upper[i]
            assert not inside(i, lower[i])
            assert box.lower[i] == box.upper[i]
            gaps = [abs(Fraction(float(v)) - box.lower[i]) for v in (below, lower[i], above)]
            assert gaps[1] == min(gaps)
        elif lower[i] > upper[i]:
            assert box.lower[i] < box.upper[i]
            assert not inside(i, lower[i])
            assert not inside(i, upper[i])
        else:
            assert inside(i, lower[i])
            assert inside(i, upper[i])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(ends, ends), min_size=3, max_size=3),
    st.lists(st.floats(width=64), min_size=3, max_size=3),
)
def test_projection_lands_in_the_float32_box(pairs: list[tuple[Fraction, Fraction]], x: list[float]) -> None:
    disjunct = Disjunct(box_of(pairs), ())
    point = project(np.array(x), disjunct)
    lower, upper, _ = disjunct.box.float32
    assert point.dtype == np.float32
    assert ((lower <= point) & (point <= upper) | (lower > upper)).all()


def test_projection_keeps_points_that_are_inside() -> None:
    disjunct = Disjunct(box_of([(Fraction(0), Fraction(1))] * 2), ())
    x = np.array([[0.25, 0.1]], dtype=np.float32)
    assert (project(x, disjunct) == x.reshape(-1)).all()


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("centre", [Fraction(1, 10), Fraction(1, 3), Fraction(97, 100)])
def test_projection_into_a_ball_is_inside_exactly_and_near_its_rim(p: int, centre: Fraction) -> None:
    n, radius = 20, Fraction(1, 100)
    low, high = max(Fraction(0), centre - radius), min(Fraction(1), centre + radius)
    ball = Ball((centre,) * n, radius, p)
    disjunct = Disjunct(box_of([(low, high)] * n), (), ball)
    rng = np.random.default_rng(0)
    for _ in range(10):
        point = project(float(centre) + rng.uniform(-1, 1, n), disjunct)
        assert ball.contains([Fraction(float(v)) for v in point])
        assert disjunct.box.contains([Fraction(float(v)) for v in point])
        norm = np.linalg.norm(point.astype(np.float64) - float(centre), ord=p)
        assert norm >= 0.999 * float(radius)


def test_projection_into_a_ball_whose_centre_is_clipped_away() -> None:
    ball = Ball((Fraction(-1, 2), Fraction(1, 2)), Fraction(3, 5), 2)
    disjunct = Disjunct(box_of([(Fraction(0), Fraction(1))] * 2), (), ball)
    point = project(np.array([1.0, 1.0]), disjunct)
    assert ball.contains([Fraction(float(v)) for v in point])
    assert disjunct.box.contains([Fraction(float(v)) for v in point])


class TestConfirm:
    def test_a_replayed_violation_is_a_witness(self, affine) -> None:
        spec = parse_property(HEAD + UNIT + "(assert (>= Y_0 1))")
        witness = confirm(affine(IDENTITY), spec, 0, np.array([7.0, 0.5]))
        assert witness is not None
        assert witness.input.tolist() == witness.output.tolist() == [[1.0, 0.5]]
        assert witness.input.shape == (1, 2)
        assert witness.note == ""

    def test_no_tolerance_is_given(self, affine) -> None:
        network = affine(IDENTITY)
        n, d = float(np.nextafter(np.float32(1), np.float32(2))).as_integer_ratio()
        for text, found in (("(>= Y_0 1)", True), ("(> Y_0 1)", False), (f"(>= Y_0 (/ {n} {d}))", False)):
            spec = parse_property(HEAD + UNIT + f"(assert {text})")
            assert (confirm(network, spec, 0, np.array([1.0, 0.0])) is not None) == found

    def test_the_decimal_is_compared_not_its_float(self, affine) -> None:
        # float32(0.1) lies above 0.1, so y = x = float32(0.1) does not satisfy y <= 0.1.
        spec = parse_property(HEAD + UNIT + "(assert (<= Y_0 0.1))")
        network = affine(IDENTITY)
        x = np.array([np.float32(0.1), 0.0])
        assert confirm(network, spec, 0, x) is None
        x[0] = np.nextafter(np.float32(0.1), np.float32(0))
        assert confirm(network, spec, 0, x) is not None

    def test_another_disjunct_may_be_the_one_that_is_violated(self, affine) -> None:
        spec = parse_property(HEAD + UNIT + "(assert (or (>= Y_0 2) (>= Y_1 1)))")
        witness = confirm(affine(IDENTITY), spec, 0, np.array([0.0, 1.0]))
        assert witness is not None
        assert violated(spec, witness.input, witness.output) == 1

    def test_a_row_without_its_own_set_does_not_count(self, affine) -> None:
        text = "(assert (<= 0 X_1 1))(assert (or (and (<= 0 X_0 1) (>= Y_0 5)) (and (<= 2 X_0 3) (<= Y_0 1))))"
        spec = parse_property(HEAD + text)
        assert confirm(affine(IDENTITY), spec, 0, np.array([0.5, 0.5])) is None

    def test_without_an_index_the_sets_that_hold_x_or_the_nearest_are_tried(self, affine) -> None:
        text = "(assert (<= 0 X_1 1))(assert (or (and (<= 0 X_0 1) (>= Y_0 5)) (and (<= 2 X_0 3) (>= Y_0 2))))"
        spec = parse_property(HEAD + text)
        network = affine(IDENTITY)
        assert confirm(network, spec, None, np.array([0.5, 0.5])) is None
        for inside_or_near in (2.5, 3.5):
            witness = confirm(network, spec, None, np.array([inside_or_near, 0.5]))
            assert witness is not None
            assert 2.0 <= witness.input[0, 0] <= 3.0

    @pytest.mark.parametrize("weight", [1.0e38, -1.0e38])
    def test_outputs_that_are_not_finite_never_count(self, affine, weight: float) -> None:
        head = HEAD + "(assert (<= 0 X_0 10))(assert (<= 0 X_1 10))"
        network = affine([[weight, weight], [0.0, 0.0]])
        spec = parse_property(head + "(assert (<= Y_1 0))")
        assert confirm(network, spec, 0, np.array([10.0, 10.0])) is None
        assert confirm(network, spec, 0, np.array([0.5, 0.0])) is not None

    def test_pinned_inputs_are_told(self, affine) -> None:
        spec = parse_property(HEAD + "(assert (= X_0 0.1))(assert (<= 0 X_1 1))(assert (>= Y_0 0.09))")
        witness = confirm(affine(IDENTITY), spec, 0, np.array([0.0, 0.0]))
        assert witness is not None
        assert witness.input[0, 0] == np.float32(0.1)
        assert witness.note == ("the range of 1 input holds no float32, so the nearest one stands there (X_0)")

    def test_a_float16_input_is_checked_where_it_was_fed(self, affine) -> None:
        network = affine(IDENTITY, dtype="float16")
        between = "(assert (<= 0 X_1 1))(assert (<= 1.0001 X_0 {}))(assert (>= Y_0 1))"
        # No float16 between 1 and 1 + 2^-10: the network would be fed a point outside the set.
        assert confirm(network, parse_property(HEAD + between.format("1.0002")), 0, np.zeros(2)) is None
        spec = parse_property(HEAD + between.format("2"))
        witness = confirm(network, spec, 0, np.array([1.5003, 0.0]))
        assert witness is not None
        assert witness.input[0, 0] == np.float16(1.5003)

    def test_an_empty_property_has_no_witness(self, affine) -> None:
        spec = parse_property(HEAD + UNIT + "(assert (<= 2 1))")
        assert confirm(affine(IDENTITY), spec, None, np.zeros(2)) is None
        empty = parse_property(HEAD + "(assert (<= 1 X_0 0))(assert (<= 0 X_1 1))")
        assert confirm(affine(IDENTITY), empty, None, np.zeros(2)) is None


class TestRoundingGap:
    def test_a_clear_violation_is_confirmed(self, affine) -> None:
        network = affine([[1.0, 1.0], [1.0, -1.0]])
        spec = parse_property(HEAD + UNIT + "(assert (<= Y_0 3))(assert (< Y_1 0.5))")
        witness = confirm(network, spec, 0, np.array([0.25, 0.5]))
        assert witness is not None
        ((low, high),) = rounding_gaps(network.graph, spec.disjuncts, witness.input)
        for exact, lo, hi in zip((Fraction(3, 4) - 3, Fraction(-1, 4) - Fraction(1, 2)), low, high, strict=True):
            assert Fraction(lo) <= exact <= Fraction(hi)
            assert hi - lo < 1e-9
        assert confirmed(spec.disjuncts[0], high)

    def test_a_float32_artefact_is_not(self, affine) -> None:
        # In float32 1 + 2^-30 is 1, so y <= 1 holds in the replay and not in the real network.
        network = affine([[1.0, 0.0], [0.0, 1.0]], [2.0**-30, 0.0])
        spec = parse_property(HEAD + UNIT + "(assert (<= Y_0 1))(assert (>= X_0 1))")
        witness = confirm(network, spec, 0, np.array([1.0, 0.0]))
        assert witness is not None
        ((low, high),) = rounding_gaps(network.graph, spec.disjuncts, witness.input)
        assert Fraction(low[0]) <= Fraction(1, 2**30) <= Fraction(high[0])
        assert low[0] > 0
        assert not confirmed(spec.disjuncts[0], high)

    def test_the_real_value_decides_not_its_float64(self, affine) -> None:
        # y = 1 + 2^-40 + 2^-63 passes 1 + 2^-40 by less than float64 can hold beside 1.
        network = affine([[1.0, 2.0**-40], [0.0, 1.0]])
        limit = f"(+ 1 (/ 1 {2**40}))"
        spec = parse_property(HEAD + f"(assert (= X_0 1))(assert (<= 1 X_1 2))(assert (<= Y_0 {limit}))")
        witness = confirm(network, spec, 0, np.array([1.0, 1.0 + 2.0**-23]))
        assert witness is not None
        ((low, high),) = rounding_gaps(network.graph, spec.disjuncts, witness.input)
        assert Fraction(low[0]) <= Fraction(1, 2**63) <= Fraction(high[0])
        assert not confirmed(spec.disjuncts[0], high)

    def test_equality_excludes_only_strict_rows(self) -> None:
        box = Box((Fraction(0),), (Fraction(1),))
        assert confirmed(Disjunct(box, (Row({0: Fraction(1)}, Fraction(0)),)), (0.0,))
        assert not confirmed(Disjunct(box, (Row({0: Fraction(1)}, Fraction(0), strict=True),)), (0.0,))
        assert confirmed(Disjunct(box, ()), ())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=5))
def test_the_printed_form_reads_back_to_the_same_floats(values: list[float]) -> None:
    x, y = np.array(values[:1], dtype=np.float32), np.array([values[1:]], dtype=np.float32)
    text = format_witness(Witness(x, y))
    assert text.startswith("((X_0 ")
    assert text.endswith("))")
    assert text.count("(") == text.count(")")
    lines = text.split("\n")
    assert all(line.startswith(" (") for line in lines[1:])
    read = re.findall(r"\(([XY])_(\d+) (\S+?)\)", text)
    assert [(k, int(i)) for k, i, _ in read] == [("X", 0), *(("Y", i) for i in range(len(values) - 1))]
    assert [np.float32(v).tobytes() for *_, v in read] == [np.float32(v).tobytes() for v in values]


def test_the_printed_form_is_short() -> None:
    witness = Witness(np.array([0.1, 1.0], np.float32), np.array([[1e-7]], np.float32))
    assert format_witness(witness) == "((X_0 0.1)\n (X_1 1.0)\n (Y_0 1e-07))"


def test_properties_made_by_hand_are_confirmed_too(affine) -> None:
    ball = Ball((Fraction(0), Fraction(0)), Fraction(1), 2)
    spec = Property(
        (Disjunct(box_of([(Fraction(-1), Fraction(1))] * 2), (Row({0: Fraction(-1)}, Fraction(-1)),), ball),),
        2,
        2,
    )
    witness = confirm(affine(IDENTITY), spec, 0, np.array([3.0, 0.0]))
    assert witness is not None
    assert witness.input.tolist() == [[1.0, 0.0]]
    assert confirm(affine(IDENTITY), spec, 0, np.array([1.0, 1.0])) is None
