"""What is wrong in a VNN-LIB 2.0 file is one line with its place and a remedy."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from netproof.errors import NetproofError, SpecError, UsageError
from netproof.problem.vnnlib.reader import parse_property
from support.queries import VERSION, boxed, network, query

BOX = "(and (>= X[0] 0.0) (<= X[0] 1.0))"  # on line 6 of `query`


@pytest.mark.parametrize(
    ("assertion", "place", "said", "remedy"),
    [
        ("(Y[0] <= 1.0)", "line 7, column 10", "'Y' is no operator", "operators stand first"),
        ("(<= Y[0] 1e-3)", "line 7, column 19", "a number with an exponent", "write it out, as in 0.001"),
        ("(<= Y[0] 1)", "line 7, column 18", "1: type mismatch", "numbers such as 1.0, not 1"),
        ("(<= (* 2 Y[0]) 1.0)", "line 7, column 18", "Y: type mismatch", "numbers such as 1.0, not 1"),
        ("(= Y[0] 1.0)", "line 7, column 10", "'=' is no operator", "equality is written =="),
        ("(not (<= Y[0] 1.0))", "line 7, column 10", "'not' is no operator", "operators stand first"),
        ("(<= (/ Y[0] 2.0) 1.0)", "line 7, column 14", "'/' is not expected here", "docs/properties.md"),
        ("(<= Y[0] .5)", "line 7, column 18", "'.' is not expected here", "docs/properties.md"),
        ("(<= Z[0] 1.0)", "line 7, column 13", "Z: undeclared variable", "declare it"),
        ("(<= Y[2] 1.0)", "line 7, column 13", "index out of bounds", "indices count from 0"),
        ("(<= Y[0,0] 1.0)", "line 7, column 13", "too many indices", "one index for each axis"),
        ("(<= Y 1.0)", "line 7, column 13", "not enough indices", "one index for each axis"),
        ("(<= Y[-1] 1.0)", "line 7, column 14", "[-1] is no shape and no index", "as in [0,2]"),
        ("(<= Y[1.0] 1.0)", "line 7, column 14", "[1.0] is no shape and no index", "as in [0,2]"),
        ("(<= Y[99999999999999999999] 1.0)", "line 7, column 14", "is no shape and no index", "as in [0,2]"),
        ("(and)", "line 7, column 13", "')' is not expected here", ""),
        ("(<= é 1.0)", "line 7, column 13", "U+00E9", "use ASCII"),
        ("(<= Y[0] 1.0", "line 7", "the file ends too early", "close every parenthesis"),
        (f"(<= Y[0] 1.{'0' * 1001})", "line 7", "too long or too extreme", "at most 1000 characters"),
        ("(and " * 201 + "(<= Y[0] 1.0)" + ")" * 201, "line 7", "nested deeper than 200", "flatten the formula"),
        (
            "(<= (* (+ Y[0] 0.123456789) (+ Y[0] 0.12345678901234567890)) 1.0)",
            "line 7",
            "the numbers in a product have too many digits",
            "15 digits",
        ),
    ],
)
def test_assertions_that_are_refused(assertion: str, place: str, said: str, remedy: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_property(query(BOX, assertion, inputs=1), "q.vnnlib")
    line = str(caught.value)
    assert line.startswith(f"q.vnnlib: {place}")
    assert said in line
    assert remedy in line
    assert "\n" not in line


def single(x: str, y: str = "Y real [1]") -> str:
    return f"(declare-network f (declare-input {x}) (declare-output {y}))"


ONE = network("f", {"X": "[1]"}, {"Y": "[1]"})


@pytest.mark.parametrize(
    ("declared", "place", "said"),
    [
        (single("X int8 [1]"), "line 2, column 35", "type int8"),
        (single("X Real [1]"), "line 2, column 35", "written small"),
        (single("X foo [1]"), "line 2, column 35", "type foo"),
        (single("X real [0]"), "line 2, column 35", "positive"),
        (single("X real [1.5]"), "line 2, column 42", "no shape"),
        (single("X real [99999,99999]"), "line 2, column 35", "9999800001 entries"),
        (single("X real [1]", "X real [1]"), "line 2, column 35", "unique"),
        ("(declare-network f (declare-output Y real [1]))", "line 2, column 20", "not expected"),
        (single('X real [1] "x"', 'Y real [1] "y"'), "line 2, column 46", "not expected"),
        (ONE + network("f", {"U": "[1]"}, {"W": "[1]"}), "line 2, column 18", "network f is declared twice"),
        (ONE + network("g", {"U": "[2]"}, {"W": "[1]"}, "(equal-to f)"), "line", "shape mismatch"),
        (ONE + network("g", {"U": "[1]"}, {"W": "[1]"}, "(equal-to h)"), "line", "h"),
    ],
)
def test_declarations_that_are_refused(declared: str, place: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_property(VERSION + declared + "(assert (<= Y[0] 1.0))", "q.vnnlib")
    line = str(caught.value)
    assert line.startswith(f"q.vnnlib: {place}")
    assert said in line
    assert "\n" not in line


def test_types_are_not_mixed() -> None:
    mixed = "(declare-network f (declare-input X float32 [1]) (declare-output Y float64 [1]))\n"
    with pytest.raises(SpecError, match=r"line 3, column 18: Y: type mismatch"):
        parse_property(VERSION + mixed + "(assert (<= X[0] Y[0]))")


def test_inputs_without_a_bound_are_named_where_they_are_declared() -> None:
    said = r"line 3, column 20: input X\[1\] has no lower bound \(add .*\(>= X\[1\] 1.0\)"
    with pytest.raises(SpecError, match=said):
        parse_property(query(BOX, "(<= X[1] 1.0)", "(<= Y[0] 1.0)"))


@pytest.mark.parametrize("version", ["<3.0>", "<2.1>"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(SpecError, match=r"line 1, column 1: VNN-LIB \d\.\d is not known \(1\.0 and 2\.0 are"):
        parse_property(boxed("(<= Y[0] 1.0)").replace("<2.0>", version), "q.vnnlib")


def test_a_disjunctive_form_beyond_the_limit_is_refused_quickly() -> None:
    many = [f"(or (< Y[{i}] 0.0) (>= Y[{i}] 1.0))" for i in range(40)]  # mixed, so they are not written as one row each
    with pytest.raises(SpecError, match=r"too large: (more than \d+ disjuncts|too many combinations)"):
        parse_property(boxed(*many, outputs=40))


def test_without_the_package_the_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "vnnlib":
            raise ImportError("libVNNLib.so: cannot open")
        return real(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "vnnlib", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UsageError, match=r"needs the package vnnlib, .*cannot open \(pip install vnnlib"):
        parse_property(boxed("(<= Y[0] 1.0)"), "q.vnnlib")


def test_random_damage_is_an_error_of_ours_or_none() -> None:
    import random

    rng = random.Random(7)
    text = boxed("(or (<= Y[0] 0.25) (and (> Y[1] X[0]) (!= (* Y[0] Y[1]) -1.5)))")
    signs = "()[]<>=!+-*.,;\"'0123456789eXYZ \n\tand"
    lines = []
    for _ in range(600):
        damaged = list(text)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randint(0, 2)] = rng.choice(signs)
        try:
            parse_property("".join(damaged), "q.vnnlib")
        except NetproofError as error:
            lines.append(str(error))
    assert len(lines) > 300
    assert not any("\n" in line for line in lines)


LONG = "a" * 5000
LONG_WORDS = [
    f"({LONG} X_0)",
    f"(declare-const X_0 Real)(assert ({LONG} X_0 1))",
    VERSION + network("f", {LONG: "[1]"}, {"Y": "[1]"}) + "(assert (>= Y[0] 1.0))",
    VERSION + network("f", {"X": "[1]"}, {"Y": "[1]"}, f"(equal-to {LONG})") + "(assert (>= X[0] 1.0))",
    VERSION
    + network(LONG, {"X": "[1]"}, {"Y": "[1]"})
    + network(LONG, {"U": "[1]"}, {"W": "[1]"})
    + "(assert (>= X[0] 1.0))",
]


@pytest.mark.parametrize("text", LONG_WORDS, ids=range(len(LONG_WORDS)))
def test_words_of_any_length_are_cut_in_messages(text: str) -> None:
    with pytest.raises(NetproofError, match=r"aaa\.\.\.") as raised:
        parse_property(text, "q.vnnlib")
    assert len(str(raised.value)) < 300
