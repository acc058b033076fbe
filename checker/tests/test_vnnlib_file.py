"""VNN-LIB 1.0: what a text asks, exactly, and what is refused, with its place."""

from __future__ import annotations

import gzip
import itertools
import os
import random
import time
from contextlib import suppress
from fractions import Fraction
from operator import eq, ge, gt, le, lt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npcheck.errors import Refused
from npcheck.vnnlib_file import Question, Row, read_question

BENCHMARKS = os.environ.get("NETPROOF_BENCHMARKS", "")


def head(inputs: int = 1, outputs: int = 2) -> str:
    names = [f"X_{i}" for i in range(inputs)] + [f"Y_{i}" for i in range(outputs)]
    return "".join(f"(declare-const {name} Real)\n" for name in names)


BOX = "(assert (>= X_0 0)) (assert (<= X_0 1))\n"


def read(body: str, inputs: int = 1, outputs: int = 2) -> Question:
    return read_question(head(inputs, outputs) + BOX + body)


def row(outputs: dict[int, int], right: int, strict: bool = False, inputs: dict[int, int] | None = None) -> Row:
    return Row(
        {k: Fraction(v) for k, v in outputs.items()},
        {k: Fraction(v) for k, v in (inputs or {}).items()},
        Fraction(right),
        strict,
    )


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("(<= Y_0 Y_1)", row({0: 1, 1: -1}, 0)),
        ("(>= Y_0 3)", row({0: -1}, -3)),
        ("(< Y_0 3)", row({0: 1}, 3, strict=True)),
        ("(> 3 Y_0)", row({0: 1}, 3, strict=True)),
        ("(<= (+ (* 2 Y_0) (* Y_1 -1) 5) (- X_0 7))", row({0: 2, 1: -1}, -12, inputs={0: -1})),
        ("(<= (- Y_0) (- 1 2 3))", row({0: -1}, -4)),
        ("(<= (* 2 3 (+ Y_0 1)) 0)", row({0: 6}, -6)),
        ("(<= (- Y_0 Y_0) 4)", row({}, 4)),
        ("(<= (* 0 Y_0) -1)", row({}, -1)),
        ("(<= (+ X_0 Y_0) X_0)", row({0: 1}, 0)),
        ("(<= (/ (* 6 Y_0) 2 3) (/ -4 0.5))", row({0: 1}, -8)),
    ],
)
def test_rows(formula: str, expected: Row) -> None:
    (disjunct,) = read(f"(assert {formula})").disjuncts
    assert disjunct.rows == (expected,)
    assert (disjunct.lower, disjunct.upper, disjunct.empty) == ((0,), (1,), False)


def test_commands_that_say_nothing_and_another_way_to_declare() -> None:
    text = "(set-logic QF_LRA) (set-info :status unsat) (declare-fun X_0 () Real) (declare-fun Y_0 Real)\n"
    question = read_question(text + BOX + "(assert (<= Y_0 0)) (check-sat) (get-model) (exit)")
    assert (question.inputs, question.outputs, question.disjuncts[0].rows) == (1, 1, (row({0: 1}, 0),))


def test_equations_and_chains() -> None:
    (disjunct,) = read("(assert (= (* 2 X_0) 0.5)) (assert (= Y_0 3)) (assert (< -1 Y_1 Y_0))").disjuncts
    assert (disjunct.lower, disjunct.upper) == ((Fraction(1, 4),), (Fraction(1, 4),))
    rows = [row({0: 1}, 3), row({0: -1}, -3), row({1: -1}, 1, strict=True), row({0: -1, 1: 1}, 0, strict=True)]
    assert disjunct.rows == tuple(rows)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", Fraction(1, 10)),
        ("-1.50e-3", Fraction(-3, 2000)),
        ("+2E+2", Fraction(200)),
        ("3.", Fraction(3)),
        (".5", Fraction(1, 2)),
        ("1e-400", Fraction(1, 10**400)),
        ("0.30000000000000004441", Fraction(30000000000000004441, 10**20)),
    ],
)
def test_numbers_are_exact(text: str, value: Fraction) -> None:
    assert read(f"(assert (<= Y_0 {text}))").disjuncts[0].rows[0].right == value


@pytest.mark.parametrize(
    "text", ["1e401", "1e99999999999", "0x10", "1/2", "1_0", "nan", "inf", "--1", "1e", "9" * 1001, "٣"]
)
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"line 5, column 17: .* is not known, or is a number out of range"):
        read(f"(assert (<= Y_0 {text}))")


def test_numbers_do_not_grow_without_bound() -> None:
    with pytest.raises(Refused, match="bits"):
        read(f"(assert (<= Y_0 (* {'1e400 ' * 100})))")


def test_rows_on_one_input_are_the_box() -> None:
    text = head(2, 1) + (
        "(assert (and (>= (* 2 X_0) -1) (<= (* -4 X_1) 1)))"
        "(assert (<= X_0 3)) (assert (> 2 X_0)) (assert (<= X_1 (+ 1 1)))"
    )
    (disjunct,) = read_question(text).disjuncts
    assert disjunct.lower == (Fraction(-1, 2), Fraction(-1, 4))
    assert disjunct.upper == (Fraction(2), Fraction(2))
    assert disjunct.rows == ()


def test_order_of_disjuncts() -> None:
    question = read(
        """(assert (or (<= Y_0 1) (<= Y_0 2)))
        (assert (<= Y_0 9))
        (assert (or (<= Y_1 3) (and (<= Y_1 4) (or (<= Y_1 5) (<= Y_1 6))) (or (<= Y_1 7))))"""
    )
    found = [[int(row.right) for row in disjunct.rows] for disjunct in question.disjuncts]
    ends = [[3], [4, 5], [4, 6], [7]]
    assert found == [[first, 9, *end] for first in (1, 2) for end in ends]


def test_boxes_of_disjuncts_differ() -> None:
    question = read("(assert (or (and (<= X_0 0.5) (<= Y_0 1)) (and (>= X_0 2) (<= Y_0 2)) (<= Y_0 3)))")
    assert [(d.lower, d.upper) for d in question.disjuncts] == [((0,), (Fraction(1, 2),)), ((2,), (1,)), ((0,), (1,))]
    assert [d.empty for d in question.disjuncts] == [False, True, False]


def test_a_disjunct_may_bring_all_bounds() -> None:
    text = head() + "(assert (or (and (<= X_0 1) (>= X_0 0) (<= Y_0 1)) (and (>= X_0 3) (<= X_0 4) (<= Y_0 2))))"
    assert [d.lower for d in read_question(text).disjuncts] == [(0,), (3,)]
    with pytest.raises(Refused, match="X_0 has no lower bound"):
        read_question(text.replace("(>= X_0 3)", ""))


def test_without_rows_there_is_one_disjunct() -> None:
    (disjunct,) = read("").disjuncts
    assert disjunct.rows == ()


def test_comments_and_line_ends() -> None:
    text = "; a (comment\r" + (head() + BOX + "(assert (<= Y_0 1)) ; )\n").replace("\n", "\r\n")
    assert len(read_question(text).disjuncts) == 1
    with pytest.raises(Refused, match="line 3, column 10"):
        read_question("; one\r; two\r\n(assert (what Y_0))")


def test_bytes_are_read_as_utf8() -> None:
    assert read_question((head() + BOX).encode()).inputs == 1
    with pytest.raises(Refused, match="UTF-8"):
        read_question(b"\xff")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(vnnlib-version <2.0>)", "'vnnlib-version' is of VNN-LIB 2.0"),
        ("(declare-network f)", "'declare-network' is of VNN-LIB 2.0"),
        ("(check-sat 1)", "'check-sat' has no operands"),
        ("(check-sat) (assert (<= Y_0 1))", "'assert' stands after 'check-sat'"),
        ("(exit) (declare-const Y_2 Real)", "'declare-const' stands after 'exit'"),
        ("(set-logic (QF_LRA))", "is not an operator"),
        ("(set-logic ())", "has no operands"),
        ("(echo 1)", "'echo' is not a command"),
        ("(assert (= Y_0))", "has 1 operand"),
        ("(assert (<= Y_0))", "has 1 operand"),
        ("(assert (/ Y_0 2))", "is not true or false"),
        ("(assert (<= (/ Y_0) 1))", "a quotient is of a sum and constants"),
        ("(assert (<= (/ 1 Y_0) 1))", "a quotient is of a sum and constants"),
        ("(assert (<= (/ Y_0 (- 1 1)) 1))", "constants that are not 0"),
        ("(declare-fun Y_2 (Real) Real)", "operator|words"),
        ("(declare-fun Y_2 Real ())", "type Real"),
        ("(declare-const Y_2 () Real)", "has no operands"),
        ("(assert (<= Y_0 1)", "never closed"),
        ("(assert (<= Y_0 1)))", "stands outside"),
        ("Y_0", "stands outside"),
        ("()", "a command is empty"),
        ("(assert)", "has 0 formulas"),
        ("(assert (and))", "'and' has no operands"),
        ("(assert ((<= Y_0 1)))", "begins with another one"),
        ("(assert (() Y_0))", "begins with another one|has no operands|is not"),
        ("(assert (<= Y_0 1) (<= Y_0 1))", "has 2 formulas"),
        ("(assert (<= Y_0 (<= Y_0 1)))", "is not a number or a variable"),
        ("(assert (and Y_0))", "is not true or false"),
        ("(assert Y_0)", "is not true or false"),
        ("(assert (<= Y_2 1))", "'Y_2' is not declared"),
        ("(assert (<= Z_0 1))", "'Z_0' is not known"),
        ("(assert (<= (* Y_0 X_0) 1))", "product of variables"),
        ("(assert (assert (<= Y_0 1)))", "'assert' is not an operator"),
        ("(declare-const Y_0 Real)", "declared twice"),
        ("(declare-const Y_9 Real)", "Y_9 is declared, but Y_2 is not"),
        ("(declare-const Y_2 Int)", "type Real"),
        ("(declare-const Y_2)", "type Real"),
        ("(declare-const (Y_2) Real)", "operator|declaration"),
        ("(declare-const Y_01 Real)", "declaration is of"),
        ('(assert (<= |Y_0| "a"))', "is not known"),
        ('(set-info :source "never (closed)', "has no partner"),
        ("(set-info :source |never; closed)", "has no partner"),
        ('("assert" (<= Y_0 1))', "is not a command"),
    ],
)
def test_what_is_not_known_is_refused(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        read(text)


def test_texts_hide_nothing_and_show_nothing() -> None:
    """A reader that takes a semicolon in a text for a comment reads the assertion within |…|, which is a name."""
    text = '(set-info :a "x ;" |\n) (assert (<= X_0 0.5)) (set-info :b ;\n| ) (assert (<= Y_0 1))'
    assert read(text) == read("(assert (<= Y_0 1))")


def test_without_variables_it_is_refused() -> None:
    with pytest.raises(Refused, match="no X_0"):
        read_question("")
    with pytest.raises(Refused, match="no Y_0"):
        read_question("(declare-const X_0 Real)")
    with pytest.raises(Refused, match="X_0 has no lower bound"):
        read_question(head())


def test_too_many_alternatives_are_refused() -> None:
    choice = "(assert (or (<= Y_0 1) (<= Y_0 2)))"
    assert len(read(choice * 10).disjuncts) == 1024
    with pytest.raises(Refused, match="alternatives"):
        read(choice * 40)
    with pytest.raises(Refused, match="alternatives"):
        read(f"(assert (and {choice[8:-1] * 40}))")
    with pytest.raises(Refused, match="too large"):
        read(f"{choice * 16} (assert (and {'(<= Y_0 1)' * 1000}))")


@pytest.mark.parametrize("op", ["and", "or"])
def test_deep_nesting(op: str) -> None:
    depth = 20000
    assert len(read(f"(assert {f'({op} ' * depth}(<= Y_0 1){')' * depth})").disjuncts) == 1
    total = "(+ 1 " * 2000 + "Y_0" + ")" * 2000
    assert read(f"(assert (<= {total} 1))").disjuncts[0].rows[0].right == -1999
    with pytest.raises(Refused, match="never closed"):
        read("(assert " + f"({op} " * 10**5)


def test_a_long_file_is_read_quickly() -> None:
    n = 5000
    bounds = "".join(f"(assert (<= X_{i} 0.{i}))\n(assert (>= X_{i} -0.{i}))\n" for i in range(n))
    rows = "(assert (or " + "".join(f"(and (>= Y_{i} Y_0))\n" for i in range(1, 2000)) + "))"
    start = time.process_time()
    question = read_question(head(n, 2000) + bounds + rows)
    assert time.process_time() - start < 5
    assert len(question.disjuncts) == 1999
    assert question.disjuncts[0].lower is question.disjuncts[-1].lower


# --- the same meaning, worked out in another way: a formula as a tree, and its truth at points ---

Tree = str | int | list["Tree"]


def terms(depth: int, shuffle: random.Random) -> Tree:
    """Return a random expression for a number; products have one variable at most."""
    choice = shuffle.randrange(7 if depth else 2)
    if choice == 0:
        return shuffle.choice(["X_0", "X_1", "Y_0", "Y_1"])
    if choice == 1:
        return shuffle.randint(-2, 2)
    if choice == 2:
        return ["*", shuffle.randint(-2, 2), terms(depth - 1, shuffle)]
    if choice == 3:
        return ["/", terms(depth - 1, shuffle), shuffle.choice([-2, 1, 3])]
    return [shuffle.choice("+-"), *(terms(depth - 1, shuffle) for _ in range(shuffle.randint(1, 3)))]


def formula(depth: int, shuffle: random.Random) -> Tree:
    if depth == 0 or shuffle.random() < 0.2:
        sides = [terms(1, shuffle) for _ in range(shuffle.choice([1, 1, 2]))]
        return [shuffle.choice(["<=", ">=", "<", ">", "="]), terms(2, shuffle), *sides]
    return [shuffle.choice(["and", "or"]), *(formula(depth - 1, shuffle) for _ in range(shuffle.randint(1, 3)))]


def written(tree: Tree) -> str:
    return f"({' '.join(map(written, tree))})" if isinstance(tree, list) else str(tree)


def truth(tree: Tree, point: dict[str, int]) -> Fraction | int:
    """Work out an expression at a point."""
    if not isinstance(tree, list):
        return point[tree] if isinstance(tree, str) else tree
    first, *others = [truth(part, point) for part in tree[1:]]
    match tree[0]:
        case "+":
            return first + sum(others)
        case "-":
            return first - sum(others) if others else -first
        case "*":
            return first * others[0]
        case "/":
            return Fraction(first) / others[0]
        case "and":
            return min(first, *others, 1)
        case "or":
            return max(first, *others, 0)
        case relation:
            compare = {"<=": le, ">=": ge, "<": lt, ">": gt, "=": eq}[relation]
            return int(all(compare(left, right) for left, right in itertools.pairwise([first, *others])))


def holds(row: Row, point: dict[str, int]) -> bool:
    left = sum(c * point[f"Y_{i}"] for i, c in row.outputs.items())
    left += sum(c * point[f"X_{i}"] for i, c in row.inputs.items())
    return left < row.right if row.strict else left <= row.right


@pytest.mark.parametrize("seed", range(60))
def test_disjuncts_mean_what_the_formula_says(seed: int) -> None:
    shuffle = random.Random(seed)
    trees = [formula(3, shuffle) for _ in range(shuffle.randint(1, 3))]
    box = "".join(f"(assert (<= X_{i} 3))(assert (>= X_{i} -3))" for i in range(2))
    question = read_question(head(2, 2) + box + "".join(f"(assert {written(tree)})" for tree in trees))
    more = False  # a strict bound of the box is taken as one that is not, so points on it may be found as well
    for _ in range(40):
        point = {name: shuffle.randint(-3, 3) for name in ("X_0", "X_1", "Y_0", "Y_1")}
        expected = all(truth(tree, point) for tree in trees)
        found = any(
            all(low <= point[f"X_{i}"] <= high for i, (low, high) in enumerate(zip(d.lower, d.upper, strict=True)))
            and all(holds(row, point) for row in d.rows)
            for d in question.disjuncts
        )
        more = more or (found and not expected)
        assert found or not expected
    assert not more or "<" in written(trees).replace("<=", "") or ">" in written(trees).replace(">=", "")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='()XY_01 \n;+-*<=>.eE"|ä', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, head() + BOX + text, head() + BOX + f"(assert {text})"):
        with suppress(Refused):
            read_question(whole)


def test_damaged_files_are_read_or_refused() -> None:
    good = (
        head(2) + BOX + "(assert (>= X_1 0)) (assert (<= X_1 (* 2 1e-1)))\n(assert (or (and (<= Y_0 1)) (< Y_0 Y_1)))"
    )
    shuffle = random.Random(1)
    for _ in range(500):
        text = list(good)
        for _ in range(shuffle.randint(1, 4)):
            text[shuffle.randrange(len(text))] = shuffle.choice("() XY_019.e-<>=;\n")
        with suppress(Refused):
            read_question("".join(text)[: shuffle.randint(1, 2 * len(good))])


@pytest.mark.skipif(not BENCHMARKS, reason="needs NETPROOF_BENCHMARKS")
def test_benchmarks_are_read() -> None:
    folders = sorted(path for path in Path(BENCHMARKS).glob("*/vnnlib"))
    assert folders
    for folder in folders:
        file = sorted(folder.iterdir())[0]
        data = file.read_bytes()
        question = read_question(gzip.decompress(data) if file.suffix == ".gz" else data)
        assert question.disjuncts
        for disjunct in question.disjuncts:
            assert len(disjunct.lower) == len(disjunct.upper) == question.inputs
            assert disjunct.rows
            assert not disjunct.empty
