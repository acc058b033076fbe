"""What a certificate is of: hashes, sizes, and claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from certificates import Case, chunks, dense, header, leaf, onnx_model, spec
from npcheck.errors import Invalid, Refused
from npcheck.witness import judge

MODEL = dense(([[1.0, 1.0]], [0.5]))
SPEC = spec([0, 0], [1, 1], 1, "(<= Y_0 0.25)")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path, MODEL, SPEC)


def test_what_was_shown(case: Case) -> None:
    checked = case.check(leaf())
    assert (checked.targets, checked.empty, checked.pinned, checked.leaves) == (1, 0, 0, 1)
    assert len(checked.model) == len(checked.spec) == 64


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"model": "0" * 64}, "another model"),
        ({"model": None}, "another model"),
        ({"model": ["x"]}, "another model"),
        ({"spec": "0" * 64}, "another spec"),
        ({"spec": None}, "another spec"),
        ({"claim": "sat"}, "claim is not unsat"),
        ({"claim": None}, "claim is not unsat"),
        ({"claim": {"unsat": 1}}, "claim is not unsat"),
    ],
)
def test_wrong_headers(case: Case, fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        case.offer(header(MODEL, SPEC.encode(), **fields) + chunks(leaf()))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (spec([0], [1], 1, "(<= Y_0 0.25)"), "the model has 2 inputs, the specification speaks of 1"),
        (spec([0] * 3, [1] * 3, 1, "(<= Y_0 0.25)"), "has 2 inputs"),
        (spec([0, 0], [1, 1], 2, "(<= Y_0 0.25)"), "has 1 outputs"),
    ],
)
def test_a_model_and_a_specification_that_do_not_fit(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        Case(tmp_path, MODEL, text).check(leaf())


@pytest.mark.parametrize("number", ["1e400", "1e31"])
def test_numbers_of_a_specification_that_are_too_large(tmp_path: Path, number: str) -> None:
    for text in (spec([0, 0], [1, number], 1, "(<= Y_0 0)"), spec([0, 0], [1, 1], 1, f"(<= Y_0 -{number})")):
        with pytest.raises(Refused, match="beyond 2"):
            Case(tmp_path, MODEL, text).check(leaf())


@pytest.mark.parametrize(("weight", "holds"), [(1.0, True), (2.0**29, False)])
def test_a_clip_at_the_largest_float32_is_none_while_values_are_within(
    tmp_path: Path, weight: float, holds: bool
) -> None:
    """With x = 2^99 and a weight of 2^29, the clip ends 2^128 just below it, which the row tells apart."""
    largest = np.float64(np.finfo(np.float32).max)
    constants = {"w": np.array([weight]), "most": largest, "small": np.array([2.0**-100])}
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"]),
        helper.make_node("Clip", ["h", "", "most"], ["c"]),
        helper.make_node("Mul", ["c", "small"], ["y"]),
    ]
    end, limit = str(2**99), weight / 2 * (1.0 - 2.0**-30)
    model, text = onnx_model(nodes, 1, constants), spec([end], [end], 1, f"(<= Y_0 {limit!r})")
    case = Case(tmp_path, model, text)
    witness = tmp_path / "w.txt"
    witness.write_text(f"((X_0 {end}))")
    if holds:
        assert case.check(leaf()).leaves == 1
        assert not judge(witness, case.model, case.spec).violated
        return
    with pytest.raises(Invalid, match="beyond a float32, where the model clips it"):
        case.check(leaf())
    with pytest.raises(Refused, match="beyond a float32, where the model clips it"):
        judge(witness, case.model, case.spec)


def test_disjuncts(tmp_path: Path) -> None:
    """Two boxes, three disjuncts and one that is empty: a section of bounds a box, and a tree for each disjunct."""
    parts = [
        "(and (<= X_0 0.5) (<= Y_0 0.1))",
        "(and (<= X_0 0.5) (<= Y_0 0.2))",
        "(<= Y_0 0.3)",
        "(and (<= X_0 -1) (<= Y_0 9))",
    ]
    case = Case(tmp_path, MODEL, spec([0, 0], [1, 1], 1, f"(or {' '.join(parts)})"))
    checked = case.check(leaf() * 3)
    assert (checked.targets, checked.empty, checked.leaves) == (4, 1, 3)
    for wrong, fault in ((leaf() * 2, "too early"), (leaf() * 4, "goes on")):
        with pytest.raises(Invalid, match=fault):
            case.check(wrong)


def test_a_specification_that_no_input_is_in_needs_no_proof(tmp_path: Path) -> None:
    case = Case(tmp_path, MODEL, spec([0, 2], [1, 1], 1, "(<= Y_0 0.25)"))
    assert case.check(b"").leaves == 0
    with pytest.raises(Invalid, match="goes on"):
        case.check(leaf())


@pytest.mark.parametrize("by", ["1", "1e-6", "1e-9", "1e-15"])
def test_a_bound_that_is_met_or_missed_is_not_enough(tmp_path: Path, by: str) -> None:
    """The least value is 0.5: a violation at 0.5 and above is one."""
    for row in ("(<= Y_0 0.5)", f"(<= Y_0 (+ 0.5 {by}))", f"(< Y_0 (+ 0.5 {by}))"):
        with pytest.raises(Invalid, match="not shown"):
            Case(tmp_path, MODEL, spec([0, 0], [1, 1], 1, row)).check(leaf())
    assert Case(tmp_path, MODEL, spec([0, 0], [1, 1], 1, "(<= Y_0 (- 0.5 1e-9))")).check(leaf()).leaves == 1
