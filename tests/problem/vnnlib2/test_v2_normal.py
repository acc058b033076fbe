"""The disjunctive form: what is known decides alternatives before they are multiplied out."""

from __future__ import annotations

import time

import pytest

from support.queries import reading


def test_nested_choices_are_multiplied_out() -> None:
    property = reading("(or (<= Y[0] 0.0) (and (>= Y[1] 1.0) (or (<= X[0] 0.0) (>= X[1] 0.5))))")
    assert len(property.disjuncts) == 3
    assert sorted(len(d.rows) for d in property.disjuncts) == [1, 1, 1]


def test_alternatives_that_contradict_what_is_known_are_dropped() -> None:
    assert len(reading("(>= Y[0] 1.0)", "(or (<= Y[0] 0.0) (<= Y[1] 0.0))").disjuncts) == 1
    assert len(reading("(or (>= X[0] 2.0) (<= Y[0] 0.0) (<= X[1] -1.5))").disjuncts) == 1


def test_choices_that_follow_from_what_is_known_are_settled() -> None:
    (disjunct,) = reading("(>= Y[0] 1.0)", "(or (>= Y[0] 0.5) (<= Y[1] 0.0))").disjuncts
    assert [row.coefs for row in disjunct.rows] == [{0: -1}]
    (disjunct,) = reading("(<= Y[0] 1.0)", "(or (<= X[0] 1.0) (<= Y[1] 0.0))").disjuncts
    assert len(disjunct.rows) == 1


@pytest.mark.parametrize("count", [10, 200])
def test_repeated_choices_do_not_multiply(count: int) -> None:
    property = reading(*["(or (<= Y[0] 0.0) (<= Y[1] 0.0))"] * count)
    assert len(property.disjuncts) == 2


def test_intervals_of_one_form_do_not_multiply() -> None:
    """Each of 100 assertions cuts a piece out of [0, 1]: 101 pieces are left, and not 2^100."""
    cuts = [f"(or (<= Y[0] 0.{i:03}2) (>= Y[0] 0.{i:03}4))" for i in range(100)]
    assert len(reading("(>= Y[0] 0.0)", "(<= Y[0] 1.0)", *cuts).disjuncts) == 101


def test_options_that_say_more_than_another_are_dropped() -> None:
    (disjunct,) = reading("(or (<= Y[0] 0.0) (and (<= Y[0] 0.0) (<= Y[1] 0.0)))").disjuncts
    assert [row.coefs for row in disjunct.rows] == [{0: 1}]


def test_a_strict_limit_says_more_than_one_that_is_not() -> None:
    (disjunct,) = reading("(<= Y[0] 1.0)", "(< Y[0] 1.0)").disjuncts
    assert [row.strict for row in disjunct.rows] == [True]
    assert len(reading("(<= Y[0] 1.0)", "(or (< Y[0] 1.0) (<= Y[1] 0.0))").disjuncts) == 2
    assert len(reading("(< Y[0] 1.0)", "(or (<= Y[0] 1.0) (<= Y[1] 0.0))").disjuncts) == 1


def test_deep_and_wide_nests_are_read_in_time() -> None:
    started = time.monotonic()
    deep = "(<= Y[0] 0.0)"
    for k in range(0, 120, 2):
        deep = f"(or (and {deep} (<= Y[1] {k}.0)) (<= Y[2] -{k}.0))"
    wide = f"(or {' '.join(f'(and (<= Y[0] {k}.5) (>= Y[1] {k}.25))' for k in range(3000))})"
    assert len(reading(deep, outputs=3).disjuncts) >= 1
    assert len(reading(wide, outputs=3).disjuncts) == 3000
    assert time.monotonic() - started < 20
