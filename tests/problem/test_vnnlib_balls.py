"""ℓ2 balls in VNN-LIB 1.0: read as they are written, and refused where squares say something else."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import netproof
from netproof.errors import SpecError
from netproof.problem.property import Ball
from netproof.problem.specs import classification, l2_ball
from netproof.problem.vnnlib.reader import parse_property
from netproof.problem.vnnlib.writer import version_1

HEAD = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
BOX = "".join(f"(assert (>= X_{i} -9))(assert (<= X_{i} 9))" for i in range(2))


def read(*formulas: str) -> netproof.Property:
    return parse_property(HEAD + BOX + "".join(f"(assert {formula})" for formula in formulas))


@pytest.mark.parametrize(
    "formula",
    [
        "(<= (+ (* X_0 X_0) (* X_1 X_1) (* 2 X_1)) (+ X_0 2.75))",
        "(>= 8 (+ (* 2 (- X_0 0.5) (- X_0 0.5)) (* (+ X_1 1) (+ 2 (* 2 X_1)))))",
        "(and (<= X_0 9) (<= (- (+ (* X_0 X_0) (* X_1 X_1) (* 2 X_1)) X_0) 2.75))",
    ],
)
def test_a_ball_is_read_exactly(formula: str) -> None:
    (disjunct,) = read(formula, "(<= Y_0 0)").disjuncts
    assert disjunct.ball == Ball((Fraction(1, 2), Fraction(-1)), Fraction(2), 2)
    assert len(disjunct.rows) == 1


def test_every_disjunct_has_it() -> None:
    found = read("(<= (+ (* X_0 X_0) (* X_1 X_1)) 1)", "(or (<= Y_0 0) (and (<= X_0 0.5) (<= Y_0 1)))")
    assert {disjunct.ball for disjunct in found.disjuncts} == {Ball((Fraction(0), Fraction(0)), Fraction(1), 2)}
    assert len(found.disjuncts) == 2


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("(< (+ (* X_0 X_0) (* X_1 X_1)) 1)", "this ball is strict"),
        ("(or (<= Y_0 1) (<= (+ (* X_0 X_0) (* X_1 X_1)) 1))", "this ball stands within or"),
        ("(and (<= (+ (* X_0 X_0) (* X_1 X_1)) 1) (<= (+ (* X_0 X_0) (* X_1 X_1)) 4))", "this ball is the second one"),
        ("(<= (* X_0 X_0) 1)", "the squares of all inputs must have the same factor"),
        ("(<= (+ (* X_0 X_0) (* 2 X_1 X_1)) 1)", "the squares of all inputs must have the same factor"),
        ("(<= (+ (* X_0 X_0) (* X_1 X_1) Y_0) 1)", "an output is among them"),
        ("(>= (+ (* X_0 X_0) (* X_1 X_1)) 1)", "the outside of one"),
        ("(<= (+ (* X_0 X_0) (* X_1 X_1)) -1)", "no input is in it"),
        ("(<= (+ (* X_0 X_0) (* X_1 X_1)) 2)", "its radius is no fraction"),
        ("(<= (* X_0 X_0 X_0) 1)", "a product of variables is not linear"),
        ("(<= (* Y_0 Y_0) 1)", "a product of variables is not linear"),
    ],
)
def test_what_is_no_ball(formula: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read(formula, "(<= Y_0 0)")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    asked = classification(l2_ball([[0.3, 0.1]], "0.05"), 0, 2)
    text = version_1(asked, asked.disjuncts[0].box)
    found = parse_property(text)
    assert [(d.box.lower, d.ball, d.rows) for d in found.disjuncts] == [
        (tuple(d.box.lower), d.ball, d.rows) for d in asked.disjuncts
    ]
