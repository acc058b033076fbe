"""Choices that are too many to multiply out are one row each, with the same violations."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import netproof
from netproof.problem.derived import Positive
from netproof.problem.formulas import choices, normal
from netproof.problem.vnnlib.reader import parse_property
from support.asking import dense
from support.queries import VERSION, Both, boxed, network, reading, save_text

MANY = 24  # choices between two: 2^24 options


def asked(*assertions: str, size: int = MANY, low: str = "0.25", high: str = "0.75") -> str:
    declared = VERSION + network("f", {"X": f"[1,{size}]"}, {"Y": f"[1,{size}]"})
    box = "".join(f"(assert (and (>= X[0,{i}] {low}) (<= X[0,{i}] {high})))" for i in range(size))
    return declared + box + "".join(f"(assert {assertion})" for assertion in assertions)


def test_many_choices_are_one_disjunct() -> None:
    property = reading(*[f"(or (<= Y[{i}] 0.0) (>= Y[{i}] Y[{i - 1}]))" for i in range(1, MANY)], outputs=MANY)
    assert 1 <= len(property.disjuncts) <= choices.KEPT
    assert any(isinstance(one, Positive) for one in property.derived)


@pytest.mark.parametrize("seed", range(40))
def test_the_violations_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random formulas, once multiplied out and once with every choice that can be written as a row."""
    words = {"<": "<=", ">": ">=", "!=": "<="}
    _, text = Both(seed).texts(assertions=3, depth=3)
    for word, other in words.items():  # strictness must not be mixed
        text = text.replace(f"({word} ", f"({other} ")
    plain = parse_property(text)
    monkeypatch.setattr(choices, "KEPT", 0)
    real, calls = normal.normal_form, []

    def first_refused(formula: normal.Formula, most: int = 10**6) -> normal.Normal:
        calls.append(formula)
        if len(calls) % 2:
            raise normal.TooManyClausesError("as if")
        return real(formula)

    monkeypatch.setattr("netproof.problem.formulas.build.normal_form", first_refused)
    encoded = parse_property(text)
    assert len(encoded.disjuncts) <= 1
    rng = random.Random(seed)
    for _ in range(200):
        x, y = ([Fraction(rng.randint(-6, 6), 4) for _ in range(2)] for _ in range(2))
        if all(-1 <= v <= 1 for v in x):
            assert plain.violated(x, y) == encoded.violated(x, y), (x, y)


@pytest.mark.parametrize(("limit", "status"), [("0.1", "unsat"), ("0.3", "sat")])
def test_a_conjunction_of_many_choices_is_decided(limit: str, status: str, tmp_path: Path) -> None:
    """y = x on [1/4, 3/4]: every y may be at most 0.3, none at most 0.1 or at least 0.9."""
    path = dense((np.eye(MANY), np.zeros(MANY))).save(tmp_path / "f.onnx")
    text = asked(*(f"(or (<= Y[0,{i}] {limit}) (>= Y[0,{i}] 0.9))" for i in range(MANY)))
    verdict = netproof.verify(path, save_text(tmp_path, text), timeout=60, device="cpu")
    assert verdict.status == status


@pytest.mark.parametrize(("limit", "status"), [("0.0", "unsat"), ("1.0", "sat")])
def test_choices_that_only_together_are_impossible(limit: str, status: str, tmp_path: Path) -> None:
    """Each of 20 outputs is |x| <= 0.75, at most 0.2 or at least 0.8: they cannot sum to 4.5, but to 3.5 they can."""
    size = 20
    layers = (([[1.0], [-1.0]], [0.0, 0.0]), (np.ones((size, 2)), np.zeros(size)))
    path = dense(*layers).save(tmp_path / "f.onnx")
    declared = VERSION + network("f", {"X": "[1,1]"}, {"Y": f"[1,{size}]"})
    text = declared + "(assert (and (>= X[0,0] -0.75) (<= X[0,0] 0.75)))"
    text += "".join(f"(assert (or (>= Y[0,{i}] 0.8) (<= Y[0,{i}] 0.2)))" for i in range(size))
    text += f"(assert (>= (+ {' '.join(f'Y[0,{i}]' for i in range(size))}) {4.5 - float(limit)}))"
    verdict = netproof.verify(path, save_text(tmp_path, text), timeout=60, device="cpu")
    assert verdict.status == status


def test_large_choices_are_kept_and_small_ones_written_as_rows() -> None:
    wide = (
        "(or " + " ".join(f"(and (>= X[0] 0.{k:02}) (<= X[0] 0.{k:02}5) (<= Y[0] 0.{k:02}))" for k in range(90)) + ")"
    )
    many = [f"(or (<= Y[{i}] 0.0) (>= Y[{i}] 1.0))" for i in range(1, 25)]
    property = parse_property(boxed(wide, *many, outputs=25))
    assert len({disjunct.box for disjunct in property.disjuncts}) == 90
