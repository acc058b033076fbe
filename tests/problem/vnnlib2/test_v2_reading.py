"""Every construct of VNN-LIB 2.0 is read as it is meant, with numbers exact and strictness kept."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path

import pytest

import netproof
from netproof.core.reasons import CONTRADICTORY, EMPTY
from netproof.problem.property import Property
from netproof.problem.vnnlib.reader import load_property, parse_property
from support.queries import VERSION, boxed, network, query, reading, save_text

F = Fraction


def only_row(property: Property) -> tuple[dict[int, Fraction], dict[int, Fraction], Fraction, bool]:
    (disjunct,) = property.disjuncts
    (row,) = disjunct.rows
    return dict(row.coefs), dict(row.inputs), row.rhs, row.strict


@pytest.mark.parametrize(
    ("assertion", "row"),
    [
        ("(<= Y[0] 0.5)", ({0: 1}, {}, F(1, 2), False)),
        ("(< Y[0] 0.5)", ({0: 1}, {}, F(1, 2), True)),
        ("(>= Y[0] 0.5)", ({0: -1}, {}, F(-1, 2), False)),
        ("(> Y[0] 0.5)", ({0: -1}, {}, F(-1, 2), True)),
        ("(<= 0.5 Y[0])", ({0: -1}, {}, F(-1, 2), False)),
        ("(<= Y[0] Y[1])", ({0: 1, 1: -1}, {}, F(0), False)),
        ("(<= (+ Y[0] (* 2.0 Y[1]) 1.0) 0.1)", ({0: 1, 1: 2}, {}, F(-9, 10), False)),
        ("(<= (- Y[0] Y[1] X[0]) 0.0)", ({0: 1, 1: -1}, {0: -1}, F(0), False)),
        ("(<= (- Y[0]) 0.25)", ({0: -1}, {}, F(1, 4), False)),
        ("(<= (* 2.0 Y[0] 3.0) 1.0)", ({0: 1}, {}, F(1, 6), False)),
        ("(<= (- (- Y[0])) -0.1)", ({0: 1}, {}, F(-1, 10), False)),
        ("(<= (+ X[0] X[1]) 0.3)", ({}, {0: 1, 1: 1}, F(3, 10), False)),
        ("(<= Y[0] 0.1000000000000000000000000001)", ({0: 1}, {}, F(1, 10) + F(1, 10**28), False)),
    ],
)
def test_a_comparison_is_a_row(assertion: str, row: tuple[object, ...]) -> None:
    coefs, inputs, rhs, strict = only_row(reading(assertion))
    wanted_coefs, wanted_inputs, wanted_rhs, wanted_strict = row
    # a row may be written with another positive factor
    first = next(iter({**coefs, **{("x", j): c for j, c in inputs.items()}}.values()))
    wanted = next(iter({**wanted_coefs, **{("x", j): c for j, c in wanted_inputs.items()}}.values()))  # type: ignore
    scale = F(wanted) / first
    assert scale > 0
    assert ({i: c * scale for i, c in coefs.items()}, {j: c * scale for j, c in inputs.items()}) == row[:2]
    assert (rhs * scale, strict) == (wanted_rhs, wanted_strict)


def test_bounds_of_inputs_make_the_box_with_its_open_sides() -> None:
    text = query("(> X[0] 0.1)", "(<= X[0] 0.3)", "(and (>= X[1] -1.0) (< X[1] 1.0))", "(<= Y[0] 0.0)")
    box = parse_property(text).disjuncts[0].box
    assert (tuple(box.lower), tuple(box.upper)) == ((F(1, 10), -1), (F(3, 10), 1))
    assert (box.open_lower, box.open_upper) == ({0}, {1})


def test_equal_and_unequal() -> None:
    equal = reading("(== Y[0] 0.5)").disjuncts[0].rows
    assert sorted((row.coefs[0], row.rhs, row.strict) for row in equal) == [
        (-1, F(-1, 2), False),
        (1, F(1, 2), False),
    ]
    unequal = reading("(!= Y[0] 0.5)").disjuncts
    assert sorted((row.coefs[0], row.rhs, row.strict) for d in unequal for row in d.rows) == [
        (-1, F(-1, 2), True),
        (1, F(1, 2), True),
    ]


def test_a_pinned_input() -> None:
    box = parse_property(query("(== X[0] 0.5)", "(>= X[1] 0.0)", "(<= X[1] 1.0)", "(<= Y[0] 0.0)")).disjuncts[0].box
    assert (box.lower[0], box.upper[0]) == (F(1, 2), F(1, 2))


def test_tensors_are_flat_in_row_major_order() -> None:
    text = VERSION + network("f", {"X": "[2,3]"}, {"Y": "[1,2,2]"})
    text += "".join(f"(assert (and (>= X[{i},{j}] 0.0) (<= X[{i},{j}] {i}.{j}1)))" for i in range(2) for j in range(3))
    property = parse_property(text + "(assert (<= Y[0,1,0] Y[0,0,1]))")
    assert list(property.disjuncts[0].box.upper) == [F(f"{i}.{j}1") for i in range(2) for j in range(3)]
    assert property.disjuncts[0].rows[0].coefs in ({2: 1, 1: -1}, {1: -1, 2: 1})


def test_scalars_have_no_index() -> None:
    text = VERSION + network("f", {"X": "[]"}, {"Y": "[]"}) + "(assert (and (>= X 0.0) (<= X 1.0) (<= Y X)))"
    property = parse_property(text)
    assert (property.inputs, property.outputs) == (1, 1)
    assert property.disjuncts[0].rows[0].inputs == {0: -1}


def test_several_inputs_outputs_and_hidden_tensors_have_their_places() -> None:
    text = VERSION + (
        "(declare-network f\n (declare-input A float32 [2])\n (declare-input B float32 [1])\n"
        ' (declare-hidden H float32 [3] "hid")\n (declare-output Y float32 [1])\n (declare-output Z float32 [2]))\n'
        + "".join(f"(assert (and (>= {v} 0.0) (<= {v} 1.0)))" for v in ("A[0]", "A[1]", "B[0]"))
        + "(assert (<= (+ Y[0] Z[1] H[2] B[0]) 0.0))"
    )
    property = parse_property(text)
    (row,) = property.disjuncts[0].rows
    assert (row.coefs, row.inputs) == ({0: 1, 2: 1, 5: 1}, {2: 1})  # outputs first, then hidden tensors
    assert property.interface is not None
    (declared,) = property.interface.networks
    assert [(t.name, t.kind, t.dtype, t.shape, t.node) for t in declared.tensors] == [
        ("A", "input", "float32", (2,), ""),
        ("B", "input", "float32", (1,), ""),
        ("H", "hidden", "float32", (3,), "hid"),
        ("Y", "output", "float32", (1,), ""),
        ("Z", "output", "float32", (2,), ""),
    ]


def test_comments_line_ends_and_gzip(tmp_path: Path) -> None:
    text = "; é, and (unbalanced\n" + boxed("(<= Y[0] 0.0)").replace("\n", " ; a ) comment\n")
    plain = parse_property(text)
    for end in ("\r\n", "\r"):
        assert parse_property(text.replace("\n", end)).disjuncts == plain.disjuncts
    (tmp_path / "q.vnnlib.gz").write_bytes(gzip.compress(text.encode()))
    loaded = load_property(tmp_path / "q.vnnlib")
    assert loaded.disjuncts == plain.disjuncts
    assert loaded.sha256


def test_the_header_decides() -> None:
    old = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (and (<= X_0 1) (>= X_0 0) (<= Y_0 0)))"
    assert parse_property("(vnnlib-version <1.0>)\n" + old).disjuncts == parse_property(old).disjuncts
    assert parse_property(old).interface is None
    assert reading("(<= Y[0] 0.0)").interface is not None


@pytest.mark.parametrize(("constant", "holds"), [("(<= 1 2)", True), ("(!= 1.0 1.0)", False), ("(== 2 2)", True)])
def test_constant_comparisons(constant: str, holds: bool) -> None:
    property = reading("(<= Y[0] 0.0)", constant)
    assert len(property.disjuncts) == (1 if holds else 0)


def test_terms_that_cancel_are_constants() -> None:
    assert len(reading("(<= (- Y[0] Y[0]) 0.0)").disjuncts[0].rows) == 0
    assert reading("(< (- Y[0] Y[0]) 0.0)").vacuous == CONTRADICTORY


# --- contradictions: answered as written, with a warning ---


@pytest.mark.parametrize(
    ("assertions", "why"),
    [
        (("(<= X[0] -2.0)", "(<= Y[0] 0.0)"), EMPTY),
        (("(< X[0] -1.0)", "(<= Y[0] 0.0)"), EMPTY),
        (("(>= (+ X[0] X[1]) 0.5)", "(<= (+ X[0] X[1]) 0.4)", "(<= Y[0] 0.0)"), EMPTY),
        (("(> Y[0] (+ Y[1] 0.05))", "(< Y[0] (- Y[1] 0.05))"), CONTRADICTORY),
        (("(< Y[0] 1.0)", "(>= Y[0] 1.0)"), CONTRADICTORY),
        (("(or (< Y[0] 0.0) (> Y[0] 1.0))", "(and (> Y[0] 0.0) (< Y[0] 1.0))"), CONTRADICTORY),
        (("(<= (* 2.0 Y[0]) 1.0)", "(>= (* 3.0 Y[0]) 1.6)"), CONTRADICTORY),
    ],
)
def test_contradictory_queries_are_answered_with_a_warning(
    assertions: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    from support.asking import gaussian

    path = gaussian(0, (2, 3, 2)).save(tmp_path / "f.onnx")
    text = boxed(*assertions).replace("[2]", "[1,2]").replace("[0]", "[0,0]").replace("[1])", "[0,1])")
    text = text.replace("X[1]", "X[0,1]").replace("Y[1]", "Y[0,1]")
    verdict = netproof.verify(path, save_text(tmp_path, text), device="cpu")
    assert (verdict.status, verdict.reason) == ("unsat", why)


def test_nearly_contradictory_queries_are_searched() -> None:
    assert len(reading("(<= Y[0] 1.0)", "(>= Y[0] 1.0)").disjuncts) == 1
    assert len(reading("(<= X[0] -1.0)", "(<= Y[0] 1.0)").disjuncts) == 1
