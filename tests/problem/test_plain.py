"""The plain form, read in bulk, is what the full reader makes of the same text; what is not plain is left to that."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netproof.errors import SpecError
from netproof.problem.decimals import Decimals
from netproof.problem.vnnlib.prelude import plain_beginning
from netproof.problem.vnnlib.reader import _Reader, parse_property
from netproof.problem.vnnlib.sexpr import Source

DECLARED = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "X_1", "X_2", "Y_0", "Y_1"))
BOUNDS = """(assert (<= X_0 0.5))
(assert (>= X_0 -0.25))
(assert (>= X_2 1e-3)) ; out of order
(assert (<= X_2 2.))

(assert (>=  X_1
   0))
(assert (<= X_1 1))
"""
REST = "; unsafe if\n(assert (or (and (<= Y_0 Y_1) (>= Y_0 3)) (<= Y_1 0.1)))\n(check-sat)\n"
PLAIN = DECLARED + BOUNDS + REST

numbers = st.decimals(-100, 100, allow_nan=False, places=4).map(str) | st.floats(-3, 3).map(repr)


def read_fully(text: str) -> object:
    return _Reader(Source(text)).read()


def test_the_plain_form_is_read_in_bulk() -> None:
    (first, second) = parse_property(PLAIN).disjuncts
    assert isinstance(first.box.lower, Decimals)
    assert first.box is second.box
    assert parse_property(PLAIN) == read_fully(PLAIN)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5), st.randoms())
def test_any_order_of_the_bounds_gives_the_same(pairs: list[tuple[str, str]], random) -> None:
    declared = "".join(f"(declare-const X_{i} Real)" for i in range(len(pairs))) + "(declare-const Y_0 Real)"
    bounds = [f"(assert (>= X_{i} {a}))" for i, (a, _) in enumerate(pairs)]
    bounds += [f"(assert (<= X_{i} {b}))" for i, (_, b) in enumerate(pairs)]
    random.shuffle(bounds)
    text = declared + "\n".join(bounds) + "(assert (<= Y_0 0))"
    mine, reference = parse_property(text), read_fully(text)
    assert plain_beginning(text) is not None
    assert mine == reference
    assert mine.disjuncts[0].box.empty == reference.disjuncts[0].box.empty


def test_more_bounds_after_the_plain_ones_tighten_the_box() -> None:
    for more in ("(assert (<= 0.25 X_0))", "(assert (or (and (< X_0 0.25) (<= Y_0 0)) (<= Y_1 0)))"):
        text = PLAIN.replace("(check-sat)", more)
        assert plain_beginning(text) is not None
        assert parse_property(text) == read_fully(text)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("(assert (<= X_0 0.5))", "(assert (<= X_0 0.5))(assert (<= X_0 0.6))"),  # a bound twice
        PLAIN.replace("(assert (<= X_0 0.5))", "(assert (<= X_0 0.5 0.6))"),
        PLAIN.replace("(assert (<= X_0 0.5))", "(assert (>= 0.5 X_0))"),
        PLAIN.replace("(assert (<= X_0 0.5))", "(assert (< X_0 0.5))"),
        PLAIN.replace("(assert (<= X_0 0.5))", "(assert (and (<= X_0 0.5)))"),
        PLAIN.replace("(assert (<= X_0 0.5))", "(set-info (assert (<= X_0 0.25)))(assert (<= X_0 0.5))"),
        PLAIN.replace("(assert (<= X_0 0.5))", "(set-info :a |; |)(assert (<= X_0 0.5))"),
        PLAIN.replace("(assert (<= X_0 0.5))", '(set-info :a "(assert (<= X_0 0.25))")(assert (<= X_0 0.5))'),
        "(set-logic QF_LRA)" + PLAIN,
        DECLARED + REST.replace("(check-sat)", "") + BOUNDS,
        PLAIN + "(declare-const Y_2 Real)",
        DECLARED.replace("X_2 ", "X_7 ").replace("X_7", "X_2") + BOUNDS,
        DECLARED.replace("(declare-const X_2 Real)", "(declare-fun X_2 () Real)") + BOUNDS + REST,
    ],
)
def test_what_is_not_plain_is_left_to_the_full_reader(text: str) -> None:
    assert parse_property(text) == read_fully(text)
    assert not any(isinstance(d.box.lower, Decimals) for d in parse_property(text).disjuncts)


def test_comments_count_for_nothing() -> None:
    assert parse_property(PLAIN.replace("0.5))", "0.5)) ; (assert (<= X_0 0.25))")) == parse_property(PLAIN)
    with pytest.raises(SpecError, match="X_0 has no upper bound"):
        parse_property(PLAIN.replace("(assert (<= X_0 0.5))", "; (assert (<= X_0 0.5))"))


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("X_2 2.", "X_3 2."),  # never declared
        PLAIN.replace("X_2 Real", "X_02 Real"),
        PLAIN.replace("X_2 Real", "X_1 Real"),  # declared twice
        PLAIN.replace("(assert (<= X_2 2.))", ""),
        PLAIN.replace("0.5", "1e500"),
        PLAIN.replace("0.5", "0.5x"),
        PLAIN.replace("(<= Y_0 Y_1)", "(<= Y_0 Z)"),
        PLAIN.replace("(check-sat)", "(check-sat)(assert (<= Y_0 1))"),
        PLAIN + ")",
        PLAIN + "(",
        PLAIN.replace("(assert (<= X_0 0.5))", "(and (assert (<= X_0 0.5)))"),
        PLAIN.replace("(declare-const Y_0 Real)\n", "").replace("(declare-const Y_1 Real)\n", ""),
        BOUNDS + DECLARED + REST,
    ],
)
def test_errors_are_the_full_readers(text: str) -> None:
    with pytest.raises(SpecError) as mine:
        parse_property(text, "f.vnnlib")
    with pytest.raises(SpecError) as reference:
        _Reader(Source(text, "f.vnnlib")).read()
    assert str(mine.value) == str(reference.value)


def test_a_plain_file_without_outputs_constraints_is_read() -> None:
    text = DECLARED + BOUNDS
    assert parse_property(text) == read_fully(text)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_line_ends_of_any_kind_say_the_same(end: str) -> None:
    """A comment ends there, so that what stands on the next line counts."""
    text = PLAIN.replace("\n", end)
    assert plain_beginning(text) is not None
    assert parse_property(text) == parse_property(PLAIN) == read_fully(text)
    mixed = PLAIN.replace("; unsafe if\n", "; unsafe if\r").replace("; out of order\n", "; out of order\r")
    assert parse_property(mixed) == parse_property(PLAIN) == read_fully(mixed)


@pytest.mark.parametrize("blank", "\v\f\x85\xa0\u2003\u2028\u3000")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(<= X_0 0.5)", "(<=?X_0 0.5)"),
        ("\n\n", "\n?\n"),
        ("const X_0", "const?X_0"),
        ("(>= Y_0 3)", "(>= Y_0?3)"),
        ("(check-sat)", "?(check-sat)"),
    ],
)
def test_other_blanks_are_left_to_the_full_reader_which_refuses_them(old: str, new: str, blank: str) -> None:
    assert old in PLAIN
    with pytest.raises(SpecError, match="separates nothing"):
        parse_property(PLAIN.replace(old, new.replace("?", blank), 1))
