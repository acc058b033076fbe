from __future__ import annotations

import gzip
import hashlib
from fractions import Fraction
from pathlib import Path

import pytest

from netproof.errors import SpecError
from netproof.problem.formulas import clauses
from netproof.problem.property import Property, Row
from netproof.problem.vnnlib.reader import load_property, parse_property

HEAD = """(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
"""
BOX = "(assert (<= 0 X_0 1)) (assert (>= 1 X_1 -1))\n"


def rows(text: str) -> list[tuple[Row, ...]]:
    return [d.rows for d in parse_property(HEAD + BOX + text).disjuncts]


def row(
    *coefs: int | Fraction, rhs: int | Fraction = 0, strict: bool = False, x: tuple[int | Fraction, ...] = ()
) -> Row:
    """coefs: of the outputs; x: of the inputs."""
    outputs, inputs = ({i: Fraction(c) for i, c in enumerate(some) if c} for some in (coefs, x))
    return Row(outputs, Fraction(rhs), strict, inputs)


@pytest.mark.parametrize(
    ("assertion", "expected"),
    [
        ("(<= Y_0 1)", row(1, rhs=1)),
        ("(>= Y_0 1)", row(-1, rhs=-1)),
        ("(< Y_0 Y_1)", row(1, -1, strict=True)),
        ("(> Y_0 Y_1)", row(-1, 1, strict=True)),
        ("(<= 1 Y_0)", row(-1, rhs=-1)),
        ("(<= (+ Y_0 Y_1 2) 1e0)", row(1, 1, rhs=-1)),
        ("(<= (- Y_0 Y_1 2) 0)", row(1, -1, rhs=2)),
        ("(<= (- Y_0) 0)", row(-1)),
        ("(<= (* 2 Y_0) (* Y_1 -0.5 2))", row(2, 1)),
        ("(<= (* (+ 1 1) (- Y_0 (* 3 Y_1))) 0)", row(2, -6)),
        ("(<= (/ Y_0 3) 0.1)", row(Fraction(1, 3), rhs=Fraction(1, 10))),
        ("(<= (+ Y_0 X_0) (+ X_0 Y_1))", row(1, -1)),
        ("(<= X_0 X_1)", row(x=(1, -1))),
        ("(> (+ X_0 (* 3 X_1)) 0.5)", row(x=(-1, -3), rhs=Fraction(-1, 2), strict=True)),
        ("(<= Y_0 X_1)", row(1, x=(0, -1))),
        ("(< (- Y_1 (/ X_0 3)) (+ X_1 2))", row(0, 1, x=(Fraction(-1, 3), -1), rhs=2, strict=True)),
        ("(<= Y_0 .5)", row(1, rhs=Fraction(1, 2))),
        ("(<= Y_0 5.)", row(1, rhs=5)),
        ("(<= Y_0 1.25E+2)", row(1, rhs=125)),
        ("(<= Y_0 -1e-30)", row(1, rhs=Fraction(-1, 10**30))),
        ("(<= Y_0 (- 3))", row(1, rhs=-3)),
        ("(or (<= Y_0 1))", row(1, rhs=1)),
        ("(and (and (<= Y_0 1)))", row(1, rhs=1)),
    ],
)
def test_rows_are_read_exactly(assertion: str, expected: Row) -> None:
    assert rows(f"(assert {assertion})") == [(expected,)]


@pytest.mark.parametrize(
    ("assertions", "expected"),
    [
        ("(assert (= Y_0 Y_1))", [(row(1, -1), row(-1, 1))]),
        ("(assert (<= Y_0 Y_1 2))", [(row(1, -1), row(0, 1, rhs=2))]),
        ("(assert (= X_0 X_1))", [(row(x=(1, -1)), row(x=(-1, 1)))]),
        ("(assert (<= X_0 X_1 Y_0))", [(row(x=(1, -1)), row(-1, x=(0, 1)))]),
        ("(assert (or (<= Y_0 0) (< X_0 Y_1)))", [(row(1),), (row(0, -1, x=(1,), strict=True),)]),
        ("(assert (<= X_0 X_1)) (assert (<= Y_0 0))", [(row(x=(1, -1)), row(1))]),
        ("(assert (or (<= Y_0 0) (<= Y_1 0)))", [(row(1),), (row(0, 1),)]),
        (
            "(assert (<= Y_0 3)) (assert (or (<= Y_0 0) (and (<= Y_1 0) (<= Y_1 1))))",
            [(row(1, rhs=3), row(1)), (row(1, rhs=3), row(0, 1), row(0, 1, rhs=1))],
        ),
        ("", [()]),  # every input is a violation
        ("(assert (>= 2 1))", [()]),
        ("(assert true)", [()]),
        ("(assert (>= 1 2))", []),
        ("(assert (<= (- Y_0 Y_0) -1))", []),
        ("(assert (< 1 1))", []),
        ("(assert (or (<= 2 1) (<= Y_0 0)))", [(row(1),)]),
        ("(assert (or false (and (<= Y_0 0) (<= 1 2))))", [(row(1),)]),
    ],
)
def test_formulas_become_disjuncts(assertions: str, expected: list[tuple[Row, ...]]) -> None:
    assert rows(assertions) == expected


def test_bounds_take_the_tightest_and_remember_what_is_open() -> None:
    text = """(assert (and (>= X_0 0) (> X_0 0) (<= X_0 0.1) (< X_0 0.2)))
    (assert (= (* -2 X_1) 1)) (assert (< X_1 7))"""
    box = parse_property(HEAD + text).disjuncts[0].box
    assert (box.lower, box.upper) == ((Fraction(0), Fraction(-1, 2)), (Fraction(1, 10), Fraction(-1, 2)))
    assert (box.open_lower, box.open_upper) == (frozenset({0}), frozenset())
    assert not box.empty


@pytest.mark.parametrize("form", ["(<= {} X_0)", "(>= X_0 {})", "(<= (+ {} 0) X_0)", "(>= (* 2 X_0) (* 2 {}))"])
def test_a_lower_bound_may_be_written_either_way_round(form: str) -> None:
    text = f"(assert {form.format('0.5')}) (assert (>= 0.75 X_0)) (assert (<= 0 X_1 1))"
    box = parse_property(HEAD + text).disjuncts[0].box
    assert (box.lower[0], box.upper[0]) == (Fraction(1, 2), Fraction(3, 4))


def test_a_constraint_on_one_input_is_a_bound_and_on_several_a_row() -> None:
    text = "(assert (<= (+ X_0 X_1) (+ X_1 0.5))) (assert (>= (+ X_0 X_1) 0.25)) (assert (<= (- X_0 Y_0) (- Y_0)))"
    (disjunct,) = parse_property(HEAD + BOX + text).disjuncts
    assert (disjunct.box.upper[0], disjunct.box.lower[0]) == (0, 0)
    assert disjunct.rows == (row(x=(-1, -1), rhs=Fraction(-1, 4)),)


def test_a_relation_in_an_or_belongs_to_its_case() -> None:
    text = "(assert (or (and (<= X_0 0.5) (<= X_0 X_1)) (and (>= X_0 0.5) (<= Y_0 0))))"
    first, second = parse_property(HEAD + BOX + text).disjuncts
    assert (first.box.upper[0], first.rows) == (Fraction(1, 2), (row(x=(1, -1)),))
    assert (second.box.lower[0], second.rows) == (Fraction(1, 2), (row(1),))


def test_several_input_boxes_share_the_common_bounds() -> None:
    text = """(assert (<= -1 X_1 1))
    (assert (or (and (<= 0 X_0 1) (<= Y_0 0)) (and (<= 2 X_0 3) (<= Y_1 0)) (and (<= 0 X_0 1) (<= Y_1 5))))"""
    first, second, third = parse_property(HEAD + text).disjuncts
    assert (first.box.lower, first.box.upper) == ((Fraction(0), Fraction(-1)), (Fraction(1), Fraction(1)))
    assert (second.box.lower, second.box.upper) == ((Fraction(2), Fraction(-1)), (Fraction(3), Fraction(1)))
    assert first.box is third.box


@pytest.mark.parametrize("text", ["(assert (<= 2 X_0 1))", "(assert (< 0 X_0)) (assert (<= X_0 0))"])
def test_empty_boxes_are_kept(text: str) -> None:
    (disjunct,) = parse_property(HEAD + "(assert (<= 0 X_0 1 )) (assert (<= 0 X_1 1))" + text).disjuncts
    assert disjunct.box.empty


def test_harmless_commands_are_ignored() -> None:
    text = '(set-logic QF_LRA)(set-info :a "b")' + HEAD + BOX + "(assert (<= Y_0 1))(check-sat)(exit)"
    assert len(parse_property(text).disjuncts) == 1


def test_declare_fun_declares_a_constant() -> None:
    text = "(declare-fun X_0 () Real)(declare-fun Y_0 () Real)(assert (<= 0 X_0 1))"
    assert parse_property(text).inputs == 1


def test_a_thousand_disjuncts_share_one_box_object() -> None:
    options = " ".join(f"(and (<= Y_0 {i}) (>= Y_1 {i}))" for i in range(1000))
    disjuncts = parse_property(HEAD + BOX + f"(assert (or {options}))").disjuncts
    assert len(disjuncts) == 1000
    assert len({id(d.box) for d in disjuncts}) == 1


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ("(assert (<= Y_0 Z_0))", "'Z_0' is neither", (6, 17)),
        ("(assert (<= Y_2 0))", "'Y_2' is neither", (6, 13)),
        ("(assert (<= Y_0 1e5x))", "'1e5x' is neither", (6, 17)),
        ("(assert (<= Y_0 .))", "'.' is neither", (6, 17)),
        ("(assert (<= Y_0 ١))", "is neither", (6, 17)),
        ("(declare-const X_0 Real)", "X_0 is declared twice", (6, 16)),
        ("(declare-const X_2 Int)", "X_2 has type Int", (6, 20)),
        ("(declare-const X_2 (Array Real))", "X_2 has type", (6, 20)),
        ("(declare-const Z Real)", "'Z' is not a variable", (6, 16)),
        ("(declare-const X_02 Real)", "'X_02' is not a variable", (6, 16)),
        ("(declare-const X_2)", "malformed declare-const", (6, 1)),
        ("(declare-fun X_2 (Real) Real)", "functions with arguments", (6, 18)),
        ("(declare-const X_3 Real)", "X_2 is not declared", (6, 16)),
        ("(declare-const X_2 Real)", "X_2 has no lower bound", (6, 16)),
        ("(declare-const X_2 Real)(assert (>= X_2 0))", "X_2 has no upper bound", (6, 16)),
        ("(assert (<= (* Y_0 Y_1) 0))", "a product of variables is not linear", (6, 20)),
        ("(assert (<= (/ 1 Y_0) 0))", "division by a variable is not linear", (6, 18)),
        ("(assert (<= (/ Y_0 0) 0))", "division by zero", (6, 20)),
        ("(assert (<= (/ Y_0) 0))", "too few arguments", (6, 13)),
        ("(assert (<= (sin Y_0) 0))", "unknown function in (sin ...)", (6, 13)),
        ("(assert (<= (1 2) 0))", "unknown function", (6, 13)),
        ("(assert (<= ((+) 2) 0))", "must begin with a function", (6, 13)),
        ("(assert (not (<= Y_0 0)))", "unknown function in (not ...)", (6, 9)),
        ("(assert Y_0)", "'Y_0' is not a formula", (6, 9)),
        ("(assert (and))", "'and' has no arguments", (6, 9)),
        ("(assert (or))", "'or' has no arguments", (6, 9)),
        ("(assert (<= Y_0 +1))", "+1: numbers of SMT-LIB have no plus sign", (6, 17)),
        ("(assert (<= X_0 +0.5))", "+0.5: numbers of SMT-LIB have no plus sign", (6, 17)),
        ("(assert (<= (+ Y_0 +2e1) 0))", "+2e1: numbers of SMT-LIB have no plus sign", (6, 20)),
        ("(assert ())", "must begin with a function", (6, 9)),
        ("(assert (<= Y_0))", "needs two sides", (6, 9)),
        ("(assert (<= Y_0 1) (<= Y_1 1))", "assert takes one formula", (6, 1)),
        ("(declare-const X_2 Real)(assert (<= X_0 X_2 X_1))", "X_2 has no lower bound", (6, 16)),
        ("(assert (<= (* X_0 X_1) 0))", "a product of variables is not linear", (6, 20)),
        ("(assert (or (<= Y_0 1) (<= (* X_0 Y_0) 0)))", "a product of variables is not linear", (6, 35)),
        ("(assert (<= X_0 (/ Y_0 X_1)))", "division by a variable is not linear", (6, 24)),
        ("(push 1)", "unknown command (push ...)", (6, 1)),
        ("()", "unknown command (...)", (6, 1)),
        ("(check-sat)(assert (<= Y_0 1))", "an assertion after (check-sat)", (6, 12)),
        ("(assert (<= Y_0 1e999999999))", "too long or too extreme", (6, 17)),
        (f"(assert (<= Y_0 {'1' * 5000}))", "too long or too extreme", (6, 17)),
        (f"(assert (<= Y_0 (* {'1e300 ' * 50})))", "numbers that are too long", None),
        ("(declare-network N)", "belongs to VNN-LIB 2.0", (6, 1)),
        ("(assert (<= Y_0 1)", "never closed", (6, 1)),
        ("(assert (<= Y_0 1)))", "closes nothing", (6, 20)),
        ("hello", "'hello' outside parentheses", (6, 1)),
    ],
)
def test_bad_specs_are_refused_in_one_line_with_their_place(
    text: str, said: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(SpecError) as caught:
        parse_property(HEAD + BOX + text, "f.vnnlib")
    shown = str(caught.value)
    assert said in shown
    assert shown.startswith("f.vnnlib: line ")
    assert "\n" not in shown
    assert len(shown) < 300
    assert caught.value.remedy
    if place is not None:
        assert (caught.value.line, caught.value.column) == place


def test_vnnlib_2_without_its_header_is_named() -> None:
    with pytest.raises(SpecError, match=r"'declare-network' belongs to VNN-LIB 2\.0 \(begin the file with"):
        parse_property("(declare-network N (declare-input X float32 [2]))")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(declare-const Y_0 Real)", "no inputs are declared"),
        ("(declare-const X_0 Real)(assert (<= 0 X_0 1))", "no outputs are declared"),
    ],
)
def test_specs_without_inputs_or_outputs(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        parse_property(text)


def test_an_exploding_formula_is_refused() -> None:
    pair = "(assert (or (<= Y_0 0) (<= Y_1 0)))"
    assert len(rows(pair * 10)) == 2**10
    with pytest.raises(SpecError, match="the disjunctive form is too large: 131072 disjuncts"):
        rows(pair * 17)


def test_false_beside_an_explosion_does_not_explode() -> None:
    assert rows("(assert (or (<= Y_0 0) (<= Y_1 0)))" * 60 + "(assert false)") == []


def test_too_many_literals_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clauses, "MAX_LITERALS", 6)
    clause = "(and (<= Y_0 0) (<= Y_1 0))"
    assert len(rows(f"(assert (or {clause * 3}))")) == 3
    with pytest.raises(SpecError, match="4 disjuncts with 8 constraints"):
        rows(f"(assert (or {clause * 4}))")


class TestFiles:
    SPEC = HEAD + BOX + "(assert (<= Y_0 0))"

    def same(self, one: Property, other: Property) -> bool:
        return (one.disjuncts, one.inputs, one.outputs) == (other.disjuncts, other.inputs, other.outputs)

    def test_gzip_that_unpacks_without_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("netproof.core.files.LARGEST_FILE", 1 << 20)
        (tmp_path / "a.vnnlib.gz").write_bytes(gzip.compress(b" " * (64 << 20)))
        with pytest.raises(SpecError, match="it unpacks to more than 1 MiB"):
            load_property(tmp_path / "a.vnnlib")
        (tmp_path / "b.vnnlib").write_bytes(b" " * ((1 << 20) + 1))
        with pytest.raises(SpecError, match="it has more than 1 MiB"):
            load_property(tmp_path / "b.vnnlib")

    def test_plain_gzipped_and_found_by_its_plain_name(self, tmp_path: Path) -> None:
        (tmp_path / "a.vnnlib").write_text(self.SPEC)
        (tmp_path / "b.vnnlib.gz").write_bytes(gzip.compress(self.SPEC.encode()))
        plain = load_property(tmp_path / "a.vnnlib")
        assert plain.source == str(tmp_path / "a.vnnlib")
        for name in ("b.vnnlib", "b.vnnlib.gz"):
            zipped = load_property(str(tmp_path / name))
            assert self.same(plain, zipped)
            raw = (tmp_path / "b.vnnlib.gz").read_bytes()
            assert zipped.sha256 == hashlib.sha256(raw).hexdigest()
            assert zipped.source == str(tmp_path / "b.vnnlib.gz")

    def test_bad_files(self, tmp_path: Path) -> None:
        packed = gzip.compress(self.SPEC.encode())
        files = {
            "short.gz": (packed[:-12], "truncated or damaged"),
            "header.gz": (packed[:5], "truncated or damaged"),
            "rotten.gz": (packed[:20] + b"\xff\xff\xff\xff" + packed[24:], "truncated or damaged"),
            "fake.gz": (self.SPEC.encode(), "not gzip data"),
            "image.vnnlib": (b"\x89PNG\r\n\x1a\n\xff\xfe", "not a text file"),
            "nul.vnnlib": (b"(assert\0)", "not a text file"),
            "empty.vnnlib": (b"", "no commands"),
            "empty.gz": (b"", "no commands"),
        }
        for name, (data, said) in files.items():
            (tmp_path / name).write_bytes(data)
            with pytest.raises(SpecError, match=said) as caught:
                load_property(tmp_path / name)
            assert caught.value.file == str(tmp_path / name)
            assert caught.value.remedy

    def test_missing_directory_and_unusable_names(self, tmp_path: Path) -> None:
        for path, said in (
            (tmp_path / "none.vnnlib", "no such file"),
            (tmp_path, "is a directory"),
            (tmp_path / ("a" * 5000), "not a usable path"),
            ("", "is a directory"),
        ):
            with pytest.raises(SpecError, match=said):
                load_property(path)
